"""Runs a worker with real browsers against the hostile site: `python -m harness.fakes.hostile_site.browser_run`."""

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

from harness.fakes.hostile_site.behaviour import Behaviour
from harness.fakes.hostile_site.site import HostileSite
from harness.fakes.hostile_site.table import BROWSER_BEHAVIOURS
from harness.tables import Section, as_text, put_into
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import Item, ItemRecord
from swath.domain.job import Job
from swath.domain.transitions import ItemState
from swath.fetch.browser.chromium.launch import tree_bytes
from swath.pipeline.results.verify.verifier import verify
from swath.ports.job_store import ItemBatch
from swath.settings import Settings

__all__ = ["BehaviourResult", "RunResult", "main", "rows_of", "run_behaviours"]

MARK: Final = "browser behaviours"
_POLICY: Final = {
    "retries": {"max_retries": 0, "max_infrastructure_retries": 2, "backoff": "fixed", "base_delay_seconds": 0.1},
    "throttling": {"max_concurrent_workers": 8},
    "circuit_breaker": {"min_requests": 100_000},
}
# Those that must end by our patience meet little of it. The others, and the good pages, bear a machine with other work.
_PATIENCE: Final = {
    "hanging": {"request_seconds": 3.0, "navigation_seconds": 4.0, "item_seconds": 40},
    "others": {"request_seconds": 25.0, "navigation_seconds": 25.0, "item_seconds": 90},
}
_SITES: Final = (
    "default: {rate: {tokens: 10000}, concurrency: 100, action_delay_ms: [0, 0],"
    " breaker: {window: 1000, failures: 1000}}\n"
)
_MIB: Final = 1 << 20

Inputs = list[dict[str, str | bool]]


class BehaviourResult(msgspec.Struct, frozen=True):
    """How the item of a behaviour ended. `seconds` is the longest of its attempts."""

    behaviour: Behaviour
    ended: str
    message: str
    seconds: float

    @property
    def as_told(self) -> bool:
        """Whether the table says so."""
        return self.ended in (self.behaviour.kinds or ("a page",))


class RunResult(msgspec.Struct, frozen=True):
    """`not_fine` is how many of the good pages could not be had, `canary_hits` how often a port was reached that nobody
    may reach. `most_mib`: of this process and all browsers."""

    met: list[BehaviourResult]
    not_fine: int
    problems: list[str]
    canary_hits: int
    most_mib: int


