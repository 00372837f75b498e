"""Loads the rows of a source as the items of a job, at once or over a connection, and reports bad and duplicate rows.

An interrupted load starts again from the first row: batches that the store has are recognised by their digests, and
other content is a Conflict.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState
from swath.domain.validation_messages import display_value
from swath.observability.crash_points import reach
from swath.pipeline.ingest.sources.file_and_stream import ReadAhead
from swath.pipeline.ingest.sources.rows import BadRow, RowSource
from swath.pipeline.ingest.validate import CheckedBatch, RowChecker, checked_batches
from swath.ports.job_store import BatchResult, DuplicateItem, JobStore, LoadStart

__all__ = [
    "KEPT_PROBLEMS",
    "KEPT_STREAM_PROBLEMS",
    "DuplicateRow",
    "LoadOptions",
    "LoadReport",
    "LoadTotals",
    "OnBadRows",
    "OnDuplicates",
    "RowsRefused",
    "fields_before",
    "find_start",
    "load",
    "load_batch",
    "load_stream",
]

KEPT_PROBLEMS: Final = 20  # troubles of each sort that are told one by one
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
        return f"{self.place}: the item id {display_value(self.item_id)} is on {self.first_place} already"


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


class LoadTotals:
    """Sums up a load as its batches go by. `kept` troubles of each sort are told one by one."""

    def __init__(self, source: str, kept: int = KEPT_PROBLEMS) -> None:
        self._source = source
        self._kept = kept
        self.rows = 0
        self.batches = 0
        self._items = 0
        self._bad_rows = 0
        self._duplicates = 0
        self._first_bad_rows: list[BadRow] = []
        self._first_duplicates: list[DuplicateRow] = []
        self._places = _LineNumbers()

    def add(self, checked: CheckedBatch, loaded: BatchResult) -> None:
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

    def _placed(self, duplicate: DuplicateItem) -> DuplicateRow:
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


class _LineNumbers:
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


_STRICT = LoadOptions()
_OTHER_JOB_HINT = "give another job id"


def _no_progress(rows: int) -> None:
    """Reports progress to nobody."""


async def _no_objection(job: Job) -> None:
    """Every job will do."""


async def load(
    store: JobStore,
    job: Job,
    rows: RowSource,
    checker: RowChecker,
    options: LoadOptions = _STRICT,
    progress: Callable[[int], None] = _no_progress,
    vet: Callable[[Job], Awaitable[None]] = _no_objection,
) -> LoadReport:
    """Submits the job, loads and seals it. `progress` hears how many rows have been read so far.

    `vet` sees the job when its items are stored, and may raise BadInput to refuse it as a whole.

    A job that was sealed before is compared with the source batch by batch and returned as it stands. Raises BadInput
    (RowsRefused, with a report, for troubles of single rows), after which a job that was loading is gone; Conflict if
    the job exists with another order or other rows. Killed or cancelled at any point, it can be called again.
    """
    tally = LoadTotals(rows.name)
    status: JobStatus | None = None
    try:
        async with ReadAhead(lambda: checked_batches(rows, checker)) as batches:
            async for checked in batches:
                if status is None:  # only now: trouble with the file as a whole shows before there is a job
                    status = await store.submit(job)
                    reach("after_submit")
                tally.add(checked, await load_batch(store, job.job_id, checked))
                reach("after_load_batch")
                progress(tally.rows)
        tally.refuse(options)
        if status is not None and status.state is JobState.LOADING:
            await vet(job)
    except BadInput:
        if status is not None and status.state is JobState.LOADING:
            await store.abandon(job.job_id)
        raise
    reach("before_seal")
    return tally.report(await _seal(store, job.job_id, tally))


async def load_batch(store: JobStore, job_id: str, checked: CheckedBatch, remedy: str = _OTHER_JOB_HINT) -> BatchResult:
    """Stores one batch. The store knows rows; a person looks for the line, and a Conflict names it with the remedy."""
    try:
        return await store.load(job_id, checked.batch)
    except Conflict as conflict:
        at = -1 if conflict.row is None else conflict.row - checked.batch.first_row
        if at < 0:
            raise
        ended = at >= len(checked.lines)  # a batch that is shorter than it was is the last of its file
        place = f"the file ends on line {checked.lines[-1]}" if ended else f"line {checked.lines[at]}"
        raise Conflict(f"{conflict} ({place}); {remedy}", conflict.row) from conflict


async def _seal(store: JobStore, job_id: str, tally: LoadTotals) -> JobStatus:
    try:
        return await store.seal(job_id, tally.batches)
    except Conflict as conflict:
        if conflict.row is None:
            raise
        raise Conflict(f"{conflict} ({tally.last_place}); {_OTHER_JOB_HINT}", conflict.row) from conflict


KEPT_STREAM_PROBLEMS: Final = 100  # troubles of each sort that are told one by one
MAX_ROWS_SEARCHED: Final = 100
_CONFLICT_HINT: Final = (
    "send the same rows from the start, go on behind those that are loaded (offset), "
    "or add others under an Idempotency-Key of their own"
)


async def find_start(store: JobStore, job_id: str, key: str | None = None, offset: int | None = None) -> LoadStart:
    """Where the rows that come belong: behind `offset` rows, where the load under `key` began, or at the first row.

    Raises Conflict, with the first missing row, when other than `offset` rows are loaded.
    """
    if key is not None and offset is not None:
        raise BadInput("give an Idempotency-Key or an offset, not both")
    if key is not None:
        return await store.begin_load(job_id, key)
    if offset is None:
        return LoadStart(number=0, rows=0)
    status = await store.status(job_id)
    if offset != status.loaded_rows:
        told = f"job {job_id!r} has {status.loaded_rows:,} rows, not {offset:,}; send those behind them"
        raise Conflict(told, status.loaded_rows + 1)
    return LoadStart(number=status.loaded_batches, rows=status.loaded_rows)


async def fields_before(store: JobStore, job_id: str, start: LoadStart) -> frozenset[str]:
    """The names of the fields that the rows before have, from the last of them that are items: by them the rest of a
    table is told that comes without its header, whose first row would be taken for one and be lost."""
    last = await store.items(job_id, max(0, start.rows - MAX_ROWS_SEARCHED), MAX_ROWS_SEARCHED)
    return frozenset(name for record in last or await store.items(job_id, limit=1) for name in record.input)


async def load_stream(
    store: JobStore, job_id: str, rows: RowSource, checker: RowChecker, start: LoadStart, options: LoadOptions
) -> LoadReport:
    """Stores the rows batch by batch. Cancelled at any point, it can be called again.

    Raises BadInput where the source cannot be read on, and RowsRefused, with a report, for rows that the options do
    not put up with: nothing is stored from the first batch on that has a bad row, and nothing behind the first batch
    that has a duplicate.
    """
    tally = LoadTotals(rows.name, KEPT_STREAM_PROBLEMS)
    async with ReadAhead(lambda: checked_batches(rows, checker, start)) as batches:
        async for checked in batches:
            if checked.bad and options.on_bad_rows is OnBadRows.REFUSE:
                tally.add(checked, BatchResult(0))
                raise RowsRefused(f"{rows.name}: {checked.bad[0]}", tally.report())
            loaded = await load_batch(store, job_id, checked, _CONFLICT_HINT)
            reach("after_load_batch")
            tally.add(checked, loaded)
            if loaded.duplicates and options.on_duplicates is OnDuplicates.REFUSE:
                report = tally.report()
                raise RowsRefused(f"{rows.name}: {report.first_duplicates[0]}", report)
    return tally.report()
