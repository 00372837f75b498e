"""Leases as rows, and how they are kept, given up and taken away. Each function runs inside one transaction.

An item is held by the lease whose fence its row carries. Every change of an item says `HELD`, and counters move by the
rows that really changed, so a worker that lost its lease changes nothing. Before: claims.py. Beside: finishing.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from swath.backends.embedded import shares
from swath.backends.embedded.jobs import Progress
from swath.domain.lease import Directive, RescuedLease

__all__ = ["HELD", "Times", "next_fence", "release", "renew", "rescue"]

HELD: Final = "job_no = ? AND seq = ? AND fence = ? AND state = 0"

_progress_decoder = msgspec.json.Decoder(Progress)
_seqs_decoder = msgspec.json.Decoder(list[int])


class Times(msgspec.Struct, frozen=True):
    """One reading of both clocks, and how long a lease lasts."""

    now: float
    boot: float
    lease_seconds: float

    @property
    def expires(self) -> float:
        """When a lease granted or renewed now is over."""
        return self.boot + self.lease_seconds


def next_fence(db: sqlite3.Connection) -> int:
    """A number that no lease had before."""
    (fence,) = db.execute("UPDATE meta SET value = value + 1 WHERE key = 'fence' RETURNING value").fetchone()
    return int(fence)


def renew(db: sqlite3.Connection, times: Times, worker_id: str, fences: Collection[int]) -> dict[int, Directive]:
    """See LeaseBook.renew."""
    answers = {}
    for fence in fences:
        row = db.execute(
            "UPDATE leases SET renewed = ?, expires = ? WHERE fence = ? AND worker = ? AND rescued = 0 "
            "RETURNING job_no, ending",
            (times.boot, times.expires, fence, worker_id),
        ).fetchone()
        if row is None:
            answers[fence] = Directive.LOST
            continue
        (cancelling,) = db.execute("SELECT cancelling FROM jobs WHERE job_no = ?", (row[0],)).fetchone()
        answers[fence] = Directive.STOP if cancelling and not row[1] else Directive.GO_ON
    return answers


def release(db: sqlite3.Connection, worker_id: str, fence: int) -> None:
    """See LeaseBook.release."""
    row = db.execute(
        "DELETE FROM leases WHERE fence = ? AND worker = ? RETURNING job_no, seqs", (fence, worker_id)
    ).fetchone()
    if row is not None:
        job_no, seqs = row
        lost = _return_items(db, job_no, fence, _seqs_decoder.decode(seqs), frozenset())
        shares.leave(db, job_no, worker_id, lost)


def rescue(db: sqlite3.Connection, times: Times, worker_id: str, is_dead: Callable[[str], bool]) -> list[RescuedLease]:
    """See LeaseBook.rescue."""
    rescued = []
    rows = db.execute("SELECT fence, job_no, worker, seqs, renewed, expires FROM leases").fetchall()
    dead = {worker: is_dead(worker) for worker in {row[2] for row in rows}}
    for fence, job_no, worker, seqs, renewed, expires in rows:
        if expires > times.boot and not dead[worker]:
            continue
        held = _seqs_decoder.decode(seqs)
        returned = _return_items(db, job_no, fence, held, shares.begun(db, job_no, worker))
        db.execute(
            "UPDATE leases SET rescued = 1, worker = ?, renewed = ?, expires = ? WHERE fence = ?",
            (worker_id, times.boot, times.expires, fence),
        )
        shares.leave(db, job_no, worker, returned)
        (job_id,) = db.execute("SELECT job_id FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
        rescued.append(
            RescuedLease(
                fence=fence,
                job_id=job_id,
                worker_id=worker,
                winners=_winners(db, job_no, fence, held),
                returned=len(returned),
                silent_seconds=max(0.0, times.boot - renewed),
            )
        )
    return rescued


def _return_items(
    db: sqlite3.Connection, job_no: int, fence: int, seqs: Sequence[int], blamed: frozenset[int]
) -> set[int]:
    """Makes the unfinished items of a lease claimable at once; those blamed count a crash of their worker."""
    returned = set()
    for seq in seqs:
        row = db.execute(
            f"UPDATE items SET fence = 0, due = NULL WHERE {HELD} RETURNING progress",  # noqa: S608 our own constant
            (job_no, seq, fence),
        ).fetchone()
        if row is None:
            continue
        returned.add(seq)
        db.execute("INSERT INTO waiting VALUES (?, 0, ?)", (job_no, seq))
        if seq in blamed:
            known = Progress() if row[0] is None else _progress_decoder.decode(row[0])
            tries = msgspec.structs.replace(known.tries, crashes=known.tries.crashes + 1)
            progress = msgspec.json.encode(msgspec.structs.replace(known, tries=tries))
            db.execute("UPDATE items SET progress = ? WHERE job_no = ? AND seq = ?", (progress, job_no, seq))
    return returned


def _winners(db: sqlite3.Connection, job_no: int, fence: int, seqs: Sequence[int]) -> tuple[str, ...]:
    ended = []
    for seq in seqs:
        row = db.execute(
            "SELECT item_id FROM items WHERE job_no = ? AND seq = ? AND fence = ? AND state <> 0", (job_no, seq, fence)
        ).fetchone()
        if row is not None:
            ended.append(row[0])
    return tuple(ended)
