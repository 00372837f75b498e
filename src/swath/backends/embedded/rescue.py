"""How leases are taken from workers that died or fell silent, and who is blamed for it. Runs inside one transaction.

What ran when its worker died is a suspect; what ran alone, and was known to, has killed it. Before: leases.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from swath.backends.embedded import outcomes, shares
from swath.backends.embedded.bounds import PAGE_BYTES, first_piece, stored_bytes
from swath.backends.embedded.endings import note_death
from swath.backends.embedded.leases import Times, give_back, held_items
from swath.backends.embedded.progress import Progress
from swath.backends.embedded.schema import STATE_CODES
from swath.domain.attempt import Ended
from swath.domain.failure import Failure, FailureKind
from swath.domain.lease import POISON_CRASHES, RescuedLease
from swath.domain.transitions import ItemState

__all__ = ["rescue"]

Running = Callable[[str], Collection[tuple[int, int]]]
"""Tells which items, by fence and number, a worker ran when it was last heard of."""


class _Held(NamedTuple):
    """A lease and its worker."""

    fence: int
    job_no: int
    worker: str
    alone: int
    renewed: float
    expires: float
    seqs: bytes


def rescue(
    db: sqlite3.Connection, times: Times, worker_id: str, is_dead: Callable[[str], bool], running: Running
) -> tuple[list[RescuedLease], bool]:
    """See LeaseBook.rescue. Takes as many leases as one transaction may, and says whether there are more."""
    rows = db.execute("SELECT fence, job_no, worker, alone, renewed, expires, seqs FROM leases ORDER BY fence")
    leases = [_Held(*row) for row in rows.fetchall()]
    dead = {worker: is_dead(worker) for worker in {lease.worker for lease in leases}}
    lost = [lease for lease in leases if lease.expires <= times.boot or dead[lease.worker]]
    count = first_piece(_cost(db, lease) for lease in lost)
    ran = {worker: running(worker) for worker in {lease.worker for lease in lost[:count]}}
    deaths = {lease.fence: note_death(db, times, lease.fence) if dead[lease.worker] else 0 for lease in lost[:count]}
    taken = [(lease, _take_away(db, times, worker_id, lease, ran[lease.worker])) for lease in lost[:count]]
    found = [
        msgspec.structs.replace(rescued, dead=dead[lease.worker], ending_deaths=deaths[lease.fence])
        for lease, rescued in taken
    ]
    return found, count < len(lost)


def _cost(db: sqlite3.Connection, lease: _Held) -> tuple[int, int]:
    """Rows and bytes that change when the lease is taken away. The rows of its items are written anew as a whole."""
    items, size = db.execute(
        "SELECT count(*), coalesce(sum(length(i.input)), 0) FROM json_each(CAST(? AS TEXT)) AS listed "
        "CROSS JOIN items AS i ON i.job_no = ? AND i.seq = listed.value WHERE i.fence = ? AND i.state = 0",
        (lease.seqs, lease.job_no, lease.fence),
    ).fetchone()
    return 3 * items + 4, stored_bytes(size) + (3 * items + 4) * PAGE_BYTES


def _take_away(
    db: sqlite3.Connection, times: Times, worker_id: str, lease: _Held, ran: Collection[tuple[int, int]]
) -> RescuedLease:
    job_no, fence = lease.job_no, lease.fence
    held = held_items(db, job_no, fence, lease.seqs)
    begun = shares.begun(db, job_no, lease.worker) if lease.alone else frozenset()
    after = {seq: known.accused(crashed=seq in begun) if (fence, seq) in ran else known for seq, known in held.items()}
    poison = {seq: known for seq, known in after.items() if known.tries.crashes >= POISON_CRASHES}
    returned = {seq: known for seq, known in after.items() if seq not in poison}
    give_back(db, job_no, returned)
    _end_poison(db, times, job_no, poison)
    db.execute(
        "UPDATE leases SET rescued = 1, worker = ?, renewed = ?, expires = ? WHERE fence = ?",
        (worker_id, times.boot, times.expires, fence),
    )
    shares.leave(db, job_no, lease.worker, held)
    (job_id,) = db.execute("SELECT job_id FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    return RescuedLease(
        fence=fence,
        job_id=job_id,
        worker_id=lease.worker,
        winners=_winners(db, job_no, fence, lease.seqs),
        returned=len(returned),
        silent_seconds=max(0.0, times.boot - lease.renewed),
    )


def _end_poison(db: sqlite3.Connection, times: Times, job_no: int, items: dict[int, Progress]) -> None:
    """An outcome like any other; it keeps the fence of the lease in which it was found out."""
    if not items:
        return
    (generation,) = db.execute("SELECT generation FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    ends = []
    for seq, known in items.items():
        told = f"its worker died {known.tries.crashes} times while it ran alone"
        end = Ended(
            seq=seq,
            state=ItemState.FAILED,
            failure=Failure.of(FailureKind.POISON, told),
            attempts=known.attempts,
            tries=known.tries,
        )
        db.execute(
            "UPDATE items SET state = ?, generation = ?, progress = NULL WHERE job_no = ? AND seq = ?",
            (STATE_CODES[end.state], generation, job_no, seq),
        )
        ends.append(end)
    outcomes.write_outcomes(db, times, job_no, generation, ends)
    outcomes.count(db, times, job_no, ends)


def _winners(db: sqlite3.Connection, job_no: int, fence: int, seqs: bytes) -> tuple[str, ...]:
    """Items that ended under the fence by their worker's word: what poison left behind is nobody's result."""
    rows = db.execute(
        "SELECT i.item_id FROM json_each(CAST(?3 AS TEXT)) AS listed CROSS JOIN items AS i "
        "ON i.job_no = ?1 AND i.seq = listed.value JOIN outcomes AS o "
        "ON o.job_no = ?1 AND o.seq = i.seq AND o.generation = i.generation "
        "WHERE i.fence = ?2 AND i.state <> 0 AND o.kind IS NOT ?4",
        (job_no, fence, seqs, FailureKind.POISON.value),
    )
    return tuple(item_id for (item_id,) in rows)
