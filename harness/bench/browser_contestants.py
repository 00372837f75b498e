"""Who competes in `make bench-browser`, how each is started, and where its records are found afterwards.

Like with like: contexts that are thrown away against Crawlee's incognito pages, kept ones against its default.
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.bench import swath_runs
from harness.bench.browser_cost import measured_tree
from harness.bench.contestants import SCRIPTS, Contestant, dataset
from harness.bench.cost import Cost
from harness.bench.run_order import Order

__all__ = ["CONCURRENCY", "all_contestants", "own_contestants"]

CONCURRENCY: Final = 4
FASTEST_PER_SECOND: Final = 1_000_000
SCRAPER: Final = "browser_scraper.py"


def own_contestants(chromium: Path) -> list[Contestant]:
    """Those that need nothing but Swath's own environment."""
    told = {"fresh": "Swath, a context for each page", "kept": "Swath, kept contexts"}
    return [
        Contestant(name=f"swath {way}", told=words, run=partial(_swath, chromium, way), records=swath_runs.records)
        for way, words in told.items()
    ]


def all_contestants(chromium: Path, peers_python: Path) -> list[Contestant]:
    """Everybody, in the order of the tables."""
    told = {"incognito": "Crawlee, incognito pages", "default": "Crawlee, default"}
    peers = [
        Contestant(
            name=f"crawlee {way}", told=words, run=partial(_crawlee, peers_python, chromium, way), records=dataset
        )
        for way, words in told.items()
    ]
    return [*own_contestants(chromium), *peers]


def _crawlee(python: Path, chromium: Path, way: str, order: Order) -> Cost:
    script = str((SCRIPTS / "crawlee_browser_run.py").absolute())
    command = [str(python), script, way, str(chromium), str(order.order_file)]
    return measured_tree(command, order.environment(), order.log)


def _swath(chromium: Path, way: str, order: Order) -> Cost:
    said: dict[str, Any] = json.loads(order.order_file.read_text(encoding="utf-8"))
    order.order_file.write_text(json.dumps(said | {"keeps": way == "kept"}), encoding="utf-8")
    shutil.copy(Path(__file__).with_name(SCRAPER), order.folder)
    policy = {"throttling": {"max_concurrent_workers": order.concurrency}}
    (order.folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    (order.folder / "sites.yaml").write_text(json.dumps(_sites(order)), encoding="utf-8")
    job = ["--items", "items.csv", "--job-id", swath_runs.JOB_ID, "--policy", "policy.json", "--quiet"]
    command = [sys.executable, *swath_runs.MODULE, "run", f"./{SCRAPER}", *job]
    return measured_tree(command, _environment(order, chromium), order.log)


def _sites(order: Order) -> dict[str, Any]:
    """As fast as the peer visits the site, who waits for nothing; all else is the default."""
    policy = {
        "rate": {"tokens": FASTEST_PER_SECOND},
        "concurrency": order.concurrency,
        "robots": "ignore",
        "action_delay_ms": [0, 0],
    }
    return {"sites": {"bench": {"domains": [order.host], **policy}}}


def _environment(order: Order, chromium: Path) -> dict[str, str]:
    return order.environment(
        SWATH_DATA=str(order.folder / "data"),
        SWATH_SITES=str(order.folder / "sites.yaml"),
        SWATH_ALLOW_PRIVATE=order.host,  # the site is on this machine, which browsers may not reach by default
        SWATH_CHROMIUM=str(chromium),
        SWATH_BROWSER_HEADLESS="true",  # as the peer's
        SWATH_BROWSERS="1",
        SWATH_BROWSER_CONCURRENCY=str(order.concurrency),
    )
