"""Inspects a store without taking part in it: creates no file, takes no lock, changes nothing.

For `swath doctor` and for shell completion, which must work when the store itself cannot be opened.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.sqlite.sites.site_file import SITES_FILE
from swath.backends.sqlite.write_lock import lock_holder

__all__ = [
    "BlockingProcess",
    "StoreCheck",
    "check_store",
    "dead_workers",
    "job_ids",
    "sites_blocker",
    "sqlite_version",
    "store_blocker",
    "store_file",
]

_HELD_SECONDS: Final = 1.0  # a transaction of ours is shorter
_LOOK_SECONDS: Final = 0.05
_BUSY_SECONDS: Final = 1.0
_INTERRUPT_SECONDS: Final = 0.01


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `complaint` is the first thing that is wrong; `checked_whole` says if all of it was read.

    `read_only`: it can only be read as it lies, because nothing can be written beside it.
    """

    file_bytes: int
    log_bytes: int
    journal_mode: str = ""
    complaint: str | None = None
    checked_whole: bool = False
    read_only: bool = False


class BlockingProcess(msgspec.Struct, frozen=True):
    """A process that keeps all others from writing to a file: `told` says so, `remedy` is what can be done."""

    told: str
    remedy: str
    stopped: bool


def store_blocker(folder: Path) -> BlockingProcess | None:
    """Who keeps the store locked: a process that is stopped, or one that holds it for longer than a second."""
    return _blocker(store_file(folder))


def sites_blocker(folder: Path) -> BlockingProcess | None:
    """The same of the site book."""
    return _blocker(folder / SITES_FILE)


def _blocker(file: Path) -> BlockingProcess | None:
    holder = lock_holder(file)
    deadline = time.monotonic() + _HELD_SECONDS
    while holder is not None and not holder.stopped:
        if time.monotonic() > deadline:
            remedy = "see what it does, and end it if it hangs: nobody else can write meanwhile"
            return BlockingProcess(
                f"{file} is locked for more than {_HELD_SECONDS:g} s by {holder}", remedy, stopped=False
            )
        time.sleep(_LOOK_SECONDS)
        again = lock_holder(file)
        holder = again if again is not None and again.pid == holder.pid else None
    if holder is None:
        return None
    return BlockingProcess(f"{file} is locked by {holder}, so nobody else can write", holder.remedy, stopped=True)


def sqlite_version() -> str:
    """Of the library in use."""
    return sqlite3.sqlite_version


def store_file(folder: Path) -> Path:
    """Where the store of a data folder is, or would be."""
    return folder / "swath.db"


def check_store(folder: Path, seconds: float) -> StoreCheck | None:
    """Checks the file for at most so long; None when there is none."""
    file = store_file(folder)
    if not file.exists():
        return None
    log = file.with_name(file.name + "-wal")
    exam = StoreCheck(file_bytes=file.stat().st_size, log_bytes=log.stat().st_size if log.exists() else 0)
    found = _check(exam, _connect(file), seconds)
    if found.complaint is not None and not os.access(folder, os.W_OK):  # SQLite can make no index of the log beside it
        exam = msgspec.structs.replace(exam, read_only=True)
        return _check(exam, _connect(file, "ro&immutable=1"), seconds)
    return found


def _check(exam: StoreCheck, connection: sqlite3.Connection, seconds: float) -> StoreCheck:
    try:
        with closing(connection) as db:
            (mode,) = db.execute("PRAGMA journal_mode").fetchone()
            exam = msgspec.structs.replace(exam, journal_mode=mode)
            with _interrupt_after(db, seconds):
                (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
            complaint = None if answer == "ok" else str(answer)
            return msgspec.structs.replace(exam, complaint=complaint, checked_whole=True)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            return exam
        return msgspec.structs.replace(exam, complaint=str(error))


@contextmanager
def _interrupt_after(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """A check's steps are too long for a progress handler, so its end comes from another thread."""
    over = threading.Event()

    def interrupt() -> None:
        over.wait(seconds)
        while not over.is_set():  # again and again: one that comes before the check has begun is lost
            db.interrupt()
            over.wait(_INTERRUPT_SECONDS)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def job_ids(folder: Path, prefix: str, limit: int = 100) -> list[str]:
    """The newest jobs whose id begins so; none when the store does not answer."""
    file = store_file(folder)
    if not file.exists():
        return []
    query = "SELECT job_id FROM jobs WHERE substr(job_id, 1, ?) = ? ORDER BY job_no DESC LIMIT ?"
    try:
        with closing(_connect(file)) as db:
            return [job_id for (job_id,) in db.execute(query, (len(prefix), prefix, limit))]
    except (sqlite3.Error, UnicodeEncodeError):
        return []


def _connect(file: Path, mode: str = "ro") -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True, timeout=_BUSY_SECONDS)


def dead_workers(folder: Path) -> list[str]:
    """Workers whose process is gone and whose file is still there."""
    return sorted(path.stem for path in (folder / "workers").glob("*.lock") if _is_free(path))


def _is_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
