"""Commits what a worker reports: outcomes, counters, circuit and the next slots, together or not at all.

Counters, pace and circuit move by what has really ended, in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from swath.backends.sqlite.schema import STATE_CODES, Rank
from swath.backends.sqlite.store import slot_shares
from swath.backends.sqlite.store.jobs import decode_job, job_pace, job_row
from swath.backends.sqlite.store.leases import ALL_HELD, HELD, LeaseClock, directive_for
from swath.backends.sqlite.store.returned_items import read_progress
from swath.domain import circuit_breaker, throughput
from swath.domain.circuit_breaker import JobCircuit
from swath.domain.execution_policy import OnOpen
from swath.domain.item import EndedItem, HandedBackItem, SuccessOutcome
from swath.domain.job import StopReason, merge_scraper_versions
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = ["count_outcomes", "finish", "open_circuit", "write_outcomes"]


def write_outcomes(
    db: sqlite3.Connection, times: LeaseClock, job_no: int, generation: int, ends: Iterable[EndedItem]
) -> None:
    """Writes down how items ended in this generation. Their rows are the caller's.

    In one statement: the ends lie in one blob, one behind the other, and a list says whose is where.
    """
    written, places, start = [], [], 1
    for end in ends:
        ended = msgspec.json.encode(end)
        written.append(ended)
        places.append((end.seq, _kind(end), start, len(ended)))
        start += len(ended)
    db.execute(
        "INSERT OR REPLACE INTO outcomes SELECT ?, json_extract(value, '$[0]'), ?, json_extract(value, '$[1]'), ?, "
        "substr(?, json_extract(value, '$[2]'), json_extract(value, '$[3]')) FROM json_each(?) AS listed",
        (job_no, generation, times.now, b"".join(written), msgspec.json.encode(places).decode()),
    )


def _kind(end: EndedItem) -> str | None:
    if end.finding is SuccessOutcome.NOT_FOUND:
        return end.finding
    return None if end.failure is None else end.failure.kind


def count_outcomes(db: sqlite3.Connection, times: LeaseClock, job_no: int, counted: Sequence[EndedItem]) -> None:
    """Moves the job's counters, tells its circuit, and lets the job stop or pause if that opens."""
    if not counted:
        return
    cursor = db.execute(
        "SELECT state, stopping, concurrency, released, finished, in_a_row, opened, window, "
        "pace, steady, mark_at, spec FROM jobs WHERE job_no = ?",
        (job_no,),
    )
    cursor.row_factory = sqlite3.Row
    job: sqlite3.Row = cursor.fetchone()
    by_state = Counter(end.state for end in counted)
    after, state, stopping = _circuit(job, counted)
    db.execute(
        "UPDATE jobs SET success = success + ?, not_found = not_found + ?, failed = failed + ?, skipped = skipped + ?, "
        "cancelled = cancelled + ?, window = ?, in_a_row = ?, finished = ?, opened = ?, "
        "pace = ?, steady = ?, mark_at = ?, cost = cost + ? WHERE job_no = ?",
        (
            by_state[ItemState.SUCCESS],
            sum(end.finding is SuccessOutcome.NOT_FOUND for end in counted),
            by_state[ItemState.FAILED],
            by_state[ItemState.SKIPPED],
            by_state[ItemState.CANCELLED],
            after.window,
            after.in_a_row,
            after.finished,
            after.opened,
            *_pace(job, times.boot, len(counted)),
            sum(end.cost for end in counted),
            job_no,
        ),
    )
    if (state, stopping) != (job["state"], job["stopping"]):  # apart, because several indexes have the state
        db.execute("UPDATE jobs SET state = ?, stopping = ? WHERE job_no = ?", (state, stopping, job_no))
    _count_kinds(db, job_no, counted)


def _count_kinds(db: sqlite3.Connection, job_no: int, counted: Sequence[EndedItem]) -> None:
    kinds = Counter(end.failure.kind.value for end in counted if end.state is ItemState.FAILED and end.failure)
    db.executemany(
        "INSERT INTO failures VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET items = items + excluded.items",
        [(job_no, kind, items) for kind, items in kinds.items()],
    )


def _circuit(job: sqlite3.Row, counted: Sequence[EndedItem]) -> tuple[JobCircuit, str, str | None]:
    """The circuit after these ends, and the state and the stopping of the job that follow from it."""
    before = JobCircuit(job["window"], job["in_a_row"], job["finished"], job["released"], job["opened"])
    breaker = decode_job(job["spec"]).policy.circuit_breaker
    after = circuit_breaker.record_item_ends(before, breaker, counted)
    state, stopping = job["state"], job["stopping"]
    if before.opened is None and after.opened is not None and stopping is None:
        state, stopping = _stopped(JobState(state), breaker.on_open)
    return after, state, stopping


