"""Shares in a site's concurrency: within the limit, fair, and by turns where there are too few."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.site_slots import ROTATION_SECONDS, SiteShare, grant_site_slots


@pytest.mark.req("Z3", "S1")
@given(
    limit=st.integers(1, 20),
    held=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 30)), min_size=1, max_size=6),
    now=st.floats(0, 1e6),
)
def test_what_is_granted_fits_beside_the_others(limit: int, held: list[tuple[int, int]], now: float) -> None:
    shares = {f"w{n}": SiteShare(slots, demand, now) for n, (slots, demand) in enumerate(held)}
    together = sum(share.slots for share in shares.values())
    for worker, share in shares.items():
        slots, target = grant_site_slots(shares, worker, limit, now)
        assert share.slots <= slots <= max(share.slots, limit)
        assert together - share.slots + slots <= max(limit, together)
        assert target <= min(limit, share.demand)


@pytest.mark.req("S3")
@pytest.mark.parametrize(("workers", "limit"), [(2, 1), (5, 2), (3, 8)])
def test_slots_that_cannot_be_shared_evenly_go_round(workers: int, limit: int) -> None:
    shares = {f"w{n}": SiteShare(0, 9, 0.0) for n in range(workers)}
    had: Counter[str] = Counter()
    for turn in range(workers):
        targets = {worker: grant_site_slots(shares, worker, limit, turn * ROTATION_SECONDS)[1] for worker in shares}
        assert sum(targets.values()) == limit
        had.update(targets)
    assert set(had.values()) == {limit}, "over a whole round everybody had the same"


@pytest.mark.req("S3")
def test_nobody_waits_for_more_turns_than_it_takes_to_serve_all_before() -> None:
    shares = {f"w{n:02}": SiteShare(0, 1, 0.0) for n in range(40)}
    waiting = set(shares)
    for turn in range(5):
        waiting -= {worker for worker in shares if grant_site_slots(shares, worker, 8, turn * ROTATION_SECONDS)[1]}
    assert not waiting
