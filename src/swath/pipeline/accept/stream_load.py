"""Loads what comes in over a connection into a job that is `loading` (J2). Before: streams.py. After: the job is sealed
by `start`; until then further loads may add to it.

What was stored stays, whatever becomes of the connection: the same rows again go on behind the last whole batch.
"""

from __future__ import annotations

from typing import Final

from swath.domain.errors import BadInput, Conflict
from swath.observe.crash_points import reach
from swath.pipeline.accept.batches import checked_batches
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.load import load_batch
from swath.pipeline.accept.read_ahead import ReadAhead
from swath.pipeline.accept.report import LoadOptions, LoadReport, OnBadRows, OnDuplicates, RowsRefused, Tally
from swath.pipeline.accept.rows import RowSource
from swath.ports.job_store import JobStore, Loaded, LoadStart

__all__ = ["KEPT_LINES", "fields_before", "find_start", "load_stream"]

KEPT_LINES: Final = 100  # troubles of each sort that are told one by one
LOOKED_AT_ROWS: Final = 100
_REMEDY: Final = (
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
    last = await store.items(job_id, max(0, start.rows - LOOKED_AT_ROWS), LOOKED_AT_ROWS)
    return frozenset(name for record in last or await store.items(job_id, limit=1) for name in record.input)


async def load_stream(
    store: JobStore, job_id: str, rows: RowSource, checker: RowChecker, start: LoadStart, options: LoadOptions
) -> LoadReport:
    """Stores the rows batch by batch. Cancelled at any point, it can be called again.

    Raises BadInput where the source cannot be read on, and RowsRefused, with a report, for rows that the options do
    not put up with: nothing is stored from the first batch on that has a bad row, and nothing behind the first batch
    that has a duplicate.
    """
    tally = Tally(rows.name, KEPT_LINES)
    async with ReadAhead(lambda: checked_batches(rows, checker, start)) as batches:
        async for checked in batches:
            if checked.bad and options.on_bad_rows is OnBadRows.REFUSE:
                tally.add(checked, Loaded(0))
                raise RowsRefused(f"{rows.name}: {checked.bad[0]}", tally.report())
            loaded = await load_batch(store, job_id, checked, _REMEDY)
            reach("after_load_batch")
            tally.add(checked, loaded)
            if loaded.duplicates and options.on_duplicates is OnDuplicates.REFUSE:
                report = tally.report()
                raise RowsRefused(f"{rows.name}: {report.first_duplicates[0]}", report)
    return tally.report()
