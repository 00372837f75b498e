"""The SQLite file: how it is opened, who may write, and what its errors mean.

One connection and one thread write, one of each reads; every change is one BEGIN IMMEDIATE transaction. Loops of any
thread may await `write` and `read`, which is what lets the heartbeat live outside the worker's event loop.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
import pydantic

from swath.backends.embedded.schema import SCHEMA, SCHEMA_VERSION
from swath.domain.errors import StoreDamaged, StoreUnavailable, SwathError, UserError

__all__ = ["Database", "boot_id"]

P = ParamSpec("P")
T = TypeVar("T")

BUSY_SECONDS = 10.0
WAL_LIMIT_BYTES = 64 * 1024 * 1024
CACHE_KIB = 16 * 1024  # of each of the two connections; beyond it the system's own cache serves


class Database:
    """Both connections with their threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._write_connection = _connect(path)
            _prepare(self._write_connection)
            self._read_connection = _connect(path)
        except sqlite3.Error as error:
            raise _translated(error, path) from error
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="swath-store-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="swath-store-read")

    async def write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a change in one transaction: all of it is durable when this returns, or nothing happened."""
        run = self._transact
        return await asyncio.get_running_loop().run_in_executor(
            self._writer, lambda: run(self._write_connection, "BEGIN IMMEDIATE", change, *args, **kwargs)
        )

    async def read(
        self, question: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Answers from one consistent and short reading."""
        run = self._transact
        return await asyncio.get_running_loop().run_in_executor(
            self._reader, lambda: run(self._read_connection, "BEGIN", question, *args, **kwargs)
        )

    def _transact(
        self,
        connection: sqlite3.Connection,
        begin: str,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        try:
            connection.execute(begin)
            try:
                answer = work(connection, *args, **kwargs)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled back by itself, and a second one hides the cause
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error
        except (msgspec.MsgspecError, pydantic.ValidationError) as error:
            raise StoreDamaged(f"the store {self.path} holds a row that cannot be read: {error}") from error
        return answer

    async def close(self) -> None:
        """Finishes what is under way and closes the file."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._reader.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        self._read_connection.close()
        self._write_connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # Two processes that open a new file together both want to switch it to WAL; the loser is told "locked" at once.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?), ('fence', 0)", (SCHEMA_VERSION,))
        (found,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        if found != SCHEMA_VERSION:
            raise UserError(f"the store was made by another version of Swath (schema {found}, not {SCHEMA_VERSION})")
        _forget_other_boots(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _forget_other_boots(connection: sqlite3.Connection) -> None:
    """After a restart of the machine the boot clock begins anew: every lease is over and every wait is due."""
    here = boot_id()
    row = connection.execute("SELECT value FROM meta WHERE key = 'boot'").fetchone()
    if row is not None and row[0] == here:
        return
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('boot', ?)", (here,))
    connection.execute("UPDATE leases SET expires = 0, renewed = 0")
    connection.execute("UPDATE items SET due = 0 WHERE (job_no, seq) IN (SELECT job_no, seq FROM waiting)")
    connection.execute("UPDATE waiting SET due = 0")


def boot_id() -> str:
    """Names this run of the machine; constant where the system has no such name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _translated(error: sqlite3.Error, path: Path) -> SwathError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreUnavailable(f"the store {path} is locked by another process")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StoreUnavailable(f"the disk under {path} is full or failing: {error}")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_NOTADB", "SQLITE_PERM")):
        return UserError(f"cannot use the store {path}: {error}; choose another folder with SWATH_DATA")
    return SwathError(f"the store {path} failed: {error}")
