"""Finishing, verifying, retrying and deleting a job work over S3 as over a folder."""

from __future__ import annotations

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3.object_names import tombstone
from swath.backends.aws.s3.results import S3Results
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, RetrySelection
from swath.domain.lease import LeasedItem
from swath.domain.storage_keys import INDEX_SUFFIX, WARC_SUFFIX, Layout
from swath.domain.transitions import ItemState
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.formats.stored_files import read_item_files
from swath.pipeline.results.verify.verifier import ProblemCode, verify
from swath.pipeline.worker.rescue import Rescuer
from swath.ports.result_storage import PackAppend, StagedItem
from tests.integration.aws.storages import all_files, results
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.finish.running import every_kind, finish_lease, loaded, run, successes
from tests.unit.pipeline.making import MISSING, Made, end_lease, load, make_job, page

IDS = [f"100-01-{n:03}" for n in range(1, 24)] + ["a/b \N{SNOWMAN}", "x" * 400, "\N{PILE OF POO}" * 300]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
async def storage(aws: Endpoints, aws_name: str) -> S3Results:
    return results(aws, aws_name)


def fails(item: LeasedItem) -> EndedItem:
    failure = Failure.of(FailureKind.TIMEOUT, "no answer")
    return EndedItem(seq=item.seq, state=ItemState.FAILED, failure=failure)


async def end(store: MemoryStore, storage: S3Results, clock: FakeClock) -> None:
    assert await Finisher(store, store, storage, clock, "finisher", part_items=10).run_once() is not None


async def assert_verified(store: MemoryStore, storage: S3Results) -> None:
    report = await verify(store, storage, "job")
    assert report.problems == ()
    assert report.finished


