"""Deadline: the time that a step has. What its documents wait at the gate is not counted."""

from __future__ import annotations

from collections.abc import Callable

from swath.ports.clock import Clock

__all__ = ["Deadline"]


class Deadline:
    """Begins when it is made."""

    def __init__(self, clock: Clock, idle_seconds: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._idle = idle_seconds
        self._until = clock.boot() - idle_seconds() + seconds
        self.seconds = seconds

    @property
    def left_seconds(self) -> float:
        """None is 0."""
        return max(0.0, self._until - self._clock.boot() + self._idle())

    def at_most(self, seconds: float) -> Deadline:
        """One of its own that begins now and is over no later."""
        return Deadline(self._clock, self._idle, min(seconds, self.left_seconds))

    @property
    def left_ms(self) -> float:
        """For the driver, to which 0 would mean for ever."""
        return max(1.0, self.left_seconds * 1_000)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left_seconds <= 0

    @property
    def spent_seconds(self) -> float:
        """Since it began."""
        return self.seconds - self.left_seconds

    async def pause(self, seconds: float) -> None:
        """A moment, or what is left."""
        await self._clock.sleep(min(seconds, self.left_seconds))