def _stopped(state: JobState, on_open: OnOpen) -> tuple[str, str | None]:
    """The state and the stopping of a job whose circuit has just opened."""
    if on_open is OnOpen.FAIL:
        return state.value, StopReason.CIRCUIT_OPEN.value
    if state is not JobState.PAUSED:
        check_job(state, JobState.PAUSED)
    return JobState.PAUSED.value, None


def open_circuit(db: sqlite3.Connection, job_id: str, why: str, most_left: int | None) -> None:
    """See LeaseBook.open_circuit."""
    job = job_row(db, job_id)
    left = job["total"] - job["success"] - job["failed"] - job["skipped"] - job["cancelled"]
    if most_left is not None and left > most_left:
        return
    if job["state"] not in {JobState.PENDING, JobState.RUNNING} or job["stopping"] or job["deleting"] or job["opened"]:
        return
    on_open = decode_job(job["spec"]).policy.circuit_breaker.on_open
    db.execute(
        "UPDATE jobs SET opened = ?, state = ?, stopping = ? WHERE job_no = ?",
        (why, *_stopped(JobState(job["state"]), on_open), job["job_no"]),
    )


def _pace(job: sqlite3.Row, boot: float, items: int) -> tuple[float, float, float]:
    after = throughput.record_ended_items(job_pace(job), boot, items, job["concurrency"])
    return after.items, after.seconds, after.at


_seqs_decoder = msgspec.json.Decoder(set[int])


def finish(
    db: sqlite3.Connection,
    times: LeaseClock,
    lease: Lease,
    ended: Sequence[EndedItem],
    handed_back: Sequence[HandedBackItem],
    report: SlotReport,
) -> SlotGrant:
    """See LeaseBook.finish."""
    job_no = _job_of_live_lease(db, lease)
    if job_no is None:
        return SlotGrant(directive=LeaseDirective.LOST)
    accepted = _end_items(db, times, job_no, lease.fence, ended)
    accepted |= _take_back(db, times, job_no, lease.fence, handed_back)
    return _regrant(db, times, job_no, lease, report, frozenset(accepted))


def _job_of_live_lease(db: sqlite3.Connection, lease: Lease) -> int | None:
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND worker = ? AND rescued = 0 AND purpose = 'items'",
        (lease.fence, lease.worker_id),
    ).fetchone()
    return None if row is None else int(row[0])


def _end_items(
    db: sqlite3.Connection, times: LeaseClock, job_no: int, fence: int, ended: Sequence[EndedItem]
) -> set[int]:
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
    write_outcomes(db, times, job_no, generation, ends)
    count_outcomes(db, times, job_no, ends)
    _note_versions(db, job_no, versions, ends)
    return set(counted)


def _note_versions(db: sqlite3.Connection, job_no: int, before: str, ends: Sequence[EndedItem]) -> None:
    """Of the scraper. Hardly any commit brings a new one."""
    known: list[str] = msgspec.json.decode(before)
    met = merge_scraper_versions(known, ends)
    if len(met) > len(known):
        told = msgspec.json.encode(met).decode()
        db.execute("UPDATE jobs SET scraper_versions = ? WHERE job_no = ?", (told, job_no))


def _held_ends(db: sqlite3.Connection, job_no: int, fence: int, ended: Sequence[EndedItem]) -> dict[int, EndedItem]:
    """Those of items that the lease still holds, by number; an item ends once, so the first of two counts."""
    (held,) = db.execute(
        f"SELECT json_group_array(seq) FROM items WHERE {ALL_HELD}",  # noqa: S608 our own constant
        (job_no, _listed([end.seq for end in ended]), fence),
    ).fetchone()
    ours, counted = _seqs_decoder.decode(held), dict[int, EndedItem]()
    for end in ended:
        if end.seq in ours:
            counted.setdefault(end.seq, end)
    return counted


def _listed(seqs: Sequence[int]) -> str:
    return msgspec.json.encode(seqs).decode()


def _take_back(
    db: sqlite3.Connection, times: LeaseClock, job_no: int, fence: int, handed_back: Sequence[HandedBackItem]
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
    db: sqlite3.Connection, times: LeaseClock, job_no: int, lease: Lease, report: SlotReport, accepted: frozenset[int]
) -> SlotGrant:
    """Writes the report and gives the worker its share of the slots as things stand now."""
    (limit,) = db.execute("SELECT concurrency FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    slots, target = slot_shares.regrant(db, job_no, lease.worker_id, limit, report)
    db.execute("UPDATE leases SET renewed = ?, expires = ? WHERE fence = ?", (times.boot, times.expires, lease.fence))
    return SlotGrant(directive=directive_for(db, lease.fence), slots=slots, target=target, accepted=accepted)
