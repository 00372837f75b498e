"""Deleting a job: files first, then its rows in pieces; whoever dies on the way, the next one completes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from swath.domain.clock_watch import CONFIRM_SECONDS
from swath.domain.errors import Conflict, FolderUnusable, StoreUnavailable, UnknownName
from swath.domain.job import WaitingFor
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.retrying import MAX_BACKOFF_SECONDS
from tests.contract.suites.builders import Store, new_job, policy
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.support.virtual_time import LoopClock, at_once
from tests.unit.pipeline.finish.running import loaded, run, successes

IDS = [f"100-01-{n:03}" for n in range(1, 26)]


@pytest.fixture
def storage() -> MemoryResults:
    return MemoryResults()


async def ended_job(store: Store, storage: MemoryResults, clock: FakeClock, job_id: str = "job") -> None:
    await run(store, storage, IDS, successes, job_id=job_id)
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None


def remover(store: Store, storage: MemoryResults, clock: FakeClock, worker: str = "remover") -> Remover:
    return Remover(store, storage, clock, worker)


async def assert_gone(store: Store, storage: MemoryResults, job_id: str = "job") -> None:
    with pytest.raises(UnknownName):
        await store.status(job_id)
    assert [key async for key in storage.keys(job_id)] == []
    assert await storage.open_leases(job_id) == []


@pytest.mark.req("J5")
async def test_a_job_is_deleted_with_all_its_data_and_others_are_not(
    store: Store, storage: MemoryResults, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.finish.deletion._PURGE_ITEMS", 4)
    await ended_job(store, storage, clock)
    await ended_job(store, storage, clock, "other")
    assert await remover(store, storage, clock).run_once() is None
    await store.delete("job")
    assert await remover(store, storage, clock).run_once() == "job"
    await assert_gone(store, storage)
    assert (await store.status("other")).counts.success == len(IDS)
    assert await remover(store, storage, clock).run_once() is None
    await run(store, storage, IDS, successes)  # the id is free again


@pytest.mark.req("J5")
async def test_a_job_is_deleted_and_logged_when_its_retention_is_over_and_not_before(
    store: Store, storage: MemoryResults, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await store.submit(new_job("job", policy=policy(limit=100, retention_days=2)))
    await run(store, storage, IDS, successes, job_id="other")
    assert await Finisher(store, store, storage, clock, "finisher", job_id="other").run_once() is not None
    await store.cancel("job")
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
    clock.advance(2 * 86_400)
    assert await remover(store, storage, clock).run_once() is None
    clock.advance(CONFIRM_SECONDS)
    with caplog.at_level(logging.INFO, logger="swath.deletion"):
        assert await remover(store, storage, clock).run_once() == "job"
    told = "job job: deleting it, because its retention of 2 days is over since 2025-06-17T15:06:40Z"
    assert caplog.messages == [told, "job job: deleted"]
    await assert_gone(store, storage)
    assert await remover(store, storage, clock).run_once() is None


class Breaks(MemoryResults):
    """The disk does not answer for a while."""

    broken = True

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        if self.broken:
            raise StoreUnavailable("the disk is away", WaitingFor.DISK)
        await super().clear(job_id, confirm)


@pytest.mark.req("J5", "Z9")
async def test_a_deletion_that_failed_leaves_a_marked_job_that_is_deleted_later(store: Store, clock: FakeClock) -> None:
    storage = Breaks()
    await ended_job(store, storage, clock)
    await store.delete("job")
    with pytest.raises(StoreUnavailable):
        await remover(store, storage, clock).run_once()
    assert (await store.status("job")).deleting
    with pytest.raises(Conflict):
        await store.submit(new_job("job"))
    storage.broken = False
    assert await remover(store, storage, clock, "another").run_once() == "job"
    await assert_gone(store, storage)


class Slow(MemoryResults):
    """Takes longer to clear than a lease lasts."""

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        await asyncio.sleep(0.3)
        await super().clear(job_id, confirm)


@pytest.mark.req("J5", "W3")
@at_once
async def test_the_right_to_delete_is_kept_however_long_the_files_take() -> None:
    clock = LoopClock()
    store, storage = MemoryStore(clock, lease_seconds=0.1), Slow()
    await store.submit(new_job("job"))
    await store.cancel("job")
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
    await store.delete("job")
    deleting = asyncio.create_task(Remover(store, storage, clock, "remover").run_once())
    rescued = []
    while not deleting.done():
        rescued += await store.rescue("other")
        await asyncio.sleep(0.01)
    assert await deleting == "job"
    assert rescued == []


class Steals(MemoryResults):
    """Its remover is taken for dead while it clears."""

    store: MemoryStore

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        await super().clear(job_id, confirm)
        self.store.kill("remover")
        for rescued in await self.store.rescue("thief"):
            await self.store.release("thief", rescued.fence)


@pytest.mark.req("J5", "Z1")
async def test_who_lost_the_right_to_delete_removes_nothing_more(clock: FakeClock) -> None:
    store, storage = MemoryStore(clock), Steals()
    storage.store = store
    await ended_job(store, storage, clock)
    await store.delete("job")
    assert await remover(store, storage, clock).run_once() is None
    assert (await store.status("job")).counts.total == len(IDS)
    assert await remover(store, MemoryResults(), clock, "thief").run_once() == "job"


@pytest.mark.req("J5")
async def test_nothing_is_deleted_while_somebody_works_on_it(
    store: Store, storage: MemoryResults, clock: FakeClock
) -> None:
    await loaded(store, IDS)
    lease = await store.claim("worker")
    assert lease is not None
    with pytest.raises(Conflict, match="cancel"):
        await store.delete("job")
    assert await remover(store, storage, clock).run_once() is None


class OneDamaged(MemoryResults):
    """The folder of one job cannot be used; `damaged` names it."""

    damaged = ""

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        if job_id == self.damaged:
            raise FolderUnusable("cannot use the results of job 'first': 'items' is busy", WaitingFor.DISK)
        await super().clear(job_id, confirm)


@pytest.mark.req("Z10", "J5")
async def test_a_job_that_cannot_be_deleted_stands_in_no_other_jobs_way(store: Store, clock: FakeClock) -> None:
    storage = OneDamaged()
    for job_id in ("first", "second"):
        await ended_job(store, storage, clock, job_id)
        await store.delete(job_id)
    storage.damaged = "first"
    removing = remover(store, storage, clock)
    with pytest.raises(FolderUnusable):
        await removing.run_once()
    assert await removing.run_once() == "second"
    assert await removing.run_once() is None
    storage.damaged = ""
    clock.advance(MAX_BACKOFF_SECONDS)
    assert await removing.run_once() == "first"
    await assert_gone(store, storage, "first")
