"""Loads a large file into DynamoDB, is killed on the way, loads it again by the same command, and counts what is there.

The count reads the rows with plain botocore and knows of each id what it must be; nothing of the product is asked.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from harness.chaos.aws.raw_store import HeadAt, PlainTable
from harness.fleet.measured_job import JOB_ID, MeasuredJob, peak_bytes
from harness.fleet.meters import MeteredRequests, read_meters
from harness.soak.job import item_ids

__all__ = ["Loaded", "load"]

KILL_AT: Final = 0.4
LOOK_SECONDS: Final = 0.05
STALL_SECONDS: Final = 120.0
_TOLD: Final = 5


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """`killed_rows` were there when the loader was killed, after `killed_seconds`; `again_seconds` is the second time.

    Times have the start of the program in them. `problems` are empty when every row is there, once, as it was.
    """

    rows: int
    killed_rows: int
    killed_seconds: float
    again_seconds: float
    peak_bytes: int
    asked_again: MeteredRequests
    problems: list[str]

    @property
    def rows_per_second(self) -> float:
        """Over both times."""
        return self.rows / (self.killed_seconds + self.again_seconds)


def load(place: MeasuredJob, rows: int, kill_at: float = KILL_AT) -> Loaded:
    """Both times, and the count; killed when such a part of the rows is there, or soon after."""
    place.write_items(rows)
    place.must("aws", "init")
    killed_rows, killed_seconds, first_peak = _run(place, int(kill_at * rows))
    _, again_seconds, second_peak = _run(place, None)
    return Loaded(
        rows=rows,
        killed_rows=killed_rows,
        killed_seconds=killed_seconds,
        again_seconds=again_seconds,
        peak_bytes=max(first_peak, second_peak),
        asked_again=read_meters(place.meters("load"), rows - killed_rows),
        problems=_count(place, rows),
    )


def _run(place: MeasuredJob, kill_at: int | None) -> tuple[int, float, int]:
    """Rows in the store at its end, seconds, and the most memory; `kill_at` so many rows it is killed."""
    order = ("jobs", "create", "example-mock", "--items", str(place.items_file), "--job-id", JOB_ID, "--quiet")
    process = place.start(*order, meters="load")
    began = moved = time.monotonic()
    peak, there = 0, -1
    try:
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            total, now = place.look().total, time.monotonic()
            if total != there:
                there, moved = total, now
            if kill_at is not None and total >= kill_at:
                process.send_signal(signal.SIGKILL)
                process.wait()
            elif now - moved > STALL_SECONDS:
                raise SystemExit(f"no row has been loaded for {STALL_SECONDS:g} s: see {place.log}")
            time.sleep(LOOK_SECONDS)
    finally:
        process.kill()
        process.wait()
    wanted = 0 if kill_at is None else -signal.SIGKILL
    if process.returncode != wanted:
        raise SystemExit(f"the loader ended with code {process.returncode}, not {wanted}: see {place.log}")
    return place.look().total, time.monotonic() - began, peak


def _count(place: MeasuredJob, rows: int) -> list[str]:
    """The status, and every row by itself: an id may be there once, in the place that it has in the file."""
    assert place.endpoints is not None
    table = PlainTable(place.endpoints, place.name)
    number = table.number(JOB_ID)
    if number is None:
        return ["the table does not know the job"]
    head = table.head(number)
    state, total = head[HeadAt.STATE], head[HeadAt.TOTAL]
    problems = [] if (state, total) == ("pending", rows) else [f"the job is {state} and has {total:,} items"]
    found = _ids(table, number, problems)
    wrong = [seq for seq, item_id in enumerate(item_ids(rows), start=1) if found.pop(seq, None) != item_id]
    if wrong:
        problems.append(f"{len(wrong):,} rows are missing or wrong, the first of them {wrong[:_TOLD]}")
    if found:
        problems.append(f"{len(found):,} rows are too many, some of them {list(islice(found, _TOLD))}")
    return problems


def _ids(table: PlainTable, number: int, problems: list[str]) -> dict[int, str]:
    """Ids by row, of batches that were committed: a loader that was killed may leave rows that count for nothing."""
    marks: dict[int, str] = {}
    parts: list[tuple[int, str, list[tuple[int, str]]]] = []
    for row in table.rows():
        if row.partition == f"batches/{number}":
            marks[int(row.sort)] = msgspec.msgpack.decode(row.body)[3]
        elif row.partition.startswith(f"items/{number}/"):
            _, kind, batch, mark, _ = row.sort.split("#")
            entries = msgspec.msgpack.decode(row.body) if kind == "i" else []
            parts.append((int(batch), mark, [(entry[0], entry[1]) for entry in entries]))
    found: dict[int, str] = {}
    for brought_by, mark, ids in parts:
        if marks.get(brought_by) == mark:
            twice = [seq for seq, _ in ids if seq in found]
            if twice:
                problems.append(f"{len(twice):,} rows are there twice, the first of them {twice[:_TOLD]}")
            found.update(ids)
    return found
