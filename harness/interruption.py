"""How a supervisor is told to stop.

An exception from a signal handler can be lost in the hooks that run after a fork, so the handler only sets a flag,
and
the supervisor checks it.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

__all__ = ["check", "install"]

_wishes: list[int] = []


def install() -> None:
    """From now on SIGINT and SIGTERM end the program in good order, with its processes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    del frame
    _wishes.append(number)
    sys.exit(128 + number)


def check() -> None:
    """Leaves if somebody wished so."""
    if _wishes:
        sys.exit(128 + _wishes[0])
