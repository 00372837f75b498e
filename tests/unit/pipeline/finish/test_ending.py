"""Ending a job: manifests that balance, then the terminal state; whoever dies, sleeps or is late on the way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import StoreUnavailable, Unbalanced
from swath.domain.job import Counts, EndingProgress, EndingStep, JobEnding, JobStatus, WaitingFor
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState, JobState
from swath.observability import crash_points
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.formats import manifests
from swath.pipeline.results.verify.verifier import verify
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.support.virtual_time import LoopClock, at_once
from tests.unit.pipeline.finish.running import document, every_kind, finish_lease, loaded, run, successes

IDS = [f"100-01-{n:03}" for n in range(1, 26)]


def finisher(
    store: Store, storage: ResultStorage, clock: FakeClock, worker: str = "finisher", part_items: int = 10
) -> Finisher:
    return Finisher(store, store, storage, clock, worker, part_items=part_items)


async def ended(store: Store, storage: ResultStorage, clock: FakeClock, worker: str = "finisher") -> JobStatus:
    status = await finisher(store, storage, clock, worker).run_once()
    assert status is not None
    return status


async def assert_verified(store: Store, storage: FolderResults, job_id: str = "job") -> None:
    report = await verify(store, storage, job_id)
    assert report.problems == ()
    assert report.finished


@pytest.mark.req("R3", "R4", "J4")
async def test_a_job_ends_with_manifests_that_balance(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await run(store, storage, IDS)
    status = await ended(store, storage, clock)
    counts = Counts(success=16, not_found=2, failed=6, skipped=3, total=25)
    assert (status.state, status.counts) == (JobState.PARTIALLY_COMPLETED, counts)

    parts = [await document(storage, f"manifests/full/part-{n}.json") for n in (1, 2, 3)]
    assert [entry["item_id"] for part in parts for entry in part["items"]] == IDS
    success = [await document(storage, f"manifests/success/part-{n}.json") for n in (1, 2)]
    errors = await document(storage, "manifests/errors/part-1.json")
    assert sum(len(part["items"]) for part in success) == 16
    assert {entry["state"] for entry in errors["items"]} == {"failed", "skipped"}
    assert (await document(storage, f"manifests/items/{IDS[0]}.json"))["input"] == {"parcel": IDS[0]}

    metadata = await document(storage, "job_metadata.json")
    assert metadata == status.manifest
    assert metadata["counts"]["success"] == 16
    assert metadata["failures"] == {"timeout": 3, "blocked": 3}
    assert [part["items"] for part in metadata["parts"]["full"]] == [10, 10, 5]
    assert metadata["first_attempt_at"] == 1_750_000_101.0
    assert metadata["duration_seconds"] == 24.5
    assert (metadata["bytes"], metadata["requests"], metadata["status"]) == (2_500, 50, "partially_completed")
    await assert_verified(store, storage)


async def test_lists_without_items_have_no_parts(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await run(store, storage, IDS, successes)
    status = await ended(store, storage, clock)
    assert status.state is JobState.COMPLETED
    assert [key async for key in storage.keys("job", "manifests/errors/")] == []
    assert status.manifest is not None
    assert status.manifest["parts"]["errors"] == []
    await assert_verified(store, storage)


async def test_there_is_nothing_to_end_while_items_run(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await loaded(store, IDS)
    assert await finisher(store, storage, clock).run_once() is None
    lease = await store.claim("worker")
    assert lease is not None
    await finish_lease(store, storage, lease, every_kind, publish=False)  # the lease is still there
    assert await finisher(store, storage, clock).run_once() is None
    assert (await store.status("job")).state is JobState.RUNNING


@pytest.mark.req("J4", "R4")
async def test_what_a_cancelled_job_has_left_is_swept_and_listed(
    store: Store, storage: FolderResults, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.finish.finisher._SWEEP_ITEMS", 4)
    await loaded(store, [str(n) for n in range(300)])
    lease = await store.claim("worker")
    assert lease is not None
    await store.cancel("job")
    await finish_lease(store, storage, lease, successes)
    status = await ended(store, storage, clock)
    swept = 300 - len(lease.items)
    assert (status.state, status.counts.cancelled) == (JobState.CANCELLED, swept)
    assert status.manifest is not None
    assert sum(part["items"] for part in status.manifest["parts"]["errors"]) == swept
    await assert_verified(store, storage)


async def test_a_job_cancelled_before_its_first_item_ends_too(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await store.submit(new_job("job"))
    await store.cancel("job")
    status = await ended(store, storage, clock)
    assert (status.state, status.counts.total) == (JobState.CANCELLED, 0)
    await assert_verified(store, storage)


@pytest.mark.req("R4")
async def test_a_job_that_does_not_add_up_is_not_ended(storage: FolderResults, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    store._shelves.jobs["job"].ended[ItemState.SUCCESS] += 1
    store._shelves.jobs["job"].ended[ItemState.FAILED] -= 1
    with pytest.raises(Unbalanced, match="success 17 against 16, failed 5 against 6") as raised:
        await finisher(store, storage, clock).run_once()
    assert (raised.value.counted["failed"], raised.value.expected["failed"]) == (5, 6)
    assert (await store.status("job")).state is JobState.RUNNING
    assert [key async for key in storage.keys("job", "job_metadata")] == []
    store._shelves.jobs["job"].ended[ItemState.SUCCESS] -= 1
    store._shelves.jobs["job"].ended[ItemState.FAILED] += 1
    await ended(store, storage, clock)  # the right to end it was given back at once


@pytest.mark.req("R4")
async def test_a_manifest_that_lacks_an_item_is_not_accepted(
    storage: FolderResults, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    monkeypatch.setattr(
        manifests, "lists_of", lambda state: ("full",) if state is ItemState.FAILED else ("full", "success")
    )
    with pytest.raises(Unbalanced, match="manifest"):
        await finisher(store, storage, clock).run_once()
    assert (await store.status("job")).state is JobState.RUNNING


@pytest.mark.req("R4", "J4")
async def test_a_job_that_does_not_add_up_never_stands_in_the_way_of_others(
    storage: FolderResults, clock: FakeClock
) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    await run(store, storage, IDS, job_id="second")
    store._shelves.jobs["job"].ended[ItemState.SUCCESS] += 1
    store._shelves.jobs["job"].ended[ItemState.FAILED] -= 1
    one = finisher(store, storage, clock)
    with pytest.raises(Unbalanced):
        await one.run_once()
    status = await one.run_once()
    assert status is not None
    assert status.job.job_id == "second"
    assert await one.run_once() is None
    clock.advance(60)
    with pytest.raises(Unbalanced):  # it is tried again, later and later
        await one.run_once()


@pytest.mark.req("Z2")
async def test_rooms_that_the_dead_left_behind_are_cleared(storage: FolderResults, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    await storage.open_lease("job", 4_711)
    await ended(store, storage, clock)
    assert await storage.open_leases("job") == []
    await assert_verified(store, storage)


@pytest.mark.req("R4")
async def test_failure_kinds_must_add_up_too(storage: FolderResults, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    store._shelves.jobs["job"].failures = {"timeout": 4, "blocked": 2}
    with pytest.raises(Unbalanced, match="timeout 4 against 3"):
        await finisher(store, storage, clock).run_once()


class Deaf(MemoryStore):
    """A dead worker gives nothing back."""

    async def release(self, worker_id: str, fence: int) -> None:
        if fence not in self.unheard:
            await super().release(worker_id, fence)

    unheard: Collection[int] = ()


class Crash(BaseException):
    """Stands for the death of the process at a crash point."""


@pytest.fixture
def hooked() -> Iterator[None]:
    yield
    crash_points.install(None)


@pytest.mark.req("Z1", "R3")
@pytest.mark.parametrize(
    ("point", "times"),
    [
        ("before_manifest", 1),
        *(("after_manifest_part", n) for n in (1, 2)),
        ("after_job_metadata", 1),
        ("after_end", 1),
    ],
)
async def test_an_ending_that_died_anywhere_is_completed_by_the_next_finisher(
    storage: FolderResults, clock: FakeClock, point: str, times: int, hooked: None
) -> None:
    store = Deaf(clock)
    await run(store, storage, IDS)
    store.unheard = range(10_000)
    left = times

    def die(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if not left:
            raise Crash

    crash_points.install(die)
    with pytest.raises(Crash):
        await finisher(store, storage, clock, "first").run_once()
    crash_points.install(None)
    assert not left
    if point == "after_end":
        assert (await store.status("job")).state.terminal
        assert await finisher(store, storage, clock, "second").run_once() is None
    else:
        assert not (await store.status("job")).state.terminal
        assert await finisher(store, storage, clock, "second").run_once() is None
        store.kill("first")
        store.unheard = ()
        for rescued in await store.rescue("second"):
            await storage.settle(rescued.job_id, rescued.fence, rescued.winners)
            await store.release("second", rescued.fence)
        await ended(store, storage, clock, "second")
    await assert_verified(store, storage)


@pytest.mark.req("Z10", "R4")
async def test_a_folder_that_is_removed_during_the_ending_is_noticed(
    storage: FolderResults, clock: FakeClock, hooked: None
) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS)
    crash_points.install(lambda point: shutil.rmtree(storage._root / "job") if point == "before_leftovers" else None)
    assert await finisher(store, storage, clock).run_once() is None
    crash_points.install(None)
    assert not (await store.status("job")).state.terminal
    status = await ended(store, storage, clock)
    assert (status.state, status.missing_items) == (JobState.PARTIALLY_COMPLETED, len(IDS))
    assert (await storage.get("job", "missing_items.csv")).decode().splitlines() == ["item_id", *IDS]


async def test_parts_that_no_list_has_any_more_are_removed(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    left = {f"manifests/errors/part-{n}.json": b"{}" for n in (2, 9)}
    await storage.put("job", left | {"manifests/errors/part-1.json": b"old"})
    await run(store, storage, IDS)
    await ended(store, storage, clock)
    assert [key async for key in storage.keys("job", "manifests/errors/")] == ["manifests/errors/part-1.json"]
    await assert_verified(store, storage)


class SlowFolder(FolderResults):
    """Each write takes a while by the fake clock."""

    clock: FakeClock
    seconds_per_put: float

    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        self.clock.advance(self.seconds_per_put)
        return await super().put_under(job_id, fence, documents)


class Counting(MemoryStore):
    """Notes when the lease of an ending is renewed."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, lease_seconds=15.0)
        self.clock = clock
        self.renewed_at: list[float] = []
        self.shown: list[JobEnding | None] = []

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
        self.renewed_at.append(self.clock.boot())
        return await super().renew(worker_id, fences)

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> LeaseDirective:
        self.renewed_at.append(self.clock.boot())
        directive = await super().renew_ending(lease, progress)
        self.shown.append((await self.status(lease.job.job_id)).ending)
        return directive


