"""One listener for all who wait: nothing is missed, nothing runs in vain, and trouble with the store passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import StoreUnavailable
from swath.domain.item import EndedItem, Item, SuccessOutcome
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.lease import SlotReport
from swath.domain.transitions import ItemState
from swath.entrypoints.api import events as hub_module
from swath.entrypoints.api.event_stream import Subscription, status_event
from swath.entrypoints.api.events import EventHub
from swath.ports.job_store import ItemBatch
from swath.ports.store import Store
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore

pytestmark = pytest.mark.req("I2", "I3")


class Counting(MemoryStore):
    """Counts what it is asked, and may be away."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.asked = 0
        self.listeners = 0
        self.away = False

    async def item(self, job_id: str, item_id: str) -> Any:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("it is away", WaitingFor.STORE)
        return await super().item(job_id, item_id)

    def news(self) -> Any:
        self.listeners += 1
        return super().news()


async def as_it_is(status: JobStatus) -> JobStatus:
    return status


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
async def hub(store: Counting) -> AsyncIterator[EventHub]:
    made = EventHub(store, store.status, FakeClock(), as_it_is)
    yield made
    await made.close()


async def order(store: Store, job_id: str = "j") -> None:
    batch = ItemBatch(0, 1, 1, "d", (Item(1, "t", {"url": "https://a.example/"}),))
    await store.order(Job(job_id=job_id, scraper_id="s", on_demand=True), batch)


async def finish(store: Store, job_id: str = "j") -> None:
    lease = await store.claim("w", job_id)
    assert lease is not None
    ended = [EndedItem(seq=1, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND)]
    await store.finish(lease, ended, (), SlotReport(ceiling=1, demand=0))


async def test_a_task_that_ends_is_told_to_all_who_wait_and_read_once_for_them(store: Counting, hub: EventHub) -> None:
    async def wait() -> Any:
        async with hub.expecting("j", "t") as expected:
            return await expected.ended(HANGING_SECONDS)

    waiting = [asyncio.create_task(wait()) for _ in range(50)]
    await asyncio.sleep(0)
    await order(store)
    await finish(store)
    records = await asyncio.gather(*waiting)
    assert {record.state for record in records} == {ItemState.SUCCESS}
    assert store.listeners == 1
    assert store.asked < 10


async def test_what_ends_before_anybody_waits_is_found_all_the_same(store: Counting, hub: EventHub) -> None:
    async with hub.expecting("j", "t") as expected:
        await order(store)
        await finish(store)
        await asyncio.sleep(0.05)
        record = await expected.ended(HANGING_SECONDS)
    assert record is not None


async def test_changes_of_other_jobs_are_not_read(
    store: Counting, hub: EventHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 30.0)
    async with hub.expecting("j", "t"):
        await order(store)
        await asyncio.sleep(0.05)
        before = store.asked
        for n in range(20):
            await order(store, f"other-{n}")
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert store.asked == before


async def test_a_task_that_does_not_end_in_time_is_not_waited_for(store: Counting, hub: EventHub) -> None:
    async with hub.expecting("j", "t") as expected:
        await order(store)
        assert await expected.ended(0.05) is None


async def test_trouble_with_the_store_passes(store: Counting, hub: EventHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "RETRY_SECONDS", 0.02)
    async with hub.expecting("j", "t") as expected:
        store.away = True
        await order(store)
        await finish(store)
        await asyncio.sleep(0.1)
        store.away = False
        assert await expected.ended(HANGING_SECONDS) is not None


async def test_nothing_listens_while_nobody_waits(
    store: Counting, hub: EventHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 0.02)
    assert store.listeners == 0
    async with hub.expecting("j", "t"):
        pass
    await asyncio.sleep(0.1)
    asked = store.asked
    await order(store)
    await asyncio.sleep(0.1)
    assert store.asked == asked
    async with hub.expecting("j", "t") as expected:
        await finish(store)
        assert await expected.ended(HANGING_SECONDS) is not None
    assert store.listeners == 2


async def test_who_waits_is_let_go_when_the_controller_ends(store: Counting, hub: EventHub) -> None:
    async def wait() -> Any:
        async with hub.expecting("j", "t") as expected:
            return await expected.ended(600)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.02)
    await hub.close()
    assert await asyncio.wait_for(waiting, 60) is None
    assert await asyncio.wait_for(wait(), 60) is None


async def test_a_reader_that_falls_far_behind_is_dropped(store: Counting) -> None:
    watch = Subscription(most=3)
    for n in range(4):
        await order(store, f"job-{n}")
        watch.put(status_event(await store.status(f"job-{n}")))
    assert watch.ended
    assert await watch.take(1) is None


async def test_only_the_newest_status_of_a_job_waits_for_its_reader(store: Counting) -> None:
    watch = Subscription()
    await order(store)
    watch.put(status_event(await store.status("j")))
    await finish(store)
    newest = status_event(await store.status("j"))
    watch.put(newest)
    assert await watch.take(1) == [newest]
    watch.put(newest)
    assert await watch.take(0.02) == []


async def test_what_another_process_has_done_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 600.0)  # nobody looks without being told
    ours, theirs = (SqliteStore.open(tmp_path, SystemClock()) for _ in range(2))
    hub = EventHub(ours, ours.status, SystemClock(), as_it_is)
    try:
        async with hub.expecting("j", "t") as expected:
            await order(ours)
            await asyncio.sleep(0.2)
            await finish(theirs)
            record = await expected.ended(HANGING_SECONDS)
        assert record is not None
        assert record.state is ItemState.SUCCESS
    finally:
        await hub.close()
        await theirs.close()
        await ours.close()
