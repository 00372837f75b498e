"""Which process holds the write lock of a SQLite file, and whether it is stopped.

A process that is frozen inside a transaction keeps everybody else from writing for as long as it is frozen. Nothing can
take the lock from it, so the least we can do is to name it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

__all__ = ["Holder", "holder_of"]

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


class Holder(msgspec.Struct, frozen=True):
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


class _Lock(NamedTuple):
    pid: int
    device: tuple[int, int]
    inode: int
    first: int
    last: int


def holder_of(path: Path) -> Holder | None:
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
            return None if found is None else _described(found.pid)
    return None


def _holding(path: Path, locks: list[_Lock]) -> _Lock | None:
    if not locks:
        return None
    of_index = list(_of(Path(f"{path}-shm"), locks))
    found = [lock for byte in _WRITE_BYTES for lock in of_index if lock.first <= byte <= lock.last]
    found += _of(path, locks)
    return found[0] if found else None


def _write_locks(text: str) -> Iterator[_Lock]:
    """Lines such as `1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120`; one that waits has `->` before its kind."""
    for line in text.splitlines():
        words = line.split()
        if len(words) != 8 or (words[1], words[3]) != ("POSIX", "WRITE"):
            continue
        major, minor, inode = words[5].split(":")
        last = 1 << 62 if words[7] == "EOF" else int(words[7])
        yield _Lock(int(words[4]), (int(major, 16), int(minor, 16)), int(inode), int(words[6]), last)


def _of(file: Path, locks: list[_Lock]) -> Iterator[_Lock]:
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


def _described(pid: int) -> Holder | None:
    try:
        name, _, rest = (_PROC / str(pid) / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has just ended
        return None
    return Holder(pid, _program(words) or name, rest.split()[0])


def _program(words: list[str]) -> str | None:
    """The command of ours that the process runs; nothing else of its command line, which may hold a secret."""
    may_be = words[:_FIRST_WORDS] if "python" in Path(words[0]).name else words[:1]
    for position, word in enumerate(may_be):
        if word in _MODULES or Path(word).name == "swath":
            first, second = [*words[position + 1 :], "", ""][:2]
            names = ["swath", first, second] if first in _GROUPS else ["swath", first]
            return " ".join(name for name in names if _WORD.fullmatch(name))
    return None
