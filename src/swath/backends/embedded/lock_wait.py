"""LockWait: how long a change waits for the write lock of a SQLite file.

SQLite's own wait sleeps longer and longer, and so loses to whoever does not sleep; this one asks at an even pace.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["LockWait", "is_busy"]

T = TypeVar("T")


class LockWait:
    """One per thread that writes. The changes in its queue wait for a locked file together, not one after the other:
    when one has given up, those behind it have waited just as long. Between two attempts are `ask_seconds`, from and
    to."""

    def __init__(self, ask_seconds: tuple[float, float] = (0.0005, 0.003)) -> None:
        self._ask_seconds = ask_seconds
        self._locked_since: float | None = None  # the begin of the first wait that failed since the last success

    def take(self, attempt: Callable[[], T], asked_at: float, busy_seconds: float) -> T:
        """Tries until the file is not locked, for at most `busy_seconds` of waiting since `asked_at` (monotonic).

        Raises what the last attempt raised.
        """
        began = time.monotonic() if self._locked_since is None else max(asked_at, self._locked_since)
        while True:
            try:
                answer = attempt()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if time.monotonic() > began + busy_seconds:
                    self._locked_since = began if self._locked_since is None else self._locked_since
                    raise
                time.sleep(random.uniform(*self._ask_seconds))  # noqa: S311 jitter needs no crypto
            else:
                self._locked_since = None
                return answer


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection has the lock."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_BUSY")
