"""What SiteState promises of concurrency: all workers together never exceed the site's limit. Part of
SiteStateContract.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from swath.domain.site_policy import Breaker
from swath.domain.site_slots import ROTATION_SECONDS
from swath.ports.site_state import SHARE_SECONDS, SiteShareGrant, SiteShareRequest, SiteState
from tests.contract.suites.site_state_rate import examples
from tests.support.clock import FakeClock

__all__ = ["SiteSlotsContract", "asked"]

BREAKER = Breaker()
_fresh = (f"shared-{n}.example" for n in itertools.count())

steps = st.tuples(
    st.integers(0, 3),  # who asks
    st.integers(0, 12),  # its demand
    st.booleans(),  # whether it first shrinks to its target
    st.sampled_from([0.0, 0.0, 0.1, 1.0, ROTATION_SECONDS, SHARE_SECONDS, 2 * SHARE_SECONDS]),
    st.one_of(st.none(), st.integers(1, 9)),  # a new limit
    st.booleans(),  # whether it is one who takes parts of rounds
)


@dataclass
class Believes:
    """What a worker holds itself to, and until when."""

    slots: int = 0
    target: int = 0
    until: float = 0.0


async def asked(
    book: SiteState, worker: str, demand: int, *, limit: int = 8, ceiling: int = 0, site: str = "a", part: bool = False
) -> SiteShareGrant:
    """One ask for a share."""
    return await book.ask(
        site, worker, SiteShareRequest(rate=1e6, concurrency=limit, ceiling=ceiling, demand=demand, part=part)
    )


async def settled(book: SiteState, demands: dict[str, int], limit: int) -> dict[str, int]:
    """What everybody has after some rounds, each shrinking to its target as requests end."""
    ceilings, targets = dict.fromkeys(demands, 0), dict.fromkeys(demands, 0)
    for _ in range(3):
        for worker, demand in demands.items():
            terms = await asked(book, worker, demand, limit=limit, ceiling=min(ceilings[worker], targets[worker]))
            ceilings[worker], targets[worker] = terms.slots, terms.target
    return ceilings


class SiteSlotsContract:
    """Fixture to give: `book` on `clock`."""

    async def test_who_is_alone_gets_what_it_can_use_up_to_the_limit(self, book: SiteState) -> None:
        few, many = await asked(book, "w", 3, site="few"), await asked(book, "w", 30, site="many")
        assert (few.slots, few.target) == (3, 3)
        assert (many.slots, many.target) == (8, 8)

    async def test_a_second_worker_gets_its_share_as_the_first_makes_room(self, book: SiteState) -> None:
        await asked(book, "1", 20)
        assert (await asked(book, "2", 20)).slots == 0
        first = await asked(book, "1", 20, ceiling=8)
        assert (first.slots, first.target) == (8, 4)
        await asked(book, "1", 20, ceiling=6)
        second = await asked(book, "2", 20)
        assert (second.slots, second.target) == (2, 4)

    async def test_shares_are_fair(self, book: SiteState) -> None:
        assert await settled(book, {"1": 30, "2": 30, "3": 1}, limit=9) == {"1": 4, "2": 4, "3": 1}

    async def test_a_worker_cannot_raise_itself(self, book: SiteState) -> None:
        await asked(book, "1", 4, limit=4)
        assert (await asked(book, "2", 4, limit=4, ceiling=4)).slots == 0
        await asked(book, "1", 4, limit=4, ceiling=2)
        await asked(book, "2", 4, limit=4)
        assert (await asked(book, "1", 4, limit=4, ceiling=4)).slots == 2

    async def test_who_wants_nothing_gives_its_share_up(self, book: SiteState) -> None:
        await asked(book, "1", 8)
        nothing = await asked(book, "1", 0, ceiling=8)
        assert (nothing.slots, nothing.target) == (0, 0)
        assert (await asked(book, "2", 8)).slots == 8

    async def test_the_share_of_a_silent_worker_is_free_after_a_while(self, book: SiteState, clock: FakeClock) -> None:
        await asked(book, "1", 8)
        clock.advance(SHARE_SECONDS - 0.01)
        assert (await asked(book, "2", 8)).slots == 0
        clock.advance(0.01)
        assert (await asked(book, "2", 8)).slots == 8
        assert (await asked(book, "1", 8, ceiling=8)).slots == 0, "and what it once had it has no more"

    async def test_every_ask_keeps_the_share(self, book: SiteState, clock: FakeClock) -> None:
        ceiling = (await asked(book, "1", 8)).slots
        for _ in range(4):
            clock.advance(SHARE_SECONDS - 1)
            ceiling = (await asked(book, "1", 8, ceiling=ceiling)).slots
            assert ceiling == 8

    async def test_who_takes_parts_keeps_its_share_by_asking_within_its_time(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        terms = await asked(book, "1", 8, part=True)
        for _ in range(40):
            clock.advance(min(2.0, terms.share_seconds - 0.01))
            terms = await asked(book, "1", 8, ceiling=terms.slots, part=True)
            assert terms.slots == 8
            assert terms.share_seconds > 0
        assert (await asked(book, "2", 8)).slots == 0
        clock.advance(SHARE_SECONDS)
        assert (await asked(book, "2", 8)).slots == 8

    async def test_nobody_else_has_a_share_before_it_is_over_for_who_takes_parts(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        first = await asked(book, "1", 8, part=True)
        clock.advance(8.0)
        terms = await asked(book, "1", 8, ceiling=first.slots, part=True)
        until = clock.boot() + terms.share_seconds
        while not (await asked(book, "2", 8)).slots:
            clock.advance(0.5)
        assert until <= clock.boot() <= until + SHARE_SECONDS

    async def test_a_newcomer_gets_its_share_from_those_who_take_parts(self, book: SiteState, clock: FakeClock) -> None:
        ceilings = {"1": (await asked(book, "1", 9, part=True)).slots, "2": 0}
        for _ in range(4):
            clock.advance(2.0)
            for worker in ("2", "1"):
                terms = await asked(book, worker, 9, ceiling=ceilings[worker], part=True)
                ceilings[worker] = min(terms.slots, terms.target)
        assert ceilings == {"1": 4, "2": 4}

    async def test_the_shares_of_the_dead_are_free_at_once(self, book: SiteState) -> None:
        for site in ("a", "b"):
            await asked(book, "1", 3, site=site)
            await asked(book, "2", 8, site=site)
        await book.forget(["1", "never heard of"])
        for site in ("a", "b"):
            assert (await asked(book, "2", 8, ceiling=5, site=site)).slots == 8
        await book.forget([])

    async def test_a_single_slot_goes_round(self, book: SiteState, clock: FakeClock) -> None:
        """Or a job would wait for the end of another one that visits the same site."""
        turns: list[str] = []
        for _ in range(6):
            holders = [worker for worker, slots in (await settled(book, {"1": 5, "2": 5, "3": 5}, 1)).items() if slots]
            turns += holders
            assert len(holders) == 1
            clock.advance(ROTATION_SECONDS)
        assert set(turns) == {"1", "2", "3"}

    async def test_the_bucket_of_a_job_has_no_shares(self, book: SiteState) -> None:
        terms = await book.ask("job", "w", SiteShareRequest(rate=10.0, requests=1, ceiling=5, demand=5))
        assert (terms.slots, terms.target) == (0, 0)

    async def test_a_ramp_bounds_the_concurrency_until_it_has_come_so_far(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        """Property 29: after the probe, traffic comes back by doubling."""
        await book.record("a", BREAKER, [False] * 5, 0)
        clock.advance(BREAKER.reopen_seconds)
        admission = await book.admit("a", "w", BREAKER, 30.0)
        circuit = await book.record("a", BREAKER, [True], admission.circuit.epoch)
        ceiling, seen = 0, []
        while circuit.ramp is not None:
            ceiling = (await asked(book, "w", 20, limit=6, ceiling=ceiling)).slots
            seen.append(ceiling)
            circuit = await book.record("a", BREAKER, [True] * ceiling, book.glance("a").epoch)
        assert seen == [1, 2, 4, 6]
        assert book.glance("a").ramp is None

    @examples
    @given(limit=st.integers(1, 9), played=st.lists(steps, max_size=50))
    async def test_ceilings_together_never_exceed_the_limit_or_what_they_were_before_it_was_lowered(
        self,
        book: SiteState,
        clock: FakeClock,
        limit: int,
        played: list[tuple[int, int, bool, float, int | None, bool]],
    ) -> None:
        """Property 22 for concurrency: counted over what workers that heed the rules hold themselves to."""
        site, workers = next(_fresh), [Believes() for _ in range(4)]
        for who, demand, shrinks, seconds, new_limit, part in played:
            clock.advance(seconds)
            limit = new_limit or limit
            before = _together(workers, clock.boot())
            worker = workers[who]
            held = worker.slots if worker.until > clock.boot() else 0
            ceiling = min(held, worker.target) if shrinks else held
            terms = await asked(book, str(who), demand, limit=limit, ceiling=ceiling, site=site, part=part)
            workers[who] = Believes(terms.slots, terms.target, clock.boot() + terms.share_seconds)
            assert _together(workers, clock.boot()) <= max(limit, before)
            assert part or terms.target <= min(limit, demand)


def _together(workers: list[Believes], now: float) -> int:
    return sum(worker.slots for worker in workers if worker.until > now)
