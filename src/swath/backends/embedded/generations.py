"""How an ended job begins a new generation in the embedded store: the selected items are listed first, in pieces, and
one small commit makes the list true (decision 0028).

The list stands in `waiting`, under a rank that no other retry has. While it is being written the job has ended, so
nobody hands out what waits there, and nothing but another retry or a deletion can change the job. The commit that
begins the generation makes the list's rank the job's. From then on an item on the list counts as pending, whatever its
own row still says; that row is changed when the item is leased (claims.py) or cancelled (endings.py). Former ends stay
in `outcomes` by their generation. After: claims.py.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import msgspec

from swath.backends.embedded.control import job_to_change
from swath.backends.embedded.database import Database
from swath.backends.embedded.deletion import clear_lists
from swath.backends.embedded.jobs import status
from swath.backends.embedded.schema import STATE_CODES, STATE_NAMES, Rank
from swath.domain.attempt import Finding
from swath.domain.errors import BadInput, Conflict, SwathError
from swath.domain.failure import FailureKind
from swath.domain.job import JobStatus
from swath.domain.selection import Selection
from swath.domain.transitions import ItemState, JobState, check_job
from swath.observe.crash_points import reach

__all__ = ["retry"]

_LOOKED_AT: Final = 4_000  # items in one reading; no more of them can be listed in one transaction

_Kind = tuple[int, str | None]  # the state of an item, and the kind of its failure or not_found


class _List(NamedTuple):
    """Which job a retry has found, and the rank under which it lists what it selects."""

    job_id: str
    job_no: int
    generation: int
    rank: int


class _Selected(NamedTuple):
    """Those of some items that fit the selection."""

    seqs: list[int]
    kinds: Counter[_Kind]


async def retry(database: Database, boot: float, job_id: str, selection: Selection) -> JobStatus:
    """See JobControl.retry. Killed before its last commit it has changed nothing that anybody sees."""
    listed = await database.write(_begin, job_id)
    try:
        kinds = await _list(database, listed, selection)
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


async def _list(database: Database, listed: _List, selection: Selection) -> Counter[_Kind]:
    kinds = Counter[_Kind]()
    last = await database.read(_last_item, listed.job_no)
    for after in range(0, last, _LOOKED_AT):
        selected = await database.read(_select, listed.job_no, selection, after)
        if selected.seqs:
            await database.write(_add, listed, selected.seqs)
            reach("after_retry_piece")
        kinds.update(selected.kinds)
    return kinds


def _begin(db: sqlite3.Connection, job_id: str) -> _List:
    row = job_to_change(db, job_id)
    _refuse_unless_ended(row)
    (rank,) = db.execute(
        "INSERT INTO meta VALUES ('retries', ?) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value",
        (Rank.REOPENED + 1,),
    ).fetchone()
    return _List(job_id, row["job_no"], row["generation"], rank)


def _refuse_unless_ended(row: sqlite3.Row) -> None:
    if not JobState(row["state"]).terminal:
        raise Conflict(f"job {row['job_id']!r} is {row['state']}; items can be run again when it has ended")


def _still_listed(db: sqlite3.Connection, listed: _List) -> sqlite3.Row:
    """The job's row. Raises Conflict when it is not the one any more for which the list is made."""
    row = job_to_change(db, listed.job_id)
    _refuse_unless_ended(row)
    if (row["job_no"], row["generation"]) != (listed.job_no, listed.generation):
        raise Conflict(f"job {listed.job_id!r} was retried or replaced by somebody else meanwhile; look at it first")
    return row


def _last_item(db: sqlite3.Connection, job_no: int) -> int:
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM items WHERE job_no = ?", (job_no,)).fetchone()
    return int(last)


def _select(db: sqlite3.Connection, job_no: int, selection: Selection, after: int) -> _Selected:
    with _selection_in(db, selection):
        rows = db.execute(
            "SELECT i.seq, i.state, o.kind FROM items AS i CROSS JOIN outcomes AS o "
            "ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation "
            "WHERE i.job_no = ? AND i.seq > ? AND i.seq <= ? AND i.state <> 0 "
            "AND selected(i.item_id, i.state, o.kind, o.ended_at)",
            (job_no, after, after + _LOOKED_AT),
        ).fetchall()
    return _Selected([seq for seq, _, _ in rows], Counter((code, kind) for _, code, kind in rows))


@contextmanager
def _selection_in(db: sqlite3.Connection, selection: Selection) -> Iterator[None]:
    """Lets SQLite ask the selection about each row, so that there is one meaning of it."""
    kinds = {kind.value: kind for kind in FailureKind}

    def selected(item_id: str, state: int, kind: str | None, ended_at: float) -> bool:
        return selection.takes(item_id, STATE_NAMES[state], kinds.get(kind or ""), ended_at)

    db.create_function("selected", 4, selected)
    try:
        yield
    finally:
        db.create_function("selected", 4, None)


def _add(db: sqlite3.Connection, listed: _List, seqs: list[int]) -> None:
    _still_listed(db, listed)
    db.execute(
        "INSERT INTO waiting SELECT ?, ?, 0, value FROM json_each(?) AS listed",
        (listed.job_no, listed.rank, msgspec.json.encode(seqs).decode()),
    )


def _begin_generation(db: sqlite3.Connection, boot: float, listed: _List, kinds: Counter[_Kind]) -> JobStatus:
    check_job(JobState(_still_listed(db, listed)["state"]), JobState.PENDING)
    _uncount(db, listed.job_no, kinds)
    db.execute(
        "UPDATE jobs SET state = ?, generation = generation + 1, stopping = NULL, started_at = NULL, ended_at = NULL, "
        "served = (SELECT value FROM meta WHERE key = 'granted'), released = 0, finished = 0, in_a_row = 0, "
        "opened = NULL, window = '', pace = 0, steady = 0, mark_at = NULL, "
        "mark_ended = success + failed + skipped, delete_at = NULL, reopened = ? WHERE job_no = ?",
        (JobState.PENDING.value, listed.rank, listed.job_no),
    )
    return status(db, boot, listed.job_id)


def _uncount(db: sqlite3.Connection, job_no: int, kinds: Counter[_Kind]) -> None:
    """Takes what is reopened out of the counters."""
    for (code, kind), items in kinds.items():
        column = STATE_NAMES[code].value  # the counters are named for the states
        db.execute(f"UPDATE jobs SET {column} = {column} - ? WHERE job_no = ?", (items, job_no))  # noqa: S608 our own names
        if kind == Finding.NOT_FOUND:
            db.execute("UPDATE jobs SET not_found = not_found - ? WHERE job_no = ?", (items, job_no))
        if code == STATE_CODES[ItemState.FAILED] and kind is not None:
            db.execute("UPDATE failures SET items = items - ? WHERE job_no = ? AND kind = ?", (items, job_no, kind))
    db.execute("DELETE FROM failures WHERE job_no = ? AND items = 0", (job_no,))


async def _clear(database: Database, listed: _List, *, own: bool) -> None:
    """Removes this list, or those of earlier retries, which have lost by now. Lists of later ones are theirs."""
    first, last = (listed.rank, listed.rank) if own else (Rank.REOPENED + 1, listed.rank - 1)
    while await database.write(clear_lists, listed.job_no, first, last):
        pass
