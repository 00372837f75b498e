"""Clock: the wall clock, the boot clock, and sleep; passed to everything that waits, so that tests need not."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """The time of this machine."""

    def now(self) -> float:
        """Unix seconds, for people to read. May jump."""
        ...

    def boot(self) -> float:
        """Seconds on a clock that never jumps and also runs while the machine sleeps. Comparable between processes."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after that long by `boot`; at once for zero or less."""
        ...
