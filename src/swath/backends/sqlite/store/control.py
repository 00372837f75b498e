"""Changes an existing job: pause, resume, cancel, policy, delete, result versions, and retry as a new generation.

Workers learn of a change from `begin`, from their next commit and their next renewal. A retry first lists the
selected
items in pieces, in `waiting`, under a rank of its own; one small commit then makes that rank the job's (decision
0028).
While the list is written the job has ended, so nothing hands these items out, and only another retry or a deletion
can
change the job. From then on an item on the list counts as pending, whatever its own row says; that row changes when
the
item is leased or cancelled. Former ends stay in `outcomes` by their generation.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import msgspec

from swath.backends.sqlite.database import Database
from swath.backends.sqlite.schema import STATE_CODES, STATE_NAMES, Rank
from swath.backends.sqlite.store.deletion import clear_lists
from swath.backends.sqlite.store.jobs import decode_job, encode_job, job_row, status
from swath.backends.sqlite.store.leases import LeasePurpose, held_items, leased_job_no
from swath.domain.errors import BadInput, Conflict, Outdated, SwathError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import RetrySelection, SuccessOutcome
from swath.domain.job import JobStatus, StopReason, delete_at
from swath.domain.lease import Lease
from swath.domain.result_versions import check_job_ended, check_version
from swath.domain.transitions import ItemState, JobState, check_job
from swath.observability.crash_points import reach

__all__ = [
    "add_version",
    "cancel",
    "change_policy",
    "changeable_job",
    "delete",
    "pause",
    "resume",
    "retry",
    "set_current",
]


def changeable_job(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    """The row of a job that is not on its way out."""
    row = job_row(db, job_id)
    if row["deleting"]:
        raise Conflict.being_deleted(job_id)
    return row


def pause(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.pause."""
    row = changeable_job(db, job_id)
    state = JobState(row["state"])
    if row["stopping"] or state.terminal or state is JobState.LOADING:
        told = "stopping" if row["stopping"] and not state.terminal else state.value
        raise Conflict(f"job {job_id!r} is {told}; only a job that is pending or running can be paused")
    if state is not JobState.PAUSED:
        check_job(state, JobState.PAUSED)
        db.execute("UPDATE jobs SET state = ? WHERE job_no = ?", (JobState.PAUSED.value, row["job_no"]))
    return status(db, boot, job_id)


