"""What a commit does when a result, or the store, makes trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.item import EndedItem, HandedBackItem, Item
from swath.domain.job import Job, WaitingFor
from swath.domain.lease import Lease, LeasedItem, SlotGrant, SlotReport
from swath.domain.result import Artifact, Page
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.messages import Request, Response
from swath.fetch.http.page.page import WebPage
from swath.pipeline.formats import artifacts
from swath.pipeline.formats import packs as packing
from swath.pipeline.formats.artifacts import record_of
from swath.pipeline.retrying import WaitingStatus
from swath.pipeline.worker.admission import JobHolds
from swath.pipeline.worker.attempt import WorkerContext
from swath.pipeline.worker.committer import Committer
from swath.pipeline.worker.lease_runner import LeaseRunner
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.suspect_isolation import SuspectIsolation
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import StagedItem
from swath.sdk.scraper import HttpScraper
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.support.network import open_network


class NoSite:
    async def send(self, request: Request) -> Response:
        raise AssertionError(f"nothing may be sent, not even {request.url}")

    async def close(self) -> None:
        pass


class OnePage(HttpScraper):
    """The same page for every item, without a site."""

    version = "1"

    async def fetch(self, item: object, web: WebSession) -> WebPage:
        return web.keep(WebPage(Page(name="html", url="http://site.test/", status=200, body=b"<p>page</p>")))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def _leased(store: MemoryStore, items: int, layout: Layout = Layout.FILES) -> Lease:
    await store.submit(Job(job_id="j", scraper_id="x", layout=layout))
    rows = tuple(Item(seq, f"item-{seq}", {}) for seq in range(1, items + 1))
    await store.load("j", ItemBatch(0, 1, items, "d", rows))
    await store.seal("j", 1)
    lease = await store.claim("w")
    assert lease is not None
    return lease


def _committer(
    store: MemoryStore, storage: MemoryResults, clock: FakeClock, lease: Lease, scraper: HttpScraper | None = None
) -> Committer:
    slots = JobSlots(lease.slots, lease.target, lambda: 100)
    network = open_network(NoSite(), clock)
    bench = WorkerContext(lease.job, scraper or OnePage(), network, clock, "w")
    holds = JobHolds(store, network, clock)
    floor = SuspectIsolation(store, WaitingStatus(store, clock, "w"), holds, lambda: slots.running, lambda: None)
    runner = LeaseRunner(lease, bench, clock.boot() + lease.lease_seconds, slots, floor)
    slots.users.add(runner)
    return Committer(runner, storage, clock, report_seconds=0.01)


@pytest.mark.req("Z1", "W3")
@pytest.mark.parametrize("layout", Layout)
async def test_a_result_that_cannot_be_written_costs_its_item_alone(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    store, storage = MemoryStore(clock), MemoryResults()
    lease = await _leased(store, 3, layout)

    def breaks_once(job: Job, item_id: str, *rest: Any) -> bytes:
        if item_id == "item-2":
            raise RuntimeError("not today")
        return record_of(job, item_id, *rest)

    for module in (artifacts, packing):
        monkeypatch.setattr(module, "record_of", breaks_once)
    await _committer(store, storage, clock, lease).run()
    counts = (await store.status("j")).counts
    assert (counts.success, counts.failed) == (2, 1)
    bad = await store.item("j", "item-2")
    assert bad.failure is not None
    assert "not today" in bad.failure.message
    assert bad.artifacts == ()


class Told(MemoryResults):
    """Keeps what the committer tells of a lease."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.first: dict[str, bool] = {}
        self.winners: list[str] = []

    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:
        self.opened += [item.item_id for item in items]
        await super().open_lease(job_id, fence, items)

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        self.first |= {item.item_id: item.first for item in items}
        return await super().stage(job_id, fence, items)

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = MappingProxyType({}),
        documents: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self.winners += winners
        await super().settle(job_id, fence, winners, packs, documents)


