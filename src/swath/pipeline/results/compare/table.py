"""The records of two jobs in a temporary SQLite file, read back in order of their keys."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput
from swath.pipeline.results.flatten import Value

__all__ = ["AskedItem", "CompareTable", "JobSide", "KeyMatch", "KeyedRecord", "UnkeyedRecord", "compare_table"]

_CACHE_KIB: Final = 32_768
_SCHEMA: Final = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = FILE",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
    "CREATE TABLE records (key TEXT, side INTEGER, item_id TEXT, number INTEGER, data BLOB, mark TEXT)",
    "CREATE TABLE unkeyed (side INTEGER, item_id TEXT, number INTEGER)",
    "CREATE TABLE asked (what TEXT, has_none INTEGER)",
    "BEGIN",
)
_SELECT_IN_ORDER: Final = "SELECT key, side, item_id, data, mark FROM records ORDER BY key, side, item_id, number"


class JobSide(IntEnum):
    """Which of the two jobs."""

    A = 0
    B = 1


class UnkeyedRecord(NamedTuple):
    """A record that lacks a part of the key."""

    side: JobSide
    item_id: str
    number: int


class KeyedRecord(NamedTuple):
    """A record with what of it is compared. `mark` is that of its item's input, if it is needed."""

    side: JobSide
    key: tuple[str, ...]
    item_id: str
    number: int
    data: Mapping[str, Value]
    mark: str | None = None


class AskedItem(NamedTuple):
    """An item of job B by what was known of it before the site was asked. `has_none`: the site says that there is no
    such record, instead of there being one, or nobody knowing."""

    what: tuple[str, ...]
    has_none: bool


class KeyMatch(NamedTuple):
    """All records of one key: how many there are of each job, and the first of each; `mark` is that of A's."""

    key: tuple[str, ...]
    counts: tuple[int, int]
    items: tuple[str | None, str | None]
    data: tuple[Mapping[str, Value], Mapping[str, Value]]
    mark: str | None = None


_FirstRecord = tuple[str, bytes, str | None]  # the item, data and mark of a record


class CompareTable:
    """All methods block. First everything is put in, then `close_intake`, then it can be read as often as needed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, keyed: Iterable[KeyedRecord], unkeyed: Iterable[UnkeyedRecord], asked: Iterable[AskedItem]) -> None:
        """Some records, and some of what job B was asked for."""
        rows = [
            (_text(one.key), one.side, one.item_id, one.number, msgspec.json.encode(one.data), one.mark)
            for one in keyed
        ]
        self._db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._db.executemany("INSERT INTO unkeyed VALUES (?, ?, ?)", unkeyed)
        self._db.executemany("INSERT INTO asked VALUES (?, ?)", [(_text(one.what), one.has_none) for one in asked])

    def close_intake(self) -> None:
        """Nothing more is put in."""
        self._db.execute("CREATE INDEX by_key ON records (key, side, item_id, number)")
        self._db.execute("CREATE INDEX by_what ON asked (what, has_none)")
        self._db.execute("COMMIT")

    def count(self, side: JobSide) -> tuple[int, int]:
        """How many records with a key, and without."""
        counts = [
            self._db.execute(f"SELECT count(*) FROM {table} WHERE side = ?", [side]).fetchone()[0]  # noqa: S608 two names
            for table in ("records", "unkeyed")
        ]
        return counts[0], counts[1]

    def has_none(self, what: tuple[str, ...]) -> bool | None:
        """Whether for each item of job B that asked for it the site has none; None if no item did."""
        query = "SELECT min(has_none) FROM asked WHERE what = ?"
        least = self._db.execute(query, [_text(what)]).fetchone()[0]
        return None if least is None else bool(least)

    def unkeyed(self) -> Iterator[UnkeyedRecord]:
        """Job A's first, by item."""
        for side, item_id, number in self._db.execute("SELECT * FROM unkeyed ORDER BY side, item_id, number"):
            yield UnkeyedRecord(JobSide(side), item_id, number)

    def meetings(self) -> Iterator[KeyMatch]:
        """In order of the keys."""
        key: str | None = None
        counts, first = [0, 0], list[_FirstRecord | None]((None, None))
        for found, side, item_id, data, mark in self._db.execute(_SELECT_IN_ORDER):
            if found != key:
                if key is not None:
                    yield _key_match(key, counts, first)
                key, counts, first = found, [0, 0], [None, None]
            counts[side] += 1
            first[side] = first[side] or (item_id, data, mark)
        if key is not None:
            yield _key_match(key, counts, first)


def _text(parts: tuple[str, ...]) -> str:
    return msgspec.json.encode(parts).decode()


def _key_match(key: str, counts: Sequence[int], first: Sequence[_FirstRecord | None]) -> KeyMatch:
    a, b = first
    return KeyMatch(
        tuple(msgspec.json.decode(key)),
        (counts[0], counts[1]),
        (a and a[0], b and b[0]),
        ({} if a is None else msgspec.json.decode(a[1]), {} if b is None else msgspec.json.decode(b[1])),
        a and a[2],
    )


@contextmanager
def compare_table() -> Iterator[CompareTable]:
    """An empty one, gone with all it holds at the end. Raises BadInput when there is no room for it."""
    with tempfile.TemporaryDirectory(prefix="swath-compare-") as folder:
        db = sqlite3.connect(Path(folder) / "records.db", isolation_level=None, check_same_thread=False)
        try:
            for statement in _SCHEMA:
                db.execute(statement)
            yield CompareTable(db)
        except sqlite3.OperationalError as error:
            told = f"the comparison cannot be made in {tempfile.gettempdir()}: {error}"
            raise BadInput(f"{told}; make room there, or let TMPDIR name another folder") from error
        finally:
            db.close()
