"""The two jobs of the run, each in a folder of its own: the imported recording, and the scraper that somebody has
written by hand for the same page. Run by the real command line; what they came to is read from the store.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.bench.browser_cost import measured_tree
from harness.bench.cost import Cost

__all__ = ["MAX_RETRIES", "CountyJob", "ItemResult"]

JOB_ID: Final = "parcels"
MAX_RETRIES: Final = 3
MODULE: Final = (sys.executable, "-m", "swath.entrypoints.cli.main")
_SITES: Final = (
    "default: {rate: {tokens: 10000}, concurrency: 100, action_delay_ms: [0, 0],"
    " breaker: {window: 1000, failures: 1000}}\n"
)
_ITEM_SECONDS: Final = 120.0
_ENDED: Final = (0, 3)  # all items are done, or some of them have failed
_STATES: Final = {1: "success", 2: "failed"}


class ItemResult(NamedTuple):
    """What an item came to. `failures` are those of its attempts, as kind and message, in their order."""

    state: str
    record: dict[str, Any] | None
    failures: tuple[tuple[str, str], ...]


class CountyJob:
    """One job. `patience_seconds` is how long it waits for what a page does not show."""

    def __init__(self, folder: Path, scraper: str, site: str, *, concurrency: int, patience_seconds: float) -> None:
        self.folder = folder
        self._scraper = scraper
        self._site = site
        self._concurrency = concurrency
        self._patience_seconds = patience_seconds

    def run(self, parcels: Sequence[str]) -> Cost:
        """To its end. Items may fail, the command may not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "items.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["parcel_id"], *([parcel_id] for parcel_id in parcels)])
        policy = {
            "throttling": {"max_concurrent_workers": self._concurrency},
            "retries": {"max_retries": MAX_RETRIES, "base_delay_seconds": 0.2},
            "timeouts": {"request_seconds": self._patience_seconds, "item_seconds": _ITEM_SECONDS},
        }
        (self.folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
        (self.folder / "sites.yaml").write_text(_SITES, encoding="utf-8")
        files = [str(self.folder / name) for name in ("items.csv", "policy.json")]
        arguments = [self._scraper, "--items", files[0], "--policy", files[1], "--job-id", JOB_ID, "--quiet"]
        return measured_tree([*MODULE, "run", *arguments], self._environment(), self.folder / "log.txt", _ENDED)

    def verify(self) -> int:
        """The exit code of the product's own checker."""
        command = [*MODULE, "jobs", "verify", JOB_ID]
        return subprocess.run(command, env=self._environment(), capture_output=True, check=False).returncode

    def came_to(self) -> dict[str, ItemResult]:
        """By parcel, what is in the store and among the results."""
        found = {}
        with closing(sqlite3.connect(f"file:{self.folder / 'data' / 'swath.db'}?mode=ro", uri=True)) as db:
            rows = db.execute(
                "SELECT i.item_id, i.state, o.ended FROM items AS i LEFT JOIN outcomes AS o"
                " ON o.job_no = i.job_no AND o.seq = i.seq"
            )
            for item_id, state, ended in rows:
                found[item_id] = self._came(item_id, state, {} if ended is None else json.loads(ended))
        return found

    def _came(self, item_id: str, state: int, ended: dict[str, Any]) -> ItemResult:
        data = self.folder / "data" / "results" / JOB_ID / "items" / item_id / "data.json"
        failures = [tried["failure"] for tried in ended.get("attempts", ()) if tried.get("failure")]
        told = "not_found" if ended.get("finding") == "not_found" else _STATES.get(state, str(state))
        return ItemResult(
            told,
            json.loads(data.read_bytes()) if data.exists() else None,
            tuple((failure["kind"], failure["message"]) for failure in failures),
        )

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        return inherited | {
            "PWD": str(self.folder),
            "SWATH_DATA": str(self.folder / "data"),
            "SWATH_SITES": str(self.folder / "sites.yaml"),
            "SWATH_DEMO_URL": self._site,
            "SWATH_ALLOW_PRIVATE": self._site.partition("://")[2],
            "SWATH_BROWSER_CONCURRENCY": str(self._concurrency),
            "SWATH_LEASE_SECONDS": "20",  # Chromium keeps the machine busy, and a heartbeat may have to wait
        }
