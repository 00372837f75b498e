"""Runs transactions on the store's SQLite file, and keeps its log short.

One connection and one thread write, one of each reads; every change is one BEGIN IMMEDIATE transaction. Event loops
of
any thread may await `write` and `read`, so that heartbeats can live outside the worker's event loop.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec
import pydantic

from swath.backends.change_feed import ChangeBroadcaster
from swath.backends.sqlite.file_changes import ChangeCounter, ChangeWatcher, OpenFiles
from swath.backends.sqlite.opening import (
    BUSY_SECONDS,
    WAL_LIMIT_BYTES,
    empty_log,
    open_immutable,
    open_reader,
    open_writer,
    translate_error,
)
from swath.backends.sqlite.secure_delete import DeletedPageEraser
from swath.backends.sqlite.write_lock import LockWait
from swath.domain.errors import StoreDamaged

__all__ = ["Database"]

P = ParamSpec("P")
T = TypeVar("T")

_TEND_SECONDS: Final = 1.0
_OPEN_SECONDS: Final = 0.1  # that one attempt to open a locked file takes; LockWait says how often


class Database:
    """The connections with their threads."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        """Raises UserError for a file that is no store of ours, StoreUnavailable when not even reading is possible, and
        StoreReplaced when it is missing although it `must_exist`."""
        self.path = path
        self._files = OpenFiles(path, must_exist=must_exist)
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None
        self._glance_connection: sqlite3.Connection | None = None
        self._glancing = threading.Lock()
        self._pulse = ChangeCounter[bool](path.with_name(path.name + "-pulse"))
        self._tended = 0.0
        self._write_wait, self._read_wait = LockWait(), LockWait()  # one for each thread
        self._scrubber = DeletedPageEraser()
        try:
            self._write_connection = self._open_writer()
        except sqlite3.Error as error:  # what cannot be written now may still be read; the next change tries again
            try:
                with self._reading():
                    pass
            except (sqlite3.Error, OSError):
                raise translate_error(error, path) from error
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="swath-store-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="swath-store-read")
        self._lookout = ChangeWatcher(
            lambda: self._writer.submit(self._others_version).result(),
            lambda: self.bulletin.tell(None),
            self._others_version(),
        )
        self.bulletin = ChangeBroadcaster(self._lookout.start, self._lookout.stop)

    def _open_writer(self, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
        mode = self._files.mode
        return self._files.opened(lambda: open_writer(self.path, mode=mode, busy_seconds=busy_seconds))

    async def write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a change in one transaction: all of it is durable when this returns, or nothing happened."""
        return await self.write_news(_no_jobs, change, *args, **kwargs)

    async def write_news(
        self,
        jobs_of: Callable[[T], Collection[str]],
        change: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same, and who listens is told of the jobs that the answer names. That does not depend on whoever waits
        for the answer, and may have given up."""
        asked_at = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(
            self._writer, lambda: self._write_news(asked_at, jobs_of, change, *args, **kwargs)
        )

    def _write_news(
        self,
        asked_at: float,
        jobs_of: Callable[[T], Collection[str]],
        change: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        answer = self._write(asked_at, change, *args, **kwargs)
        self.bulletin.tell(jobs_of(answer))
        return answer

    def _write(
        self,
        asked_at: float,
        change: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        wait = self._write_wait
        with self._translating():
            if self._write_connection is None:
                self._write_connection = wait.take(lambda: self._open_writer(_OPEN_SECONDS), asked_at, BUSY_SECONDS)
        connection = self._write_connection

        def begin() -> None:
            wait.take(lambda: connection.execute("BEGIN IMMEDIATE"), asked_at, BUSY_SECONDS)

        answer = self._transact(connection, begin, change, *args, **kwargs)
        self._pulse.beat()
        self._tend(connection)
        return answer

    async def scrub(self) -> None:
        """Removes what is left of deleted rows, now or, if that was done a short while ago, after a later change."""
        await asyncio.get_running_loop().run_in_executor(self._writer, self._scrub)

    def _scrub(self) -> None:
        if self._write_connection is not None:
            self._scrubber.scrub(self._write_connection)

    async def read(
        self, question: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Answers from one consistent and short reading."""
        asked_at = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(
            self._reader, lambda: self._read(asked_at, question, *args, **kwargs)
        )

    def _read(
        self,
        asked_at: float,
        question: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with self._translating(), self._reading() as connection:

            def begin() -> None:
                self._read_wait.take(lambda: connection.execute("BEGIN"), asked_at, BUSY_SECONDS)

            return self._transact(connection, begin, question, *args, **kwargs)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._read_connection is None:
            try:
                self._read_connection = self._files.opened(lambda: open_reader(self.path))
            except sqlite3.OperationalError as error:
                try:
                    resting = open_immutable(self.path)
                except OSError:
                    raise error from None
                with closing(resting):
                    yield resting
                return
        yield self._read_connection

    def glance(self, query: str, values: tuple[int, ...]) -> bool:
        """Whether the query finds a row, read at once on the caller's thread; False if the store does not answer.

        Asked again and again, so what was found holds until the next commit of anybody.
        """
        with self._glancing:
            try:
                return self._pulse.recall(self._look, query, values)
            except sqlite3.Error:
                return False

    def _look(self, query: str, values: tuple[int, ...]) -> bool:
        if self._glance_connection is None:
            self._glance_connection = open_reader(self.path, busy_seconds=0)
        return self._glance_connection.execute(query, values).fetchone() is not None

    def _transact(
        self,
        connection: sqlite3.Connection,
        begin: Callable[[], None],
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with self._translating():
            begin()
            try:
                answer = work(connection, *args, **kwargs)
                self._files.check()  # a commit to a file that is not there any more would succeed, and be lost
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled back by itself, and a second one hides the cause
                    connection.execute("ROLLBACK")
                raise
        return answer

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._files.check()  # says more than what SQLite makes of a file that is gone
            raise translate_error(error, self.path) from error
        except (msgspec.MsgspecError, pydantic.ValidationError) as error:
            raise StoreDamaged(f"the store {self.path} holds a row that cannot be read: {error}") from error

    def _tend(self, connection: sqlite3.Connection) -> None:
        """Removes what is left of deleted rows, and empties the log when readers have kept SQLite from doing so by
        itself for long; they are let finish first."""
        if time.monotonic() - self._tended < _TEND_SECONDS:
            return
        self._tended = time.monotonic()
        with suppress(OSError):
            if self.path.with_name(self.path.name + "-wal").stat().st_size > WAL_LIMIT_BYTES:
                empty_log(connection)
        self._scrubber.scrub(connection)

    def _others_version(self) -> tuple[int, int] | None:
        """Other after every commit of another process, and of no other; None when it cannot be had now."""
        connection = self._write_connection
        if connection is None:
            return None
        try:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        return id(connection), version

    async def close(self) -> None:
        """Finishes what is under way and closes the file."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._lookout.stop()
        self._reader.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        if self._write_connection is not None:
            self._scrubber.scrub(self._write_connection, last=True)
        for connection in (self._glance_connection, self._read_connection, self._write_connection):
            if connection is not None:
                connection.close()
        with self._glancing:
            self._pulse.close()


def _no_jobs(_: object) -> Collection[str]:
    return ()