@pytest.mark.req("R1")
async def test_storage_is_told_which_items_may_come_which_are_new_and_which_have_won(clock: FakeClock) -> None:
    store, storage = MemoryStore(clock), Told()
    lease = await _leased(store, 3)
    items = tuple(msgspec.structs.replace(item, first=item.seq != 2) for item in lease.items)
    await _committer(store, storage, clock, msgspec.structs.replace(lease, items=items)).run()
    assert storage.opened == ["item-1", "item-2", "item-3"]
    assert storage.first == {"item-1": True, "item-2": False, "item-3": True}
    assert sorted(storage.winners) == ["item-1", "item-2", "item-3"]


class AnswerLost(MemoryStore):
    """The first commit is done, and its answer gets lost on the way."""

    lost = False

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        grant = await super().finish(lease, ended, handed_back, report)
        if ended and not self.lost:
            self.lost = True
            raise StoreUnavailable("the line is dead", WaitingFor.STORE)
        return grant


@pytest.mark.req("Z1", "Z2")
async def test_when_the_answer_to_a_commit_is_lost_the_files_are_left_to_whoever_rescues(clock: FakeClock) -> None:
    store, storage = AnswerLost(clock), MemoryResults()
    lease = await _leased(store, 3)
    committer = _committer(store, storage, clock, lease)
    clock_runs_by_itself(clock)
    await committer.run()
    assert (await store.status("j")).counts.success == 3
    clock.advance(lease.lease_seconds)
    (rescued,) = await store.rescue("other")
    assert set(rescued.winners) == {"item-1", "item-2", "item-3"}
    await storage.settle("j", rescued.fence, rescued.winners)
    for seq in (1, 2, 3):
        record = await store.item("j", f"item-{seq}")
        assert record.state is ItemState.SUCCESS
        for artifact in record.artifacts:
            assert len(await storage.get("j", artifact.key)) == artifact.size


def clock_runs_by_itself(clock: FakeClock) -> None:
    """Waiting for the store to come back takes no real time."""

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    clock.sleep = sleep  # type: ignore[method-assign]


class Gated(OnePage):
    """An item waits until it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def fetch(self, item: object, web: WebSession) -> WebPage:
        await self.gate.wait()
        return await super().fetch(item, web)


class Heard(MemoryStore):
    """Keeps what was said, and takes its time on the fake clock."""

    def __init__(self, clock: FakeClock, takes_seconds: float = 0.0) -> None:
        super().__init__(clock)
        self.groups: list[int] = []
        self._passes, self._takes_seconds = clock.advance, takes_seconds

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        self.groups.append(len(ended))
        self._passes(self._takes_seconds)
        return await super().finish(lease, ended, handed_back, report)


@pytest.mark.req("Q3", "Z1")
async def test_a_lone_item_is_committed_at_once_and_until_then_the_same_is_not_said_again(clock: FakeClock) -> None:
    store, scraper = Heard(clock), Gated()
    lease = await _leased(store, 1)
    committer = _committer(store, MemoryResults(), clock, lease, scraper)
    committer._runner.slots.tempo.took(100.0)  # the store was slow, which is nothing to a lone item
    running = asyncio.create_task(committer.run())
    await asyncio.sleep(0.2)  # twenty times as long as between two reports
    assert store.groups in ([], [0]), "that it runs was said once"
    scraper.gate.set()
    await asyncio.wait_for(running, 60)
    assert store.groups[-1] == 1
    assert (await store.status("j")).counts.success == 1


@pytest.mark.req("Q3", "W3")
async def test_what_a_commit_took_sets_how_long_is_gathered_for_the_next(clock: FakeClock) -> None:
    store = Heard(clock, takes_seconds=1.0)
    lease = await _leased(store, 3)
    committer = _committer(store, MemoryResults(), clock, lease)
    tempo = committer._runner.slots.tempo
    before = tempo.gather_seconds(0.05, lease.lease_seconds)
    await committer.run()
    assert before == 0.05 < tempo.gather_seconds(0.05, lease.lease_seconds) <= lease.lease_seconds / 6
