"""SharedTime: the time that hosts have in common, for everything that is written where another host reads it.

Boot clocks differ from host to host, and wall clocks jump; this one agrees with the wall clock at its making and runs
on by the boot clock. The ports speak boot time, so the store and the site book convert at their boundary.
"""

from __future__ import annotations

from swath.ports.clock import Clock

__all__ = ["SharedTime"]


class SharedTime:
    """Unix seconds that never go back. A host whose wall clock was behind when it opened the store catches up with the
    latest time that it reads in it, so that what another host has made wait waits no longer than was meant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_seconds = clock.now() - clock.boot()

    def now(self) -> float:
        """The present instant."""
        return self._offset_seconds + self._clock.boot()

    def catch_up(self, seen: float) -> None:
        """Another host has written this time, so it is no earlier now."""
        self._offset_seconds = max(self._offset_seconds, seen - self._clock.boot())

    def to_boot(self, shared: float) -> float:
        """The same instant on this host's boot clock."""
        return shared - self._offset_seconds

    def from_boot(self, boot: float) -> float:
        """The same instant for all hosts."""
        return boot + self._offset_seconds
