"""`make profile`: what the CPU of an item is spent on, by the part of Swath that the event loop was in.

Runs the benchmark's order once, with packed results, under sampled.py. It says where the time goes when an aim of
`make bench` is missed; how much it is, only the benchmark says.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from harness.bench import swath_runs
from harness.bench.run_order import Order
from harness.bench.sampler import ELSEWHERE
from harness.bench.site import Site
from harness.tables import Row, Section, as_text, put_into

__all__ = ["main", "shares"]

# The first that a module's name begins with.
PARTS: Final = {
    "the scraper: parsing the page, picking fields": (
        "swath_scraper_",
        "swath.sdk",
        "swath.pipeline.extract",
        "swath.fetch.http.page.page",
    ),
    "telling data from blocks and errors": (
        "swath.fetch.http.blocks.classify",
        "swath.fetch.http.blocks.scoring",
        "swath.fetch.http.blocks.visible_text",
        "swath.fetch.http.blocks.signatures",
        "swath.fetch.http.page.parsing.parse_cost",
    ),
    "the HTTP client, as far as the loop has to do with it": (
        "swath.fetch.http.client.transport",
        "swath.fetch.http.client.http1",
        "swath.fetch.http.client.wreq",
        "swath.fetch.http.client.content_decoding",
        "swath.fetch.http.client.limits",
    ),
    "sessions: cookies, redirects, charsets, the egress guard": ("swath.fetch.http",),
    "limits of the site, its circuit, proxies": ("swath.sites", "swath.fetch.proxies"),
    "leases, slots, retries, groups of outcomes": ("swath.pipeline.worker", "swath.pipeline.retrying"),
    "loading": ("swath.pipeline.ingest",),
    "packing pages and records": (
        "swath.pipeline.formats.artifacts",
        "swath.pipeline.formats.packs",
        "swath.pipeline.finish.cleanup",
        "swath.pipeline.formats.warc",
    ),
    "manifests": ("swath.pipeline.finish", "swath.pipeline.formats"),
    "store and files, as far as the loop has to do with it": ("swath.backends",),
    "counting and logging": ("swath.observability",),
    "all else of Swath": ("swath",),
    "the loop itself, and threads: HTTP, files, SQLite": (ELSEWHERE,),
}


def main(arguments: list[str] | None = None) -> int:
    """Prints the shares."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.profile", description="make profile")
    parser.add_argument("--items", type=int, default=10_000, metavar="N", help="so many (10,000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the shares into a Markdown page")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="swath-profile-") as folder, Site(options.items) as site:
        order = Order(folder=Path(folder) / "order", items=options.items, base_url=site.base_url)
        order.write()
        seen = Path(folder) / "seen.json"
        swath_runs.run(order, module=("-m", "harness.bench.sampler", str(seen)))
        found = shares(Counter(json.loads(seen.read_text(encoding="utf-8"))))
    section: Section = (("where the loop was, by CPU used", "share"), found)
    print(as_text([section]))
    if options.page:
        put_into(options.page, [section], "profile")
    return 0


def shares(seen: Counter[str]) -> list[Row]:
    """Of each part, the largest first."""
    parts: Counter[str] = Counter()
    for module, times in seen.items():
        parts[next(part for part, names in PARTS.items() if module.startswith(names))] += times
    return [(part, f"{times / seen.total():.0%}") for part, times in parts.most_common()]


if __name__ == "__main__":
    sys.exit(main())
