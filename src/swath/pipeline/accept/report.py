"""What became of the rows of a load: counts, the first troubles with their lines, and whether they stop it.

Filled by load.py batch by batch; memory stays flat, whatever the file holds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.errors import BadInput
from swath.domain.explain import shown
from swath.domain.job import JobStatus
from swath.pipeline.accept.batches import CheckedBatch
from swath.pipeline.accept.rows import BadRow
from swath.ports.job_store import Duplicate, Loaded

__all__ = ["KEPT", "DuplicateRow", "LoadOptions", "LoadReport", "OnBadRows", "OnDuplicates", "RowsRefused", "Tally"]

KEPT: Final = 20  # troubles of each sort that are told one by one
_IRREGULAR_LIMIT: Final = 1 << 20  # lines remembered one by one, 8 bytes each


class OnBadRows(StrEnum):
    """What a row that cannot be used does to the load."""

    REFUSE = "refuse"
    SKIP = "skip"


class OnDuplicates(StrEnum):
    """What a row with the item id of an earlier one does to the load."""

    REFUSE = "refuse"
    KEEP_FIRST = "keep_first"

    @classmethod
    def _missing_(cls, value: object) -> OnDuplicates | None:
        """Options of a command are spelled with hyphens; both mean the same everywhere."""
        return cls.KEEP_FIRST if value == "keep-first" else None


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the person wants done about bad rows."""

    on_bad_rows: OnBadRows = OnBadRows.REFUSE
    on_duplicates: OnDuplicates = OnDuplicates.REFUSE


class DuplicateRow(msgspec.Struct, frozen=True):
    """A row that repeats an item id. Places are ready to be read: "line 7", or "row 6" where the line is not known."""

    place: str
    item_id: str
    first_place: str

    def __str__(self) -> str:
        return f"{self.place}: the item id {shown(self.item_id)} is on {self.first_place} already"


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a whole load and the first troubles of each sort. `status` is None if it was refused."""

    source: str
    rows: int
    items: int
    bad_rows: int
    duplicates: int
    first_bad_rows: tuple[BadRow, ...] = ()
    first_duplicates: tuple[DuplicateRow, ...] = ()
    status: JobStatus | None = None

    def lines(self) -> list[str]:
        """One line for each trouble, for people."""
        lines = [str(bad) for bad in self.first_bad_rows]
        if self.bad_rows > len(self.first_bad_rows):
            lines.append(f"… and {self.bad_rows - len(self.first_bad_rows):,} more rows that cannot be used")
        lines += [str(duplicate) for duplicate in self.first_duplicates]
        if self.duplicates > len(self.first_duplicates):
            lines.append(f"… and {self.duplicates - len(self.first_duplicates):,} more duplicates")
        return lines


class RowsRefused(BadInput):
    """Rows of a source cannot be used, and nothing was begun. `report` has the details."""

    def __init__(self, message: str, report: LoadReport) -> None:
        super().__init__(message)
        self.report = report


class Tally:
    """Sums up a load as its batches go by. `kept` troubles of each sort are told one by one."""

    def __init__(self, source: str, kept: int = KEPT) -> None:
        self._source = source
        self._kept = kept
        self.rows = 0
        self.batches = 0
        self._items = 0
        self._bad_rows = 0
        self._duplicates = 0
        self._first_bad_rows: list[BadRow] = []
        self._first_duplicates: list[DuplicateRow] = []
        self._places = _Places()

    def add(self, checked: CheckedBatch, loaded: Loaded) -> None:
        """Counts one batch and what the store made of it."""
        self.batches += 1
        self.rows += checked.batch.rows
        self._items += loaded.added
        self._bad_rows += len(checked.bad)
        self._duplicates += len(loaded.duplicates)
        self._places.add(checked.batch.first_row, checked.lines)
        self._first_bad_rows += checked.bad[: self._kept - len(self._first_bad_rows)]
        self._first_duplicates += map(self._placed, loaded.duplicates[: self._kept - len(self._first_duplicates)])

    @property
    def last_place(self) -> str:
        """Where the last row stands."""
        return self._places.of(self.rows)

    def _placed(self, duplicate: Duplicate) -> DuplicateRow:
        return DuplicateRow(self._places.of(duplicate.seq), duplicate.item_id, self._places.of(duplicate.first_seq))

    def report(self, status: JobStatus | None = None) -> LoadReport:
        """The sums so far."""
        return LoadReport(
            source=self._source,
            rows=self.rows,
            items=self._items,
            bad_rows=self._bad_rows,
            duplicates=self._duplicates,
            first_bad_rows=tuple(self._first_bad_rows),
            first_duplicates=tuple(self._first_duplicates),
            status=status,
        )

    def refuse(self, options: LoadOptions) -> None:
        """Raises RowsRefused if there is trouble that the options do not put up with."""
        complaints = []
        if self._bad_rows and options.on_bad_rows is OnBadRows.REFUSE:
            complaints.append(
                f"{self._bad_rows:,} of {self.rows:,} rows cannot be used, first {self._first_bad_rows[0]}; "
                "correct the file, or leave them out with --bad-rows skip"
            )
        elif self._bad_rows == self.rows:
            complaints.append(f"none of {self.rows:,} rows can be used, first {self._first_bad_rows[0]}")
        if self._duplicates and options.on_duplicates is OnDuplicates.REFUSE:
            complaints.append(
                f"{self._duplicates:,} of {self.rows:,} rows repeat an item id, first {self._first_duplicates[0]}; "
                "remove them, or keep the first of each with --duplicates keep-first"
            )
        if complaints:
            raise RowsRefused(f"{self._source}: {'; and '.join(complaints)}", self.report())


class _Places:
    """Where rows stand in the file. Most files advance evenly, and then a batch costs three numbers."""

    def __init__(self) -> None:
        self._first_rows: list[int] = []
        self._lines: list[range | array[int] | None] = []
        self._irregular = 0

    def add(self, first_row: int, lines: Sequence[int]) -> None:
        step = max(lines[1] - lines[0], 1) if len(lines) > 1 else 1
        even = range(lines[0], lines[0] + step * len(lines), step)
        self._first_rows.append(first_row)
        if tuple(even) == tuple(lines):
            self._lines.append(even)
        elif self._irregular < _IRREGULAR_LIMIT:
            self._irregular += len(lines)
            self._lines.append(array("Q", lines))
        else:
            self._lines.append(None)

    def of(self, row: int) -> str:
        at = bisect_right(self._first_rows, row) - 1
        lines = self._lines[at] if at >= 0 else None
        offset = row - self._first_rows[at]
        return f"line {lines[offset]}" if lines is not None and offset < len(lines) else f"row {row}"
