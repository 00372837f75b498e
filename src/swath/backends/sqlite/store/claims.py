"""Finds jobs with work, and grants leases of their items. Runs inside one transaction.

One query finds the jobs that have work; whose turn it is, and how much of it, is decided in the domain. The backlog
is
counted the same way.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from swath.backends.sqlite.schema import Rank
from swath.backends.sqlite.store import slot_shares
from swath.backends.sqlite.store.jobs import decode_if_readable
from swath.backends.sqlite.store.leases import LeaseClock, LeasePurpose, insert_lease
from swath.backends.sqlite.store.returned_items import read_progress
from swath.domain.circuit_breaker import JobCircuit, release_allowance
from swath.domain.fair_scheduling import JobBacklog, JobCandidate, next_job
from swath.domain.item import LEASE_BYTES, ByteBudget
from swath.domain.job import Job
from swath.domain.lease import Lease, LeasedItem, lease_size, max_lease_items
from swath.domain.transitions import JobState

__all__ = ["backlog", "claim"]

# Each row of `waiting` is asked apart for what is due, because it is found by its key at once.
_JOBS: Final = (
    "SELECT j.job_no, j.job_id, j.state, j.revision, j.priority, j.concurrency, j.total, j.fresh, j.next_seq, "
    "j.served, j.released, j.finished, j.reopened, j.spec, "
    "(SELECT count(*) FROM shares AS s WHERE s.job_no = j.job_no AND s.worker <> :worker AND s.demand > 0) AS others, "
    "EXISTS (SELECT 1 FROM waiting WHERE job_no = j.job_no AND rank = :suspect AND due <= :boot) AS suspect, "
    "EXISTS (SELECT 1 FROM waiting WHERE job_no = j.job_no AND rank = :begun AND due <= :boot) AS begun, "
    "j.fresh > 0 "
    "OR EXISTS (SELECT 1 FROM waiting WHERE job_no = j.job_no AND rank = :untried AND due <= :boot) "
    "OR EXISTS (SELECT 1 FROM waiting WHERE job_no = j.job_no AND rank = j.reopened) AS unbegun "
    "FROM jobs AS j INDEXED BY jobs_runnable WHERE j.state IN ('pending', 'running') AND j.stopping IS NULL "
    "AND j.deleting = 0 AND (:job_id IS NULL OR j.job_id = :job_id)"
)
_RANKS: Final = {rank.name.lower(): rank.value for rank in Rank}


class _RunnableJob(NamedTuple):
    """A job with work for this worker. `most` is how many items that never began it may hand out; None: any number."""

    row: sqlite3.Row
    order: Job
    most: int | None


def claim(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See LeaseBook.claim."""
    cursor = db.execute(_JOBS, {"worker": worker_id, "boot": times.boot, "job_id": job_id, **_RANKS})
    cursor.row_factory = sqlite3.Row
    found = (_runnable_jobs(row) for row in cursor.fetchall() if row["job_id"] not in without)
    jobs = {job.row["job_no"]: job for job in found if job is not None}
    (granted,) = db.execute("SELECT value FROM meta WHERE key = 'granted'").fetchone()
    turn = next_job([_candidate(job.row) for job in jobs.values()], granted)
    return None if turn is None else _grant(db, times, worker_id, jobs[turn.number])


def _runnable_jobs(row: sqlite3.Row) -> _RunnableJob | None:
    if row["others"] >= row["concurrency"]:
        return None  # this worker would hold items without a slot to run them
    order = decode_if_readable(row["spec"])
    if order is None:
        return None
    circuit = JobCircuit(finished=row["finished"], released=row["released"])
    most = release_allowance(circuit, order.policy.circuit_breaker)
    has_work = row["suspect"] or row["begun"] or (row["unbegun"] and most != 0)
    return _RunnableJob(row, order, most) if has_work else None


def _candidate(row: sqlite3.Row) -> JobCandidate:
    return JobCandidate(row["priority"], row["total"], row["job_no"], row["served"])


def _grant(db: sqlite3.Connection, times: LeaseClock, worker_id: str, job: _RunnableJob) -> Lease:
    row, job_no = job.row, job.row["job_no"]
    alone = bool(row["suspect"])
    taken = _next_suspect(db, job_no, times.boot) if alone else _next_items(db, times.boot, job)
    seqs = [item.seq for item in taken.items]
    fence = insert_lease(db, times, job_no, worker_id, LeasePurpose.ITEMS, seqs=seqs, alone=alone)
    _hold(db, job_no, fence, taken)
    _note_grant(db, times, row, taken)
    slots, target = slot_shares.join(db, job_no, worker_id, row["concurrency"], len(seqs))
    return Lease(
        fence=fence,
        job=job.order,
        worker_id=worker_id,
        items=tuple(taken.items),
        slots=slots,
        target=target,
        lease_seconds=times.lease_seconds,
        revision=row["revision"],
        alone=alone,
    )


