"""Takes leases from workers that died or fell silent, and decides which items are suspects.

Runs inside one transaction. What ran when its worker was lost is a suspect. What is known to have run alone when its
worker died has killed it; if the worker only fell silent, the cause is unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from swath.backends.sqlite.schema import STATE_CODES
from swath.backends.sqlite.store import outcomes, slot_shares
from swath.backends.sqlite.store.endings import note_death
from swath.backends.sqlite.store.leases import LeaseClock, held_items, return_items
from swath.backends.sqlite.store.returned_items import ItemProgress
from swath.backends.sqlite.transaction_limits import PAGE_BYTES, first_piece, stored_bytes
from swath.domain.failure import FailureKind
from swath.domain.item import EndedItem
from swath.domain.lease import WORKER_SILENT, RescuedLease, delay_after_silence, end_after_worker_loss

__all__ = ["rescue"]

RunningItems = Callable[[str], Collection[tuple[int, int]]]
"""Tells which items, by fence and number, a worker ran when it was last heard of."""


class _LeaseRow(NamedTuple):
    """A lease and its worker."""

    fence: int
    job_no: int
    worker: str
    alone: int
    renewed: float
    expires: float
    seqs: bytes


def rescue(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, is_dead: Callable[[str], bool], running: RunningItems
) -> tuple[list[RescuedLease], bool]:
    """See LeaseBook.rescue. Takes as many leases as one transaction may, and says whether there are more."""
    rows = db.execute("SELECT fence, job_no, worker, alone, renewed, expires, seqs FROM leases ORDER BY fence")
    leases = [_LeaseRow(*row) for row in rows.fetchall()]
    dead = {worker: is_dead(worker) for worker in {lease.worker for lease in leases}}
    lost = [lease for lease in leases if lease.expires <= times.boot or dead[lease.worker]]
    count = first_piece(_cost(db, lease) for lease in lost)
    ran = {worker: running(worker) for worker in {lease.worker for lease in lost[:count]}}
    deaths = {lease.fence: note_death(db, times, lease.fence) if dead[lease.worker] else 0 for lease in lost[:count]}
    found = [
        _take_away(db, times, worker_id, _LostLease(lease, ran[lease.worker], dead=dead[lease.worker]))
        for lease in lost[:count]
    ]
    return [msgspec.structs.replace(one, ending_deaths=deaths[one.fence]) for one in found], count < len(lost)


def _cost(db: sqlite3.Connection, lease: _LeaseRow) -> tuple[int, int]:
    """Rows and bytes that change when the lease is taken away. The rows of its items are written anew as a whole."""
    items, size = db.execute(
        "SELECT count(*), coalesce(sum(length(i.input)), 0) FROM json_each(CAST(? AS TEXT)) AS listed "
        "CROSS JOIN items AS i ON i.job_no = ? AND i.seq = listed.value WHERE i.fence = ? AND i.state = 0",
        (lease.seqs, lease.job_no, lease.fence),
    ).fetchone()
    return 3 * items + 4, stored_bytes(size) + (3 * items + 4) * PAGE_BYTES


class _LostLease(NamedTuple):
    """A lease to be taken away, what its worker ran when it was last heard of, and whether it is proven dead."""

    lease: _LeaseRow
    ran: Collection[tuple[int, int]]
    dead: bool


def _take_away(db: sqlite3.Connection, times: LeaseClock, worker_id: str, lost: _LostLease) -> RescuedLease:
    lease = lost.lease
    job_no, fence = lease.job_no, lease.fence
    after = _assign_blame(db, lost)
    ends = {
        seq: end
        for seq, known in after.items()
        if (end := end_after_worker_loss(seq, known.tries, known.attempts, known.silences)) is not None
    }
    returned = {seq: known for seq, known in after.items() if seq not in ends}
    due = {
        seq: times.boot + delay
        for seq, known in returned.items()
        if (delay := delay_after_silence(known.silences, times.lease_seconds)) > 0
    }
    return_items(db, job_no, returned, due)
    _end(db, times, job_no, list(ends.values()))
    db.execute(
        "UPDATE leases SET rescued = 1, worker = ?, renewed = ?, expires = ? WHERE fence = ?",
        (worker_id, times.boot, times.expires, fence),
    )
    slot_shares.leave(db, job_no, lease.worker, after)
    (job_id,) = db.execute("SELECT job_id FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    return RescuedLease(
        fence=fence,
        job_id=job_id,
        worker_id=lease.worker,
        winners=_winners(db, job_no, fence, lease.seqs),
        returned=len(returned),
        silent_seconds=max(0.0, times.boot - lease.renewed),
        dead=lost.dead,
    )


def _assign_blame(db: sqlite3.Connection, lost: _LostLease) -> dict[int, ItemProgress]:
    """What is known of the items that the lease still held, now that its worker is lost."""
    lease = lost.lease
    held = held_items(db, lease.job_no, lease.fence, lease.seqs)
    begun = slot_shares.begun_items(db, lease.job_no, lease.worker) if lease.alone else frozenset()
    return {
        seq: known.accused(alone=seq in begun, died=lost.dead) if (lease.fence, seq) in lost.ran else known
        for seq, known in held.items()
    }


def _end(db: sqlite3.Connection, times: LeaseClock, job_no: int, ends: list[EndedItem]) -> None:
    """Outcomes like any other; they keep the fence of the lease in which that was found out."""
    if not ends:
        return
    (generation,) = db.execute("SELECT generation FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    for end in ends:
        db.execute(
            "UPDATE items SET state = ?, generation = ?, progress = NULL WHERE job_no = ? AND seq = ?",
            (STATE_CODES[end.state], generation, job_no, end.seq),
        )
    outcomes.write_outcomes(db, times, job_no, generation, ends)
    outcomes.count_outcomes(db, times, job_no, ends)


def _winners(db: sqlite3.Connection, job_no: int, fence: int, seqs: bytes) -> tuple[str, ...]:
    """Items that ended under the fence by their worker's word: what is left of those that a rescue failed is nobody's
    result."""
    rows = db.execute(
        "SELECT i.item_id FROM json_each(CAST(?3 AS TEXT)) AS listed CROSS JOIN items AS i "
        "ON i.job_no = ?1 AND i.seq = listed.value JOIN outcomes AS o "
        "ON o.job_no = ?1 AND o.seq = i.seq AND o.generation = i.generation "
        "WHERE i.fence = ?2 AND i.state <> 0 AND o.kind IS NOT ?4 "
        "AND json_extract(CAST(o.ended AS TEXT), '$.reason') IS NOT ?5",
        (job_no, fence, seqs, FailureKind.POISON.value, WORKER_SILENT),
    )
    return tuple(item_id for (item_id,) in rows)
