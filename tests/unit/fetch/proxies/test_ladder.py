"""P3: an item climbs when it was blocked, and a job that is blocked too often begins higher."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.failure import RULES, Failure, FailureKind, ProxyEffect
from swath.domain.item import Attempt
from swath.domain.proxy_products import ProxyType
from swath.fetch.proxies.ladder import (
    PROBE_EVERY,
    PROBES_TO_DESCEND,
    LadderState,
    begin_attempt,
    blocked_tiers,
    calls_for_next_step,
    record_attempt,
    step_for_item,
)

pytestmark = pytest.mark.req("P3")

STEPS = (ProxyType.NONE, ProxyType.DATACENTER, ProxyType.RESIDENTIAL, ProxyType.WEB_UNLOCKER)
NONE, DATACENTER, RESIDENTIAL, UNLOCKER = STEPS
K = FailureKind


def attempt(tier: str, kind: FailureKind | None) -> Attempt:
    failure = None if kind is None else Failure.of(kind, "x")
    return Attempt(started_at=0, ended_at=1, worker="w", failure=failure, proxy_tier=tier)


@pytest.mark.parametrize("kind", FailureKind)
def test_only_blocks_and_captchas_climb_and_a_providers_refusal_does_not(kind: FailureKind) -> None:
    assert calls_for_next_step(kind) == (kind in {K.BLOCKED, K.CAPTCHA}) == (RULES[kind].proxy is ProxyEffect.CLIMB)


@pytest.mark.parametrize(
    ("attempts", "start", "step"),
    [
        ([], 0, NONE),
        ([], 2, RESIDENTIAL),
        ([("none", K.BLOCKED)], 0, DATACENTER),
        ([("none", K.CAPTCHA)], 0, DATACENTER),
        ([("none", K.ACCESS_POLICY)], 0, NONE),
        ([("datacenter", K.ACCESS_POLICY)], 1, DATACENTER),
        ([("none", K.TIMEOUT), ("none", K.PROXY), ("none", None)], 0, NONE),
        ([("none", K.BLOCKED), ("datacenter", K.BLOCKED)], 0, RESIDENTIAL),
        ([("datacenter", K.BLOCKED)], 1, RESIDENTIAL),  # the job had begun higher: above where it was blocked
        ([("none", K.BLOCKED)], 2, RESIDENTIAL),  # and never below where the job begins by now
        ([("web_unlocker", K.BLOCKED)], 0, UNLOCKER),  # there is nothing above
    ],
)
def test_an_item_takes_the_step_above_the_one_that_blocked_it(
    attempts: list[tuple[str, FailureKind | None]], start: int, step: ProxyType
) -> None:
    blocked = blocked_tiers(attempt(tier, kind) for tier, kind in attempts)
    assert STEPS[step_for_item(STEPS, start, blocked)] is step


def test_a_job_begins_a_step_higher_at_three_blocks_of_the_last_ten_on_its_step() -> None:
    climb = LadderState(STEPS)
    for kind in (K.BLOCKED, None, K.BLOCKED):
        climb = record_attempt(climb, NONE, kind)
    assert climb.start == 0
    assert record_attempt(climb, NONE, K.CAPTCHA).start == 1
    for _ in range(8):
        climb = record_attempt(climb, NONE, None)
    assert record_attempt(climb, NONE, K.BLOCKED).start == 0  # of the last ten, one or two


def test_the_next_step_is_counted_anew_and_the_top_is_the_end() -> None:
    climb = LadderState(STEPS)
    for step in range(len(STEPS) - 1):
        assert climb.start == step
        for _ in range(3):
            climb = record_attempt(climb, STEPS[step], K.BLOCKED)
    for _ in range(10):
        climb = record_attempt(climb, UNLOCKER, K.BLOCKED)
    assert climb.start == 3


def test_attempts_on_other_steps_and_failures_of_other_kinds_change_nothing() -> None:
    climb = LadderState(STEPS, 1)
    for tier, kind in [(NONE, K.BLOCKED), (RESIDENTIAL, K.BLOCKED), (DATACENTER, K.ACCESS_POLICY), (NONE, None)] * 10:
        climb = record_attempt(climb, tier, kind)
    assert climb == LadderState(STEPS, 1)
    assert record_attempt(climb, ProxyType.CUSTOM, K.BLOCKED) == climb


def test_the_step_below_is_tried_now_and_then_only_where_that_is_wanted() -> None:
    climb = LadderState(STEPS, 2)
    steps = []
    for _ in range(PROBE_EVERY * 2):
        climb, step = begin_attempt(climb, probing=True)
        steps.append(step)
    assert (steps.count(1), steps.count(2)) == (2, PROBE_EVERY * 2 - 2)
    silent = LadderState(STEPS, 2)
    for _ in range(PROBE_EVERY * 2):
        silent, step = begin_attempt(silent, probing=False)
        assert step == 2


def test_good_tries_one_step_down_bring_the_job_down_and_a_bad_one_does_not() -> None:
    climb = LadderState(STEPS, 2)

    def probed(climb: LadderState, kind: FailureKind | None) -> LadderState:
        for _ in range(PROBE_EVERY):
            climb, _ = begin_attempt(climb, probing=True)
        return record_attempt(climb, DATACENTER, kind)

    for kind in (None, None, K.BLOCKED, None, None):
        climb = probed(climb, kind)
    assert climb.start == 2
    assert probed(climb, None).start == 1
    assert PROBES_TO_DESCEND == 3


def test_attempts_that_were_under_way_when_the_job_climbed_do_not_bring_it_down() -> None:
    climb = LadderState(STEPS, 1)
    for _ in range(20):
        climb = record_attempt(climb, NONE, None)
    assert climb.start == 1


@given(
    events=st.lists(
        st.tuples(st.sampled_from(STEPS), st.sampled_from([None, K.BLOCKED, K.CAPTCHA, K.PROXY, K.ACCESS_POLICY]))
    ),
    probing=st.booleans(),
)
def test_a_job_always_stands_on_a_step_of_its_ladder(
    events: list[tuple[ProxyType, FailureKind | None]], probing: bool
) -> None:
    climb = LadderState(STEPS)
    for tier, kind in events:
        climb, step = begin_attempt(climb, probing=probing)
        assert 0 <= step < len(STEPS)
        before = climb.start
        climb = record_attempt(climb, tier, kind)
        assert 0 <= climb.start < len(STEPS)
        assert abs(climb.start - before) <= 1
