"""A job deleted and ordered anew under its id: what leases of the old one do late touches no file of the new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3 import job_files as files_module
from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results
from swath.domain.errors import LeaseLost
from swath.domain.lease import LeasedItem
from swath.ports.result_storage import StagedItem
from tests.integration.aws.mortals import Sleepy
from tests.integration.aws.storages import all_files, item, objects, results

LEASED = [LeasedItem(1, "a", {}, first=True), LeasedItem(2, "b", {})]
OLD = [StagedItem("a", {"data.json": b"old", "more.json": b"old"}, first=True), item("b", b"old", first=False)]
APART_SECONDS = 1.0
NEW = [item("a", b"new"), item("b", b"new")]


@pytest.fixture
async def sleepy(aws: Endpoints, aws_name: str) -> Sleepy:
    plain = objects(aws, aws_name)
    return Sleepy(plain.bucket, plain._chain)


@pytest.fixture
async def other(aws: Endpoints, aws_name: str) -> S3Results:
    """Rescues, deletes and works on another host."""
    return results(aws, aws_name)


@pytest.fixture(autouse=True)
def clocks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is but one server."""
    monkeypatch.setattr(files_module, "_CLOCKS_APART", timedelta(seconds=APART_SECONDS))


async def ordered_anew(other: S3Results) -> dict[str, bytes]:
    """The lease 1 is rescued and the job deleted; what the new one under its id then has."""
    await other.settle("job", 1, [])
    await other.clear("job")
    await other.open_lease("job", 2, [LeasedItem(1, "a", {}, first=True), LeasedItem(2, "b", {}, first=True)])
    answers = await other.stage("job", 2, NEW)
    await other.settle("job", 2, ["a", "b"])
    return {artifact.key: b"new" for artifacts in answers for artifact in artifacts}


async def assert_only(files: dict[str, bytes], *readers: S3Results) -> None:
    for reader in readers:
        assert await all_files(reader) == files
        assert await reader.open_leases("job") == []


@pytest.mark.req("R1", "Z2")
async def test_a_put_that_sleeps_through_all_of_it_overwrites_nothing_and_is_never_seen(
    aws: Endpoints, aws_name: str, sleepy: Sleepy, other: S3Results
) -> None:
    sleeper = S3Results(sleepy)
    await sleeper.open_lease("job", 1, LEASED)
    sleepy.fall_asleep("/items/a/")
    staging = asyncio.create_task(sleeper.stage("job", 1, OLD[:1]))
    await sleepy.asleep.wait()
    files = await ordered_anew(other)
    sleepy.awake.set()
    await staging  # it is not told: only the store can refuse the commit
    await assert_only(files, other, sleeper, results(aws, aws_name))
    with pytest.raises(LeaseLost):
        await sleeper.stage("job", 1, OLD)
    await sleeper.settle("job", 1, [])
    await assert_only(files, other, sleeper, results(aws, aws_name))
    there = [path async for page in sleepy.pages("job/items") for path in page]
    assert sorted(there) == sorted(f"job/{key}" for key in files)  # nor does anything of it stay


@pytest.mark.req("R1", "Z2")
async def test_a_room_that_is_opened_late_takes_nothing_away(sleepy: Sleepy, other: S3Results) -> None:
    sleeper = S3Results(sleepy)
    sleepy.fall_asleep("/.leases/1/")
    opening = asyncio.create_task(sleeper.open_lease("job", 1, LEASED))
    await sleepy.asleep.wait()
    files = await ordered_anew(other)
    sleepy.awake.set()
    await opening
    await sleeper.stage("job", 1, OLD)
    assert await all_files(other) == files
    await sleeper.settle("job", 1, [])
    await assert_only(files, other, sleeper)


@pytest.mark.req("R1", "Z2")
async def test_a_lease_whose_room_is_gone_deletes_no_plain_keys_on_its_own_word(
    sleepy: Sleepy, other: S3Results
) -> None:
    """Nobody left a tombstone: the objects were removed by hand, say."""
    sleeper = S3Results(sleepy)
    await sleeper.open_lease("job", 1, LEASED)
    await sleeper.stage("job", 1, OLD)
    await sleepy.delete([path async for page in sleepy.pages("job") for path in page])
    await other.open_lease("job", 2)
    ((new,),) = await other.stage("job", 2, NEW[:1])
    await other.settle("job", 2, ["a"])
    assert new.key == "items/a/data.json"
    await sleeper.settle("job", 1, [])
    await assert_only({new.key: b"new"}, other, sleeper)


class SleepyLister(Objects):
    """Objects of a process that is frozen before it lists."""

    def fall_asleep(self) -> None:
        self.asleep, self.awake = asyncio.Event(), asyncio.Event()

    async def pages(self, folder: str, until: datetime | None = None) -> AsyncIterator[list[str]]:
        self.asleep.set()
        await self.awake.wait()
        async for page in super().pages(folder, until):
            yield page


@pytest.mark.req("R1", "Z2")
async def test_a_remover_that_sleeps_through_the_deletion_removes_nothing_of_the_new_job(
    aws: Endpoints, aws_name: str, other: S3Results
) -> None:
    plain = objects(aws, aws_name)
    lister = SleepyLister(plain.bucket, plain._chain)
    lister.fall_asleep()
    clearing = asyncio.create_task(S3Results(lister).clear("job"))
    await lister.asleep.wait()
    await asyncio.sleep(APART_SECONDS + 1.5)  # by the clock of the server, which tells whole seconds
    files = await ordered_anew(other)
    await other.open_lease("job", 3)
    lister.awake.set()
    await clearing
    assert await other.open_leases("job") == [3]
    assert await all_files(other) == files


@pytest.mark.req("R1", "Q3")
async def test_every_lease_of_a_job_ordered_anew_has_its_fence_in_its_keys(other: S3Results) -> None:
    await other.clear("job")
    before = other.meter.requests["s3.head_object"]
    for fence in (7, 8):
        await other.open_lease("job", fence)
        ((artifact,),) = await other.stage("job", fence, [item(f"i{fence}")])
        assert artifact.key == f"items/i{fence}/~{fence}/data.json"
    assert other.meter.requests["s3.head_object"] - before == 1 + 2  # one for the tombstone, and one for each commit


@pytest.mark.req("R1")
async def test_long_names_are_known_in_the_new_job_to_who_wrote_the_old_one(sleepy: Sleepy, other: S3Results) -> None:
    worker, long = S3Results(sleepy), "x" * 400
    for fence in (1, 2):
        await worker.open_lease("job", fence)
        ((artifact,),) = await worker.stage("job", fence, [item(long)])
        await worker.settle("job", fence, [long])
        if fence == 1:
            await other.clear("job")
    assert await all_files(other) == {artifact.key: b"1"}