_WaitingRow = tuple[float, int, int, str, bytes, bytes | None]  # due, seq, rank, then what the item's row says
_FreshRow = tuple[int, str, bytes]


class _NextItems(NamedTuple):
    """Items to be handed out: first those that waited, then `fresh` of those that never were."""

    items: list[LeasedItem]
    waited: list[_WaitingRow]
    fresh: int = 0

    @property
    def unbegun(self) -> int:
        """How many of them never began."""
        return self.fresh + sum(rank >= Rank.UNTRIED for _, _, rank, *_ in self.waited)


def _next_suspect(db: sqlite3.Connection, job_no: int, boot: float) -> _NextItems:
    waited = list(_waiting(db, job_no, Rank.SUSPECT, boot, 1))
    return _NextItems([_to_leased_item(one) for one in waited], waited)


def _next_items(db: sqlite3.Connection, boot: float, job: _RunnableJob) -> _NextItems:
    """What came back, by the time it was due, then what a retry has reopened, then the fresh."""
    row, job_no, largest = job.row, job.row["job_no"], max_lease_items(job.order)
    # Beyond this many claimable items a lease has its full size anyway, so there is no need to count further.
    enough = 2 * largest * (row["others"] + 1)
    most = enough if job.most is None else job.most
    begun = _count_due(db, job_no, Rank.BEGUN, boot, enough)
    untried = _count_due(db, job_no, Rank.UNTRIED, boot, min(enough, most))
    reopened = _count_due(db, job_no, row["reopened"], boot, min(enough, most))
    claimable = begun + min(most, untried + reopened + row["fresh"])
    wanted = lease_size(claimable, row["others"] + 1, row["concurrency"], largest)
    portion = ByteBudget(LEASE_BYTES)
    came_back = heapq.merge(
        _waiting(db, job_no, Rank.BEGUN, boot, min(begun, wanted)),
        _waiting(db, job_no, Rank.UNTRIED, boot, min(untried, wanted)),
    )
    waited = list(portion.take(islice(came_back, wanted), _size))
    most -= sum(rank == Rank.UNTRIED for _, _, rank, *_ in waited)
    again = _waiting(db, job_no, row["reopened"], boot, min(most, reopened, wanted - len(waited)))
    waited += portion.take(again, _size)
    most -= sum(rank == row["reopened"] for _, _, rank, *_ in waited)
    rows = _fresh(db, job_no, row["next_seq"], min(most, row["fresh"], wanted - len(waited)))
    fresh = [LeasedItem(seq, name, msgspec.json.decode(raw)) for seq, name, raw in portion.take(rows, _fresh_size)]
    return _NextItems([*map(_to_leased_item, waited), *fresh], waited, len(fresh))


def _count_due(db: sqlite3.Connection, job_no: int, rank: int, boot: float, most: int) -> int:
    (due,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM waiting WHERE job_no = ? AND rank = ? AND due <= ? LIMIT ?)",
        (job_no, rank, boot, most),
    ).fetchone()
    return int(due)


def _waiting(db: sqlite3.Connection, job_no: int, rank: int, boot: float, most: int) -> Iterator[_WaitingRow]:
    """Read one by one, as far as somebody asks: an input may be large."""
    if most <= 0:
        return
    yield from db.execute(
        "SELECT w.due, w.seq, w.rank, i.item_id, i.input, i.progress FROM waiting AS w "
        "JOIN items AS i ON i.job_no = w.job_no AND i.seq = w.seq "
        "WHERE w.job_no = ? AND w.rank = ? AND w.due <= ? ORDER BY w.due, w.seq LIMIT ?",
        (job_no, rank, boot, most),
    )


def _size(waited: _WaitingRow) -> int:
    return len(waited[4])


def _to_leased_item(waited: _WaitingRow) -> LeasedItem:
    _, seq, _, item_id, input_, progress = waited
    known = read_progress(progress)
    return LeasedItem(seq, item_id, msgspec.json.decode(input_), known.tries, known.attempts)


def _fresh(db: sqlite3.Connection, job_no: int, next_seq: int, most: int) -> Iterator[_FreshRow]:
    if most <= 0:
        return
    yield from db.execute(
        "SELECT seq, item_id, input FROM items WHERE job_no = ? AND seq > ? ORDER BY seq LIMIT ?",
        (job_no, next_seq, most),
    )


