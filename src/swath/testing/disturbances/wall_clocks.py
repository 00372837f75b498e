"""Wall clocks that jump, forward and back, in processes that run. Boot and monotonic clocks stay true.

The library that moves a clock is in clock_shift; here is when and how far. Before: the processes are started with
`environment`. Several processes share a clock, as those of one host do.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from swath.testing.clock_shift.shifted_clock import ShiftedClock

__all__ = ["JUMPS", "WallClocks"]

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
JUMPS: Final = {"minutes": 10 * _MINUTE, "hours": 5 * _HOUR, "days": 400 * _DAY}
STAYS_SECONDS: Final = (4.0, 15.0)


class WallClocks:
    """One clock for each of `skews`, the seconds by which it is wrong from the beginning.

    `turn` sets a clock back to its skew when a jump is over; `made` counts the jumps.
    """

    def __init__(
        self, folder: Path, luck: random.Random, skews: tuple[float, ...], jumps: Mapping[str, float] = JUMPS
    ) -> None:
        self._luck = luck
        self._skews = skews
        self._jumps = dict(jumps)
        self._clocks = [ShiftedClock(folder / f"clock-{number}") for number in range(len(skews))]
        self._ahead: list[tuple[str, float]] = []
        self._back_at: dict[int, float] = {}
        self.made: Counter[str] = Counter()
        for clock, skew in zip(self._clocks, skews, strict=True):
            clock.set(skew)

    def environment(self, number: int) -> dict[str, str]:
        """What makes a new process use this clock."""
        return self._clocks[number % len(self._clocks)].environment({})

    def jump(self, now: float) -> None:
        """Moves one clock by one of the distances, forward or back, for some seconds. `now` is monotonic.

        All distances and directions come before one comes again.
        """
        number = self._luck.randrange(len(self._clocks))
        if not self._ahead:
            self._ahead = [(name, direction) for name in sorted(self._jumps) for direction in (-1.0, 1.0)]
            self._luck.shuffle(self._ahead)
        name, direction = self._ahead.pop()
        self._clocks[number].set(self._skews[number] + direction * self._jumps[name])
        self._back_at[number] = now + self._luck.uniform(*STAYS_SECONDS)
        self.made[f"{name} {'forward' if direction > 0 else 'back'}"] += 1

    def turn(self, now: float) -> None:
        """Ends the jumps whose time is over."""
        for number in [number for number, due in self._back_at.items() if due <= now]:
            del self._back_at[number]
            self._clocks[number].set(self._skews[number])

    def set_right(self) -> None:
        """Ends all jumps."""
        self.turn(float("inf"))
