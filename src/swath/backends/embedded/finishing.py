"""What one commit of a worker does: outcomes, counters, the report and the next grant, together or not at all.

Runs inside one transaction. Before: claims.py. After: endings.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from swath.backends.embedded import outcomes, shares
from swath.backends.embedded.leases import ALL_HELD, HELD, Times, directive_for
from swath.backends.embedded.progress import read_progress
from swath.backends.embedded.schema import STATE_CODES, Rank
from swath.domain.attempt import Ended, HandedBack
from swath.domain.job import versions_met
from swath.domain.lease import Directive, Grant, Lease, Report
from swath.domain.transitions import ItemState, check_item

__all__ = ["finish"]

_seqs_decoder = msgspec.json.Decoder(set[int])


def finish(
    db: sqlite3.Connection,
    times: Times,
    lease: Lease,
    ended: Sequence[Ended],
    handed_back: Sequence[HandedBack],
    report: Report,
) -> Grant:
    """See LeaseBook.finish."""
    job_no = _job_of_live_lease(db, lease)
    if job_no is None:
        return Grant(directive=Directive.LOST)
    accepted = _end_items(db, times, job_no, lease.fence, ended)
    accepted |= _take_back(db, times, job_no, lease.fence, handed_back)
    return _regrant(db, times, job_no, lease, report, frozenset(accepted))


def _job_of_live_lease(db: sqlite3.Connection, lease: Lease) -> int | None:
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND worker = ? AND rescued = 0 AND purpose = 'items'",
        (lease.fence, lease.worker_id),
    ).fetchone()
    return None if row is None else int(row[0])


def _end_items(db: sqlite3.Connection, times: Times, job_no: int, fence: int, ended: Sequence[Ended]) -> set[int]:
    if not ended:
        return set()
    generation, versions = db.execute(
        "SELECT generation, scraper_versions FROM jobs WHERE job_no = ?", (job_no,)
    ).fetchone()
    counted = _held_ends(db, job_no, fence, ended)
    by_state: dict[ItemState, list[int]] = {}
    for seq, end in counted.items():
        check_item(ItemState.PENDING, end.state)
        by_state.setdefault(end.state, []).append(seq)
    for state, seqs in by_state.items():
        db.execute(
            f"UPDATE items SET state = ?, generation = ?, progress = NULL WHERE {ALL_HELD}",  # noqa: S608 our own constant
            (STATE_CODES[state], generation, job_no, _listed(seqs), fence),
        )
    ends = list(counted.values())
    outcomes.write_outcomes(db, times, job_no, generation, ends)
    outcomes.count(db, times, job_no, ends)
    _note_versions(db, job_no, versions, ends)
    return set(counted)


def _note_versions(db: sqlite3.Connection, job_no: int, before: str, ends: Sequence[Ended]) -> None:
    """Of the scraper. Hardly any commit brings a new one."""
    known: list[str] = msgspec.json.decode(before)
    met = versions_met(known, ends)
    if len(met) > len(known):
        told = msgspec.json.encode(met).decode()
        db.execute("UPDATE jobs SET scraper_versions = ? WHERE job_no = ?", (told, job_no))


def _held_ends(db: sqlite3.Connection, job_no: int, fence: int, ended: Sequence[Ended]) -> dict[int, Ended]:
    """Those of items that the lease still holds, by number; an item ends once, so the first of two counts."""
    (held,) = db.execute(
        f"SELECT json_group_array(seq) FROM items WHERE {ALL_HELD}",  # noqa: S608 our own constant
        (job_no, _listed([end.seq for end in ended]), fence),
    ).fetchone()
    ours, counted = _seqs_decoder.decode(held), dict[int, Ended]()
    for end in ended:
        if end.seq in ours:
            counted.setdefault(end.seq, end)
    return counted


def _listed(seqs: Sequence[int]) -> str:
    return msgspec.json.encode(seqs).decode()


def _take_back(
    db: sqlite3.Connection, times: Times, job_no: int, fence: int, handed_back: Sequence[HandedBack]
) -> set[int]:
    accepted = set()
    untried = 0
    for back in handed_back:
        row = db.execute(f"SELECT progress FROM items WHERE {HELD}", (job_no, back.seq, fence)).fetchone()  # noqa: S608 our own constant
        if row is None:
            continue
        progress = read_progress(row[0]).after(back)
        due = times.boot + back.delay_seconds if back.delay_seconds > 0 else 0.0
        db.execute(
            "UPDATE items SET fence = 0, due = ?, progress = ? WHERE job_no = ? AND seq = ?",
            (due, progress.row, job_no, back.seq),
        )
        db.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", (job_no, progress.rank, due, back.seq))
        untried += progress.rank is Rank.UNTRIED
        accepted.add(back.seq)
    if untried:
        db.execute("UPDATE jobs SET released = released - ? WHERE job_no = ?", (untried, job_no))
    return accepted


def _regrant(
    db: sqlite3.Connection, times: Times, job_no: int, lease: Lease, report: Report, accepted: frozenset[int]
) -> Grant:
    """Writes the report and gives the worker its share of the slots as things stand now."""
    (limit,) = db.execute("SELECT concurrency FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    slots, target = shares.regrant(db, job_no, lease.worker_id, limit, report)
    db.execute("UPDATE leases SET renewed = ?, expires = ? WHERE fence = ?", (times.boot, times.expires, lease.fence))
    return Grant(directive=directive_for(db, lease.fence), slots=slots, target=target, accepted=accepted)
