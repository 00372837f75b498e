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

from swath.testing.bench import swath_runs
from swath.testing.bench.order import Order
from swath.testing.bench.sampled import ELSEWHERE
from swath.testing.bench.site import Site
from swath.testing.tables import Row, Section, as_text, put_into

__all__ = ["main", "shares"]

# The first that a module's name begins with.
PARTS: Final = {
    "the scraper: parsing the page, picking fields": (
        "swath_scraper_",
        "swath.kit",
        "swath.pipeline.extract",
        "swath.web.page",
    ),
    "telling data from blocks and errors": (
        "swath.web.classify",
        "swath.web.evidence",
        "swath.web.shown_text",
        "swath.web.signatures",
        "swath.web.weight",
    ),
    "the HTTP client, as far as the loop has to do with it": (
        "swath.web.direct_transport",
        "swath.web.http1",
        "swath.web.wreq",
        "swath.web.proxied_transport",
        "swath.web.decode",
        "swath.web.limits",
        "swath.web.stalls",
        "swath.web.deadlines",
    ),
    "sessions: cookies, redirects, charsets, the egress guard": ("swath.web",),
    "limits of the site, its circuit, proxies": ("swath.sites", "swath.proxies"),
    "leases, slots, retries, groups of outcomes": ("swath.pipeline.execute", "swath.pipeline.dispatch"),
    "loading": ("swath.pipeline.accept",),
    "packing pages and records": (
        "swath.pipeline.finish.artifacts",
        "swath.pipeline.finish.pack_index",
        "swath.pipeline.finish.packing",
        "swath.pipeline.finish.settling",
        "swath.pipeline.finish.warc",
    ),
    "manifests": ("swath.pipeline.finish",),
    "store and files, as far as the loop has to do with it": ("swath.backends",),
    "counting and logging": ("swath.observe",),
    "all else of Swath": ("swath",),
    "the loop itself, and threads: HTTP, files, SQLite": (ELSEWHERE,),
}


def main(arguments: list[str] | None = None) -> int:
    """Prints the shares."""
    parser = argparse.ArgumentParser(prog="python -m swath.testing.bench.profile", description="make profile")
    parser.add_argument("--items", type=int, default=10_000, metavar="N", help="so many (10,000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the shares into a Markdown page")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="swath-profile-") as folder, Site(options.items) as site:
        order = Order(folder=Path(folder) / "order", items=options.items, base_url=site.base_url)
        order.write()
        seen = Path(folder) / "seen.json"
        swath_runs.run(order, module=("-m", "swath.testing.bench.sampled", str(seen)))
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
