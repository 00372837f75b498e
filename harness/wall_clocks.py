"""Moves the wall clock of running processes, with a small preloaded library. Linux, with a C compiler.

Boot and monotonic clocks stay true.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["JUMPS", "NoCompilerError", "ShiftedClock", "WallClocks", "compiler"]

_SOURCE: Final = Path(__file__).with_name("shift.c")
_OFFSET: Final = struct.Struct("=d")
_VARIABLE: Final = "SWATH_CLOCK_SHIFT"


class NoCompilerError(Exception):
    """This machine has no C compiler."""


def compiler() -> str:
    """The C compiler's path. NoCompilerError when there is none: a test that needs one must not pass without it."""
    found = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))), None)
    if found is None:
        raise NoCompilerError("no C compiler found; tests that move the clock need one (Debian: apt-get install gcc)")
    return found


class ShiftedClock:
    """A wall clock offset, kept in a file that every process started with `environment` reads at each look at the time.

    One offset serves as many processes as it is given to, and processes started later begin with it. Several
    ShiftedClocks give several hosts with different times. Both files are made in `folder`, which must outlive them.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._library = _compiled(folder)
        self._file = folder / "offset"
        if not self._file.exists():
            self._file.write_bytes(_OFFSET.pack(0.0))

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (this process's own variables if not given) plus what makes a new process use this clock."""
        variables = dict(os.environ if base is None else base)
        others = variables.get("LD_PRELOAD", "")
        return {**variables, "LD_PRELOAD": f"{self._library} {others}".strip(), _VARIABLE: str(self._file)}

    def set(self, seconds: float) -> None:
        """From now on the wall clock of those processes is the true time plus `seconds`; 0 sets it right again."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(_OFFSET.pack(seconds))

    @property
    def offset(self) -> float:
        """The seconds that were set last."""
        (seconds,) = _OFFSET.unpack(self._file.read_bytes())
        return float(seconds)


def _compiled(folder: Path) -> Path:
    """The library in `folder`, compiled if it is not there yet. Two processes may do so at once."""
    library = folder / "clock_shift.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = Path(own) / library.name
            subprocess.run(
                [compiler(), "-O2", "-Wall", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"],
                check=True,
                capture_output=True,
            )
            made.replace(library)
    return library


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
