"""SystemClock: the time of this machine, for every back end. Tests use swath.testing.clock.FakeClock in its place."""

from __future__ import annotations

import asyncio
import time

__all__ = ["SystemClock"]


class SystemClock:
    """The Clock port on the system's own clocks."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 this is the Clock that everybody else asks

    def boot(self) -> float:
        return _boot()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Linux has a clock that also runs in suspend; elsewhere the steady one is the best there is.
_boot = _boottime if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
