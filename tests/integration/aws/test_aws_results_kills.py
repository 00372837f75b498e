"""Whoever dies or sleeps, at whichever request: the next to settle leaves exactly the winners in S3."""

from __future__ import annotations

import asyncio

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results
from swath.domain.errors import LeaseLost
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.ports.result_storage import StagedItem
from tests.integration.aws.mortals import Killed, Sleepy, mortal
from tests.integration.aws.storages import all_files, item, objects, results

# Of the losers one is named when the lease is opened, and one is not.
LEASED = [LeasedItem(1, "won", {}, first=True), LeasedItem(2, "lost", {}, first=True), LeasedItem(3, "again", {})]
STAGED = [
    StagedItem("won", {"html.html.gz": b"w" * 5_000, "data.json": b"won"}, first=True),
    StagedItem("lost", {"html.html.gz": b"l" * 5_000, "data.json": b"lost"}, first=True),
    StagedItem("again", {"data.json": b"new"}),
    StagedItem("unnamed", {"data.json": b"lost"}),
]
WINNERS = ["won", "again"]


async def work(storage: S3Results, job_id: str, accepted: list[Artifact]) -> None:
    """A worker's lease: `accepted` are the files that the store knows of once it has the outcome."""
    await storage.open_lease(job_id, 5, LEASED)
    won, _, again, _ = await storage.stage(job_id, 5, STAGED)
    accepted += [*won, *again]
    await storage.publish(job_id, 5, WINNERS)
    await storage.settle(job_id, 5, WINNERS)


async def prepared(place: Objects, job_id: str) -> S3Results:
    """An item that has files of a former generation."""
    storage = S3Results(place)
    await storage.open_lease(job_id, 1)
    await storage.stage(job_id, 1, [StagedItem("again", {"data.json": b"old", "more.json": b"old"}, first=True)])
    await storage.settle(job_id, 1, ["again"])
    return storage


async def assert_exactly(place: Objects, job_id: str, accepted: list[Artifact]) -> None:
    """Listed, whole, nothing else, not even unseen, and no room left. Before a commit the former generation stays."""
    storage = S3Results(place)
    contents = {"won": {b"w" * 5_000, b"won"}, "again": {b"new"}}
    files = await all_files(storage, job_id)
    if accepted:
        assert files.keys() == {artifact.key for artifact in accepted}
        assert set(files.values()) == contents["won"] | contents["again"]
    else:
        assert set(files.values()) == {b"old"}
        assert len(files) == 2
    assert await storage.open_leases(job_id) == []
    there = [path async for page in place.pages(f"{job_id}/items") for path in page]
    assert sorted(there) == sorted(f"{job_id}/{key}" for key in files)


@pytest.mark.req("R1", "Z1", "Z2")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_worker_killed_at_any_request_leaves_exactly_the_winners(
    aws: Endpoints, aws_name: str, after: bool
) -> None:
    place = objects(aws, aws_name)
    for dies_at in range(1, 100):
        job_id, accepted = f"job-{dies_at}", list[Artifact]()
        rescuer = await prepared(place, job_id)
        storage, made = mortal(place, dies_at, after=after)
        try:
            await work(storage, job_id, accepted)
        except Killed:
            await rescuer.settle(job_id, 5, WINNERS if accepted else [])
            await assert_exactly(place, job_id, accepted)
        else:
            assert made.made < dies_at + after
            await assert_exactly(place, job_id, accepted)
            break
    assert dies_at > 10


@pytest.mark.req("R1", "Z1", "Z2")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("won", [True, False], ids=["committed", "not-committed"])
async def test_a_rescuer_killed_at_any_request_leaves_the_rest_to_the_next(
    aws: Endpoints, aws_name: str, after: bool, won: bool
) -> None:
    place, winners = objects(aws, aws_name), WINNERS if won else []
    for dies_at in range(1, 100):
        job_id = f"job-{dies_at}"
        witness = await prepared(place, job_id)
        worker = S3Results(place)
        await worker.open_lease(job_id, 5, LEASED)
        files, _, again, _ = await worker.stage(job_id, 5, STAGED)
        accepted = [*files, *again] if won else []
        rescuer, _ = mortal(place, dies_at, after=after)
        try:
            await rescuer.settle(job_id, 5, winners)
        except Killed:
            seen = await all_files(witness, job_id)
            lost = {b"l" * 5_000, b"lost"} | (set() if won else {b"new", b"won"})
            assert not lost & set(seen.values())
            await S3Results(place).settle(job_id, 5, winners)
            await assert_exactly(place, job_id, accepted)
        else:
            await assert_exactly(place, job_id, accepted)
            break
    assert dies_at > 5


