"""ShiftedClock: the environment of processes whose wall clock a test moves while they run. Linux, with a C compiler."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["NoCompilerError", "ShiftedClock", "compiler"]

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