@pytest.mark.req("R3", "R4", "Z2")
async def test_a_finished_job_verifies_and_damage_is_found(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    await run(store, storage, IDS, every_kind)
    await end(store, storage, clock)
    reader = results(aws, aws_name)
    await assert_verified(store, reader)
    record = await store.item("job", IDS[0])
    gone, changed = record.artifacts[0].key, record.artifacts[1].key
    await storage.remove("job", gone)
    await storage.put("job", {changed: b"{}", "items/nobody/data.json": b"{}", f"items/{IDS[1]}/~9/x": b""})
    report = await verify(store, reader, "job")
    assert {(problem.code, problem.where) for problem in report.problems} == {
        (ProblemCode.ARTIFACT_MISSING, gone),
        (ProblemCode.ARTIFACT_CHANGED, changed),
        (ProblemCode.STRAY_KEY, "items/nobody/data.json"),
        (ProblemCode.STRAY_KEY, f"items/{IDS[1]}/~9/x"),
    }


@pytest.mark.req("J5", "R1", "Z2")
async def test_later_generations_replace_what_earlier_ones_wrote(
    store: MemoryStore, storage: S3Results, clock: FakeClock
) -> None:
    await run(store, storage, IDS, successes)
    await end(store, storage, clock)
    before = await all_files(storage)
    for outcome in (every_kind, successes):
        await store.retry("job", RetrySelection(since=0.0))
        while (lease := await store.claim("worker")) is not None:
            await finish_lease(store, storage, lease, outcome)
        await end(store, storage, clock)
        await assert_verified(store, storage)
    after = await all_files(storage)
    assert len([key for key in before if key.startswith("items/")]) == len(
        [key for key in after if key.startswith("items/")]
    )


@pytest.mark.req("J5", "Z2")
async def test_former_files_of_items_that_end_without_any_are_removed(
    store: MemoryStore, storage: S3Results, clock: FakeClock
) -> None:
    await run(store, storage, IDS, successes)
    await end(store, storage, clock)
    await store.retry("job", RetrySelection(since=0.0))
    lease = await store.claim("worker")
    assert lease is not None
    await finish_lease(store, storage, lease, fails)
    await store.cancel("job")
    await end(store, storage, clock)
    await assert_verified(store, storage)


@pytest.mark.req("Z1", "Z2", "R4")
async def test_after_a_rescue_on_another_host_the_job_verifies(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    await loaded(store, IDS)
    committed = await store.claim("dead")
    assert committed is not None
    await finish_lease(store, storage, committed, successes, publish=False)
    staged = await store.claim("dead")
    assert staged is not None
    await storage.open_lease("job", staged.fence, staged.items)
    await storage.stage("job", staged.fence, [StagedItem(one.item_id, {"x": b"1"}) for one in staged.items])
    store.kill("dead")
    other = results(aws, aws_name)
    await Rescuer(store, other, MemorySiteState(clock), clock, "other").run_once()
    while (lease := await store.claim("other")) is not None:
        await finish_lease(store, other, lease, successes)
    await end(store, other, clock)
    await assert_verified(store, results(aws, aws_name))


@pytest.mark.req("R4", "Z2")
async def test_an_ending_settles_a_room_that_was_left_and_keeps_what_had_won_in_it(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    """The lease was given back without settling: nobody can be trusted to have named its winners."""
    await loaded(store, IDS)
    while (lease := await store.claim("worker")) is not None:
        await finish_lease(store, storage, lease, successes, publish=False)
        await store.release("worker", lease.fence)
    other = results(aws, aws_name)
    assert await other.open_leases("job") != []
    await end(store, other, clock)
    await assert_verified(store, other)


@pytest.mark.req("J6", "R1")
async def test_a_deleted_job_leaves_nothing_but_a_nameless_tombstone(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    await run(store, storage, IDS, every_kind)
    await end(store, storage, clock)
    await storage.open_lease("job", 99)
    await storage.stage("job", 99, [StagedItem("left", {"x": b"1"})])
    await store.delete("job")
    assert await Remover(store, results(aws, aws_name), clock, "remover").run_once() == "job"
    left = [path async for page in storage._objects.pages("") for path in page]  # the bucket itself
    assert left == [tombstone("job")]
    assert "job" not in left[0]
    assert await storage._objects.get(left[0]) == b""


def made(n: int) -> Made:
    return Made(data={"n": n}, pages=(page("html", b"<p>planted %d</p>" % n * 200),))


PACKED = {f"100-{n:02}": made(n) for n in range(30)} | {"gone": Made(how=MISSING), "a/b \N{SNOWMAN}": made(77)}


@pytest.mark.req("R2", "R4", "Z1", "Z2")
async def test_a_packed_job_verifies_after_a_rescue_on_another_host_and_a_late_pack_is_no_stray(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    await load(store, list(PACKED), "job", Layout.WARC)
    dead = await store.claim("dead")
    assert dead is not None
    await end_lease(store, storage, dead, PACKED, settle=False)
    store.kill("dead")
    other = results(aws, aws_name)
    await Rescuer(store, other, MemorySiteState(clock), clock, "other").run_once()
    while (lease := await store.claim("other")) is not None:
        await end_lease(store, other, lease, PACKED)
    await other.put("job", {f"packs/{dead.fence}-0000aaaa-00099.{WARC_SUFFIX}": b"late"})
    await end(store, other, clock)
    await assert_verified(store, results(aws, aws_name))
    assert f"packs/{dead.fence}.{INDEX_SUFFIX}" in await all_files(other)
    record = await store.item("job", "100-07")
    files = await read_item_files(other, "job", "100-07", record.artifacts)
    assert (files["html.html"], files["data.json"]) == (PACKED["100-07"].pages[0].body, b'{"n":7}')


@pytest.mark.req("R2", "J6", "R1")
async def test_nothing_of_a_deleted_packed_job_is_left(
    store: MemoryStore, storage: S3Results, clock: FakeClock, aws: Endpoints, aws_name: str
) -> None:
    await make_job(store, storage, clock, PACKED, layout=Layout.WARC)
    await assert_verified(store, storage)
    await storage.open_lease("job", 99)
    await storage.append("job", 99, {WARC_SUFFIX: PackAppend(b"planted")})
    await store.delete("job")
    assert await Remover(store, results(aws, aws_name), clock, "remover").run_once() == "job"
    assert [path async for page in storage._objects.pages("") for path in page] == [tombstone("job")]
