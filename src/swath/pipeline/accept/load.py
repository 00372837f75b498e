"""Load: the rows of a source become the items of a job. Comes before: dispatch, which sees the job once it is sealed.

A load that was broken off is begun again from the first row: the store knows the batches it has by their digests, so
the same content goes on where it ended, and other content is a Conflict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState
from swath.observe.crash_points import reach
from swath.pipeline.accept.batches import CheckedBatch, checked_batches
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.read_ahead import ReadAhead
from swath.pipeline.accept.report import LoadOptions, LoadReport, Tally
from swath.pipeline.accept.rows import RowSource
from swath.ports.job_store import JobStore, Loaded

__all__ = ["load", "load_batch"]


_STRICT = LoadOptions()
_OTHER_JOB = "give another job id"


def _silent(rows: int) -> None:
    """Reports progress to nobody."""


async def _no_objection(job: Job) -> None:
    """Every job will do."""


async def load(
    store: JobStore,
    job: Job,
    rows: RowSource,
    checker: RowChecker,
    options: LoadOptions = _STRICT,
    progress: Callable[[int], None] = _silent,
    vet: Callable[[Job], Awaitable[None]] = _no_objection,
) -> LoadReport:
    """Submits the job, loads and seals it. `progress` hears how many rows have been read so far.

    `vet` sees the job when its items are stored, and may raise BadInput to refuse it as a whole.

    A job that was sealed before is compared with the source batch by batch and returned as it stands. Raises BadInput
    (RowsRefused, with a report, for troubles of single rows), after which a job that was loading is gone; Conflict if
    the job exists with another order or other rows. Killed or cancelled at any point, it can be called again.
    """
    tally = Tally(rows.name)
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


async def load_batch(store: JobStore, job_id: str, checked: CheckedBatch, remedy: str = _OTHER_JOB) -> Loaded:
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


async def _seal(store: JobStore, job_id: str, tally: Tally) -> JobStatus:
    try:
        return await store.seal(job_id, tally.batches)
    except Conflict as conflict:
        if conflict.row is None:
            raise
        raise Conflict(f"{conflict} ({tally.last_place}); {_OTHER_JOB}", conflict.row) from conflict
