"""Erases what SQLite leaves behind of deleted rows: copies in pages that other rows still use, and pages in the log.

`secure_delete` reaches neither. The whole file is rewritten for it in one transaction, so this is done rarely, and
never in a store that is larger than a transaction may be (decision 0028).
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from typing import Final

from swath.backends.sqlite.opening import empty_log, run_in_turn
from swath.backends.sqlite.transaction_limits import FRAME_BYTES, MAX_BYTES

__all__ = ["DeletedPageEraser", "note_deletion"]

_SECONDS: Final = 3.0  # in which those who read or write are to let go for a moment
_REST_TIMES: Final = 200.0  # as long as it took, until the next time
_SCRUBBED: Final = (
    "INSERT INTO meta VALUES ('scrubbed', ?) ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
)


def note_deletion(db: sqlite3.Connection) -> None:
    """The rows of a job are gone, and what is left of them is to go as well. Deletions are numbered."""
    db.execute("INSERT INTO meta VALUES ('scraps', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1")


class DeletedPageEraser:
    """One per process and file, on the thread that writes. Several processes may do it one after the other."""

    def __init__(self) -> None:
        self._rests_until = 0.0
        self._written_for = 0  # the last deletion for which the file was written anew; what is missing is the log
        self._put_off = False

    def scrub(self, db: sqlite3.Connection, *, last: bool = False) -> None:
        """Does it if there is something to do, unless it was done a short while ago or somebody is in the way: then a
        later call will. The `last` one, before the file is closed, does what was put off, and nothing for those who
        have only looked."""
        if last and not self._put_off:
            return
        if last:
            self._rests_until = 0.0
        with suppress(sqlite3.Error):  # a full disk, or a store that is never at rest
            scraps = _last_deletion(db)
            self._put_off = scraps is not None
            if scraps is None or not self._is_written_anew(db, scraps):
                return
            if empty_log(db):
                db.execute(_SCRUBBED, (scraps,))
                self._put_off = False

    def _is_written_anew(self, db: sqlite3.Connection, scraps: int) -> bool:
        if not _is_small(db):
            return True  # all that is done to it is to empty its log
        begun = time.monotonic()
        if scraps != self._written_for and begun >= self._rests_until:
            self._rests_until = begun + _SECONDS  # also if it fails
            db.execute("PRAGMA temp_store = FILE")  # all rows stand there for a while
            try:
                run_in_turn(db, "VACUUM", _SECONDS)
            finally:
                db.execute("PRAGMA temp_store = MEMORY")
            self._written_for, now = scraps, time.monotonic()
            self._rests_until = now + _REST_TIMES * (now - begun)
        return scraps == self._written_for


def _last_deletion(db: sqlite3.Connection) -> int | None:
    """The number of the last deletion; None when nothing has been deleted since the store was scrubbed."""
    told = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('scraps', 'scrubbed')").fetchall())
    last = int(told.get("scraps", 0))
    return last if last > told.get("scrubbed", 0) else None


def _is_small(db: sqlite3.Connection) -> bool:
    """Whether all of the file may be written by one transaction."""
    (pages,), (page_bytes,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    return bool(pages * (page_bytes + FRAME_BYTES) <= MAX_BYTES)
