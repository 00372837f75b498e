"""Waits for the write lock of a SQLite file, and finds the process that holds it.

SQLite's own wait backs off and so loses to writers that do not sleep; this one asks at an even pace. Nothing can
take
the lock from a process that is stopped inside a transaction, so that process is named in the error.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

__all__ = ["LockHolder", "LockWait", "is_busy", "lock_holder"]

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


_LOCKS: Final = Path("/proc/locks")
_PROC: Final = Path("/proc")
# The system hands the list out in pieces of about a page. If locks come and go between two pieces, a line may be
# missing, so a long list is read more than once before we believe that nobody holds the lock.
_PIECE_CHARACTERS: Final = 3_000
_READINGS: Final = 8
# Bytes of the log's index that SQLite locks: who writes (120), and who makes or removes the index (128), which every
# process does for a moment when it opens the store. The file itself is locked for writing by the last who closes it.
_WRITE_BYTES: Final = (120, 128)
_STATES: Final = {
    "T": "stopped",
    "t": "stopped by a debugger",
    "D": "waiting for the disk",
    "R": "running",
    "S": "sleeping",
    "I": "idle",
    "Z": "dead",
}
_STOPPED: Final = frozenset("Tt")
_MODULES: Final = {"swath", "swath.entrypoints.cli.main"}  # `python -m swath` is a way to start it, too
_GROUPS: Final = {"aws", "jobs", "keys", "recording", "scraper"}  # of commands, so the next word is a command as well
_FIRST_WORDS: Final = 6  # of Python's own options; the command comes after them
_WORD: Final = re.compile(r"[a-z][a-z-]{0,30}")


class LockHolder(msgspec.Struct, frozen=True):
    """A process by its id, what it was started as, and its state as the system names it: one letter."""

    pid: int
    program: str
    state: str

    def __str__(self) -> str:
        """For people: `pid 1234 (swath worker), stopped (T)`."""
        return f"pid {self.pid} ({self.program}), {_STATES.get(self.state, 'in state')} ({self.state})"

    @property
    def stopped(self) -> bool:
        """Whether it does not run at all until somebody wakes it up."""
        return self.state in _STOPPED

    @property
    def remedy(self) -> str:
        """What to do about one that is stopped."""
        return f"wake it up with `kill -CONT {self.pid}`, or end it with `kill -9 {self.pid}`: its items are run again"


class _LockEntry(NamedTuple):
    pid: int
    device: tuple[int, int]
    inode: int
    first: int
    last: int


def lock_holder(path: Path) -> LockHolder | None:
    """The process that holds the file for writing now; None if nobody does, or if the system does not tell.

    Read from /proc/locks, which needs no look into the files themselves. Asking for the lock (`F_GETLK`) would mean to
    open them, and closing a file drops every lock that this process has on it, those of SQLite's connections too.
    """
    for _ in range(_READINGS):
        try:
            text = _LOCKS.read_text("ascii")
            found = _holding(path, list(_write_locks(text)))
        except (OSError, ValueError):
            return None
        if found is not None or len(text) < _PIECE_CHARACTERS:
            return None if found is None else _describe(found.pid)
    return None


def _holding(path: Path, locks: list[_LockEntry]) -> _LockEntry | None:
    if not locks:
        return None
    of_index = list(_locks_on(Path(f"{path}-shm"), locks))
    found = [lock for byte in _WRITE_BYTES for lock in of_index if lock.first <= byte <= lock.last]
    found += _locks_on(path, locks)
    return found[0] if found else None


def _write_locks(text: str) -> Iterator[_LockEntry]:
    """Lines such as `1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120`; one that waits has `->` before its kind."""
    for line in text.splitlines():
        words = line.split()
        if len(words) != 8 or (words[1], words[3]) != ("POSIX", "WRITE"):
            continue
        major, minor, inode = words[5].split(":")
        last = 1 << 62 if words[7] == "EOF" else int(words[7])
        yield _LockEntry(int(words[4]), (int(major, 16), int(minor, 16)), int(inode), int(words[6]), last)


def _locks_on(file: Path, locks: list[_LockEntry]) -> Iterator[_LockEntry]:
    try:
        status = file.stat()
    except OSError:
        return
    device = os.major(status.st_dev), os.minor(status.st_dev)
    for lock in locks:
        if lock.inode == status.st_ino and (lock.device == device or _has_open(lock.pid, status)):
            yield lock


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Some file systems (btrfs, overlayfs) show another device in /proc/locks than `stat` does."""
    try:
        for entry in os.scandir(_PROC / str(pid) / "fd"):
            try:
                if os.path.samestat(entry.stat(), file):
                    return True
            except OSError:
                continue
    except OSError:  # another user's process
        return False
    return False


def _describe(pid: int) -> LockHolder | None:
    try:
        name, _, rest = (_PROC / str(pid) / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has just ended
        return None
    return LockHolder(pid, _program(words) or name, rest.split()[0])


def _program(words: list[str]) -> str | None:
    """The command of ours that the process runs; nothing else of its command line, which may hold a secret."""
    may_be = words[:_FIRST_WORDS] if "python" in Path(words[0]).name else words[:1]
    for position, word in enumerate(may_be):
        if word in _MODULES or Path(word).name == "swath":
            first, second = [*words[position + 1 :], "", ""][:2]
            names = ["swath", first, second] if first in _GROUPS else ["swath", first]
            return " ".join(name for name in names if _WORD.fullmatch(name))
    return None
