"""Jobs and items as people see them: the reading half of JobStore, and cancel. Each runs inside one transaction.

Before: loading.py writes them.
"""

from __future__ import annotations

import sqlite3

import msgspec

from swath.backends.embedded.schema import STATE_CODES, STATE_NAMES
from swath.domain.attempt import Attempt, Ended, Tries
from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Counts, Job, JobStatus
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import ItemState, JobState

__all__ = [
    "Progress",
    "cancel",
    "decode_job",
    "encode_job",
    "item",
    "items",
    "jobs",
    "readable",
    "row_of",
    "status",
]


class Progress(msgspec.Struct, frozen=True):
    """What earlier leases did to an item that has not ended."""

    tries: Tries = Tries()
    attempts: tuple[Attempt, ...] = ()


def _encode_policy(value: object) -> object:
    if isinstance(value, ExecutionPolicy):
        return value.as_json()
    raise TypeError(f"{type(value).__name__} is no part of a job")


def _decode_policy(kind: type, value: object) -> object:
    if kind is ExecutionPolicy:
        return ExecutionPolicy.model_validate(value)
    raise TypeError(f"{type(value).__name__} is no part of a job")


_job_encoder = msgspec.json.Encoder(enc_hook=_encode_policy)
_job_decoder = msgspec.json.Decoder(Job, dec_hook=_decode_policy)
_progress_decoder = msgspec.json.Decoder(Progress)
_ended_decoder = msgspec.json.Decoder(Ended)
_seqs_decoder = msgspec.json.Decoder(list[int])


def encode_job(job: Job) -> bytes:
    """The Job as the store keeps it."""
    return _job_encoder.encode(job)


def decode_job(spec: bytes) -> Job:
    """The Job as it was submitted."""
    return _job_decoder.decode(spec)


def readable(spec: bytes) -> Job | None:
    """The same, or None if it cannot be read: such a job waits for a person, and others go on meanwhile."""
    try:
        return decode_job(spec)
    except (msgspec.MsgspecError, ValueError):
        return None


def row_of(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    """The job's row, by name. Raises UnknownName."""
    cursor = db.execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,))
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row | None = cursor.fetchone()
    if row is None:
        known = (name for (name,) in db.execute("SELECT job_id FROM jobs ORDER BY job_no DESC LIMIT 1000"))
        raise UnknownName.of("job", job_id, known, "see `swath jobs list`")
    return row


def cancel(db: sqlite3.Connection, job_id: str) -> JobStatus:
    """See JobStore.cancel."""
    row = row_of(db, job_id)
    if not JobState(row["state"]).terminal:
        db.execute("UPDATE jobs SET cancelling = 1 WHERE job_no = ?", (row["job_no"],))
    return status(db, job_id)


def status(db: sqlite3.Connection, job_id: str) -> JobStatus:
    """See JobStore.status."""
    return _status(db, row_of(db, job_id))


