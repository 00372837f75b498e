"""Stores the last reading of this machine's clocks in one row, to detect jumps of the wall clock."""

from __future__ import annotations

import logging
import sqlite3
from typing import Final

import msgspec

from swath.domain.clock_watch import CLOCK_JUMP_MESSAGE, ClockReading, ClockWatch, observe

__all__ = ["needs_update", "peek", "update"]

_log = logging.getLogger("swath.clock")

_decoder: Final = msgspec.json.Decoder(ClockWatch)


def peek(db: sqlite3.Connection, reading: ClockReading) -> ClockWatch:
    """What would be remembered after this look at the clocks. Writes nothing."""
    return observe(_read(db), reading)


def needs_update(db: sqlite3.Connection, reading: ClockReading) -> bool:
    """Whether `look` would write."""
    former = _read(db)
    return observe(former, reading).worth_saving_after(former)


def update(db: sqlite3.Connection, reading: ClockReading) -> ClockWatch:
    """The same, and remembers it, as seldom as will do."""
    former = _read(db)
    watch = observe(former, reading)
    if watch.worth_saving_after(former):
        encoded = msgspec.json.encode(watch).decode()
        db.execute("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (encoded,))
    jumped = watch.jump_after(former)
    if jumped is not None:
        _log.warning(CLOCK_JUMP_MESSAGE, jumped)
    return watch


def _read(db: sqlite3.Connection) -> ClockWatch | None:
    row = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return None if row is None else _decoder.decode(row[0])
