"""Pulse: a number in a small file beside a SQLite file, other after every commit, so that who reads one row again and
again need not ask SQLite while nothing has changed.

Moved by database.py and site_file.py after each commit, and looked at by them before each glance.
"""

from __future__ import annotations

import itertools
import mmap
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from swath.backends.host.private_files import PRIVATE_FILE

__all__ = ["Pulse"]

LONGEST_SECONDS: Final = 0.05  # a process may die between its commit and its beat
_NUMBER: Final = struct.Struct("<Q")

T = TypeVar("T")


class Pulse(Generic[T]):
    """Where the file cannot be had, it is as if something always changed. Not for several threads, `beat` apart."""

    def __init__(self, path: Path) -> None:
        """Touches nothing yet."""
        self._path = path
        self._memory: mmap.mmap | None = None
        self._numbers = itertools.count(random.getrandbits(62))  # unlike those of other processes
        self._found: dict[object, T] = {}
        self._seen = b""
        self._stale_at = 0.0

    def beat(self) -> None:
        """Something was committed."""
        memory = self._mapped()
        if memory is not None:
            _NUMBER.pack_into(memory, 0, next(self._numbers))

    def recall(self, read: Callable[..., T], *key: object) -> T:
        """What `read` says of the key; what it said before holds until the next commit of anybody."""
        memory, now = self._memory or self._mapped(), time.monotonic()
        seen = b"" if memory is None else memory[: _NUMBER.size]  # before reading: a commit in between is noticed then
        if seen != self._seen or now >= self._stale_at or not seen:
            self._seen, self._stale_at = seen, now + LONGEST_SECONDS
            self._found.clear()
        try:
            return self._found[key]
        except KeyError:
            found = self._found[key] = read(*key)
            return found

    def close(self) -> None:
        """Lets go of the file; the next call takes the one that is there then."""
        memory, self._memory = self._memory, None
        self._seen = b""
        self._found.clear()
        if memory is not None:
            memory.close()

    def _mapped(self) -> mmap.mmap | None:
        if self._memory is None:
            try:
                self._memory = _map(self._path)
            except OSError:
                return None
        return self._memory


def _map(path: Path) -> mmap.mmap:
    # Not through a link: what it leads to would be written over.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        os.posix_fallocate(descriptor, 0, _NUMBER.size)  # on a full disk a write into a hole would kill the process
        return mmap.mmap(descriptor, _NUMBER.size)
    finally:
        os.close(descriptor)
