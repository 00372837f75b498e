"""Rounds: all instants of a while, dealt out in parts, none of them twice, and hardly any of them to nobody."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.domain.token_bucket import (
    FIRST_ROUND_SECONDS,
    LATE_INSTANT_SECONDS,
    MAX_ROUND_SECONDS,
    NEXT_ROUND_LEAD_SECONDS,
    SPARE_DELAY_SECONDS,
    RateSlice,
    RoundShareRequest,
    TokenBucket,
    reserve,
    return_slices,
    slow_down,
    take_round_share,
)
from tests.contract.suites.site_state_rate import instants, over_rate

QUIET = 60.0
ALL = 1e6
crowds = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1, max_size=8)
lopsided = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9) | st.integers(10, 60), min_size=1, max_size=8)


def deal(
    bucket: TokenBucket, slots: dict[str, int], now: float, rate: float = 10.0, wish: float = ALL
) -> tuple[TokenBucket, dict[str, list[RateSlice]]]:
    """Every worker asks once."""
    parts = {}
    for worker in slots:
        bucket, taken = take_round_share(bucket, rate, QUIET, RoundShareRequest(worker, slots, wish), now)
        parts[worker] = list(taken)
    return bucket, parts


def grown(slots: dict[str, int], rate: float = 10.0) -> tuple[TokenBucket, dict[str, list[RateSlice]], float]:
    """After some rounds of the same workers; the last one was dealt just now."""
    bucket, parts, now = TokenBucket(), dict[str, list[RateSlice]](), 100.0
    for _ in range(4):
        bucket, parts = deal(bucket, slots, now, rate)
        now = bucket.next_free - NEXT_ROUND_LEAD_SECONDS / 2
    assert bucket.round is not None
    return bucket, parts, bucket.round.first


@pytest.mark.req("D2", "Z3", "property 22")
@settings(max_examples=80, deadline=None)
@given(
    rate=st.sampled_from([0.05, 0.7, 3.0, 10.0, 250.0]),
    played=st.lists(
        st.tuples(
            crowds,
            st.integers(0, 7),  # who of them
            st.sampled_from([0.3, 5.0, 40.0, ALL]),
            st.sampled_from([0.0, 0.01, 0.3, 1.0, 9.5, 60.0]),  # how much time passes before
            st.sampled_from(["part", "part", "part", "give back", "next", "complain"]),
        ),
        max_size=60,
    ),
)
def test_parts_never_exceed_the_rate_whoever_takes_them_and_when(
    rate: float, played: list[tuple[dict[str, int], int, float, float, str]]
) -> None:
    bucket, now, slices = TokenBucket(), 100.0, list[RateSlice]()
    for slots, who, wish, seconds, what in played:
        now += seconds
        if what == "give back" and slices and slices[-1].first > now:
            bucket = return_slices(bucket, [slices.pop()], now)
        elif what == "complain":
            bucket = slow_down(bucket, now, now, QUIET)
        elif what == "next":
            bucket, one = reserve(bucket, rate, 3, now, QUIET)
            slices.append(one)
        elif what == "part":
            worker = sorted(slots)[who % len(slots)]
            bucket, taken = take_round_share(bucket, rate, QUIET, RoundShareRequest(worker, slots, wish), now)
            assert all(part.first > now + LATE_INSTANT_SECONDS for part in taken), (
                "it would be lost before it is heard of"
            )
            slices += taken
    assert over_rate(instants(slices), rate) == 0


@pytest.mark.req("S2", "D2")
@given(lopsided)
@example({"a": 1, "b": 1, "c": 1, "d": 1, "e": 6})
@example({"d": 6, "a": 1, "c": 5, "e": 6, "h": 3, "b": 2, "g": 54, "f": 1})
def test_nearly_all_instants_are_dealt_out_by_the_slots(slots: dict[str, int]) -> None:
    bucket, parts, _ = grown(slots)
    assert bucket.round is not None
    sizes = {worker: sum(part.count for part in taken) for worker, taken in parts.items()}
    assert sum(sizes.values()) >= 0.88 * bucket.round.count
    for worker, size in sizes.items():
        fair = bucket.round.count * slots[worker] / sum(slots.values())
        assert size <= fair * 1.1 + 1
        assert size >= 1 or fair < 2, "who has next to nothing may have to wait for the next round"


@pytest.mark.req("S2")
def test_a_part_is_spread_over_the_round() -> None:
    _, parts, _ = grown({"a": 2, "b": 2, "c": 2, "d": 2})
    for (taken,) in parts.values():
        assert taken.count == 25
        assert taken.interval == pytest.approx(0.4)


def test_rounds_grow_while_the_same_workers_share_them() -> None:
    bucket, now, lengths = TokenBucket(), 100.0, list[float]()
    for slots in [{"a": 1, "b": 1}] * 5 + [{"a": 1, "b": 1, "c": 1}] * 2:
        bucket, _ = deal(bucket, slots, now)
        assert bucket.round is not None
        lengths.append(bucket.round.seconds)
        now = bucket.next_free
    assert lengths == [
        FIRST_ROUND_SECONDS,
        4.0,
        MAX_ROUND_SECONDS,
        MAX_ROUND_SECONDS,
        MAX_ROUND_SECONDS,
        FIRST_ROUND_SECONDS,
        4.0,
    ]
    bucket, _ = deal(bucket, {"a": 1, "b": 1, "c": 1}, now + 60)
    assert bucket.round is not None
    assert bucket.round.seconds == FIRST_ROUND_SECONDS, "after a pause too"


def test_on_a_slow_site_everybody_has_a_turn_in_a_round() -> None:
    _, parts, _ = grown({"a": 1, "b": 1, "c": 1}, rate=0.1)
    assert [sum(part.count for part in taken) for taken in parts.values()] == [1, 1, 1]


def test_there_is_one_part_for_each_until_what_is_spare_is_there_for_all() -> None:
    slots = {"a": 1, "b": 1}
    bucket, _, _ = grown(slots)
    bucket, (mine,) = take_round_share(bucket, 10.0, QUIET, RoundShareRequest("a", slots, ALL), bucket.next_free)
    same, none = take_round_share(
        bucket, 10.0, QUIET, RoundShareRequest("a", slots, ALL), mine.first + SPARE_DELAY_SECONDS - 0.01
    )
    assert none == ()
    assert same is bucket, "nothing to be written"
    bucket, more = take_round_share(bucket, 10.0, QUIET, RoundShareRequest("a", slots, ALL), mine.first + 5)
    assert sum(part.count for part in more) == pytest.approx(25, abs=2), "what is left of the part of the other"
    assert take_round_share(bucket, 10.0, QUIET, RoundShareRequest("b", slots, ALL), mine.first + 5)[1] == ()


def test_what_is_given_back_is_there_for_others_at_once_or_later() -> None:
    slots = {"a": 1, "b": 1}
    bucket, parts, first = grown(slots)
    now = first + 4.0
    left = [RateSlice(now + 0.1, part.interval, part.count // 2) for part in parts["a"]]
    bucket = return_slices(bucket, left, now)
    _, mine = take_round_share(bucket, 10.0, QUIET, RoundShareRequest("b", slots, ALL), now)
    assert sum(part.count for part in mine) == sum(part.count for part in left)
    assert return_slices(bucket, [RateSlice(now - 9, 0.1, 5)], now) == bucket, "what has passed is of no use"
    slowed = slow_down(bucket, now, now, QUIET)
    assert return_slices(slowed, left, now) == slowed, "and what is too dense must not be used"


def test_who_comes_in_the_middle_finds_what_was_left_by_those_who_could_not_use_it() -> None:
    bucket, now = TokenBucket(), 100.0
    for _ in range(4):
        bucket, parts = deal(bucket, {"a": 8}, now, rate=1_000.0, wish=160.0)
        now = bucket.next_free - NEXT_ROUND_LEAD_SECONDS / 2
    assert 800 <= parts["a"][0].count <= 1_700
    bucket, taken = take_round_share(bucket, 1_000.0, QUIET, RoundShareRequest("b", {"a": 8, "b": 8}, ALL), now - 5)
    assert sum(part.count for part in taken) >= 2_000
    assert taken[0].first < now - 4.9


@pytest.mark.req("S7", "property 26")
def test_a_complaint_takes_back_what_is_spare() -> None:
    slots = {"a": 1, "b": 1}
    bucket, _, first = grown(slots)
    bucket, _ = take_round_share(bucket, 10.0, QUIET, RoundShareRequest("a", slots, ALL), bucket.next_free)
    assert bucket.round is not None
    assert bucket.round.spare
    first, end = bucket.round.first, bucket.next_free
    slowed = slow_down(bucket, first + 1, first + 1, QUIET)
    assert take_round_share(slowed, 10.0, QUIET, RoundShareRequest("b", slots, ALL), first + 2) == (slowed, ())
    _, (slower,) = take_round_share(slowed, 10.0, QUIET, RoundShareRequest("b", slots, ALL), end)
    assert slower.interval == pytest.approx(2 * 0.2), "every second instant of half the rate"
    assert slower.first >= end
