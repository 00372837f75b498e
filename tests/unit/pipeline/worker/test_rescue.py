"""Z10: a lease that cannot be cleaned up holds up no other lease, on results folders that are really damaged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.pipeline.retrying import MAX_BACKOFF_SECONDS
from swath.pipeline.worker.rescue import Rescuer
from swath.ports.result_storage import StagedItem
from tests.contract.suites.builders import claimed, finished, ready, success
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore

JOBS = ("first", "second", "third")


async def killed_before_it_published(store: MemoryStore, storage: FolderResults, job_id: str) -> int:
    """A worker has one committed item of each job, whose files are only staged."""
    await ready(store, job_id, items=1)
    lease = await claimed(store, "dead", job_id)
    await storage.open_lease(job_id, lease.fence)
    await storage.stage(job_id, lease.fence, [StagedItem("1", {"page.html": b"kept"})])
    await finished(store, lease, [success(1)])
    return lease.fence


@pytest.mark.req("Z10", "Z1")
@pytest.mark.parametrize("damaged", ["items", ".leases", "."], ids=["items", "rooms", "job"])
async def test_a_damaged_folder_holds_up_the_leases_of_its_job_alone(
    tmp_path: Path, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    store, storage = MemoryStore(clock), FolderResults(tmp_path)
    for job_id in JOBS:
        await killed_before_it_published(store, storage, job_id)
    place, kept = (tmp_path / "first" / damaged).resolve(), tmp_path / "kept"
    if place.exists():
        place.rename(kept)
    place.touch()
    store.kill("dead")
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "living")
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            await rescuer.run_once()
    for job_id in JOBS[1:]:
        assert (await storage.get(job_id, "items/1/page.html")) == b"kept"
        ending = await store.claim_ending("living", job_id)
        assert ending is not None
        await store.release("living", ending.fence)
    assert await store.claim_ending("living", "first") is None
    trouble = await storage.trouble("first")
    assert trouble is not None
    assert str(tmp_path / "first") in trouble
    assert [trouble in record.getMessage() for record in caplog.records] == [True], "said once, by name"
    assert await storage.trouble("second") is None
    place.unlink()
    if kept.exists():
        kept.rename(place)
    clock.advance(MAX_BACKOFF_SECONDS)
    await rescuer.run_once()
    assert await storage.trouble("first") is None
    assert (await storage.get("first", "items/1/page.html")) == b"kept"
    assert await store.claim_ending("living", "first") is not None
    await storage.close()


@pytest.mark.req("Z10")
async def test_who_finds_the_folder_damaged_again_waits_longer_each_time(tmp_path: Path) -> None:
    clock = FakeClock()
    store, storage = MemoryStore(clock, lease_seconds=1_000), FolderResults(tmp_path)
    await killed_before_it_published(store, storage, "first")
    (tmp_path / "first" / "items").touch()
    tries = 0
    settle = storage.settle

    async def counted(job_id: str, fence: int, winners: tuple[str, ...]) -> None:
        nonlocal tries
        tries += 1
        await settle(job_id, fence, winners)

    storage.settle = counted  # type: ignore[method-assign, assignment]
    store.kill("dead")
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "living")
    for _ in range(60):
        await rescuer.run_once()
        clock.advance(0.5)
    assert tries == 6  # after 0, 1, 3, 7, 15 and 25 seconds
    await storage.close()


class SlowForOne(FolderResults):
    """Storage that answers for one job only after a long time, and then that it cannot: a throttled prefix of S3."""

    job_id = "first"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers = asyncio.Event()

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = MappingProxyType({}),
        documents: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        if job_id == self.job_id:
            await self.answers.wait()
            raise StoreUnavailable("slow down", WaitingFor.DISK)
        await super().settle(job_id, fence, winners, packs, documents)


@pytest.mark.req("Z10", "Z9")
async def test_storage_that_is_slow_for_one_job_keeps_no_lease_of_another(tmp_path: Path) -> None:
    clock = FakeClock()
    store, storage = MemoryStore(clock), SlowForOne(tmp_path)
    for job_id in JOBS:
        await killed_before_it_published(store, storage, job_id)
    store.kill("dead")
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "living")
    rescuing = asyncio.create_task(rescuer.run_once())
    for job_id in JOBS[1:]:
        async with asyncio.timeout(60):
            while (ending := await store.claim_ending("living", job_id)) is None:
                await asyncio.sleep(0.01)
        await store.release("living", ending.fence)
    assert not rescuing.done()
    storage.answers.set()
    await rescuing  # the storage is not away: it works for the other jobs
    assert await store.claim_ending("living", "first") is None


@pytest.mark.req("Z9")
async def test_storage_that_fails_for_every_job_is_away(tmp_path: Path) -> None:
    clock = FakeClock()
    store, storage = MemoryStore(clock), SlowForOne(tmp_path)
    storage.answers.set()
    await killed_before_it_published(store, storage, "first")
    store.kill("dead")
    with pytest.raises(StoreUnavailable, match="slow down"):
        await Rescuer(store, storage, MemorySiteState(clock), clock, "living").run_once()
