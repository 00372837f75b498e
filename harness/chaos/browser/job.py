"""The job of `make chaos-browser`: that of `make chaos`, with a scraper that opens pages in browsers, and its site."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.chaos.job import ChaosJob, make_job

__all__ = ["ITEM_SECONDS", "make_browser_job"]

ITEM_SECONDS: Final = 45.0
_SCRAPER: Final = "browser_scraper.py"
_SITES: Final = (
    "default: {rate: {tokens: 10000}, concurrency: 100, action_delay_ms: [0, 0],"
    " breaker: {window: 1000, failures: 1000}}\n"
)
_TIMEOUTS: Final = {"request_seconds": 15, "navigation_seconds": 15, "item_seconds": ITEM_SECONDS}


def make_browser_job(folder: Path, *, items: int, site: str, concurrency: int) -> ChaosJob:
    """In a new folder. `concurrency` is how many items each process has in its browsers at once."""
    job = make_job(folder, items=items, mean_seconds=0.0, concurrency=64)
    policy_file = folder / "policy.json"
    policy = json.loads(policy_file.read_text(encoding="utf-8")) | {"timeouts": _TIMEOUTS}
    policy_file.write_text(json.dumps(policy), encoding="utf-8")
    (folder / "sites.yaml").write_text(_SITES, encoding="utf-8")
    (folder / "site.json").write_text(json.dumps({"url": site}), encoding="utf-8")
    shutil.copy(Path(__file__).with_name(_SCRAPER), folder)
    settings = {
        "SWATH_SITES": str(folder / "sites.yaml"),
        "SWATH_ALLOW_PRIVATE": site.partition("://")[2],
        "SWATH_BROWSERS": "2",
        "SWATH_BROWSER_CONCURRENCY": str(concurrency),
        # Chromium keeps both cores busy, and a heartbeat may have to wait for its turn.
        "SWATH_LEASE_SECONDS": "10",
        "SWATH_HEARTBEAT_SECONDS": "2",
    }
    return replace(job, scraper=_SCRAPER, settings=settings)
