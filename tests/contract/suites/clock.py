"""The contract of the Clock port. A test class provides the fixtures `clock` and `pass_time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from swath.ports.clock import Clock

__all__ = ["ClockContract", "PassTime"]

PassTime = Callable[[float], None]
"""Lets that many seconds pass; they are few, so a real clock may really wait."""


class ClockContract:
    """Fixtures to give: `clock`, a Clock, and `pass_time`, a PassTime."""

    async def test_now_runs_on_as_time_passes(self, clock: Clock, pass_time: PassTime) -> None:
        before = clock.now()
        pass_time(0.002)
        assert clock.now() > before

    async def test_now_is_in_unix_seconds(self, clock: Clock) -> None:
        assert 1_600_000_000 < clock.now() < 4_000_000_000

    async def test_boot_runs_on_as_time_passes_and_never_back(self, clock: Clock, pass_time: PassTime) -> None:
        readings = [clock.boot()]
        for _ in range(5):
            pass_time(0.001)
            readings += [clock.boot(), clock.boot()]
        assert readings == sorted(readings)
        assert readings[-1] - readings[0] >= 0.004

    async def test_sleep_returns_after_that_long_by_boot(self, clock: Clock, pass_time: PassTime) -> None:
        before = clock.boot()
        asleep = asyncio.create_task(clock.sleep(0.005))
        await asyncio.sleep(0)
        assert not asleep.done()
        pass_time(0.006)
        await asleep
        assert clock.boot() - before >= 0.005

    async def test_sleep_of_zero_or_less_returns_at_once(self, clock: Clock) -> None:
        async with asyncio.timeout(60):
            await clock.sleep(0)
            await clock.sleep(-5)

    async def test_a_sleeper_can_be_cancelled(self, clock: Clock, pass_time: PassTime) -> None:
        asleep, other = (asyncio.create_task(clock.sleep(0.002)) for _ in range(2))
        await asyncio.sleep(0)
        asleep.cancel()
        pass_time(0.003)
        await other
        assert asleep.cancelled()
