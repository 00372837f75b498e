"""Loads a job over HTTP: once in one piece, once with `kill -9` on the way. Before: rows.py. After: count.py."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final

from swath.testing.api_load import count
from swath.testing.api_load.rows import Form, write_rows
from swath.testing.api_load.served import Served, serving
from swath.testing.soak.job import JOB_ID

__all__ = ["JOB_PATH", "Killed", "Whole", "load", "load_killed"]

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
class Whole:
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
class Killed:
    """A load whose controller was killed when `killed_items` were stored, and that went on in the next one."""

    form: str
    items: int
    killed_items: int
    way: str
    again_seconds: float
    peak_bytes: int
    problems: list[str]


def load(folder: Path, form: Form, items: int) -> Whole:
    """Leaves the store in `folder` / `data`."""
    path = write_rows(form, folder.parent, items)
    with serving(folder / "data", "--no-worker") as served:
        served.ask("POST", "/jobs", _ORDER)
        seconds = _send(served, form, path)
        served.ask("POST", f"{JOB_PATH}/start")
        peak_bytes = served.peak_bytes()
        served.stop()
    return Whole(
        form=form.name,
        items=items,
        sent_bytes=path.stat().st_size,
        seconds=seconds,
        peak_bytes=peak_bytes,
        problems=count.problems(folder / "data", items),
    )


def load_killed(folder: Path, form: Form, items: int) -> Killed:
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
    problems = count.problems(data, items)
    if not KILL_AT * items <= killed_items < items:
        problems.append(f"it was killed at {killed_items:,} of {items:,} items, which shows nothing")
    if not problems:
        shutil.rmtree(folder)
    return Killed(
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
    while count.loaded_items(data) < kill_at and sending.is_alive():
        if time.monotonic() > until:
            raise SystemExit(f"the load does not get on: see {served.log}")
        time.sleep(LOOK_SECONDS)
    peak_bytes = served.peak_bytes()
    served.kill()
    sending.join(STALL_SECONDS)
    return count.loaded_items(data), peak_bytes
