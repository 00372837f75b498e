"""A real worker with real browsers meets the hostile site: `python -m swath.testing.hostile.browsing`.

A job on the embedded back end: an item for each behaviour, and a good page after each. Prints how each ended, how
long it took, and what memory all browsers had at most; `--page` puts it into the docs. Exits 1 when one ended otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from swath.bootstrap import make_registry, make_worker, open_services
from swath.browser.memory import tree_bytes
from swath.domain.item import Item, ItemRecord
from swath.domain.job import Job
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import ItemState
from swath.pipeline.finish.verify import verify
from swath.ports.job_store import Batch
from swath.settings import Settings
from swath.testing.hostile.behaviour import Behaviour
from swath.testing.hostile.site import HostileSite
from swath.testing.hostile.table import BROWSER_BEHAVIOURS
from swath.testing.tables import Section, as_text, put_into

__all__ = ["Meeting", "Met", "hangs", "main", "meet"]

MARK: Final = "browser behaviours"
_POLICY: Final = {
    "retries": {"max_retries": 0, "max_infrastructure_retries": 2, "backoff": "fixed", "base_delay_seconds": 0.1},
    "timeouts": {"request_seconds": 5.0, "navigation_seconds": 6.0, "item_seconds": 30},
    "throttling": {"max_concurrent_workers": 8},
    "circuit_breaker": {"min_requests": 100_000},
}
_SITES: Final = (
    "default: {rate: {tokens: 10000}, concurrency: 100, action_delay_ms: [0, 0],"
    " breaker: {window: 1000, failures: 1000}}\n"
)
_JOB_ID: Final = "hostile"
_MIB: Final = 1 << 20


class Met(msgspec.Struct, frozen=True):
    """How the item of a behaviour ended. `seconds` is the longest of its attempts."""

    behaviour: Behaviour
    ended: str
    message: str
    seconds: float

    @property
    def as_told(self) -> bool:
        return self.ended in (self.behaviour.kinds or ("a page",))


class Meeting(msgspec.Struct, frozen=True):
    """`fine`: how many of the good pages in between succeeded, and how many there were."""

    met: list[Met]
    fine: tuple[int, int]
    problems: list[str]
    canary_hits: int
    most_mib: int


async def meet(folder: Path, behaviours: Sequence[Behaviour], concurrency: int = 4) -> Meeting:
    """Runs the job to its end, in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sites.yaml").write_text(_SITES, encoding="utf-8")
    async with HostileSite() as site:
        settings = Settings(
            data=folder / "data",
            sites=folder / "sites.yaml",
            allow_private=tuple(site.places),
            grace_seconds=2.0,
            browsers=2,
            browser_concurrency=concurrency,
        )
        inputs: list[dict[str, str | bool]] = []
        for one in behaviours:
            inputs += [{"url": site.address(one)}, {"url": site.fine(one), "waits": False}]
        records, problems, most_bytes = await _worked(settings, inputs)
        met = [_met(one, record) for one, record in zip(behaviours, records[::2], strict=True)]
        fine = [record.state is ItemState.SUCCESS for record in records[1::2]]
        return Meeting(met, (sum(fine), len(fine)), problems, site.canary_hits, most_bytes // _MIB)


async def _worked(settings: Settings, inputs: list[dict[str, str | bool]]) -> tuple[list[ItemRecord], list[str], int]:
    job = Job(
        job_id=_JOB_ID,
        scraper_id="hostile-browser",
        scraper_source=str(Path(__file__).with_name("browser_scraper.py")),
        policy=ExecutionPolicy.model_validate(_POLICY),
    )
    async with open_services(settings) as services:
        await services.store.submit(job)
        items = tuple(Item(number, f"item-{number}", input_) for number, input_ in enumerate(inputs, 1))
        await services.store.load(_JOB_ID, Batch(0, 1, len(items), "d", items))
        await services.store.seal(_JOB_ID, 1)
        stop, most_bytes = asyncio.Event(), 0
        async with make_worker(services, make_registry(settings)) as worker:
            task = asyncio.create_task(worker.run(stop))
            while not (await services.store.status(_JOB_ID)).state.terminal and not task.done():
                most_bytes = max(most_bytes, await asyncio.to_thread(tree_bytes, os.getpid()))
                await asyncio.sleep(0.2)
            stop.set()
            await task
        report = await verify(services.store, services.storage, _JOB_ID)
        return await services.store.items(_JOB_ID), [str(problem) for problem in report.problems], most_bytes


def _met(one: Behaviour, record: ItemRecord) -> Met:
    seconds = max((tried.ended_at - tried.started_at for tried in record.attempts), default=0.0)
    if record.state is ItemState.SUCCESS:
        return Met(one, "a page", "", seconds)
    failure = record.failure
    return Met(one, "nothing" if failure is None else failure.kind.value, failure.message if failure else "", seconds)


def rows_of(met: Sequence[Met]) -> Section:
    """As the docs page shows them."""
    head = ("name", "what the page does", "how an item ends", "seconds")
    return head, [
        (
            f"`{one.behaviour.name}`",
            one.behaviour.does,
            one.ended if one.ended == "a page" else f"`{one.ended}`",
            f"{one.seconds:.1f}",
        )
        for one in met
    ]


def main(arguments: list[str] | None = None) -> int:
    """Meets them all, or those that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m swath.testing.hostile.browsing", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="behaviours (default: all)")
    parser.add_argument("--concurrency", type=int, default=2, metavar="N", help="items at once (2)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a Markdown page")
    options = parser.parse_args(arguments)
    chosen = [BROWSER_BEHAVIOURS[name] for name in options.names] or list(BROWSER_BEHAVIOURS.values())
    with tempfile.TemporaryDirectory() as folder:
        meeting = asyncio.run(meet(Path(folder), chosen, options.concurrency))
    print(as_text([rows_of(meeting.met)]))
    wrong = [one for one in meeting.met if not one.as_told]
    for one in wrong:
        print(f"{one.behaviour.name} ended as {one.ended}, not as {one.behaviour.ends_as}: {one.message}")
    print(
        f"good pages: {meeting.fine[0]} of {meeting.fine[1]}; at most {meeting.most_mib:,} MiB in all",
        *meeting.problems,
    )
    if options.page:
        put_into(options.page, [rows_of(meeting.met)], MARK)
    return 1 if wrong or meeting.problems or meeting.fine[0] != meeting.fine[1] or meeting.canary_hits else 0


if __name__ == "__main__":
    sys.exit(main())
