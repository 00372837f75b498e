"""Ending a job again after a retry: plain paths hold the present generation, nothing of a former one is in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, Item, RetrySelection
from swath.domain.job import JobStatus, StopReason
from swath.domain.lease import LeasedItem
from swath.domain.transitions import ItemState, JobState
from swath.observability import crash_points
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.verify.verifier import ProblemCode, verify
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job, policy
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.finish.running import Outcome, document, every_kind, finish_lease, run, successes

IDS = [f"100-01-{n:03}" for n in range(1, 26)]
FAILED = RetrySelection(failed=True)
EVERYTHING = RetrySelection(since=0.0)


def fails(item: LeasedItem) -> EndedItem:
    failure = Failure.of(FailureKind.TIMEOUT, "no answer")
    return EndedItem(seq=item.seq, state=ItemState.FAILED, failure=failure)


async def work(store: Store, storage: ResultStorage, outcome: Outcome) -> None:
    while (lease := await store.claim("worker")) is not None:
        await finish_lease(store, storage, lease, outcome)


async def end(store: Store, storage: ResultStorage, clock: FakeClock, worker: str = "finisher") -> JobStatus:
    status = await Finisher(store, store, storage, clock, worker, part_items=10).run_once()
    assert status is not None
    return status


async def assert_verified(store: Store, storage: FolderResults) -> None:
    report = await verify(store, storage, "job")
    assert report.problems == ()
    assert report.finished


async def keys(storage: ResultStorage, prefix: str) -> list[str]:
    return sorted([key async for key in storage.keys("job", prefix)])


@pytest.mark.req("J5", "R3", "R4")
async def test_a_retry_ends_with_manifests_of_its_own_and_keeps_the_former_metadata(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await run(store, storage, IDS, every_kind)
    first = await end(store, storage, clock)
    assert first.state is JobState.PARTIALLY_COMPLETED
    assert len(await keys(storage, "manifests/errors/")) == 1
    retried = await store.retry("job", RetrySelection(failed=True, kinds=frozenset({FailureKind.ROBOTS_DENIED})))
    assert (retried.generation, retried.state, retried.counts.pending) == (2, JobState.PENDING, 6)
    await work(store, storage, successes)
    second = await end(store, storage, clock)
    assert (second.generation, second.counts.success, second.counts.skipped) == (2, 22, 3)
    assert await document(storage, "job_metadata.json") == second.manifest
    assert await document(storage, "manifests/generations/1.json") == first.manifest
    assert second.manifest is not None
    assert second.manifest["generation"] == 2
    await assert_verified(store, storage)


@pytest.mark.req("J5", "R3")
async def test_every_generation_is_kept(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await run(store, storage, IDS, fails)
    manifests = [(await end(store, storage, clock)).manifest]
    for _ in range(3):
        await store.retry("job", FAILED)
        await work(store, storage, fails)
        manifests.append((await end(store, storage, clock)).manifest)
    for number, manifest in enumerate(manifests[:-1], 1):
        assert await document(storage, f"manifests/generations/{number}.json") == manifest
    await assert_verified(store, storage)
    await storage.remove("job", "manifests/generations/2.json")
    report = await verify(store, storage, "job")
    assert [(problem.code, problem.where) for problem in report.problems] == [
        (ProblemCode.METADATA_MISSING, "manifests/generations/2.json")
    ]


@pytest.mark.req("J5", "R3")
async def test_a_small_retry_writes_no_entries_of_items_that_did_not_run(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await run(store, storage, IDS, successes)
    await end(store, storage, clock)
    entries = {one: Path(storage.location("job")) / f"manifests/items/{one}.json" for one in IDS}
    others = {one: entries[one].stat().st_ino for one in IDS[2:-2]}
    await store.retry("job", RetrySelection(item_ids=frozenset(IDS[:2])))
    await work(store, storage, successes)
    entries[IDS[-1]].unlink()
    entries[IDS[-2]].write_bytes(b"")
    await end(store, storage, clock)
    assert {one: entries[one].stat().st_ino for one in others} == others
    await assert_verified(store, storage)


@pytest.mark.req("J5", "Z2")
async def test_files_that_the_present_end_does_not_refer_to_are_gone(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await run(store, storage, IDS, successes)
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    lease = await store.claim("worker")
    assert lease is not None
    await finish_lease(store, storage, lease, fails)
    await store.cancel("job")
    status = await end(store, storage, clock)
    ran, cancelled = lease.items[0].item_id, IDS[-1]
    assert status.counts.cancelled == len(IDS) - len(lease.items) > 0
    assert await keys(storage, f"items/{ran}/") == [f"items/{ran}/metadata.json"]
    assert await keys(storage, f"items/{cancelled}/") == []
    await assert_verified(store, storage)


@pytest.mark.req("J5", "Z2")
async def test_items_that_keep_their_end_keep_their_files(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await run(store, storage, IDS, every_kind)
    await end(store, storage, clock)
    before = {key: await storage.get("job", key) for key in await keys(storage, f"items/{IDS[0]}/")}
    assert before
    await store.retry("job", FAILED)
    await store.cancel("job")
    await end(store, storage, clock)
    assert {key: await storage.get("job", key) for key in await keys(storage, f"items/{IDS[0]}/")} == before
    await assert_verified(store, storage)


class Crash(BaseException):
    """Stands for the death of the process at a crash point."""


@pytest.fixture
def hooked() -> Iterator[None]:
    yield
    crash_points.install(None)


@pytest.mark.req("Z1", "J5")
@pytest.mark.parametrize("point", ["before_manifest", "after_manifest_part", "after_job_metadata"])
async def test_a_second_ending_that_died_anywhere_is_completed(
    store: Store, storage: FolderResults, clock: FakeClock, point: str, hooked: None
) -> None:
    await run(store, storage, IDS, successes)
    first = await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await store.cancel("job")

    def die(reached: str) -> None:
        if reached == point:
            raise Crash

    crash_points.install(die)
    with pytest.raises(Crash):
        await end(store, storage, clock)
    crash_points.install(None)
    second = await end(store, storage, clock)
    assert second.state is JobState.CANCELLED
    assert await document(storage, "manifests/generations/1.json") == first.manifest
    assert await keys(storage, "items/") == []
    await assert_verified(store, storage)


class Sleepy(FolderResults):
    """Falls asleep before it takes former files away, and wakes up in another generation."""

    asleep: asyncio.Event
    wake: asyncio.Event

    async def stage(self, job_id: str, fence: int, items: Any) -> Any:
        self.asleep.set()
        await self.wake.wait()
        return await super().stage(job_id, fence, items)


@pytest.mark.req("Z2", "J5")
async def test_a_finisher_that_slept_into_a_later_generation_takes_nothing_away(
    storage: FolderResults, clock: FakeClock
) -> None:
    store = MemoryStore(clock)
    await run(store, storage, IDS, successes)
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await store.cancel("job")
    sleepy = Sleepy(storage._root)
    sleepy.asleep, sleepy.wake = asyncio.Event(), asyncio.Event()
    zombie = asyncio.create_task(Finisher(store, store, sleepy, clock, "zombie").run_once())
    await sleepy.asleep.wait()
    clock.advance(100)
    for rescued in await store.rescue("other"):
        await storage.settle("job", rescued.fence, rescued.winners)
        await store.release("other", rescued.fence)
    await end(store, storage, clock, "other")
    await store.retry("job", RetrySelection(not_run=True))
    await work(store, storage, successes)
    await end(store, storage, clock, "other")
    before = await keys(storage, "")
    sleepy.wake.set()
    assert await zombie is None
    assert await keys(storage, "") == before
    await assert_verified(store, storage)
    await sleepy.close()


@pytest.mark.req("S4", "R3")
async def test_a_job_whose_circuit_opened_ends_failed_and_says_why(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await store.submit(new_job("job", policy=policy(breaker={"min_requests": 5})))
    await _load(store)
    await work(store, storage, fails)
    assert (await store.status("job")).stopping is StopReason.CIRCUIT_OPEN
    status = await end(store, storage, clock)
    assert (status.state, status.counts.failed, status.counts.cancelled) == (JobState.FAILED, 5, 20)
    assert status.manifest is not None
    assert status.manifest["circuit_opened"] == "5 of the last 5 items failed"
    assert (await store.item("job", IDS[-1])).reason == "circuit_open"
    await assert_verified(store, storage)
    await store.retry("job", RetrySelection(not_run=True))
    await work(store, storage, successes)
    status = await end(store, storage, clock)
    assert (status.state, status.counts.success) == (JobState.PARTIALLY_COMPLETED, 20)
    assert status.manifest is not None
    assert status.manifest["circuit_opened"] is None
    await assert_verified(store, storage)


async def _load(store: Store) -> None:
    items = tuple(Item(row, item_id, {}) for row, item_id in enumerate(IDS, 1))
    await store.load("job", ItemBatch(0, 1, len(items), "digest", items))
    await store.seal("job", 1)


@pytest.mark.req("J5")
async def test_a_policy_that_was_changed_after_the_end_does_not_spoil_the_verification(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await run(store, storage, IDS, every_kind)
    await end(store, storage, clock)
    await store.change_policy("job", ExecutionPolicy.model_validate({"retries": {"max_retries": 9}}))
    await assert_verified(store, storage)