async def test_the_right_to_end_is_renewed_while_items_stream(
    tmp_path_factory: pytest.TempPathFactory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.finish.finisher._READ_ITEMS", 1)
    storage = SlowFolder(tmp_path_factory.mktemp("slow"))
    storage.clock, storage.seconds_per_put = clock, 1.0
    store = Counting(clock)
    await run(store, storage, IDS)
    began = clock.boot()
    assert await finisher(store, storage, clock).run_once() is not None
    assert clock.boot() - began > 25
    times = [began, *store.renewed_at, clock.boot()]
    assert max(later - earlier for earlier, later in pairwise(times)) <= 15 / 3
    assert len(store.renewed_at) < 12  # and not for every item
    far = [ending.done for ending in store.shown if ending is not None and ending.step is EndingStep.LISTING]
    assert len(far) == len(store.shown)
    assert far == sorted(set(far)), "each renewal says how far it is"
    assert all(ending is not None and ending.total == len(IDS) for ending in store.shown)
    assert (await store.status("job")).ending is None
    await storage.close()


class Sluggish(MemoryResults):
    """A single look takes longer than a lease lasts."""

    async def open_leases(self, job_id: str) -> list[int]:
        await asyncio.sleep(1.5)
        return await super().open_leases(job_id)


@pytest.mark.req("Z9", "W3")
@at_once
async def test_the_right_to_end_is_kept_however_long_a_step_takes() -> None:
    clock = LoopClock()
    store, storage = MemoryStore(clock, lease_seconds=1.0), Sluggish()
    await store.submit(new_job("job"))
    await store.cancel("job")
    ending = asyncio.create_task(Finisher(store, store, storage, clock, "finisher").run_once())
    rescued = []
    while not ending.done():
        rescued += await store.rescue("other")
        await asyncio.sleep(0.01)
    assert await ending is not None
    assert rescued == []


class SleepyFolder(FolderResults):
    """Falls asleep at a certain change, as a process that was stopped."""

    asleep: asyncio.Event
    wake: asyncio.Event
    sleep_at: int

    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        await self._sleep()
        return await super().put_under(job_id, fence, documents)

    async def _sleep(self) -> None:
        self.sleep_at -= 1
        if self.sleep_at == 0:
            self.asleep.set()
            await self.wake.wait()


@pytest.mark.req("Z1", "Z2")
@pytest.mark.parametrize("sleep_at", [1, 2, 3, 4])
async def test_a_finisher_that_sleeps_through_its_lease_harms_nothing(
    store: Store, storage: FolderResults, clock: FakeClock, sleep_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.finish.finisher._READ_ITEMS", 15)  # four writes: two of items, rest, metadata
    await run(store, storage, IDS)
    sleepy = SleepyFolder(storage._root)
    sleepy.asleep, sleepy.wake, sleepy.sleep_at = asyncio.Event(), asyncio.Event(), sleep_at
    zombie = asyncio.create_task(finisher(store, sleepy, clock, "zombie").run_once())
    await sleepy.asleep.wait()
    clock.advance(100)
    for rescued in await store.rescue("other"):
        await store.release("other", rescued.fence)
    await ended(store, storage, clock, "other")
    before = {key: await storage.get("job", key) async for key in storage.keys("job")}
    sleepy.wake.set()
    assert await zombie is None
    assert {key: await storage.get("job", key) async for key in storage.keys("job")} == before
    await assert_verified(store, storage)
    await sleepy.close()


async def test_a_full_disk_gives_the_right_to_end_back(
    store: Store, storage: FolderResults, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        raise StoreUnavailable("the disk is full", WaitingFor.DISK)

    await run(store, storage, IDS)
    with monkeypatch.context() as failing:
        failing.setattr(storage, "put_under", full)
        with pytest.raises(StoreUnavailable):
            await finisher(store, storage, clock).run_once()
    await ended(store, storage, clock)
    await assert_verified(store, storage)


@pytest.mark.req("Z9")
async def test_a_job_that_waits_for_the_disk_is_tried_again_soon_and_says_so_meanwhile(
    store: Store, storage: FolderResults, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        raise StoreUnavailable("the disk is full", WaitingFor.DISK)

    await run(store, storage, IDS)
    one = finisher(store, storage, clock)
    with monkeypatch.context() as failing:
        failing.setattr(storage, "put_under", full)
        for _ in range(20):  # longer than the put-off of other errors takes to grow
            with pytest.raises(StoreUnavailable) as raised:
                await one.run_once()
            assert raised.value.waiting_for is WaitingFor.DISK
            clock.advance(0.5)
    clock.advance(2.0)
    assert await one.run_once() is not None
    await assert_verified(store, storage)
