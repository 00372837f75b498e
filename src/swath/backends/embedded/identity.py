"""Whether the SQLite files at a path are still the ones that this process has open.

A process that has a file open goes on writing to it after somebody has removed it or moved another one to its place:
every commit succeeds, and nobody will ever read it. SQLite does not notice, so we compare the files ourselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeVar

from swath.domain.errors import StoreReplaced

__all__ = ["OpenFiles"]

T = TypeVar("T", bound="sqlite3.Connection | None")

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

    def opened(self, connect: Callable[[], T]) -> T:
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
