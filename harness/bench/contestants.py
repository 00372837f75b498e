"""Who competes, how each is started, and where its records are found afterwards.

Peers are scripts in `bench-peers/`, run by an interpreter of their own. swath_runs.py has Swath's own ways.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from harness.bench import swath_runs
from harness.bench.cost import Cost, measured
from harness.bench.run_order import Order

__all__ = ["SCRIPTS", "Contestant", "Kind", "all_contestants", "dataset", "own_contestants"]

Kind = Literal["pages", "memory", "load"]
Records = Callable[[Order], Iterator[tuple[str, dict[str, str]]]]

SCRIPTS: Final = Path("bench-peers")


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One way of doing the work.

    `kind` is what it is measured in: pages over HTTP, pages out of memory, or rows that are only loaded. It is given
    `share` of the items, where all of them would take it too long. `records` come with the item's id.
    """

    name: str
    told: str
    kind: Kind = "pages"
    share: float = 1.0
    run: Callable[[Order], Cost]
    records: Records | None = None
    loaded: Callable[[Order], int] | None = None


def own_contestants() -> list[Contestant]:
    """Those that need nothing but Swath's own environment."""
    return [*_swath(), *_by_hand()]


def all_contestants(peers_python: Path) -> list[Contestant]:
    """Everybody, in the order of the tables."""
    return [*own_contestants(), *_peers(peers_python), *_several(), *_loads(peers_python)]


def _swath() -> list[Contestant]:
    told = {"warc": "Swath, packed", "files": "Swath, a file each"}
    return [
        Contestant(
            name=f"swath {layout}",
            told=words,
            run=partial(swath_runs.run, layout=layout),
            records=swath_runs.records,
        )
        for layout, words in told.items()
    ]


def _by_hand() -> list[Contestant]:
    tools = {"usual": "script", "tuned": "tuned script"}
    kept = {"segment": "one segment file", "files": "four files an item"}
    return [
        Contestant(
            name=f"script {which} {keep}",
            told=f"{words}, {what}",
            run=partial(_python, Path(sys.executable), "-m", "harness.bench.baseline_script", which, keep),
            records=_files if keep == "files" else _lines,
        )
        for which, words in tools.items()
        for keep, what in kept.items()
    ]


def _peers(python: Path) -> list[Contestant]:
    scrapy, crawlee = str((SCRIPTS / "scrapy_run.py").absolute()), str((SCRIPTS / "crawlee_run.py").absolute())
    return [
        *(
            Contestant(
                name=f"scrapy {loop}",
                told=told,
                run=partial(_python, python, scrapy, loop, "scrape"),
                records=_lines,
            )
            for loop, told in (("default", "Scrapy"), ("uvloop", "Scrapy on uvloop"))
        ),
        Contestant(
            name="crawlee",
            told="Crawlee, ParselCrawler",
            run=partial(_python, python, crawlee, "scrape"),
            records=dataset,
        ),
    ]


def _several() -> list[Contestant]:
    """One process against two: pages out of memory where a core for the site would be missing, and over HTTP."""
    return [
        *(
            Contestant(
                name=f"swath memory {processes}",
                told=f"Swath, pages from memory, {processes} process{'es' if processes > 1 else ''}",
                kind="memory",
                run=partial(swath_runs.run_workers, processes=processes),
                records=swath_runs.records,
            )
            for processes in (1, 2)
        ),
        Contestant(
            name="swath warc 2",
            told="Swath, packed, 2 processes",
            run=partial(swath_runs.run_workers, processes=2),
            records=swath_runs.records,
        ),
    ]


def _loads(python: Path) -> list[Contestant]:
    scrapy, crawlee = str((SCRIPTS / "scrapy_run.py").absolute()), str((SCRIPTS / "crawlee_run.py").absolute())
    return [
        Contestant(
            name="swath load",
            told="Swath, jobs create",
            kind="load",
            run=swath_runs.load,
            loaded=swath_runs.loaded,
        ),
        Contestant(
            name="scrapy load",
            told="Scrapy, JOBDIR",
            kind="load",
            run=partial(_python, python, scrapy, "default", "load"),
            loaded=_counted,
        ),
        Contestant(
            name="crawlee load",
            told="Crawlee, default storage",
            kind="load",
            share=0.1,
            run=partial(_python, python, crawlee, "load"),
            loaded=_counted,
        ),
    ]


def _python(python: Path, *arguments: str | Order) -> Cost:
    """A script: its words, then the file of its order, which comes last."""
    *words, order = arguments
    assert isinstance(order, Order)
    command = [str(python), *(str(word) for word in words), str(order.order_file)]
    return measured(command, order.environment(), order.log)


def _lines(order: Order) -> Iterator[tuple[str, dict[str, str]]]:
    with (order.folder / "records.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield record["parcel_id"], record


def _files(order: Order) -> Iterator[tuple[str, dict[str, str]]]:
    for file in (order.folder / "items").glob("*/data.json"):
        yield file.parent.name, json.loads(file.read_bytes())


def dataset(order: Order) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in Crawlee's default storage."""
    for file in (order.folder / "storage" / "datasets" / "default").glob("0*.json"):
        record = json.loads(file.read_bytes())
        yield record["parcel_id"], record


def _counted(order: Order) -> int:
    return int((order.folder / "loaded.txt").read_text(encoding="ascii"))
