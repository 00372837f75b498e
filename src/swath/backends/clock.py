"""SystemClock: the time of this machine, for every back end. Tests use swath.testing.clock.FakeClock in its place."""

from __future__ import annotations

import asyncio
import time
from functools import partial

__all__ = ["SystemClock"]


class SystemClock:
    """The Clock port on the system's own clocks, asked a dozen times an item: with no frame of ours around them."""

    now = staticmethod(time.time)  # noqa: TID251 this is the Clock that everybody else asks
    # Linux has a clock that also runs in suspend; elsewhere the steady one is the best there is.
    boot = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
