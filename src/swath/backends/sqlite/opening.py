"""Opens the SQLite file of the store: creates and upgrades its tables, and translates SQLite's errors.

A healthy store is opened without writing a byte, so that it can be read on a full or read-only disk.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.backends.clock import boot_id
from swath.backends.private_files import make_private_file
from swath.backends.sqlite.schema import SCHEMA, SCHEMA_VERSION, UPGRADES
from swath.backends.sqlite.transaction_limits import PAGE_BYTES, first_piece, stored_bytes
from swath.backends.sqlite.write_lock import LockWait, lock_holder
from swath.domain.errors import StoreDamaged, StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor

__all__ = [
    "BUSY_SECONDS",
    "REPAIR_HINT",
    "WAL_LIMIT_BYTES",
    "empty_log",
    "open_immutable",
    "open_reader",
    "open_writer",
    "run_in_turn",
    "translate_error",
]

BUSY_SECONDS: Final = 3.0  # a status says within five that somebody waits
WAL_LIMIT_BYTES: Final = 16 * 1024 * 1024
EMPTY_BUSY_SECONDS: Final = 0.1
_BOOT_CLOCK_WEBHOOKS: Final = 6  # before this version they waited on the wall clock: now they are due at once
_ASK_SECONDS: Final = 0.003
_WAITS: Final = 1_000  # that one transaction looks at after a restart of the machine
CACHE_KIB: Final = 2 * 1024  # of each connection; the system's own cache does the rest, for all processes together

REPAIR_HINT: Final = (
    "stop every process that uses it, keep a copy of the folder, then put a backup in its place (back-up-and-move in "
    "the docs); `swath doctor` checks it"
)

_WaitKey = tuple[int, int, float, int]
"""The key of a row of `waiting`."""


def open_writer(path: Path, *, mode: str = "rwc", busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection to a store that has all its tables and knows this run of the machine; makes both so.

    A store of a former version is brought up to date, once and in one transaction.
    """
    connection = _connect(path, mode=mode, busy_seconds=busy_seconds)
    try:
        _use_wal(connection, busy_seconds)
        if not _is_prepared(connection):
            _prepare(connection)
        connection.execute("PRAGMA busy_timeout = 0")  # LockWait waits by itself, in a fairer way
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection that changes nothing. The store must be there."""
    return _check_opened(_connect(path, mode="rw", busy_seconds=busy_seconds))


def open_immutable(path: Path) -> sqlite3.Connection:
    """The same for a store that nobody has open, where SQLite cannot make the index that it keeps beside the file.

    There is no room, or no right to. Without a log the file alone is all there is, so it can be read as it lies; but
    only for a moment, since that index would be how to learn of changes. Raises FileExistsError when there is a log.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise FileExistsError(log)
    return _check_opened(_connect(path, mode="ro&immutable=1"))


