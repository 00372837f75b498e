"""What the SQLite store remembers of the clocks, in one row. Each function runs inside one transaction.

The rules are in domain/clock_watch.py.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import Final

import msgspec

from swath.domain.clock_watch import JUMPED, ClockReading, ClockWatch, observe

__all__ = ["glance", "is_worth_a_look", "look"]

_log = logging.getLogger("swath.clock")

_decoder: Final = msgspec.json.Decoder(ClockWatch)


def glance(db: sqlite3.Connection, reading: ClockReading) -> ClockWatch:
    """What would be remembered after this look at the clocks. Writes nothing."""
    return observe(_saved(db), reading)


def is_worth_a_look(db: sqlite3.Connection, reading: ClockReading) -> bool:
    """Whether `look` would write."""
    former = _saved(db)
    return observe(former, reading).worth_saving_after(former)


def look(db: sqlite3.Connection, reading: ClockReading) -> ClockWatch:
    """The same, and remembers it, as seldom as will do."""
    former = _saved(db)
    watch = observe(former, reading)
    if watch.worth_saving_after(former):
        encoded = msgspec.json.encode(watch).decode()
        db.execute("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (encoded,))
    jumped = watch.jump_after(former)
    if jumped is not None:
        _log.warning(JUMPED, jumped)
    return watch


def _saved(db: sqlite3.Connection) -> ClockWatch | None:
    row = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return None if row is None else _decoder.decode(row[0])
