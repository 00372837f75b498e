"""What waits in the jobs of the embedded store. Runs inside one transaction. Beside: claims.py, which hands it out."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from swath.backends.embedded.leases import Times
from swath.backends.embedded.schema import Rank
from swath.backends.embedded.specs import readable
from swath.domain.backlog import Backlog
from swath.domain.circuit import Circuit, unreleased
from swath.domain.job import Job

__all__ = ["backlog"]

_JOBS: Final = (
    "SELECT j.job_no, j.total, j.concurrency, j.fresh, j.released, j.finished, j.reopened, j.generation, "
    "j.started_at, j.spec, "
    "j.total - j.success - j.failed - j.skipped - j.cancelled AS remaining, "
    "(SELECT json_group_array(s.worker) FROM shares AS s WHERE s.job_no = j.job_no AND s.demand > 0) AS workers, "
    "(SELECT coalesce(sum(s.waiting + s.running), 0) FROM shares AS s WHERE s.job_no = j.job_no) AS at_work "
    "FROM jobs AS j WHERE j.state IN ('pending', 'running') AND j.stopping IS NULL AND j.deleting = 0 ORDER BY j.job_no"
)


_decode_ids: Final = msgspec.json.Decoder(frozenset[str]).decode


def backlog(db: sqlite3.Connection, times: Times) -> list[Backlog]:
    """See LeaseBook.backlog. A job whose order cannot be read is nobody's to run, so it waits for nobody."""
    cursor = db.execute(_JOBS)
    cursor.row_factory = sqlite3.Row
    orders = [(row, readable(row["spec"])) for row in cursor.fetchall()]
    return [_backlog(db, times, row, order) for row, order in orders if order is not None]


def _backlog(db: sqlite3.Connection, times: Times, row: sqlite3.Row, order: Job) -> Backlog:
    pending = row["remaining"] - row["at_work"]
    since = order.created_at if row["generation"] == 1 else row["started_at"]
    return Backlog(
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


def _claimable(db: sqlite3.Connection, times: Times, row: sqlite3.Row, order: Job) -> int:
    due = dict(
        db.execute(
            "SELECT rank, count(*) FROM waiting WHERE job_no = ? AND due <= ? GROUP BY rank",
            (row["job_no"], times.boot),
        )
    )
    begun = due.get(Rank.SUSPECT, 0) + due.get(Rank.BEGUN, 0)
    unbegun = due.get(Rank.UNTRIED, 0) + due.get(row["reopened"], 0) + row["fresh"]
    circuit = Circuit(finished=row["finished"], released=row["released"])
    most = unreleased(circuit, order.policy.circuit_breaker)
    return int(begun + (unbegun if most is None else min(most, unbegun)))