def _fresh_size(row: _FreshRow) -> int:
    return len(row[2])


def _hold(db: sqlite3.Connection, job_no: int, fence: int, taken: _NextItems) -> None:
    db.executemany(
        "DELETE FROM waiting WHERE job_no = ? AND rank = ? AND due = ? AND seq = ?",
        [(job_no, rank, due, seq) for due, seq, rank, *_ in taken.waited],
    )
    seqs = msgspec.json.encode([item.seq for item in taken.items]).decode()
    db.execute(
        "UPDATE items SET state = 0, fence = ?, due = NULL "  # the row of a reopened item still says how it had ended
        "WHERE job_no = ? AND seq IN (SELECT value FROM json_each(?) AS listed)",
        (fence, job_no, seqs),
    )


def _note_grant(db: sqlite3.Connection, times: LeaseClock, row: sqlite3.Row, taken: _NextItems) -> None:
    """Moves the job's frontier, its circuit and its turn, and makes it running."""
    (served,) = db.execute("UPDATE meta SET value = value + 1 WHERE key = 'granted' RETURNING value").fetchone()
    next_seq = taken.items[-1].seq if taken.fresh else row["next_seq"]
    db.execute(
        "UPDATE jobs SET next_seq = ?, fresh = fresh - ?, released = released + ?, served = ? WHERE job_no = ?",
        (next_seq, taken.fresh, taken.unbegun, served, row["job_no"]),
    )
    if row["state"] == JobState.PENDING:
        db.execute(
            "UPDATE jobs SET state = ?, started_at = ?, mark_at = ? WHERE job_no = ?",
            (JobState.RUNNING.value, times.now, times.boot, row["job_no"]),
        )


_BACKLOG_JOBS: Final = (
    "SELECT j.job_no, j.total, j.concurrency, j.fresh, j.released, j.finished, j.reopened, j.generation, "
    "j.started_at, j.spec, "
    "j.total - j.success - j.failed - j.skipped - j.cancelled AS remaining, "
    "(SELECT json_group_array(s.worker) FROM shares AS s WHERE s.job_no = j.job_no AND s.demand > 0) AS workers, "
    "(SELECT coalesce(sum(s.waiting + s.running), 0) FROM shares AS s WHERE s.job_no = j.job_no) AS at_work "
    "FROM jobs AS j WHERE j.state IN ('pending', 'running') AND j.stopping IS NULL AND j.deleting = 0 ORDER BY j.job_no"
)


_decode_ids: Final = msgspec.json.Decoder(frozenset[str]).decode


def backlog(db: sqlite3.Connection, times: LeaseClock) -> list[JobBacklog]:
    """See LeaseBook.backlog. A job whose order cannot be read is nobody's to run, so it waits for nobody."""
    cursor = db.execute(_BACKLOG_JOBS)
    cursor.row_factory = sqlite3.Row
    orders = [(row, decode_if_readable(row["spec"])) for row in cursor.fetchall()]
    return [_backlog(db, times, row, order) for row, order in orders if order is not None]


def _backlog(db: sqlite3.Connection, times: LeaseClock, row: sqlite3.Row, order: Job) -> JobBacklog:
    pending = row["remaining"] - row["at_work"]
    since = order.created_at if row["generation"] == 1 else row["started_at"]
    return JobBacklog(
        job_id=order.job_id,
        priority=order.priority,
        items=row["total"],
        pending=pending,
        claimable=_claimable(db, times, row, order),
        worker_ids=_decode_ids(row["workers"]),
        limit=row["concurrency"],
        on_demand=order.on_demand,
        oldest_seconds=max(0.0, times.now - (times.now if since is None else since)) if pending else None,
    )


def _claimable(db: sqlite3.Connection, times: LeaseClock, row: sqlite3.Row, order: Job) -> int:
    due = dict(
        db.execute(
            "SELECT rank, count(*) FROM waiting WHERE job_no = ? AND due <= ? GROUP BY rank",
            (row["job_no"], times.boot),
        )
    )
    begun = due.get(Rank.SUSPECT, 0) + due.get(Rank.BEGUN, 0)
    unbegun = due.get(Rank.UNTRIED, 0) + due.get(row["reopened"], 0) + row["fresh"]
    circuit = JobCircuit(finished=row["finished"], released=row["released"])
    most = release_allowance(circuit, order.policy.circuit_breaker)
    return int(begun + (unbegun if most is None else min(most, unbegun)))