def _status(db: sqlite3.Connection, row: sqlite3.Row) -> JobStatus:
    job_no = row["job_no"]
    queued, running = db.execute(
        "SELECT coalesce(sum(waiting), 0), coalesce(sum(running), 0) FROM shares WHERE job_no = ?", (job_no,)
    ).fetchone()
    ended = row["success"] + row["failed"] + row["skipped"] + row["cancelled"]
    counts = Counts(
        pending=row["total"] - ended - queued - running,
        queued=queued,
        in_progress=running,
        success=row["success"],
        not_found=row["not_found"],
        failed=row["failed"],
        skipped=row["skipped"],
        cancelled=row["cancelled"],
        total=row["total"],
    )
    failures = dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ? ORDER BY kind", (job_no,)))
    return JobStatus(
        job=decode_job(row["spec"]),
        state=_job_state(row["state"]),
        generation=row["generation"],
        counts=counts,
        failures=failures,
        items_per_second=row["pace"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        loaded_rows=row["loaded_rows"],
        cancelling=bool(row["cancelling"]),
        manifest=None if row["manifest"] is None else msgspec.json.decode(row["manifest"]),
    )


def _job_state(name: str) -> JobState:
    try:
        return JobState(name)
    except ValueError:
        raise StoreDamaged(f"the store holds a job in no known state: {name!r}") from None


def _item_state(code: int) -> ItemState:
    try:
        return STATE_NAMES[code]
    except KeyError:
        raise StoreDamaged(f"the store holds an item in no known state: {code!r}") from None


def jobs(db: sqlite3.Connection, after: str | None, limit: int) -> list[JobStatus]:
    """See JobStore.jobs."""
    before = (1 << 62) if after is None else row_of(db, after)["job_no"]
    cursor = db.execute("SELECT * FROM jobs WHERE job_no < ? ORDER BY job_no DESC LIMIT ?", (before, limit))
    cursor.row_factory = sqlite3.Row
    return [_status(db, row) for row in cursor.fetchall()]


_ITEM_QUERY = (
    "SELECT i.seq, i.item_id, i.input, i.state, i.fence, i.progress, i.due, o.ended FROM items AS i "
    "LEFT JOIN outcomes AS o ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = ?2 AND i.state <> 0 "
    "WHERE i.job_no = ?1 "
)


def items(db: sqlite3.Connection, job_id: str, after: int, limit: int, boot_to_now: float) -> list[ItemRecord]:
    """See JobStore.items. `boot_to_now` turns a time of the boot clock into Unix seconds."""
    row = row_of(db, job_id)
    found = db.execute(
        _ITEM_QUERY + "AND i.seq > ?3 ORDER BY i.seq LIMIT ?4", (row["job_no"], row["generation"], after, limit)
    ).fetchall()
    return _records(db, row["job_no"], found, boot_to_now)


def item(db: sqlite3.Connection, job_id: str, item_id: str, boot_to_now: float) -> ItemRecord:
    """See JobStore.item."""
    row = row_of(db, job_id)
    found = db.execute(_ITEM_QUERY + "AND i.item_id = ?3", (row["job_no"], row["generation"], item_id)).fetchall()
    if not found:
        raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")
    return _records(db, row["job_no"], found, boot_to_now)[0]


Row = tuple[int, str, bytes, int, int, bytes | None, float | None, bytes | None]


def _records(db: sqlite3.Connection, job_no: int, rows: list[Row], boot_to_now: float) -> list[ItemRecord]:
    unfinished = any(row[3] == STATE_CODES[ItemState.PENDING] for row in rows)
    active = _active(db, job_no) if unfinished else {}
    records = []
    for seq, item_id, input_, state, fence, progress, due, ended in rows:
        if ended is not None:
            records.append(_ended_record(seq, item_id, input_, _item_state(state), fence, ended))
            continue
        known = Progress() if progress is None else _progress_decoder.decode(progress)
        records.append(
            ItemRecord(
                seq=seq,
                item_id=item_id,
                input=msgspec.json.decode(input_),
                state=active.get(seq, _item_state(state)),
                fence=fence,
                attempts=known.attempts,
                tries=known.tries,
                not_before=due + boot_to_now if due else None,
            )
        )
    return records


def _ended_record(seq: int, item_id: str, input_: bytes, state: ItemState, fence: int, ended: bytes) -> ItemRecord:
    end = _ended_decoder.decode(ended)
    return ItemRecord(
        seq=seq,
        item_id=item_id,
        input=msgspec.json.decode(input_),
        state=state,
        fence=fence,
        finding=end.finding,
        failure=end.failure,
        reason=end.reason,
        attempts=end.attempts,
        artifacts=end.artifacts,
        tries=end.tries,
        scraper_version=end.scraper_version,
    )


def _active(db: sqlite3.Connection, job_no: int) -> dict[int, ItemState]:
    """Items that have a slot now, as their workers last reported."""
    active: dict[int, ItemState] = {}
    for queued, begun in db.execute("SELECT queued, begun FROM shares WHERE job_no = ?", (job_no,)):
        active |= dict.fromkeys(_seqs_decoder.decode(queued), ItemState.QUEUED)
        active |= dict.fromkeys(_seqs_decoder.decode(begun), ItemState.IN_PROGRESS)
    return active
