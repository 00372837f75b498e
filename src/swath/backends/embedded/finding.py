"""Items of the embedded store that fit a filter, page by page, at the same cost in a job of any size.

What failed or was not found is found by its index, what runs by its workers' reports; all else is looked for among a
bounded number of rows. Runs inside one transaction. Beside: items.py, which reads the items themselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple

from swath.backends.embedded.items import active_items, items_by_seq, last_row, reopened_rank
from swath.backends.embedded.jobs import row_of
from swath.backends.embedded.schema import STATE_CODES
from swath.domain.attempt import Finding
from swath.domain.item import ItemFilter
from swath.domain.portion import PAGE_BYTES, Portion
from swath.domain.transitions import ItemState
from swath.ports.job_store import ItemPage

__all__ = ["LOOKED_AT", "find_items"]

LOOKED_AT: Final = 20_000  # rows of the source in one reading
_AT_WORK: Final = {ItemState.QUEUED, ItemState.IN_PROGRESS}
_STALE: Final = 400  # ends of earlier generations that one reading passes over, for each kind


class _Found(NamedTuple):
    """Items that may fit, by `seq`. Between them and `looked_to` there is no other; None: nor beyond."""

    seqs: list[int]
    looked_to: int | None


def find_items(
    db: sqlite3.Connection, job_id: str, wanted: ItemFilter, after: int, limit: int, boot_to_now: float
) -> ItemPage:
    """See JobStore.find_items. `boot_to_now` as by items.items."""
    job = row_of(db, job_id)
    if wanted.kind is not None and wanted.state is not None and not wanted.state.terminal:
        return ItemPage([], None)  # what has not ended has no kind
    found = _found(db, job, wanted, after, limit)
    seqs = found.seqs[:limit]
    looked_to = seqs[-1] if len(found.seqs) > limit else found.looked_to
    portion = Portion(PAGE_BYTES)
    records = items_by_seq(db, job, seqs, boot_to_now, portion)
    if portion.full:
        looked_to = records[-1].seq
    return ItemPage([record for record in records if wanted.takes(record)], looked_to)


def _found(db: sqlite3.Connection, job: sqlite3.Row, wanted: ItemFilter, after: int, limit: int) -> _Found:
    job_no = job["job_no"]
    if wanted.state in _AT_WORK:
        active = active_items(db, job_no)
        return _Found(sorted(seq for seq, state in active.items() if seq > after and state is wanted.state), None)
    if wanted.kind is not None and wanted.kind != Finding.FOUND:
        return _by_kind(db, job_no, [wanted.kind], after, limit)
    if wanted.state is ItemState.FAILED and wanted.kind is None:
        kinds = dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ?", (job_no,)))
        if sum(kinds.values()) == job["failed"]:  # or some failed without saying why
            return _by_kind(db, job_no, kinds, after, limit)
    return _by_looking(db, job, wanted.state, after, limit)


def _by_kind(db: sqlite3.Connection, job_no: int, kinds: Collection[str], after: int, limit: int) -> _Found:
    """The next of each kind; where one has more of them than were read, the others count only so far."""
    current: list[int] = []
    most, looked_to = limit + _STALE, None
    for kind in kinds:
        rows = db.execute(
            "SELECT latest.seq, i.generation = latest.generation AND i.state <> 0 FROM "
            "(SELECT seq, max(generation) AS generation FROM outcomes INDEXED BY outcomes_by_kind "
            "WHERE job_no = ?1 AND kind = ?2 AND seq > ?3 GROUP BY seq ORDER BY seq LIMIT ?4) AS latest "
            "CROSS JOIN items AS i ON i.job_no = ?1 AND i.seq = latest.seq",
            (job_no, kind, after, most),
        ).fetchall()
        current += [seq for seq, is_current in rows if is_current]
        if len(rows) == most:
            looked_to = rows[-1][0] if looked_to is None else min(looked_to, rows[-1][0])
    return _Found(sorted(seq for seq in current if looked_to is None or seq <= looked_to), looked_to)


def _by_looking(db: sqlite3.Connection, job: sqlite3.Row, state: ItemState | None, after: int, limit: int) -> _Found:
    job_no = job["job_no"]
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM items WHERE job_no = ?", (job_no,)).fetchone()
    last = min(last, last_row(job))
    end = min(after + LOOKED_AT, last)
    values = {
        "job_no": job_no,
        "after": after,
        "end": end,
        "state": None if state is None else STATE_CODES[state],
        "rank": reopened_rank(job),
        "limit": limit + 1,
    }
    fits = ":state IS NULL OR i.state = :state"
    if state is ItemState.PENDING and reopened_rank(job) > 0:
        fits += (
            " OR EXISTS (SELECT 1 FROM waiting AS w "
            "WHERE w.job_no = :job_no AND w.rank = :rank AND w.due = 0 AND w.seq = i.seq)"
        )
    rows = db.execute(
        f"SELECT i.seq FROM items AS i WHERE i.job_no = :job_no AND i.seq > :after AND i.seq <= :end AND ({fits}) "  # noqa: S608 our own words
        "ORDER BY i.seq LIMIT :limit",
        values,
    ).fetchall()
    return _Found([seq for (seq,) in rows], end if end < last else None)
