"""Notices what other processes do to a SQLite file: commits, and removal or replacement of the file.

A counter in a small mapped file changes with every commit, so a row that is read again and again need not be queried
while nothing has changed; a watcher thread reports commits of other processes while somebody listens. A process
whose
file was removed or replaced would commit into nothing, and SQLite does not notice, so the files are compared here.
"""

from __future__ import annotations

import itertools
import mmap
import os
import random
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from swath.backends.private_files import PRIVATE_FILE
from swath.domain.errors import StoreReplaced

__all__ = ["ChangeCounter", "ChangeWatcher", "OpenFiles"]

LONGEST_SECONDS: Final = 0.05  # a process may die between its commit and its beat
_NUMBER: Final = struct.Struct("<Q")

T = TypeVar("T")


class ChangeCounter(Generic[T]):
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


LOOK_SECONDS: Final = 0.025
BLIND_SECONDS: Final = 1.0  # while nothing can be seen, something may have changed so often


class ChangeWatcher:
    """`look` answers with something that is other after each foreign commit, or None when it cannot tell; it fails
    when the store is closed. `seen` is what it last answered."""

    def __init__(self, look: Callable[[], object], notice: Callable[[], None], seen: object) -> None:
        self._look = look
        self._notice = notice
        self._seen = seen
        self._over = threading.Event()

    def start(self) -> None:
        """Looks at once, and then again and again, in a thread of its own."""
        self._over = threading.Event()
        threading.Thread(target=self._run, args=(self._over,), name="swath-store-news", daemon=True).start()

    def stop(self) -> None:
        """The thread ends soon; nobody waits for it."""
        self._over.set()

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                seen = self._look()
            except RuntimeError:  # the store's threads are gone
                return
            if seen is None or seen != self._seen:
                self._seen = seen
                self._notice()
            over.wait(BLIND_SECONDS if seen is None else LOOK_SECONDS)


ConnectionT = TypeVar("ConnectionT", bound="sqlite3.Connection | None")

# SQLite makes the log and its index when the file is first used, and keeps both for as long as anybody has it open.
_SUFFIXES: Final = ("-wal", "-shm")


class OpenFiles:
    """The file, its log and the log's index, as they were when this process first opened them."""

    def __init__(self, path: Path, *, with_log: bool = True, must_exist: bool = False) -> None:
        """Nothing is open yet. Who does not keep the file open can know nothing of its log (`with_log`): that goes and
        comes with those who do. With `must_exist` another process has opened the store already: a missing file was
        removed."""
        self._file = path
        self._must_exist = must_exist
        self._paths = [path, *(path.with_name(path.name + suffix) for suffix in _SUFFIXES if with_log)]
        self._known: dict[Path, tuple[int, int]] = {}

    def opened(self, connect: Callable[[], ConnectionT]) -> ConnectionT:
        """Opens the file, which must not be another one than before. Raises StoreReplaced, also when the file is gone
        as soon as it is open.

        The files are looked at only when it is open: a file system of layers gives a file that is opened for writing
        another number.
        """
        self.check()
        if self._must_exist and not self._file.exists():
            raise StoreReplaced(str(self._file), "removed")
        connection = connect()
        self._must_exist = True
        self._known = {**self._present(), **self._known}
        if self._file not in self._known and not self._file.exists():  # nothing would ever miss it
            if connection is not None:
                connection.close()
            raise StoreReplaced(str(self._file), "removed")
        return connection

    @property
    def mode(self) -> Literal["rw", "rwc"]:
        """How SQLite opens the file: it creates one only if this process, or the one that started it, had none."""
        return "rw" if self._must_exist else "rwc"

    def check(self) -> None:
        """Raises StoreReplaced, which says what happened, unless all files are still in their places.

        Costs three calls of `stat`, some 6 microseconds.
        """
        for path, known in self._known.items():
            try:
                found = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                raise StoreReplaced(str(path), "removed") from None
            except OSError:
                continue  # a failing disk is waited for: SQLite meets it too and says so
            if (found.st_dev, found.st_ino) != known:
                raise StoreReplaced(str(path), "replaced by another file")
            if path is self._file and not found.st_size:  # in use it has one page at least
                raise StoreReplaced(str(path), "emptied")

    def _present(self) -> Mapping[Path, tuple[int, int]]:
        found = {}
        for path in self._paths:
            with suppress(OSError):
                status = path.stat()
                found[path] = (status.st_dev, status.st_ino)
        return found
