"""What a later generation takes away of the packs of former ones, and what whoever slept through a loss must leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.item import ItemRecord, RetrySelection
from swath.domain.job import EndingStep, Job, JobEnding
from swath.domain.lease import Lease
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, RECORDS_SUFFIX, WARC_SUFFIX, Layout, PackLocation
from swath.domain.transitions import ItemState
from swath.pipeline.finish.cleanup import ObsoleteFiles
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.formats.packs import index_key
from swath.ports.result_storage import PackAppend, ResultStorage
from tests.contract.suites.builders import ready
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.support.virtual_time import LoopClock, at_once

pytestmark = pytest.mark.req("R2", "J5", "Z2")

JOB = Job(job_id="job", scraper_id="x", layout=Layout.WARC)


async def packed(storage: ResultStorage, fence: int) -> tuple[Artifact, ...]:
    """A settled lease with one item, and its artifacts."""
    await storage.open_lease("job", fence)
    placed = await storage.append("job", fence, {WARC_SUFFIX: PackAppend(b"page"), RECORDS_SUFFIX: PackAppend(b"line")})
    needed = {key: start + 4 for key, start in placed.values()}
    await storage.settle("job", fence, (), needed, {index_key(fence): b"index"})
    return tuple(Artifact(PackLocation(key, start, 4, "x").key, 4, "") for key, start in placed.values())


def ended(seq: int, artifacts: tuple[Artifact, ...], generation: int) -> ItemRecord:
    state = ItemState.SUCCESS
    return ItemRecord(seq=seq, item_id=str(seq), input={}, state=state, artifacts=artifacts, generation=generation)


async def packs_after(storage: ResultStorage, records: list[ItemRecord], generation: int) -> set[int]:
    """The leases of which something is left, once an ending under fence 7 has seen these items."""
    lease = Lease(fence=7, job=JOB, worker_id="w", items=(), slots=0, lease_seconds=15.0)
    former = ObsoleteFiles(storage, lease, generation)
    await former.pass_by(records)
    await former.end()
    left = [key.removeprefix(PACKS_PREFIX) async for key in storage.keys("job", PACKS_PREFIX)]
    assert len(left) % 3 == 0  # a pack goes with its index
    return {int(key.split(".")[0].split("-")[0]) for key in left}


async def test_packs_that_no_item_needs_any_more_go_with_their_index() -> None:
    storage = MemoryResults()
    await packed(storage, 1)
    kept, newer = await packed(storage, 2), await packed(storage, 5)
    records = [ended(1, kept, 1), ended(2, newer, 2)]
    assert await packs_after(storage, records, generation=2) == {2, 5}


async def test_an_index_goes_with_its_pages_also_when_records_beside_them_are_still_needed() -> None:
    storage = MemoryResults()
    _, record = await packed(storage, 1)
    newer = await packed(storage, 5)
    lease = Lease(fence=7, job=JOB, worker_id="w", items=(), slots=0, lease_seconds=15.0)
    former = ObsoleteFiles(storage, lease, 2)
    await former.pass_by([ended(1, (record,), 1), ended(2, newer, 2)])
    await former.end()
    left = {key async for key in storage.keys("job", PACKS_PREFIX) if key.startswith(f"{PACKS_PREFIX}1.")}
    assert left == {f"{PACKS_PREFIX}1.{RECORDS_SUFFIX}"}


async def test_packs_of_a_generation_that_came_while_the_finisher_slept_stay() -> None:
    storage = MemoryResults()
    kept = await packed(storage, 2)
    await packed(storage, 9)
    assert await packs_after(storage, [ended(1, kept, 1)], generation=2) == {2, 9}


async def test_a_first_generation_takes_nothing_away() -> None:
    storage = MemoryResults()
    await packed(storage, 1)
    assert await packs_after(storage, [], generation=1) == {1}


class Listings:
    """Counts the names that all listings of folders give."""

    def __init__(self) -> None:
        self.names = 0
        self._scandir = os.scandir

    @contextmanager
    def scandir(self, folder: Any) -> Iterator[Iterator[Any]]:
        """In place of `os.scandir`."""
        with self._scandir(folder) as entries:
            yield self._counted(entries)

    def _counted(self, entries: Iterator[Any]) -> Iterator[Any]:
        for entry in entries:
            self.names += 1
            yield entry


@pytest.mark.req("Z8", "Z10")
async def test_removing_replaced_packs_costs_the_same_for_each_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: dict[int, int] = {}
    for leases in (20, 80):
        storage = FolderResults(tmp_path / str(leases))
        for fence in range(1, leases + 1):
            await packed(storage, fence)
        newer = await packed(storage, 2_000)
        lease = Lease(fence=3_000, job=JOB, worker_id="w", items=(), slots=0, lease_seconds=15.0)
        former = ObsoleteFiles(storage, lease, 2)
        await former.pass_by([ended(1, newer, 2)])
        listings = Listings()
        with monkeypatch.context() as patched:
            patched.setattr(os, "scandir", listings.scandir)
            await former.end()
        listed[leases] = listings.names
        assert len([key async for key in storage.keys("job", PACKS_PREFIX)]) == 3
        await storage.close()
    assert listed[80] <= 4 * listed[20]


class Watched(MemoryResults):
    """Takes its time to delete, and notes what the job's status says meanwhile."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.shown: list[JobEnding | None] = []
        self._store = store

    async def delete(self, job_id: str, keys: Collection[str]) -> None:
        await asyncio.sleep(15.0)  # so the right to end is renewed
        self.shown.append((await self._store.status(job_id)).ending)
        await super().delete(job_id, keys)


def test_the_status_tells_how_many_replaced_packs_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.pipeline.finish.cleanup._DELETE_BATCH", 1)

    @at_once
    async def end_twice() -> None:
        store = MemoryStore(LoopClock())
        storage = Watched(store)
        finisher = Finisher(store, store, storage, LoopClock(), "finisher")
        await ready(store, items=1, layout=Layout.WARC)
        await store.cancel("job")
        assert await finisher.run_once() is not None
        await packed(storage, 1)  # before any lease of the second generation, and no item needs it
        await store.retry("job", RetrySelection(since=0.0))
        await store.cancel("job")
        assert await finisher.run_once() is not None
        assert storage.shown == [JobEnding(step=EndingStep.REMOVING, done=done, total=3) for done in range(3)]

    end_twice()
