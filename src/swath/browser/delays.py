"""Delays: the pause between two actions in a browser, as the site's policy wants it: people need a moment.

browser/session.py pauses before each action but the first. From zero to zero switches them off.
"""

from __future__ import annotations

from random import Random

from swath.ports.clock import Clock

__all__ = ["Delays", "delay_seconds"]


def delay_seconds(range_ms: tuple[int, int], draw: Random) -> float:
    """Even over the range, both ends included."""
    return draw.uniform(*range_ms) / 1_000


class Delays:
    """`range_ms` is the policy's `action_delay_ms`."""

    def __init__(self, range_ms: tuple[int, int], clock: Clock, draw: Random) -> None:
        self._range_ms = range_ms
        self._clock = clock
        self._draw = draw

    async def pause(self) -> None:
        """One pause, drawn anew."""
        await self._clock.sleep(delay_seconds(self._range_ms, self._draw))
