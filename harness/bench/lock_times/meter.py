"""The meter: stands in the place of a store's writing connection, and measures every transaction.

A transaction is measured from the moment it has the write lock until its COMMIT or ROLLBACK is done. Its rows are those
that SQLite counts as inserted, changed or removed; its bytes are the frames that it has added to the write-ahead log.
The meter also counts what takes the lock outside of transactions: VACUUM, and cutting off the log. Nobody else may
write into the store meanwhile.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from swath.backends.sqlite.store.store import SqliteStore

__all__ = ["Hear", "HeldLock", "Meter", "metered"]

_HEAD_BYTES: Final = 32
_HEAD: Final = struct.Struct(">8xI4xQ")  # page size, salts
_FRAME: Final = struct.Struct(">8xQ8x")  # salts
_CHECKPOINT_FRAMES: Final = 1_000  # as many as SQLite lets come together by itself


Hear = Callable[[str, float, int, int], None]
"""What takes the lock, for how many seconds, and how many rows and bytes it wrote."""


class HeldLock(msgspec.Struct, frozen=True):
    """One time that the write lock was held."""

    step: str
    what: str
    seconds: float
    rows: int
    bytes: int


class Meter:
    """Put in with `watch`. `step` names what is being done; each step is closed by the next."""

    def __init__(self) -> None:
        self.step = ""
        self.held: list[HeldLock] = []

    def watch(self, store: SqliteStore, *, durable: bool = True) -> None:
        """Measures everything that this store writes from now on."""
        database = store._db  # noqa: SLF001 measuring is all that this is for
        connection = database._write_connection  # noqa: SLF001
        if connection is None:
            raise ValueError("the store cannot be written to")
        if not durable:
            connection.execute("PRAGMA synchronous = OFF")
        database._write_connection = metered(connection, database.path, self._hear)  # noqa: SLF001

    def _hear(self, what: str, seconds: float, rows: int, size: int) -> None:
        self.held.append(HeldLock(self.step, what, seconds, rows, size))


def metered(connection: sqlite3.Connection, path: Path, hear: Hear) -> sqlite3.Connection:
    """Something that does what the connection does, and tells of every transaction."""
    put_in: Any = _MeteredConnection(connection, _Log(path), hear)
    return put_in  # type: ignore[no-any-return]  # SQLite's own class cannot be put around another


class _MeteredConnection:
    """Does everything that the connection in it does."""

    def __init__(self, connection: sqlite3.Connection, log: _Log, hear: Hear) -> None:
        self._connection = connection
        self._log = log
        self._hear = hear
        self._since = 0.0
        self._rows = 0
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # SQLite's own would be a part of the COMMIT's time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Runs a statement, and looks at the time if it takes the lock or gives it back."""
        word = statement.lstrip().upper()
        if word.startswith("BEGIN"):
            self._log.new_bytes()
            cursor = self._connection.execute(statement, *values)
            self._since, self._rows = time.perf_counter(), self._connection.total_changes
            return cursor
        if word.startswith(("COMMIT", "ROLLBACK")):
            cursor = self._connection.execute(statement, *values)
            self._tell("transaction")
            return cursor
        if word.startswith(("VACUUM", "PRAGMA WAL_CHECKPOINT(TRUNCATE)")):
            self._log.new_bytes()
            self._since, self._rows = time.perf_counter(), self._connection.total_changes
            cursor = self._connection.execute(statement, *values)
            self._tell("vacuum" if word.startswith("VACUUM") else "log cut off")
            return cursor
        return self._connection.execute(statement, *values)

    def _tell(self, what: str) -> None:
        seconds, rows = time.perf_counter() - self._since, self._connection.total_changes - self._rows
        self._hear(what, seconds, rows, self._log.new_bytes())
        if self._log.frames >= _CHECKPOINT_FRAMES:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # keeps no writer waiting


class _Log:
    """Counts the frames of the write-ahead log. Each belongs to the run of the log whose salts it has."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + "-wal")
        self._salts = -1
        self.frames = 0

    def new_bytes(self) -> int:
        """How much has been added since this was last asked."""
        try:
            with self._path.open("rb") as file:
                return self._count(file)
        except FileNotFoundError:
            return 0

    def _count(self, file: BinaryIO) -> int:
        head = file.read(_HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return 0
        page_bytes, salts = _HEAD.unpack_from(head)
        frame_bytes: int = _FRAME.size + page_bytes
        if salts != self._salts:
            self._salts, self.frames = salts, 0
        before = self.frames
        while True:
            file.seek(_HEAD_BYTES + self.frames * frame_bytes)
            frame = file.read(_FRAME.size)
            if len(frame) < _FRAME.size or _FRAME.unpack(frame) != (salts,):
                return (self.frames - before) * frame_bytes
            self.frames += 1