async def run_behaviours(folder: Path, behaviours: Sequence[Behaviour], concurrency: int = 4) -> RunResult:
    """Runs two jobs to their ends, in this process and at the same time. The folder is there already."""
    await asyncio.to_thread((folder / "sites.yaml").write_text, _SITES, encoding="utf-8")
    hanging = [one for one in behaviours if FailureKind.TIMEOUT in one.kinds]
    others = [one for one in behaviours if one not in hanging]
    async with HostileSite() as site:
        settings = _settings(folder, site, concurrency)
        good: Inputs = [{"url": site.fine(one), "waits": False} for one in behaviours]
        ending: Inputs = [{"url": site.address(one), "waits": True} for one in others]
        both: dict[str, Inputs] = {
            "hanging": [{"url": site.address(one)} for one in hanging],
            "others": ending + good,
        }
        inputs = {job_id: rows for job_id, rows in both.items() if rows}
        async with open_services(settings) as services:
            most_bytes = await _work(services, settings, inputs)
            records = [record for job_id in inputs for record in await _items(services, job_id)]
            problems = [problem for job_id in inputs for problem in await _problems(services, job_id)]
    met = [_met(one, record) for one, record in zip([*hanging, *others], records, strict=False)]
    not_fine = sum(record.state is not ItemState.SUCCESS for record in records[len(behaviours) :])
    met.sort(key=lambda one: behaviours.index(one.behaviour))
    return RunResult(met, not_fine, problems, site.canary_hits, most_bytes // _MIB)


async def _work(services: Services, settings: Settings, inputs: dict[str, Inputs]) -> int:
    """Until all jobs have ended. The most memory that there was, in bytes."""
    for job_id, rows in inputs.items():
        await services.store.submit(_job(job_id))
        items = tuple(Item(number, f"item-{number}", row) for number, row in enumerate(rows, 1))
        await services.store.load(job_id, ItemBatch(0, 1, len(items), "d", items))
        await services.store.seal(job_id, 1)
    stop, most_bytes = asyncio.Event(), 0
    async with make_worker(services, make_registry(settings)) as worker:
        task = asyncio.create_task(worker.run(stop))
        while not task.done() and not all([await _has_ended(services, job_id) for job_id in inputs]):
            most_bytes = max(most_bytes, await asyncio.to_thread(tree_bytes, os.getpid()))
            await asyncio.sleep(0.2)
        stop.set()
        await task
    return most_bytes


def _settings(folder: Path, site: HostileSite, concurrency: int) -> Settings:
    return Settings(
        data=folder / "data",
        sites=folder / "sites.yaml",
        allow_private=tuple(site.places),
        grace_seconds=2.0,
        browsers=2,
        browser_concurrency=concurrency,
    )


def _job(job_id: str) -> Job:
    return Job(
        job_id=job_id,
        scraper_id="hostile-browser",
        scraper_source=str(Path(__file__).with_name("browser_scraper.py")),
        policy=ExecutionPolicy.model_validate(_POLICY | {"timeouts": _PATIENCE[job_id]}),
    )


async def _has_ended(services: Services, job_id: str) -> bool:
    return (await services.store.status(job_id)).state.terminal


async def _items(services: Services, job_id: str) -> list[ItemRecord]:
    return list(await services.store.items(job_id))


async def _problems(services: Services, job_id: str) -> list[str]:
    return [str(problem) for problem in (await verify(services.store, services.storage, job_id)).problems]


def _met(one: Behaviour, record: ItemRecord) -> BehaviourResult:
    seconds = max((tried.ended_at - tried.started_at for tried in record.attempts), default=0.0)
    if record.state is ItemState.SUCCESS:
        return BehaviourResult(one, "a page", "", seconds)
    failure = record.failure
    return BehaviourResult(
        one, "nothing" if failure is None else failure.kind.value, failure.message if failure else "", seconds
    )


def rows_of(met: Sequence[BehaviourResult]) -> Section:
    """As the docs page shows them."""
    head = ("name", "what the page does", "how an item ends", "seconds")
    rows = [(f"`{one.behaviour.name}`", one.behaviour.does, one.behaviour.ends_as, f"{one.seconds:.1f}") for one in met]
    return head, rows


def main(arguments: list[str] | None = None) -> int:
    """Meets them all, or those that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.fakes.hostile_site.browser_run", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="behaviours (default: all)")
    parser.add_argument("--concurrency", type=int, default=2, metavar="N", help="items at once (2)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a Markdown page")
    options = parser.parse_args(arguments)
    chosen = [BROWSER_BEHAVIOURS[name] for name in options.names] or list(BROWSER_BEHAVIOURS.values())
    with tempfile.TemporaryDirectory() as folder:
        meeting = asyncio.run(run_behaviours(Path(folder), chosen, options.concurrency))
    print(as_text([rows_of(meeting.met)]))
    wrong = [one for one in meeting.met if not one.as_told]
    for one in wrong:
        print(f"{one.behaviour.name} ended as {one.ended}, not as {one.behaviour.ends_as}: {one.message}")
    print(f"good pages that failed: {meeting.not_fine}; at most {meeting.most_mib:,} MiB in all", *meeting.problems)
    if options.page:
        put_into(options.page, [rows_of(meeting.met)], MARK)
    return 1 if wrong or meeting.problems or meeting.not_fine or meeting.canary_hits else 0


if __name__ == "__main__":
    sys.exit(main())