def resume(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.resume. The pace is measured anew: the break says nothing of it."""
    row = changeable_job(db, job_id)
    state = JobState(row["state"])
    if state.terminal:
        raise Conflict(f"job {job_id!r} has ended ({state}); `retry` runs items of it again")
    db.execute("UPDATE endings SET due = 0 WHERE job_no = ?", (row["job_no"],))
    if state is JobState.PAUSED and row["stopping"] is None:
        resumed = JobState.PENDING if row["started_at"] is None else JobState.RUNNING
        check_job(state, resumed)
        db.execute(
            "UPDATE jobs SET state = ?1, served = (SELECT value FROM meta WHERE key = 'granted'), released = ?2, "
            "finished = 0, in_a_row = 0, opened = NULL, window = '', pace = 0, steady = 0, mark_at = ?3 "
            "WHERE job_no = ?4",
            (resumed.value, _released(db, row["job_no"]), boot, row["job_no"]),
        )
    return status(db, boot, job_id)


def _released(db: sqlite3.Connection, job_no: int) -> int:
    """Items that are held, or have begun and wait."""
    (waiting,) = db.execute(
        "SELECT count(*) FROM waiting WHERE job_no = ? AND rank <= ?", (job_no, Rank.BEGUN)
    ).fetchone()
    leases = db.execute("SELECT fence, seqs FROM leases WHERE job_no = ?", (job_no,)).fetchall()
    return int(waiting) + sum(len(held_items(db, job_no, fence, seqs)) for fence, seqs in leases)


def cancel(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.cancel."""
    row = changeable_job(db, job_id)
    if not JobState(row["state"]).terminal and row["stopping"] is None:
        db.execute("UPDATE jobs SET stopping = ? WHERE job_no = ?", (StopReason.CANCELLED.value, row["job_no"]))
    return status(db, boot, job_id)


def change_policy(
    db: sqlite3.Connection, boot: float, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None
) -> JobStatus:
    """See JobControl.change_policy."""
    row = changeable_job(db, job_id)
    job = decode_job(row["spec"])
    if policy != job.policy:
        if expected not in (None, job.policy):
            raise Outdated.policy(job_id)
        present = msgspec.structs.replace(job, policy=policy)
        db.execute(
            "UPDATE jobs SET spec = ?, concurrency = ?, revision = revision + 1, delete_at = ? WHERE job_no = ?",
            (
                encode_job(present),
                policy.throttling.max_concurrent_workers,
                delete_at(present, row["started_at"], row["ended_at"]),
                row["job_no"],
            ),
        )
    return status(db, boot, job_id)


def delete(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.delete."""
    row = job_row(db, job_id)
    state = JobState(row["state"])
    if not state.terminal and state is not JobState.LOADING:
        raise Conflict(f"job {job_id!r} is {state}; cancel it first")
    db.execute("UPDATE jobs SET deleting = 1, delete_at = 0 WHERE job_no = ?", (row["job_no"],))
    return status(db, boot, job_id)


def add_version(db: sqlite3.Connection, job_id: str) -> int:
    """See JobControl.add_version."""
    row = changeable_job(db, job_id)
    check_job_ended(job_id, JobState(row["state"]))
    db.execute("UPDATE jobs SET versions = versions + 1 WHERE job_no = ?", (row["job_no"],))
    return int(row["versions"]) + 1


def set_current(
    db: sqlite3.Connection, boot: float, job_id: str, version: int, under: Lease | None = None
) -> JobStatus:
    """See JobControl.set_current."""
    if under is not None:
        leased_job_no(db, under, LeasePurpose.END)
    row = changeable_job(db, job_id)
    check_version(job_id, version, row["versions"])
    db.execute("UPDATE jobs SET current_version = ? WHERE job_no = ?", (version, row["job_no"]))
    return status(db, boot, job_id)


_LOOKED_AT: Final = 4_000  # items in one reading; no more of them can be listed in one transaction

_Kind = tuple[int, str | None]  # the state of an item, and the kind of its failure or not_found


class _RetryList(NamedTuple):
    """Which job a retry has found, and the rank under which it lists what it selects."""

    job_id: str
    job_no: int
    generation: int
    rank: int


class _SelectedItems(NamedTuple):
    """Those of some items that fit the selection."""

    seqs: list[int]
    kinds: Counter[_Kind]


async def retry(database: Database, boot: float, job_id: str, selection: RetrySelection) -> JobStatus:
    """See JobControl.retry. Killed before its last commit it has changed nothing that anybody sees."""
    listed = await database.write(_begin, job_id)
    try:
        kinds = await _list_selected(database, listed, selection)
        if not kinds:
            raise BadInput(f"no item of job {job_id!r} fits the selection; nothing to run again")
        begun = await database.write_news(lambda _: (job_id,), _begin_generation, boot, listed, kinds)
    except BaseException:
        with suppress(SwathError):  # what is left over is cleared by the next retry, or with the job
            await _clear(database, listed, own=True)
        raise
    with suppress(SwathError):
        await _clear(database, listed, own=False)
    return begun


async def _list_selected(database: Database, listed: _RetryList, selection: RetrySelection) -> Counter[_Kind]:
    kinds = Counter[_Kind]()
    last = await database.read(_last_item, listed.job_no)
    for after in range(0, last, _LOOKED_AT):
        selected = await database.read(_select, listed.job_no, selection, after)
        if selected.seqs:
            await database.write(_add, listed, selected.seqs)
            reach("after_retry_piece")
        kinds.update(selected.kinds)
    return kinds


def _begin(db: sqlite3.Connection, job_id: str) -> _RetryList:
    row = changeable_job(db, job_id)
    _refuse_unless_ended(row)
    (rank,) = db.execute(
        "INSERT INTO meta VALUES ('retries', ?) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value",
        (Rank.REOPENED + 1,),
    ).fetchone()
    return _RetryList(job_id, row["job_no"], row["generation"], rank)


def _refuse_unless_ended(row: sqlite3.Row) -> None:
    if not JobState(row["state"]).terminal:
        raise Conflict(f"job {row['job_id']!r} is {row['state']}; items can be run again when it has ended")


def _still_listed(db: sqlite3.Connection, listed: _RetryList) -> sqlite3.Row:
    """The job's row. Raises Conflict when it is not the one any more for which the list is made."""
    row = changeable_job(db, listed.job_id)
    _refuse_unless_ended(row)
    if (row["job_no"], row["generation"]) != (listed.job_no, listed.generation):
        raise Conflict(f"job {listed.job_id!r} was retried or replaced by somebody else meanwhile; look at it first")
    return row


def _last_item(db: sqlite3.Connection, job_no: int) -> int:
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM items WHERE job_no = ?", (job_no,)).fetchone()
    return int(last)


def _select(db: sqlite3.Connection, job_no: int, selection: RetrySelection, after: int) -> _SelectedItems:
    with _selection_in(db, selection):
        rows = db.execute(
            "SELECT i.seq, i.state, o.kind FROM items AS i CROSS JOIN outcomes AS o "
            "ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation "
            "WHERE i.job_no = ? AND i.seq > ? AND i.seq <= ? AND i.state <> 0 "
            "AND selected(i.item_id, i.state, o.kind, o.ended_at)",
            (job_no, after, after + _LOOKED_AT),
        ).fetchall()
    return _SelectedItems([seq for seq, _, _ in rows], Counter((code, kind) for _, code, kind in rows))


@contextmanager
def _selection_in(db: sqlite3.Connection, selection: RetrySelection) -> Iterator[None]:
    """Lets SQLite ask the selection about each row, so that there is one meaning of it."""
    kinds = {kind.value: kind for kind in FailureKind}

    def selected(item_id: str, state: int, kind: str | None, ended_at: float) -> bool:
        return selection.takes(item_id, STATE_NAMES[state], kinds.get(kind or ""), ended_at)

    db.create_function("selected", 4, selected)
    try:
        yield
    finally:
        db.create_function("selected", 4, None)


def _add(db: sqlite3.Connection, listed: _RetryList, seqs: list[int]) -> None:
    _still_listed(db, listed)
    db.execute(
        "INSERT INTO waiting SELECT ?, ?, 0, value FROM json_each(?) AS listed",
        (listed.job_no, listed.rank, msgspec.json.encode(seqs).decode()),
    )


def _begin_generation(db: sqlite3.Connection, boot: float, listed: _RetryList, kinds: Counter[_Kind]) -> JobStatus:
    check_job(JobState(_still_listed(db, listed)["state"]), JobState.PENDING)
    _subtract_counts(db, listed.job_no, kinds)
    db.execute(
        "UPDATE jobs SET state = ?, generation = generation + 1, stopping = NULL, started_at = NULL, ended_at = NULL, "
        "served = (SELECT value FROM meta WHERE key = 'granted'), released = 0, finished = 0, in_a_row = 0, "
        "opened = NULL, window = '', pace = 0, steady = 0, mark_at = NULL, "
        "mark_ended = success + failed + skipped, delete_at = NULL, reopened = ? WHERE job_no = ?",
        (JobState.PENDING.value, listed.rank, listed.job_no),
    )
    return status(db, boot, listed.job_id)


def _subtract_counts(db: sqlite3.Connection, job_no: int, kinds: Counter[_Kind]) -> None:
    """Takes what is reopened out of the counters."""
    for (code, kind), items in kinds.items():
        column = STATE_NAMES[code].value  # the counters are named for the states
        db.execute(f"UPDATE jobs SET {column} = {column} - ? WHERE job_no = ?", (items, job_no))  # noqa: S608 our own names
        if kind == SuccessOutcome.NOT_FOUND:
            db.execute("UPDATE jobs SET not_found = not_found - ? WHERE job_no = ?", (items, job_no))
        if code == STATE_CODES[ItemState.FAILED] and kind is not None:
            db.execute("UPDATE failures SET items = items - ? WHERE job_no = ? AND kind = ?", (items, job_no, kind))
    db.execute("DELETE FROM failures WHERE job_no = ? AND items = 0", (job_no,))


async def _clear(database: Database, listed: _RetryList, *, own: bool) -> None:
    """Removes this list, or those of earlier retries, which have lost by now. Lists of later ones are theirs."""
    first, last = (listed.rank, listed.rank) if own else (Rank.REOPENED + 1, listed.rank - 1)
    while await database.write(clear_lists, listed.job_no, first, last):
        pass
