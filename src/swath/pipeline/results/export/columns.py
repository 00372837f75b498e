"""Finds the columns of a table of records, their order and their types, in a first pass that holds only names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from swath.domain.errors import BadInput, Conflict
from swath.pipeline.results.flatten import PROVENANCE_PREFIX, Scalar, cell_text, flatten
from swath.pipeline.results.records import RecordRow

__all__ = ["MOST_COLUMNS", "ColumnSurvey", "ColumnType", "Columns", "distinct"]

MOST_COLUMNS: Final = 2_000  # what SQLite can hold, and more than any spreadsheet is read with

_INT64: Final = 1 << 63
_EXACT: Final = 1 << 53  # up to here a float is the same number


class ColumnType(StrEnum):
    """What a column holds beside nothing."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"


# What a column was seen to hold; _LONG is an integer that no float can hold.
_BOOL, _INT, _LONG, _FLOAT, _TEXT = 1, 2, 4, 8, 16
_FLAG_OF_TYPE: Final = {type(None): 0, str: _TEXT, bool: _BOOL, float: _FLOAT}
_TYPE_OF_FLAGS: Final = {
    _BOOL: ColumnType.BOOL,
    _INT: ColumnType.INT,
    _LONG: ColumnType.INT,
    _INT | _LONG: ColumnType.INT,
    _FLOAT: ColumnType.FLOAT,
    _FLOAT | _INT: ColumnType.FLOAT,
}
_PROVENANCE: Final = {
    "job_id": ColumnType.TEXT,
    "version": ColumnType.INT,
    "item_id": ColumnType.TEXT,
    "seq": ColumnType.INT,
    "number": ColumnType.INT,
    "state": ColumnType.TEXT,
    "outcome": ColumnType.TEXT,
    "failure": ColumnType.TEXT,
    "page_url": ColumnType.TEXT,
    "page_sha256": ColumnType.TEXT,
    "fetched_at": ColumnType.TEXT,
    "scraper_id": ColumnType.TEXT,
    "scraper_version": ColumnType.TEXT,
    "proxy_tier": ColumnType.TEXT,
    "generation": ColumnType.INT,
}
_INPUT: Final = f"{PROVENANCE_PREFIX}input"
_PAGE_FIELDS: Final = {"page_url": "url", "page_sha256": "sha256", "fetched_at": "fetched_at"}


class Columns:
    """The columns of one export, and of which items the first pass saw a record: a bit for each `seq`."""

    def __init__(self, kinds: Mapping[str, ColumnType], with_record: bytes) -> None:
        self.kinds = kinds
        self._with_record = with_record
        self._known = kinds.keys()
        self._converters = [_CONVERTERS[kind] for kind in kinds.values()]

    def cells(self, row: RecordRow) -> list[Any]:
        """The values of a row in the order of the columns, each of its column's kind or None. Raises Conflict."""
        try:
            return [
                None if value is None else convert(value)
                for convert, value in zip(self._converters, self.values(row), strict=True)
            ]
        except TypeError:
            raise _changed_error(row) from None

    def values(self, row: RecordRow) -> list[Scalar]:
        """The same, but each as it is in the record, for formats that have no types. Raises Conflict."""
        cells = _cells(row, with_record=row.has_data and self._had_record(row.item.record.seq))
        if not cells.keys() <= self._known:
            raise _changed_error(row)
        return list(map(cells.get, self.kinds))

    def takes(self, row: RecordRow) -> bool:
        """Whether the first pass could see it: what came to its end since has columns that nobody knows of."""
        return not row.has_data or self._had_record(row.item.record.seq)

    def _had_record(self, seq: int) -> bool:
        at, bit = divmod(seq, 8)
        return at < len(self._with_record) and bool(self._with_record[at] >> bit & 1)


class ColumnSurvey:
    """Takes every row once."""

    def __init__(self) -> None:
        self._records: dict[str, int] = {}
        self._inputs: dict[str, int] = {}
        self._with_record = bytearray()

    def add(self, row: RecordRow) -> None:
        """Raises BadInput when there are too many columns."""
        if row.has_data:
            _note_types(self._records, flatten(row.data))
            at, bit = divmod(row.item.record.seq, 8)
            if at >= len(self._with_record):
                self._with_record.extend(bytes(at + 1 - len(self._with_record)))
            self._with_record[at] |= 1 << bit
        _note_types(self._inputs, flatten(row.item.first.input, _INPUT))
        if len(self._records) + len(self._inputs) + len(_PROVENANCE) > MOST_COLUMNS:
            raise BadInput(f"the records have more than {MOST_COLUMNS:,} different fields; export them as jsonl")

    def columns(self) -> Columns:
        """Those of the records in order of first appearance, then provenance, then the input."""
        kinds = dict(_column_types(self._records))
        kinds |= {PROVENANCE_PREFIX + name: kind for name, kind in _PROVENANCE.items()}
        kinds |= dict(_column_types(self._inputs))
        return Columns(kinds, bytes(self._with_record))


def distinct(names: Iterable[str], alike: Callable[[str], str] = str) -> list[str]:
    """For formats in which columns may come to the same name, or to `alike` ones: a later one gets a number."""
    taken: dict[str, str] = {}
    for name in names:
        chosen, number = name, 1
        while alike(chosen) in taken:
            number += 1
            chosen = f"{name}_{number}"
        taken[alike(chosen)] = chosen
    return list(taken.values())


def _column_types(seen: Mapping[str, int]) -> Iterator[tuple[str, ColumnType]]:
    return ((name, _TYPE_OF_FLAGS.get(flags, ColumnType.TEXT)) for name, flags in seen.items())


def _note_types(seen: dict[str, int], cells: Mapping[str, Scalar]) -> None:
    for name, value in cells.items():
        seen[name] = seen.get(name, 0) | _flag(value)


def _flag(value: Scalar) -> int:
    flag = _FLAG_OF_TYPE.get(type(value))
    if flag is not None or not isinstance(value, int):
        return flag or 0
    if -_EXACT <= value <= _EXACT:
        return _INT
    return _LONG if -_INT64 <= value < _INT64 else _TEXT


def _cells(row: RecordRow, *, with_record: bool) -> dict[str, Scalar]:
    cells = flatten(row.data) if with_record else {}
    told = row.provenance
    input_, pages = told.pop("input"), told.pop("pages")
    for name, value in told.items():
        cells[PROVENANCE_PREFIX + name] = value
    for name, of_page in _PAGE_FIELDS.items():
        cells[PROVENANCE_PREFIX + name] = " ".join([page[of_page] for page in pages]) or None
    cells.update(flatten(input_, _INPUT))
    return cells


def _bool(value: Scalar) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError


def _int(value: Scalar) -> int:
    if isinstance(value, int):
        return value
    raise TypeError


def _float(value: Scalar) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise TypeError


_CONVERTERS: Final[Mapping[ColumnType, Callable[[Scalar], Scalar]]] = {
    ColumnType.BOOL: _bool,
    ColumnType.INT: _int,
    ColumnType.FLOAT: _float,
    ColumnType.TEXT: cell_text,
}


def _changed_error(row: RecordRow) -> Conflict:
    told = f"item {row.item.record.item_id!r} of job {row.item.job.job_id!r} changed while it was exported"
    return Conflict(f"{told}; export the job again")
