"""Swath as a contestant: by its command line, with every default but for what the benchmark fixes for all.

`swath run` in one process; `jobs create` and `worker --processes N` where several are measured.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from harness.bench.cost import Cost, measured, measured_until
from harness.bench.run_order import CONCURRENCY, Order

__all__ = ["JOB_ID", "MODULE", "load", "loaded", "records", "run", "run_workers"]

JOB_ID: Final = "bench"
PACKED: Final = "warc"
MODULE: Final = ("-m", "swath.entrypoints.cli.main")
COMMAND: Final = (sys.executable, *MODULE)
SCRAPER: Final = "bench_scraper.py"
FASTEST_PER_SECOND: Final = 1_000_000


def run(order: Order, layout: str = PACKED, module: Sequence[str] = MODULE) -> Cost:
    """`swath run`: load, work, manifests, all in one process. Another `module` may stand around the command line."""
    return measured([sys.executable, *module, "run", *_job(order, layout)], _environment(order), order.log)


def run_workers(order: Order, processes: int) -> Cost:
    """The same job by worker processes."""
    create = load(order)
    command = [*COMMAND, "worker", "--job", JOB_ID, "--processes", str(processes)]
    with closing(sqlite3.connect(f"{_store(order).as_uri()}?mode=ro", uri=True)) as store:
        work = measured_until(command, _environment(order), order.log, lambda: _has_ended(store))
    return create + work


def load(order: Order) -> Cost:
    """`swath jobs create`: rows are checked and durable, nothing is fetched."""
    return measured([*COMMAND, "jobs", "create", *_job(order, PACKED)], _environment(order), order.log)


def loaded(order: Order) -> int:
    """How many items the store has."""
    with closing(sqlite3.connect(f"{_store(order).as_uri()}?mode=ro", uri=True)) as store:
        (items,) = store.execute("SELECT count(*) FROM items").fetchone()
    return int(items)


def records(order: Order) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in the results folder."""
    results = order.folder / "data" / "results" / JOB_ID
    for file in (results / "items").glob("*/data.json"):
        yield file.parent.name, json.loads(file.read_bytes())
    for pack in (results / "packs").glob("*.jsonl"):
        for line in map(json.loads, pack.read_bytes().splitlines()):
            yield line["item_id"], line["data"]


def _job(order: Order, layout: str) -> list[str]:
    """Writes policies and scraper beside the items, and says which job it is."""
    shutil.copy(Path(__file__).with_name(SCRAPER), order.folder)
    policy = {"throttling": {"max_concurrent_workers": CONCURRENCY}}
    (order.folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    (order.folder / "sites.yaml").write_text(json.dumps(_sites(order)), encoding="utf-8")
    return [
        f"./{SCRAPER}",
        "--items",
        "items.csv",
        "--job-id",
        JOB_ID,
        "--policy",
        "policy.json",
        "--layout",
        layout,
        "--quiet",
    ]


def _sites(order: Order) -> dict[str, Any]:
    """As fast as the peers visit the site, who do not ask for robots.txt; all else is the default."""
    policy = {"rate": {"tokens": FASTEST_PER_SECOND}, "concurrency": CONCURRENCY, "robots": "ignore"}
    return {"sites": {"bench": {"domains": [order.host], **policy}}} if order.base_url else {}


def _environment(order: Order) -> dict[str, str]:
    return order.environment(
        SWATH_DATA=str(order.folder / "data"),
        SWATH_SITES=str(order.folder / "sites.yaml"),
        SWATH_ALLOW_PRIVATE=order.host,  # the site is on this machine, which scrapers may not reach by default
    )


def _store(order: Order) -> Path:
    return order.folder / "data" / "swath.db"


def _has_ended(store: sqlite3.Connection) -> bool:
    (state,) = store.execute("SELECT state FROM jobs").fetchone()
    return state not in {"pending", "running"}
