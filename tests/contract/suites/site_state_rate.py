"""What SiteState promises of rates: reserved instants are spaced by policy. `over_rate` is the measure of Z3."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath.domain.token_bucket import SLICE_SECONDS, RateSlice, TokenBucket
from swath.ports.site_state import SiteShareGrant, SiteShareRequest, SiteState
from tests.support.clock import FakeClock

__all__ = ["SiteRateContract", "examples", "instants", "over_rate"]

ROUNDING_SECONDS = 1e-6
_fresh = (f"site-{n}.example" for n in itertools.count())  # one that is new starts afresh, so examples stay apart

# A book is used for many examples, and the suite by a class for each back end: neither is known to the other.
examples = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)

steps = st.tuples(
    st.integers(0, 3),  # who asks
    st.integers(0, 40),  # for how many
    st.sampled_from([0.0, 0.0, 0.003, 0.05, 0.1, 0.4, 2.0]),  # how much time passes before
)


def instants(slices: Iterable[RateSlice]) -> list[float]:
    """When requests may be sent, in order."""
    return sorted(taken.first + n * taken.interval for taken in slices for n in range(taken.count))


def over_rate(sent: Iterable[float], rate: float) -> float:
    """By how many requests the worst window of any length, both ends included, exceeds rate · T + 1; 0 if none does."""
    worst, lowest = 0.0, float("inf")
    for number, at in enumerate(sent):
        level = number - rate * at
        lowest = min(lowest, level)
        worst = max(worst, level - lowest)
    return worst if worst > rate * ROUNDING_SECONDS else 0.0


async def play(
    book: SiteState, clock: FakeClock, name: str, rate: float, asked: Iterable[tuple[int, int, float]]
) -> list[SiteShareGrant]:
    """Several workers ask one after the other, as time passes."""
    answers = []
    for who, requests, seconds in asked:
        clock.advance(seconds)
        answers.append(await book.ask(name, f"worker-{who}", SiteShareRequest(rate=rate, requests=requests)))
    return answers


def slices(answers: Iterable[SiteShareGrant]) -> list[RateSlice]:
    """What was reserved."""
    return [taken for terms in answers for taken in (terms.slice, *terms.more) if taken is not None]


class SiteRateContract:
    """Fixture to give: `book` on `clock`."""

    async def test_a_new_name_may_send_at_once_and_then_at_its_rate(self, book: SiteState, clock: FakeClock) -> None:
        first, second = await play(book, clock, "a.example", 4.0, [(0, 1, 0.0), (1, 1, 0.0)])
        assert first.slice == RateSlice(clock.boot(), 0.25, 1)
        assert second.slice == RateSlice(clock.boot() + 0.25, 0.25, 1)

    async def test_a_slice_is_no_longer_than_what_is_wanted_or_may_be_taken_ahead(self, book: SiteState) -> None:
        few, many, slow = [
            (await book.ask(name, "w", SiteShareRequest(rate=rate, requests=requests))).slice
            for name, rate, requests in (("a", 1_000.0, 7), ("b", 1_000.0, 10_000), ("c", 0.01, 50))
        ]
        assert few is not None
        assert many is not None
        assert slow is not None
        assert (few.count, slow.count) == (7, 1)
        assert many.count * many.interval == pytest.approx(SLICE_SECONDS, rel=0.02)

    async def test_time_that_nobody_used_is_lost(self, book: SiteState, clock: FakeClock) -> None:
        """A site is never made up for a pause with a burst."""
        answers = await play(book, clock, "a.example", 10.0, [(0, 1, 0.0), *[(0, 1, 100.0)], *[(0, 1, 0.0)] * 20])
        assert over_rate(instants(slices(answers)), 10.0) == 0

    async def test_who_asks_for_no_instants_takes_none(self, book: SiteState, clock: FakeClock) -> None:
        asked = [(0, 0, 0.0), (1, 0, 0.0), (0, 1, 0.0)]
        none, still_none, one = await play(book, clock, "a.example", 1.0, asked)
        assert none.slice is None
        assert still_none.slice is None
        assert one.slice is not None
        assert one.slice.first == clock.boot()

    async def test_without_a_slot_no_instants_are_taken_from_those_who_have_one(self, book: SiteState) -> None:
        has = await book.ask("a", "1", SiteShareRequest(rate=1.0, requests=1, concurrency=1, demand=1))
        for _ in range(5):
            none = await book.ask("a", "2", SiteShareRequest(rate=1.0, requests=9, concurrency=1, demand=9))
            assert none.slots == 0
            assert none.slice is None
        again = await book.ask("a", "1", SiteShareRequest(rate=1.0, requests=1, concurrency=1, ceiling=1, demand=1))
        assert has.slice is not None
        assert again.slice is not None
        assert again.slice.first == has.slice.first + 1

    async def test_more_instants_than_slots_are_for_who_is_alone_at_the_site(self, book: SiteState) -> None:
        many = SiteShareRequest(rate=1_000.0, requests=90, concurrency=8, demand=4)
        alone = await book.ask("a", "1", many)
        joined = await book.ask("a", "2", many)
        crowded = await book.ask("a", "1", msgspec.structs.replace(many, ceiling=alone.slots))
        assert (alone.slots, joined.slots, crowded.slots) == (4, 4, 4)
        assert [terms.slice and terms.slice.count for terms in (alone, joined, crowded)] == [90, 4, 4]

    @examples
    @given(rate=st.sampled_from([0.5, 3.0, 10.0, 33.3, 250.0]), asked=st.lists(steps, max_size=60))
    async def test_instants_granted_never_exceed_the_rate_in_any_window(
        self, book: SiteState, clock: FakeClock, rate: float, asked: list[tuple[int, int, float]]
    ) -> None:
        """Property 22, by Z3's measure."""
        begun = clock.boot()
        answers = await play(book, clock, next(_fresh), rate, asked)
        assert over_rate(instants(slices(answers)), rate) == 0
        assert all(taken.first >= begun for taken in slices(answers))

    @examples
    @given(asked=st.lists(st.tuples(steps, st.booleans()), max_size=40))
    async def test_sites_do_not_affect_each_other(
        self, book: SiteState, clock: FakeClock, asked: list[tuple[tuple[int, int, float], bool]]
    ) -> None:
        """Property 22: a site answers the same, to the instant, whatever is asked, and complained, of another."""
        begun, alone, beside, other = clock.boot(), next(_fresh), next(_fresh), next(_fresh)
        expected = await play(book, clock, alone, 20.0, [step for step, _ in asked])
        answers, again = [], clock.boot()
        for step, noise in asked:
            answers += await play(book, clock, beside, 20.0, [step])
            if noise:
                await play(book, clock, other, 1.0, [(0, 5, 0.0)])
                await book.slow_down(other, clock.boot(), 60.0)
        assert [_since(terms, again) for terms in answers] == [_since(terms, begun) for terms in expected]

    @examples
    @given(rate=st.sampled_from([0.5, 3.0, 10.0, 250.0]), asked=st.lists(steps, max_size=50))
    async def test_parts_of_rounds_never_exceed_the_rate_in_any_window(
        self, book: SiteState, clock: FakeClock, rate: float, asked: list[tuple[int, int, float]]
    ) -> None:
        """Property 22 for workers who take parts, in between such who do not."""
        site, answers, ceilings = next(_fresh), list[SiteShareGrant](), dict[int, int]()
        for who, requests, seconds in asked:
            clock.advance(seconds)
            ask = SiteShareRequest(
                rate=rate, requests=requests, part=who > 0, concurrency=9, ceiling=ceilings.get(who, 0), demand=3
            )
            answers.append(await book.ask(site, f"worker-{who}", ask))
            ceilings[who] = answers[-1].slots
        assert over_rate(instants(slices(answers)), rate) == 0

    async def test_parts_together_are_the_whole_rate_round_after_round(self, book: SiteState, clock: FakeClock) -> None:
        begun, taken, ceilings = clock.boot(), list[RateSlice](), {"1": 0, "2": 0}
        while clock.boot() < begun + 60:
            for worker, ceiling in ceilings.items():
                ask = SiteShareRequest(rate=10.0, requests=99, part=True, concurrency=8, ceiling=ceiling, demand=4)
                terms = await book.ask("a.example", worker, ask)
                taken += slices([terms])
                ceilings[worker] = terms.slots
            clock.advance(terms.round_end - clock.boot() - 0.3)
        sent = [at for at in instants(taken) if begun + 5 <= at < begun + 55]
        assert len(sent) >= 0.97 * 10 * 50
        assert over_rate(sent, 10.0) == 0

    async def test_in_the_middle_of_a_round_who_has_had_its_part_gets_none(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        ask = SiteShareRequest(rate=10.0, requests=99, part=True, concurrency=8, demand=8)
        first = await book.ask("a.example", "1", ask)
        again = await book.ask("a.example", "1", msgspec.structs.replace(ask, ceiling=first.slots))
        assert first.slice is not None
        assert (again.slice, again.slots, again.round_end) == (None, first.slots, first.round_end)
        clock.advance(again.round_end - clock.boot() - 0.1)
        following = await book.ask("a.example", "1", msgspec.structs.replace(ask, ceiling=first.slots))
        assert following.slice is not None
        assert following.slice.first == pytest.approx(again.round_end)

    async def test_what_a_worker_gives_back_others_can_have(self, book: SiteState, clock: FakeClock) -> None:
        ask = SiteShareRequest(rate=10.0, requests=99, part=True, concurrency=8, demand=4)
        for worker in "1212":
            clock.advance(0.5)
            terms = await book.ask("a.example", worker, msgspec.structs.replace(ask, ceiling=4))
        clock.advance(terms.round_end - clock.boot() - 0.3)
        mine = await book.ask("a.example", "1", msgspec.structs.replace(ask, ceiling=4))
        theirs = await book.ask("a.example", "2", msgspec.structs.replace(ask, ceiling=4))
        clock.advance(1.5)
        left = tuple(RateSlice(clock.boot() + 0.3, taken.interval, taken.count // 4) for taken in slices([mine]))
        await book.ask("a.example", "1", SiteShareRequest(rate=10.0, part=True, concurrency=8, returned=left))
        more = await book.ask("a.example", "2", msgspec.structs.replace(ask, ceiling=4))
        assert instants(slices([more])) == pytest.approx(instants(left), abs=1e-6)
        assert more.round_end == theirs.round_end

    async def test_who_takes_parts_hears_of_a_complaint_of_others(self, book: SiteState, clock: FakeClock) -> None:
        """Property 26: what it has at hand was reserved before the rate was halved."""
        ask = SiteShareRequest(rate=10.0, requests=99, part=True, concurrency=8, demand=8)
        before = await book.ask("a.example", "1", ask)
        clock.advance(0.1)
        slowed = await book.slow_down("a.example", clock.boot(), 60.0)
        clock.advance(2.0)  # a book may show what it saw shortly before
        after = await book.ask("a.example", "1", msgspec.structs.replace(ask, requests=0, ceiling=before.slots))
        assert before.halved_from == 0
        assert after.halved_from == pytest.approx(slowed.halved_from)
        assert slowed.halved_from >= before.round_end

    async def test_a_complaint_halves_the_rate_for_everybody(self, book: SiteState, clock: FakeClock) -> None:
        """Property 26, as far as the book goes; domain tests have the rest."""
        await play(book, clock, "a.example", 8.0, [(0, 1, 0.0)])
        clock.advance(10)
        bucket = await book.slow_down("a.example", clock.boot() - 1, 60.0)
        assert bucket.factor == 0.5
        (slower,) = slices(await play(book, clock, "a.example", 8.0, [(1, 1, 0.0)]))
        assert slower.interval == 0.25
        (back,) = slices(await play(book, clock, "a.example", 8.0, [(0, 1, 120.0)]))
        assert back.interval == 0.125

    async def test_everybody_sees_what_is_known_of_the_sites(self, book: SiteState, clock: FakeClock) -> None:
        await book.ask("job 7", "w", SiteShareRequest(rate=5.0, requests=1))
        assert await book.states() == {}, "the bucket of a job is no site"
        await book.ask("a.example", "w", SiteShareRequest(rate=5.0, requests=1, concurrency=4, demand=9))
        await book.slow_down("b.example", clock.boot(), 60.0)
        await book.remember_tier("b.example", "residential")
        states = await book.states()
        assert sorted(states) == ["a.example", "b.example"]
        assert states["a.example"].bucket == TokenBucket(next_free=clock.boot() + 0.2)
        assert (states["a.example"].open_requests, states["a.example"].tier) == (4, None)
        assert (states["b.example"].bucket.factor, states["b.example"].tier) == (0.5, "residential")


def _since(terms: SiteShareGrant, begun: float) -> tuple[float, float, int] | None:
    taken = terms.slice
    return None if taken is None else (round(taken.first - begun, 6), round(taken.interval, 9), taken.count)
