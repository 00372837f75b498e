"""The contract of the Leader port. A test class provides the fixtures `candidate` and `clock`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from swath.ports.work_queue import Leader
from tests.support.clock import FakeClock

__all__ = ["LEAD_SECONDS", "Candidate", "LeaderContract"]

LEAD_SECONDS: Final = 30.0

Candidate = Callable[[str], Leader]
"""The view of one more worker, by its id."""


class LeaderContract:
    """Fixtures to give: `candidate`, a Candidate whose lead lasts LEAD_SECONDS, on `clock`, a FakeClock."""

    @pytest.mark.req("W1")
    async def test_the_first_that_asks_leads_and_nobody_else(self, candidate: Candidate, clock: FakeClock) -> None:
        a, b = candidate("a"), candidate("b")
        assert await a.lead()
        assert not await b.lead()
        clock.advance(LEAD_SECONDS / 6)
        assert await a.lead()
        assert not await b.lead()

    async def test_who_goes_on_asking_goes_on_leading(self, candidate: Candidate, clock: FakeClock) -> None:
        a, b = candidate("a"), candidate("b")
        await a.lead()
        for _ in range(20):
            clock.advance(LEAD_SECONDS / 6)
            assert await a.lead()
            assert not await b.lead()

    @pytest.mark.req("Z1")
    async def test_the_lead_of_one_that_fell_silent_goes_to_another(
        self, candidate: Candidate, clock: FakeClock
    ) -> None:
        a, b = candidate("a"), candidate("b")
        await a.lead()
        await b.lead()
        clock.advance(LEAD_SECONDS + 1)
        assert await b.lead()
        assert not await a.lead()

    async def test_who_resigns_makes_room_long_before_its_time_is_over(
        self, candidate: Candidate, clock: FakeClock
    ) -> None:
        a, b = candidate("a"), candidate("b")
        await a.lead()
        await b.lead()
        await a.resign()
        clock.advance(0.6 * LEAD_SECONDS)
        assert await b.lead()
        assert not await a.lead()

    async def test_who_does_not_lead_cannot_resign_for_another(self, candidate: Candidate, clock: FakeClock) -> None:
        a, b = candidate("a"), candidate("b")
        await a.lead()
        await b.lead()
        await b.resign()
        clock.advance(0.6 * LEAD_SECONDS)
        assert await a.lead()
        assert not await b.lead()
