"""The system clock that every back end uses, and the id of the current boot.

The boot clock counts from the start that `boot_id` names. Tests use a fake clock instead.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

__all__ = ["SystemClock", "boot_id"]


class SystemClock:
    """The Clock port on the system's own clocks, asked a dozen times an item: with no frame of ours around them."""

    now = staticmethod(time.time)  # noqa: TID251 this is the Clock that everybody else asks
    # Linux has a clock that also runs in suspend; elsewhere the steady one is the best there is.
    boot = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def boot_id() -> str:
    """Names this run of the machine; constant where the system has no such name."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return "unknown"