def _check_opened(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute("PRAGMA query_only = ON")
        _check_version(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def empty_log(connection: sqlite3.Connection, busy_seconds: float = EMPTY_BUSY_SECONDS) -> bool:
    """Writes the whole log into the file and cuts it off, if those who read let go in that time; whether they did.

    Writing it into the file keeps no writer waiting; cutting it off does, so that comes when nothing else is left.
    """
    busy = 1
    with suppress(sqlite3.Error):
        deadline = time.monotonic() + busy_seconds
        while not _is_written_back(connection) and time.monotonic() < deadline:
            time.sleep(_ASK_SECONDS)
        connection.execute(f"PRAGMA busy_timeout = {min(busy_seconds, EMPTY_BUSY_SECONDS) * 1000:.0f}")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    return not busy


def _is_written_back(connection: sqlite3.Connection) -> bool:
    busy, in_log, in_file = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy and in_log == in_file


def run_in_turn(connection: sqlite3.Connection, statement: str, busy_seconds: float) -> None:
    """Waits for its turn among the processes that write."""
    LockWait().take(lambda: connection.execute(statement), time.monotonic(), busy_seconds)


def _connect(path: Path, *, mode: str = "rwc", busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    if mode == "rwc":
        make_private_file(path)  # SQLite gives its log and its index the mode of the file
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = FAST")  # what is deleted is overwritten where that costs no writing
    return connection


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # Two processes that open a new file together both want to switch it to WAL; the loser is told "locked" at once.
    deadline = time.monotonic() + busy_seconds
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _is_prepared(connection: sqlite3.Connection) -> bool:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'shares'").fetchone() is None:  # of every version
        return False
    if _version_of(connection) in UPGRADES:
        return False
    _check_version(connection)
    return _boot_of(connection) == boot_id()


def _version_of(connection: sqlite3.Connection) -> int:
    """Raises UserError for a file that does not say so, which is no store or only a part of one."""
    row = None
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone():
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    try:
        return int(row[0])  # type: ignore[index]  # a row that is missing is one of the errors
    except (TypeError, ValueError):
        (path,) = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
        raise UserError(
            f"{path} is no store of Swath, or a damaged one: it has no row `schema` in its table `meta`; put a backup "
            "in its place, or choose another folder with SWATH_DATA"
        ) from None


def _check_version(connection: sqlite3.Connection) -> None:
    found = _version_of(connection)
    if found in UPGRADES:
        raise UserError(f"the store is of a former version of Swath (schema {found}) and cannot be brought up to date")
    if found != SCHEMA_VERSION:
        raise UserError(f"the store was made by another version of Swath (schema {found}, not {SCHEMA_VERSION})")


def _prepare(connection: sqlite3.Connection) -> None:
    while _waits_by_wall_clock(connection):  # in pieces; what is added meanwhile is little
        with _transaction(connection):
            _make_webhooks_due(connection)
    with _transaction(connection):
        former = _upgrade(connection)
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(
            "INSERT OR IGNORE INTO meta VALUES ('schema', ?), ('fence', 0), ('granted', 0)", (SCHEMA_VERSION,)
        )
        _check_version(connection)
        if former < _BOOT_CLOCK_WEBHOOKS:
            connection.execute("UPDATE webhooks SET due_at = 0 WHERE due_at > 0")
    _forget_other_boots(connection)


def _waits_by_wall_clock(connection: sqlite3.Connection) -> bool:
    """Whether there are webhooks that a former version has put off."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'webhooks_due'").fetchone() is None:
        return False
    if _version_of(connection) >= _BOOT_CLOCK_WEBHOOKS:
        return False
    return connection.execute("SELECT 1 FROM webhooks WHERE due_at > 0 LIMIT 1").fetchone() is not None


def _make_webhooks_due(connection: sqlite3.Connection) -> int:
    """Makes the next webhooks due that wait, as many as one transaction may. Answers with how many that were."""
    rows = connection.execute(
        "SELECT job_no, generation, length(summary) + length(deliveries) FROM webhooks INDEXED BY webhooks_due "
        "WHERE due_at > 0 LIMIT ?",
        (_WAITS,),
    ).fetchall()
    due = rows[: first_piece((2, 3 * PAGE_BYTES + stored_bytes(size)) for *_, size in rows)]
    connection.executemany(
        "UPDATE webhooks SET due_at = 0 WHERE job_no = ? AND generation = ?", [key for *key, _ in due]
    )
    return len(due)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _upgrade(connection: sqlite3.Connection) -> int:
    """Answers which version it was; a new store is of the present one."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return SCHEMA_VERSION
    former = _version_of(connection)
    while (found := _version_of(connection)) in UPGRADES:
        for statement in UPGRADES[found]:
            connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (found + 1,))
    return former


def _forget_other_boots(connection: sqlite3.Connection) -> None:
    """After a restart of the machine the boot clock begins anew: every lease is over and every wait is due.

    In pieces. Only the last one says that it is done, and nobody has the store open for work before that.
    """
    after: _WaitKey | None = (0, 0, 0.0, 0)
    while after is not None:
        with _transaction(connection):
            after = None if _boot_of(connection) == boot_id() else _forget_waits(connection, after)


def _forget_waits(connection: sqlite3.Connection, after: _WaitKey) -> _WaitKey | None:
    """Makes the next items due that wait, and then webhooks, as many as one transaction may. Answers with the last of
    the items; None when all are due."""
    rows = connection.execute(
        "SELECT w.job_no, w.rank, w.due, w.seq, length(i.input) FROM waiting AS w "
        "JOIN items AS i ON i.job_no = w.job_no AND i.seq = w.seq "
        "WHERE (w.job_no, w.rank, w.due, w.seq) > (?, ?, ?, ?) AND w.due > 0 "
        "ORDER BY w.job_no, w.rank, w.due, w.seq LIMIT ?",
        (*after, _WAITS),
    ).fetchall()
    if not rows and _make_webhooks_due(connection):
        return after
    if not rows:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('boot', ?)", (boot_id(),))
        connection.execute("UPDATE leases SET expires = 0, renewed = 0")
        connection.execute("UPDATE endings SET due = 0 WHERE due > 0")
        return None
    due = rows[: first_piece((2, 3 * PAGE_BYTES + stored_bytes(size)) for *_, size in rows)]
    connection.executemany(
        "UPDATE items SET due = 0 WHERE job_no = ? AND seq = ?", [(job_no, seq) for job_no, _, _, seq, _ in due]
    )
    connection.executemany(
        "UPDATE waiting SET due = 0 WHERE job_no = ? AND rank = ? AND due = ? AND seq = ?", [key for *key, _ in due]
    )
    job_no, rank, when, seq, _ = due[-1]
    return job_no, rank, when, seq


def _boot_of(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'boot'").fetchone()
    return None if row is None else str(row[0])


def _locked_error(path: Path) -> StoreUnavailable:
    holder = lock_holder(path)
    who = "another process" if holder is None else str(holder)
    remedy = f"; {holder.remedy}" if holder is not None and holder.stopped else ""
    return StoreUnavailable(
        f"the store {path} is locked by {who}{remedy}", WaitingFor.STORE, f"the store is locked by {who}"
    )


def translate_error(error: sqlite3.Error, path: Path) -> SwathError:
    """What an error of SQLite means to others."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
        return _locked_error(path)
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        why = f"is full or failing: {error}"
        return StoreUnavailable(f"the disk under {path} {why}", WaitingFor.DISK, f"the disk of the store {why}")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreDamaged(f"the store {path} is damaged or no store of Swath ({error}); {REPAIR_HINT}")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        reason = error if os.access(path.parent, os.W_OK) else "its folder is read-only"
        return UserError(f"cannot use the store {path}: {reason}; choose another folder with SWATH_DATA")
    return SwathError(f"the store {path} failed: {error}")
