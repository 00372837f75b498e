"""The SQLite file of the site state: its tables, how it is opened, and how a change becomes one transaction.

It is apart from the store's file, so that pacing never waits for a commit of items.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec

from swath.backends.clock import boot_id
from swath.backends.private_files import make_private_file
from swath.backends.sqlite.file_changes import ChangeCounter, OpenFiles
from swath.backends.sqlite.opening import BUSY_SECONDS, translate_error
from swath.backends.sqlite.write_lock import LockWait
from swath.domain.errors import StoreDamaged, StoreReplaced, StoreUnavailable, SwathError, UserError
from swath.ports.clock import Clock
from swath.ports.site_state import SHARE_SECONDS

__all__ = ["SITES_FILE", "SiteFile"]

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[sqlite3.Connection, float, P], T]

SITES_FILE: Final = "sites.sqlite"  # beside the store's
_VERSION: Final = 1
_ASK_SECONDS: Final = (0.0002, 0.002)
_TIDY_SECONDS: Final = 600.0
_TIDY_ROWS: Final = 1_000  # at once, so that nobody waits for it

# All times are on the boot clock. Who asked last says until when a row is worth keeping.
_SCHEMA: Final = """
CREATE TABLE run (boot TEXT NOT NULL);
CREATE TABLE sites (
    name       TEXT PRIMARY KEY,
    keep_until REAL NOT NULL,
    is_site    INTEGER NOT NULL DEFAULT 0,  -- and not the bucket of a job
    bucket     BLOB NOT NULL DEFAULT '{}',
    circuit    BLOB,                        -- none: as it begins
    tier       TEXT
) WITHOUT ROWID;
CREATE TABLE shares (
    name TEXT NOT NULL, worker TEXT NOT NULL, slots INTEGER NOT NULL, demand INTEGER NOT NULL, asked_at REAL NOT NULL,
    PRIMARY KEY (name, worker)
) WITHOUT ROWID;
CREATE TABLE robots (
    origin TEXT PRIMARY KEY, keep_until REAL NOT NULL, fetch_until REAL NOT NULL,
    status INTEGER NOT NULL DEFAULT 0, fetched_at REAL NOT NULL DEFAULT 0, body BLOB NOT NULL DEFAULT ''
)
"""
# Came later; earlier releases do not mind it.
_HOLDS: Final = "CREATE TABLE IF NOT EXISTS holds (name TEXT PRIMARY KEY, why TEXT NOT NULL, until REAL NOT NULL)"


class SiteFile:
    """One connection and one thread that write, and one connection that only glances."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Touches nothing yet: who only looks at jobs in a folder that is read-only needs no site book."""
        self.path = path
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._files = OpenFiles(path)
        self._glancing = threading.Lock()
        self._glance_connection: sqlite3.Connection | None = None
        self._pulse = ChangeCounter[bytes | None](path.with_name(path.name + "-pulse"))
        self._tidied = float("-inf")
        self._wait, self._read_wait = LockWait(_ASK_SECONDS), LockWait(_ASK_SECONDS)
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="swath-sites")

    def check(self) -> None:
        """Raises UserError for a file that is no site book of ours; one that is locked or full is tried again later."""
        with suppress(StoreUnavailable):
            self._run(lambda: self._opened(time.monotonic()))

    async def write(self, change: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs `change(connection, boot time, …)` as one transaction: all of it is shared afterwards, or nothing."""
        asked_at = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(
            self._thread,
            lambda: self._run(lambda: self._transact(asked_at, "BEGIN IMMEDIATE", change, *args, **kwargs)),
        )

    async def read(self, question: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Answers from one consistent reading, for which nobody waits."""
        asked_at = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: self._run(lambda: self._transact(asked_at, "BEGIN", question, *args, **kwargs))
        )

    def glance(self, query: str, name: str) -> bytes | None:
        """The one value that a query finds, read at once on the caller's thread. Raises sqlite3.Error.

        Asked before every request, so what was found holds until the next commit of anybody.
        """
        with self._glancing:
            if self._closed:
                raise sqlite3.ProgrammingError("the site book is closed")
            return self._pulse.recall(self._look, query, name)

    def _look(self, query: str, name: str) -> bytes | None:
        if self._glance_connection is None:
            self._glance_connection = _connect(self.path, mode="rw")
        row = self._glance_connection.execute(query, (name,)).fetchone()
        return None if row is None else row[0]

    async def close(self) -> None:
        """Finishes what is under way and closes the file."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._thread.shutdown(wait=True)
        with self._glancing:
            self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        with self._glancing:
            for connection in (self._glance_connection, self._connection):
                if connection is not None:
                    connection.close()
            self._glance_connection = self._connection = None
            self._pulse.close()

    def _run(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            raise _translate_error(error, self.path) from error
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the site book {self.path} holds a row that cannot be read: {error}") from error

    def _opened(self, asked_at: float) -> sqlite3.Connection:
        """The connection to the file that is there now: who still had one that was removed would pace alone.

        Unlike the store's file it may be replaced at any time: nothing of any job is in it.
        """
        try:
            self._files.check()
        except StoreReplaced:
            self._let_go()
            self._files = OpenFiles(self.path)
        while self._connection is None:
            try:
                self._connection = self._files.opened(
                    lambda: self._wait.take(lambda: _open(self.path), asked_at, BUSY_SECONDS)
                )
            except StoreReplaced:  # just now
                self._files = OpenFiles(self.path)
        return self._connection

    def _transact(self, asked_at: float, begin: str, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        connection = self._opened(asked_at)
        wait = self._read_wait if begin == "BEGIN" else self._wait
        wait.take(lambda: connection.execute(begin), asked_at, BUSY_SECONDS)
        try:
            now = self._clock.boot()  # only here, since the turn may have been long in coming
            answer = work(connection, now, *args, **kwargs)
            if begin == "BEGIN IMMEDIATE" and now - self._tidied > _TIDY_SECONDS:
                self._tidied = now
                _tidy(connection, now)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if begin == "BEGIN IMMEDIATE":
            self._pulse.beat()
        return answer


def _open(path: Path) -> sqlite3.Connection:
    connection = _connect(path, mode="rwc")
    try:
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        _prepare(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, *, mode: str) -> sqlite3.Connection:
    if mode == "rwc":
        make_private_file(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        # Without a sync at each commit: a power loss may take the last ones, and does not damage the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -1024")
        connection.execute("PRAGMA journal_size_limit = 4194304")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("INSERT INTO run VALUES (?)", (boot_id(),))
    elif version != _VERSION:
        raise UserError(
            f"the site book was made by another version of Swath (schema {version}, not {_VERSION}); stop all workers "
            "and remove the files sites.sqlite*: nothing of any job is in them"
        )
    connection.execute(_HOLDS)
    if connection.execute("SELECT boot FROM run").fetchone() != (boot_id(),):
        _begin_anew(connection)


def _begin_anew(connection: sqlite3.Connection) -> None:
    """After a restart of the machine the boot clock begins anew, so that only what has no time in it means anything."""
    connection.execute("UPDATE run SET boot = ?", (boot_id(),))
    connection.execute("DELETE FROM shares")
    connection.execute("DELETE FROM robots")
    connection.execute("DELETE FROM holds")
    connection.execute("DELETE FROM sites WHERE tier IS NULL")
    connection.execute("UPDATE sites SET keep_until = 0, bucket = '{}', circuit = NULL")


def _tidy(connection: sqlite3.Connection, now: float) -> None:
    """Forgets what nobody has asked for in a long time, but for the tiers that people want remembered."""
    connection.execute(
        "DELETE FROM sites WHERE name IN (SELECT name FROM sites WHERE keep_until <= ? AND tier IS NULL LIMIT ?)",
        (now, _TIDY_ROWS),
    )
    connection.execute(
        "DELETE FROM robots WHERE origin IN "
        "(SELECT origin FROM robots WHERE keep_until <= ? AND fetch_until <= ? LIMIT ?)",
        (now, now, _TIDY_ROWS),
    )
    connection.execute("DELETE FROM shares WHERE asked_at <= ?", (now - SHARE_SECONDS,))
    connection.execute("DELETE FROM holds WHERE until <= ?", (now,))


def _translate_error(error: sqlite3.Error, path: Path) -> SwathError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return UserError(
            f"the site book {path} is damaged ({error}); stop all workers and remove it with {path.name}-wal and "
            f"{path.name}-shm: it is made anew, and nothing of any job is in it"
        )
    return translate_error(error, path)