@pytest.mark.req("R1", "Z2")
async def test_files_that_a_sleeper_writes_after_its_rescue_are_never_seen(aws: Endpoints, aws_name: str) -> None:
    plain = objects(aws, aws_name)
    sleepy = Sleepy(plain.bucket, plain._chain)
    sleepy.fall_asleep("/items/")
    sleeper, rescuer, worker = S3Results(sleepy), results(aws, aws_name), results(aws, aws_name)
    await sleeper.open_lease("job", 5, LEASED)
    staging = asyncio.create_task(sleeper.stage("job", 5, STAGED))
    await sleepy.asleep.wait()
    await rescuer.settle("job", 5, [])
    await worker.open_lease("job", 6, LEASED)
    ((won,),) = await worker.stage("job", 6, [item("won", b"winner", first=False)])
    await worker.settle("job", 6, ["won"])
    sleepy.awake.set()
    answers = await staging  # it is not told: only the store can refuse the commit
    assert await rescuer.get("job", answers[0][1].key) == b"won"
    for reader in (rescuer, worker, sleeper, results(aws, aws_name)):
        assert await all_files(reader) == {won.key: b"winner"}
        assert await reader.open_leases("job") == []
    with pytest.raises(LeaseLost):
        await sleeper.stage("job", 5, STAGED)
    await sleeper.settle("job", 5, [])  # as a worker does that learns of its loss and has won nothing
    for artifacts in answers:
        for artifact in artifacts:
            with pytest.raises(KeyError):
                await rescuer.get("job", artifact.key)
    assert await all_files(rescuer) == {won.key: b"winner"}


@pytest.mark.req("R1", "Z2")
async def test_a_room_made_after_the_rescue_is_found_and_cleared(aws: Endpoints, aws_name: str) -> None:
    sleeper, rescuer = results(aws, aws_name), results(aws, aws_name)
    await rescuer.settle("job", 5, [])
    await sleeper.open_lease("job", 5, LEASED)
    await sleeper.stage("job", 5, STAGED)
    assert await rescuer.open_leases("job") == [5]
    assert await all_files(rescuer) == {}
    await rescuer.settle("job", 5, [])
    assert await rescuer.open_leases("job") == []
    assert await all_files(rescuer) == {}


@pytest.mark.req("R1", "Z2")
async def test_opening_a_room_again_forgets_nothing_that_was_named(aws: Endpoints, aws_name: str) -> None:
    place = objects(aws, aws_name)
    worker, rescuer = S3Results(place), S3Results(place)
    await worker.open_lease("job", 5, LEASED)
    await worker.stage("job", 5, STAGED[:3])
    await worker.open_lease("job", 5)
    await rescuer.settle("job", 5, [])
    assert [path async for page in place.pages("job/items") for path in page] == []


@pytest.mark.req("Z2")
async def test_listing_while_leases_come_and_go_never_shows_a_loser(aws: Endpoints, aws_name: str) -> None:
    reader, done = results(aws, aws_name), asyncio.Event()

    async def churn(first_fence: int) -> None:
        storage = results(aws, aws_name)
        for fence in range(first_fence, first_fence + 12):
            await storage.open_lease("job", fence, [LeasedItem(1, f"w{fence}", {}, first=True)])
            await storage.stage("job", fence, [item(f"w{fence}"), item(f"l{fence}")])
            await storage.settle("job", fence, [f"w{fence}"])

    async def watch() -> None:
        while not done.is_set():
            async for key in reader.keys("job"):
                assert key.startswith("items/w")

    watching = asyncio.create_task(watch())
    await asyncio.gather(churn(100), churn(200), churn(300))
    done.set()
    await watching
    assert len(await all_files(reader)) == 36
