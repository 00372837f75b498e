"""A worker's share of a site's concurrency: how it grows, shrinks and runs out."""

from __future__ import annotations

import pytest

from swath.fetch.sites.reservations import ConcurrencyShare
from swath.ports.site_state import SHARE_SECONDS, SiteShareGrant

pytestmark = pytest.mark.req("Z3")


def share(slots: int, target: int, in_use: int = 0) -> ConcurrencyShare:
    made = ConcurrencyShare(limit=10)
    made.in_use = in_use
    made.apply(SiteShareGrant(slots=slots, target=target), asked_at=100.0)
    return made


def test_before_the_first_answer_nothing_may_be_opened_but_everything_hoped_for() -> None:
    fresh = ConcurrencyShare(limit=10)
    assert (fresh.has_room(0.0), fresh.room(), fresh.told(0.0)) == (False, 10, 0)


def test_it_is_used_up_to_its_ceiling() -> None:
    assert share(3, 3, in_use=2).has_room(100.0)
    assert not share(3, 3, in_use=3).has_room(100.0)


def test_it_runs_out_a_while_after_the_question_that_was_last_answered() -> None:
    held = share(3, 3, in_use=2)
    assert held.has_room(100.0 + SHARE_SECONDS - 0.1)
    assert not held.has_room(100.0 + SHARE_SECONDS)
    assert held.told(100.0 + SHARE_SECONDS) == 2, "what is open is told all the same"
    assert held.room() == 0


def test_it_shrinks_to_its_target_as_requests_end() -> None:
    held = share(6, 2, in_use=4)
    assert held.told(100.0) == 4
    assert not held.has_room(100.0)
    held.in_use = 3
    assert held.shrink()
    held.in_use = 1
    assert held.shrink()
    assert (held.told(100.0), held.has_room(100.0), held.shrink()) == (2, True, False)


def test_without_a_limit_there_is_always_room() -> None:
    free = ConcurrencyShare(limit=None)
    free.apply(SiteShareGrant(), asked_at=0.0)
    free.in_use = 10_000
    assert free.has_room(1e9)
