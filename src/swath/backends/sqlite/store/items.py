"""Reads items: their rows, ends and last reports, by page, by id or by filter.

Each function runs inside one transaction. A filtered page costs the same in a job of any size: what failed or was
not
found is read from its index, what runs from the reports of workers, and all else from a bounded number of rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from swath.backends.sqlite.schema import STATE_CODES, STATE_NAMES, Rank
from swath.backends.sqlite.store.jobs import job_row
from swath.backends.sqlite.store.returned_items import read_progress
from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.item import PAGE_BYTES, ByteBudget, EarlierEnd, EndedItem, ItemFilter, ItemRecord, SuccessOutcome
from swath.domain.transitions import ItemState, JobState
from swath.ports.job_store import ItemPage

__all__ = ["LOOKED_AT", "active_items", "find_items", "item", "items", "items_by_seq", "last_row", "reopened_rank"]

_decode = msgspec.json.Decoder().decode
_ended_decoder = msgspec.json.Decoder(EndedItem)
_seqs_decoder = msgspec.json.Decoder(list[int])

_QUERY = (
    "SELECT i.seq, i.item_id, i.input, i.state, i.fence, i.progress, i.due, i.generation, o.ended_at, o.ended "
    "FROM items AS i LEFT JOIN outcomes AS o "
    "ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation AND i.state <> 0 WHERE i.job_no = ? "
)


# A row as the query gives it: whoever goes through a job reads millions of them, so they are not wrapped.
_Row = tuple[int, str, bytes, int, int, bytes | None, float | None, int, float | None, bytes | None]

_SEQ: Final = 0
_INPUT: Final = 2
_STATE: Final = 3
_GENERATION: Final = 7
_ENDED: Final = 9

_NO_BOUND: Final = (1 << 63) - 1
_NO_RANK: Final = -1


def items(db: sqlite3.Connection, job_id: str, after: int, limit: int, boot_to_now: float) -> list[ItemRecord]:
    """See JobStore.items. `boot_to_now` turns a time of the boot clock into Unix seconds."""
    job = job_row(db, job_id)
    query = _QUERY + "AND i.seq > ? AND i.seq <= ? ORDER BY i.seq LIMIT ?"
    found = db.execute(query, (job["job_no"], after, last_row(job), limit))
    rows = list(ByteBudget(PAGE_BYTES).take(found, _size))
    found.close()
    return _records(db, job["job_no"], _as_reopened(db, job, rows), boot_to_now)


def last_row(job: sqlite3.Row) -> int:
    """The last number that an item of the job can have. A batch of which only a part is stored has no items yet."""
    return _NO_BOUND if job["unfinished"] is None else int(job["loaded_rows"])


def items_by_seq(
    db: sqlite3.Connection, job: sqlite3.Row, seqs: Iterable[int], boot_to_now: float, portion: ByteBudget
) -> list[ItemRecord]:
    """These items, as far as they are there and the portion has room for them."""
    found = (db.execute(_QUERY + "AND i.seq = ?", (job["job_no"], seq)).fetchone() for seq in seqs)
    rows = list(portion.take((row for row in found if row is not None), _size))
    return _records(db, job["job_no"], _as_reopened(db, job, rows), boot_to_now)


def _size(row: _Row) -> int:
    return len(row[_INPUT]) + len(row[_ENDED] or b"")


def item(db: sqlite3.Connection, job_id: str, item_id: str, boot_to_now: float) -> ItemRecord:
    """See JobStore.item."""
    job = job_row(db, job_id)
    query = _QUERY + "AND i.item_id = ? AND i.seq <= ?"
    found = _as_reopened(db, job, db.execute(query, (job["job_no"], item_id, last_row(job))).fetchall())
    if not found:
        raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")
    (record,) = _records(db, job["job_no"], found, boot_to_now)
    return msgspec.structs.replace(record, earlier=_earlier(db, job["job_no"], found[0]))


def reopened_rank(job: sqlite3.Row) -> int:
    """The rank in `waiting` of items that have not ended although their rows say so; one that there is not, if none."""
    if job["reopened"] == Rank.REOPENED or JobState(job["state"]).terminal:
        return _NO_RANK
    return int(job["reopened"])


def _as_reopened(db: sqlite3.Connection, job: sqlite3.Row, rows: list[_Row]) -> list[_Row]:
    """The rows, those of items that wait since the last retry as they will be when they are leased."""
    rank = reopened_rank(job)
    if rank == _NO_RANK or not rows:
        return rows
    waiting = db.execute(
        "SELECT w.seq FROM json_each(?) AS listed CROSS JOIN waiting AS w "
        "ON w.job_no = ? AND w.rank = ? AND w.due = 0 AND w.seq = listed.value",
        (msgspec.json.encode([row[_SEQ] for row in rows]).decode(), job["job_no"], rank),
    )
    seqs = {seq for (seq,) in waiting}
    return [_reopened(row) if row[_SEQ] in seqs else row for row in rows]


def _reopened(row: _Row) -> _Row:
    seq, item_id, input_, _, _, _, _, generation, _, _ = row
    return seq, item_id, input_, STATE_CODES[ItemState.PENDING], 0, None, None, generation, None, None


def _earlier(db: sqlite3.Connection, job_no: int, row: _Row) -> tuple[EarlierEnd, ...]:
    """Its ends before the generation it is in now."""
    last = row[_GENERATION] - 1 if row[_ENDED] is not None else row[_GENERATION]
    rows = db.execute(
        "SELECT generation, ended_at, ended FROM outcomes WHERE job_no = ? AND seq = ? AND generation <= ? "
        "ORDER BY generation",
        (job_no, row[0], last),
    )
    return tuple(
        EarlierEnd(generation=generation, ended_at=ended_at, end=_ended_decoder.decode(ended))
        for generation, ended_at, ended in rows
    )


def _records(db: sqlite3.Connection, job_no: int, rows: list[_Row], boot_to_now: float) -> list[ItemRecord]:
    unfinished = STATE_CODES[ItemState.PENDING] in map(itemgetter(_STATE), rows)
    active = active_items(db, job_no) if unfinished else {}
    return [
        _open_record(row, active.get(row[0]), boot_to_now) if row[_ENDED] is None else _ended_record(row)
        for row in rows
    ]


def _open_record(row: _Row, active: ItemState | None, boot_to_now: float) -> ItemRecord:
    seq, item_id, input_, state, fence, progress, due, *_ = row
    known = read_progress(progress)
    return ItemRecord(
        seq=seq,
        item_id=item_id,
        input=_decode(input_),
        state=active or _state(state),
        fence=fence,
        attempts=known.attempts,
        tries=known.tries,
        not_before=due + boot_to_now if due else None,
        suspect=known.suspect,
    )


def _ended_record(row: _Row) -> ItemRecord:
    seq, item_id, input_, state, fence, _, _, generation, ended_at, ended = row
    end = _ended_decoder.decode(ended or b"")
    return ItemRecord(
        seq=seq,
        item_id=item_id,
        input=_decode(input_),
        state=_state(state),
        fence=fence,
        finding=end.finding,
        failure=end.failure,
        reason=end.reason,
        attempts=end.attempts,
        artifacts=end.artifacts,
        tries=end.tries,
        scraper_version=end.scraper_version,
        generation=generation,
        ended_at=ended_at,
    )


def _state(code: int) -> ItemState:
    try:
        return STATE_NAMES[code]
    except KeyError:
        raise StoreDamaged(f"the store holds an item in no known state: {code!r}") from None


def active_items(db: sqlite3.Connection, job_no: int) -> dict[int, ItemState]:
    """Items that have a slot now, as their workers last reported."""
    active: dict[int, ItemState] = {}
    for queued, begun in db.execute("SELECT queued, begun FROM shares WHERE job_no = ?", (job_no,)):
        active |= dict.fromkeys(_seqs_decoder.decode(queued), ItemState.QUEUED)
        active |= dict.fromkeys(_seqs_decoder.decode(begun), ItemState.IN_PROGRESS)
    return active


LOOKED_AT: Final = 20_000  # rows of the source in one reading
_RUNNING_STATES: Final = {ItemState.QUEUED, ItemState.IN_PROGRESS}
_STALE: Final = 400  # ends of earlier generations that one reading passes over, for each kind


class _Candidates(NamedTuple):
    """Items that may fit, by `seq`. Between them and `looked_to` there is no other; None: nor beyond."""

    seqs: list[int]
    looked_to: int | None


def find_items(
    db: sqlite3.Connection, job_id: str, wanted: ItemFilter, after: int, limit: int, boot_to_now: float
) -> ItemPage:
    """See JobStore.find_items. `boot_to_now` as by items.items."""
    job = job_row(db, job_id)
    if wanted.kind is not None and wanted.state is not None and not wanted.state.terminal:
        return ItemPage([], None)  # what has not ended has no kind
    found = _candidates(db, job, wanted, after, limit)
    seqs = found.seqs[:limit]
    looked_to = seqs[-1] if len(found.seqs) > limit else found.looked_to
    portion = ByteBudget(PAGE_BYTES)
    records = items_by_seq(db, job, seqs, boot_to_now, portion)
    if portion.full:
        looked_to = records[-1].seq
    return ItemPage([record for record in records if wanted.takes(record)], looked_to)


def _candidates(db: sqlite3.Connection, job: sqlite3.Row, wanted: ItemFilter, after: int, limit: int) -> _Candidates:
    job_no = job["job_no"]
    if wanted.state in _RUNNING_STATES:
        active = active_items(db, job_no)
        return _Candidates(sorted(seq for seq, state in active.items() if seq > after and state is wanted.state), None)
    if wanted.kind is not None and wanted.kind != SuccessOutcome.FOUND:
        return _by_kind(db, job_no, [wanted.kind], after, limit)
    if wanted.state is ItemState.FAILED and wanted.kind is None:
        kinds = dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ?", (job_no,)))
        if sum(kinds.values()) == job["failed"]:  # or some failed without saying why
            return _by_kind(db, job_no, kinds, after, limit)
    return _by_scan(db, job, wanted.state, after, limit)


def _by_kind(db: sqlite3.Connection, job_no: int, kinds: Collection[str], after: int, limit: int) -> _Candidates:
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
    return _Candidates(sorted(seq for seq in current if looked_to is None or seq <= looked_to), looked_to)


def _by_scan(db: sqlite3.Connection, job: sqlite3.Row, state: ItemState | None, after: int, limit: int) -> _Candidates:
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
    return _Candidates([seq for (seq,) in rows], end if end < last else None)
