"""Loads a job over HTTP, once in one piece and once with `kill -9` on the way, and counts the stored rows by SQL."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Final

from harness.served_controller import Served, serving
from harness.soak.job import COLUMN, JOB_ID, item_ids

__all__ = [
    "FORMS",
    "JOB_PATH",
    "NDJSON",
    "Form",
    "KilledLoad",
    "WholeLoad",
    "input_of",
    "load",
    "load_killed",
    "loaded_items",
    "store_problems",
    "write_rows",
]


@dataclass(frozen=True)
class Form:
    """How rows are sent. `by_key`: after a break the whole body comes again under its key; otherwise only the rest."""

    name: str
    suffix: str
    headers: tuple[tuple[str, str], ...]
    by_key: bool


NDJSON: Final = Form("NDJSON", "ndjson", (("Content-Type", "application/x-ndjson"),), by_key=True)
GZIP_CSV: Final = Form("gzip CSV", "csv.gz", (("Content-Type", "text/csv"), ("Content-Encoding", "gzip")), by_key=False)
FORMS: Final = (NDJSON, GZIP_CSV)


def input_of(item_id: str) -> bytes:
    """What a row must have become, as it is stored."""
    return b'{"%s":"%s"}' % (COLUMN.encode(), item_id.encode())


def write_rows(form: Form, folder: Path, items: int, first: int = 0) -> Path:
    """The file with all rows from `first` on; written once."""
    path = folder / f"rows-{first}-{items}.{form.suffix}"
    if path.exists():
        return path
    ids = islice(item_ids(items), first, None)
    if form is NDJSON:
        with path.open("wb") as file:
            file.writelines(b'{"item_id":"%s","input":%s}\n' % (one.encode(), input_of(one)) for one in ids)
    else:
        with gzip.open(path, "wb", compresslevel=6) as packed:
            packed.write(f"{COLUMN}\n".encode())
            packed.writelines(f"{one}\n".encode() for one in ids)
    return path


def store_problems(data: Path, items: int) -> list[str]:
    """What is not as it must be; empty when nothing was lost, doubled or changed."""
    with closing(_open(data)) as store:
        expected = {
            "rows of items": ("SELECT count(*) FROM items", items),
            "different ids": ("SELECT count(DISTINCT item_id) FROM items", items),
            "the counter of the job": ("SELECT total FROM jobs WHERE state = 'pending'", items),
            "the rows that it has loaded": ("SELECT loaded_rows FROM jobs", items),
            "the rows of its batches": ("SELECT sum(rows) FROM batches", items),
            "jobs": ("SELECT count(*) FROM jobs", 1),
        }
        found = []
        for what, (query, right) in expected.items():
            answer = store.execute(query).fetchone()
            if answer != (right,):
                found.append(f"{what}: {'none' if answer is None else answer[0]}, not {right}")
        rows = store.execute("SELECT seq, item_id, input FROM items ORDER BY seq")
        wrong = [one for seq, one in enumerate(item_ids(items), 1) if next(rows, None) != (seq, one, input_of(one))]
    return [*found, f"{len(wrong)} rows are not what was sent, first {wrong[0]}"] if wrong else found


def loaded_items(data: Path) -> int:
    """How many items the job has by now; 0 when there is no job yet."""
    with closing(_open(data)) as store:
        row = store.execute("SELECT total FROM jobs").fetchone()
    return int(row[0]) if row else 0


def _open(data: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(data / 'swath.db').as_uri()}?mode=ro", uri=True, timeout=30)


JOB_PATH: Final = f"/jobs/{JOB_ID}"
KILL_AT: Final = 0.4
KILLS_TRIED: Final = 5
CONCURRENCY: Final = 64
LOOK_SECONDS: Final = 0.02
STALL_SECONDS: Final = 300.0
_ORDER: Final = {
    "job_id": JOB_ID,
    "scraper_id": "example-mock",
    "execution_policy": {"throttling": {"max_concurrent_workers": CONCURRENCY}},
}


@dataclass(frozen=True, kw_only=True)
class WholeLoad:
    """A load in one piece; `seconds` from the first byte of the body to the answer."""

    form: str
    items: int
    sent_bytes: int
    seconds: float
    peak_bytes: int
    problems: list[str]

    @property
    def items_per_second(self) -> float:
        """Of the load alone."""
        return self.items / self.seconds


@dataclass(frozen=True, kw_only=True)
class KilledLoad:
    """A load whose controller was killed when `killed_items` were stored, and that went on in the next one."""

    form: str
    items: int
    killed_items: int
    way: str
    again_seconds: float
    peak_bytes: int
    problems: list[str]


def load(folder: Path, form: Form, items: int) -> WholeLoad:
    """Leaves the store in `folder` / `data`."""
    path = write_rows(form, folder.parent, items)
    with serving(folder / "data", "--no-worker") as served:
        served.ask("POST", "/jobs", _ORDER)
        seconds = _send(served, form, path)
        served.ask("POST", f"{JOB_PATH}/start")
        peak_bytes = served.peak_bytes()
        served.stop()
    return WholeLoad(
        form=form.name,
        items=items,
        sent_bytes=path.stat().st_size,
        seconds=seconds,
        peak_bytes=peak_bytes,
        problems=store_problems(folder / "data", items),
    )


def load_killed(folder: Path, form: Form, items: int) -> KilledLoad:
    """The same, with a kill at 40 %; its store is thrown away when it was right."""
    path, data = write_rows(form, folder.parent, items), folder / "data"
    killed_items, first_peak = _broken_off(form, path, data, items)
    with serving(data, "--no-worker") as served:
        offset = None
        if not form.by_key:
            offset = int(served.ask("GET", f"{JOB_PATH}/status")["loaded_rows"])
            path = write_rows(form, folder.parent, items, offset)
        again_seconds = _send(served, form, path, offset)
        served.ask("POST", f"{JOB_PATH}/start")
        second_peak = served.peak_bytes()
        served.stop()
    problems = store_problems(data, items)
    if not KILL_AT * items <= killed_items < items:
        problems.append(f"it was killed at {killed_items:,} of {items:,} items, which shows nothing")
    if not problems:
        shutil.rmtree(folder)
    return KilledLoad(
        form=form.name,
        items=items,
        killed_items=killed_items,
        way="the whole body again" if form.by_key else "the rest, by offset",
        again_seconds=again_seconds,
        peak_bytes=max(first_peak, second_peak),
        problems=problems,
    )


def _send(served: Served, form: Form, path: Path, offset: int | None = None) -> float:
    headers = dict(form.headers) | ({"Idempotency-Key": "the-load"} if form.by_key else {})
    query = "" if offset is None else f"?offset={offset}"
    began = time.perf_counter()
    with path.open("rb") as rows:
        served.ask("POST", f"{JOB_PATH}/items{query}", rows, headers)
    return time.perf_counter() - began


def _broken_off(form: Form, path: Path, data: Path, items: int) -> tuple[int, int]:
    """Begun anew where the kill came too late: on a busy machine we may sleep until all of it is there."""
    for _ in range(KILLS_TRIED):
        shutil.rmtree(data, ignore_errors=True)
        with serving(data, "--no-worker") as served:
            served.ask("POST", "/jobs", _ORDER)
            broken_off = _break_off(served, form, path, data, int(KILL_AT * items))
        if broken_off[0] < items:
            return broken_off
    return broken_off


def _break_off(served: Served, form: Form, path: Path, data: Path, kill_at: int) -> tuple[int, int]:
    """Items that are stored when it is dead, and the most memory that it had."""

    def send() -> None:
        with suppress(OSError, HTTPException):  # the connection breaks, as it must
            _send(served, form, path)

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    until = time.monotonic() + STALL_SECONDS
    while loaded_items(data) < kill_at and sending.is_alive():
        if time.monotonic() > until:
            raise SystemExit(f"the load does not get on: see {served.log}")
        time.sleep(LOOK_SECONDS)
    peak_bytes = served.peak_bytes()
    served.kill()
    sending.join(STALL_SECONDS)
    return loaded_items(data), peak_bytes
