"""A job of parcels that needs no network, a later scraper for its pages, and workers that have no network at all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec

from swath import HttpScraper, Input, NotFound, Page, Pages, WebPage, WebSession, scraper
from swath.backends.clock import SystemClock
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus
from swath.domain.storage_keys import Layout
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.versions.lifecycle import VersionEnd, VersionRequest, begin_version, load_version
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.worker import Worker
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.support.memory.queue import MemoryHints, MemoryQueue
from tests.support.memory.site_state import MemorySiteState
from tests.support.network import open_network

__all__ = ["CALM", "V1", "V2", "Parcels", "make_version", "owner_of", "parcels", "scraped", "work_on"]

CALM: dict[str, Any] = {"min_requests": 1_000, "consecutive_failures": 1_000}


def owner_of(number: int) -> str:
    """As the site has it."""
    return f"Owner {number}"


class Parcels(HttpScraper):
    """What both scrapers share: pages that are made here, from the number of the item alone."""

    class Input(Input):
        n: int
        odd: str = ""

    async def fetch(self, item: Any, web: WebSession) -> Any:
        """Parcel 7 is not there, and one page of parcel 8 is not what it should be."""
        body = f"<h1>Parcel {item.n}</h1><b>{owner_of(item.n)}</b><u>{item.n}.50</u>{'<i></i>' * 400}"
        page = WebPage(Page(name="html", url=f"https://county.example/{item.n}", status=200, body=body.encode()))
        if item.odd == "gone":
            web.keep(page, "html")
            raise NotFound
        if item.odd == "refused":
            raise RuntimeError("no page at all")
        return {
            "html": page,
            "extra page": WebPage(msgspec.structs.replace(page.page, name="extra page", body=b"<p>e")),
        }


@scraper("parcels", version="1")
class V1(Parcels):
    """Knows the owner and the tax as text, and cannot read every eighth page."""

    def extract(self, pages: Pages) -> Any:
        page, number = pages.main, int(pages.main.css("h1")[0].text().split()[1])
        if number % 8 == 0:
            raise ValueError("cannot read it")
        return {"owner": page.css("b")[0].text(), "tax": {"due": page.css("u")[0].text()}, "note": "old"}


@scraper("parcels", version="2")
class V2(Parcels):
    """The tax is a number, there is one field more and one less, and it can read everything."""

    async def fetch(self, item: Any, web: WebSession) -> Any:
        raise AssertionError("nobody fetches anything in a re-extraction")

    def extract(self, pages: Pages) -> Any:
        page = pages.main
        tax = {"due": float(page.css("u")[0].text())}
        return {"owner": page.css("b")[0].text(), "tax": tax, "pages": sorted(pages)}


def _parts(store: Store, storage: ResultStorage, made: HttpScraper) -> WorkerParts:
    clock, nobody = SystemClock(), SimpleNamespace(get=lambda *_: made)
    no_network, registry = None, nobody
    return WorkerParts(
        book=store,
        queue=MemoryQueue(MemoryHints(clock, 30.0)),
        storage=storage,
        clock=clock,
        registry=registry,  # type: ignore[arg-type]  # one scraper for all jobs
        sites=MemorySiteState(clock),
        network=open_network(no_network, clock),  # type: ignore[arg-type]  # whoever asks for it finds out
        finisher=Finisher(store, store, storage, clock, "w", on_version=VersionEnd(store, storage)),
        remover=Remover(store, storage, clock, "w"),
    )


async def work_on(store: Store, storage: ResultStorage, made: HttpScraper, job_id: str) -> JobStatus:
    """Works until the job has ended."""
    stop = asyncio.Event()
    worker = Worker(
        _parts(store, storage, made), WorkerOptions(worker_id="w", heartbeat_seconds=0.5, removal_seconds=600)
    )
    working = asyncio.create_task(worker.run(stop))
    async with asyncio.timeout(60):
        while not (status := await store.status(job_id)).state.terminal and not working.done():
            await asyncio.sleep(0.02)
    stop.set()
    await working
    return status


def parcels(*numbers: int) -> list[dict[str, Any]]:
    """Inputs for `scraped`."""
    return [{"n": number} for number in numbers]


async def scraped(
    store: Store,
    storage: ResultStorage,
    layout: Layout,
    items: list[dict[str, Any]],
    job_id: str = "job",
    *,
    step: int = 2,
    **policy: Any,
) -> JobStatus:
    """A job of these inputs that has ended by the first scraper; its rows are numbered 2, 4, 6, … unless told."""
    rules = ExecutionPolicy.model_validate({"circuit_breaker": CALM, **policy})
    job = Job(job_id=job_id, scraper_id="parcels", policy=rules, created_at=1_750_000_000.0, layout=layout)
    await store.submit(job)
    rows = tuple(Item(step * place, f"p{one['n']}", one) for place, one in enumerate(items, 1))
    await store.load(job_id, ItemBatch(0, 1, step * len(rows), "digest", rows))
    await store.seal(job_id, 1)
    return await work_on(store, storage, V1(), job_id)


async def make_version(
    store: Store, storage: ResultStorage, made: HttpScraper, job_id: str = "job", sample: int | None = None
) -> JobStatus:
    """Orders a version, and makes it."""
    begun = await begin_version(store, 1_750_000_000.0, job_id, VersionRequest(scraper=made, sample=sample))
    loaded = await load_version(store, begun, lambda _: None)
    return await work_on(store, storage, made, loaded.job.job_id)
