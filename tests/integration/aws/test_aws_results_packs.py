"""Packs in S3: what they cost, and that whoever dies, sleeps or gets no answer leaves exactly what won."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import obstore
import pytest

from harness.fakes.aws import Endpoints
from harness.fakes.s3_faults import S3Faults, S3Rates
from swath.backends.aws.s3 import objects as objects_module
from swath.backends.aws.s3.job_files import JobFiles
from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results
from swath.backends.aws.s3.staging import LeasePacks
from swath.domain.errors import LeaseLost, StoreUnavailable
from swath.domain.job import Job, WaitingFor
from swath.domain.lease import Lease, LeasedItem
from swath.domain.storage_keys import INDEX_SUFFIX, RECORDS_SUFFIX, WARC_SUFFIX, Layout
from swath.pipeline.finish.cleanup import ObsoleteFiles
from swath.ports.result_storage import PackAppend
from tests.integration.aws.mortals import Killed, Sleepy, mortal
from tests.integration.aws.storages import all_files, objects, results

HEAD = b"warcinfo"
LEASED = [LeasedItem(1, "won", {}, first=True), LeasedItem(2, "lost", {}, first=True), LeasedItem(3, "again", {})]
INDEX_KEY = f"packs/5.{INDEX_SUFFIX}"


@pytest.fixture
async def place(aws: Endpoints, aws_name: str) -> Objects:
    return objects(aws, aws_name)


@pytest.fixture
async def sleepy(place: Objects) -> Sleepy:
    return Sleepy(place.bucket, place._chain)


async def appended(storage: S3Results, fence: int, text: bytes, job_id: str = "job") -> dict[str, int]:
    """What a commit adds; answers with the packs and how much of each is needed."""
    additions = {WARC_SUFFIX: PackAppend(b"record " + text, HEAD), RECORDS_SUFFIX: PackAppend(b"line " + text + b"\n")}
    answer = await storage.append(job_id, fence, additions)
    return {key: start + len(additions[ending].data) for ending, (key, start) in answer.items()}


def contents(packs: dict[str, int], text: bytes) -> dict[str, bytes]:
    return {key: HEAD + b"record " + text if key.endswith(WARC_SUFFIX) else b"line " + text + b"\n" for key in packs}


async def there(place: Objects, job_id: str = "job") -> set[str]:
    """What lies under `packs/`, seen or not."""
    return {path.removeprefix(f"{job_id}/") async for page in place.pages(f"{job_id}/packs") for path in page}


async def assert_only(files: dict[str, bytes], *readers: S3Results) -> None:
    for reader in readers:
        assert await all_files(reader) == files
        assert await reader.open_leases("job") == []


@pytest.mark.req("R2", "Q3")
async def test_a_packed_lease_costs_two_writes_for_each_commit_and_two_of_its_own(place: Objects) -> None:
    storage = S3Results(place)
    await storage.open_lease("job", 5, [LeasedItem(n, f"i{n}", {}, first=n > 50) for n in range(100)])
    packs: dict[str, int] = {}
    for n in range(4):
        packs |= await appended(storage, 5, b"%d" % n)
    await storage.settle("job", 5, [f"i{n}" for n in range(100)], packs, {INDEX_KEY: b"index"})
    assert storage.meter.requests == {
        "s3.put_object": 1 + 4 * 2 + 1,
        "s3.head_object": 1 + 4 + 1,  # of a tombstone, before each commit, before the index
        "s3.delete_objects": 1,
    }
    assert len(await all_files(storage)) == 9
    assert storage.pack_seconds > 0.0


@pytest.mark.req("R2", "Z2")
async def test_packs_are_told_by_their_types_and_never_unpacked_on_the_way(place: Objects) -> None:
    storage = S3Results(place)
    await storage.open_lease("job", 5)
    packs = await appended(storage, 5, b"x")
    await storage.settle("job", 5, (), packs, {INDEX_KEY: b"index"})
    store = await place._open()
    types = {}
    for key in (*packs, INDEX_KEY):
        attributes = (await obstore.get_async(store, f"job/{key}")).attributes
        assert "Content-Encoding" not in attributes
        types[key.rpartition("/")[2].partition(".")[2]] = attributes["Content-Type"]
    assert types == {
        WARC_SUFFIX: "application/warc",
        RECORDS_SUFFIX: "application/x-ndjson",
        INDEX_SUFFIX: "text/x-cdxj",
    }


@pytest.mark.req("R2", "Q3")
async def test_packs_of_a_lease_are_found_among_many_by_one_listing(
    place: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, packs = S3Results(place), {}
    for fence in (1, 4, 5, 10, 50, 51):
        await storage.open_lease("job", fence)
        packs[fence] = [key for n in range(2) for key in await appended(storage, fence, b"%d" % n)]
    before = place.meter.requests["s3.list_objects_v2"]
    for fence, keys in packs.items():
        assert sorted(await LeasePacks(place, JobFiles(place)).find("job", fence)) == sorted(keys)
    assert place.meter.requests["s3.list_objects_v2"] - before == len(packs)
    monkeypatch.setattr(objects_module, "_PAGE", 2)  # a listing in many pages
    for fence, keys in packs.items():
        assert sorted(await LeasePacks(place, JobFiles(place)).find("job", fence)) == sorted(keys)


@pytest.mark.req("R2", "Z2")
async def test_two_processes_under_one_fence_never_write_the_same_pack(place: Objects) -> None:
    """No process appends under a fence that another had; if one did, nothing would be overwritten."""
    one, other = S3Results(place), S3Results(place)
    await one.open_lease("job", 5)
    first, second = await appended(one, 5, b"first"), await appended(other, 5, b"second")
    assert first.keys().isdisjoint(second)
    for packs, text in ((first, b"first"), (second, b"second")):
        for key, content in contents(packs, text).items():
            assert await one.get("job", key) == content


@pytest.mark.req("R2", "Z1", "Z2")
async def test_a_pack_that_a_sleeper_writes_after_its_rescue_is_never_seen(
    aws: Endpoints, aws_name: str, place: Objects, sleepy: Sleepy
) -> None:
    sleeper, rescuer = S3Results(sleepy), results(aws, aws_name)
    await sleeper.open_lease("job", 5, LEASED)
    won = await appended(sleeper, 5, b"won")
    sleepy.fall_asleep("/packs/")
    appending = asyncio.create_task(appended(sleeper, 5, b"late"))
    await sleepy.asleep.wait()
    await rescuer.settle("job", 5, ["won"], won, {INDEX_KEY: b"index"})
    sleepy.awake.set()
    late = await appending  # it is not told: only the store can refuse the commit
    assert late.keys() <= await there(place)
    files = contents(won, b"won") | {INDEX_KEY: b"index"}
    await assert_only(files, rescuer, sleeper, results(aws, aws_name))
    with pytest.raises(LeaseLost):
        await appended(sleeper, 5, b"later")
    await sleeper.settle("job", 5, ())  # as a worker does that learns of its loss
    assert await there(place) == files.keys()
    await assert_only(files, rescuer, sleeper, results(aws, aws_name))


@pytest.mark.req("R2", "Z2")
async def test_a_first_pack_that_comes_after_the_rescue_of_an_empty_lease_is_never_seen(
    aws: Endpoints, aws_name: str, place: Objects, sleepy: Sleepy
) -> None:
    sleeper, rescuer = S3Results(sleepy), results(aws, aws_name)
    await sleeper.open_lease("job", 5)
    sleepy.fall_asleep("/packs/")
    appending = asyncio.create_task(appended(sleeper, 5, b"late"))
    await sleepy.asleep.wait()
    await rescuer.settle("job", 5, ())
    sleepy.awake.set()
    await appending
    assert len(await there(place)) == 2
    await assert_only({}, rescuer, sleeper, results(aws, aws_name))


@pytest.mark.req("R2", "Z2")
async def test_an_index_that_comes_after_the_rescue_does_not_make_losers_seen(
    aws: Endpoints, aws_name: str, sleepy: Sleepy
) -> None:
    sleeper, rescuer = S3Results(sleepy), results(aws, aws_name)
    await sleeper.open_lease("job", 5)
    packs = await appended(sleeper, 5, b"x")
    sleepy.fall_asleep(INDEX_KEY)
    settling = asyncio.create_task(sleeper.settle("job", 5, (), packs, {INDEX_KEY: b"index"}))
    await sleepy.asleep.wait()
    await rescuer.settle("job", 5, ())
    sleepy.awake.set()
    await settling
    await assert_only({}, rescuer, sleeper, results(aws, aws_name))


@pytest.mark.req("R2", "R1", "Z2")
async def test_a_pack_of_a_deleted_job_is_never_seen_in_one_ordered_anew(
    aws: Endpoints, aws_name: str, sleepy: Sleepy
) -> None:
    sleeper, other = S3Results(sleepy), results(aws, aws_name)
    await sleeper.open_lease("job", 5, LEASED)
    sleepy.fall_asleep("/packs/")
    appending = asyncio.create_task(appended(sleeper, 5, b"old"))
    await sleepy.asleep.wait()
    await other.settle("job", 5, ())
    await other.clear("job")
    files: dict[str, bytes] = {}
    for fence, leased in ((6, LEASED), (7, LEASED[2:])):  # of the second none is there for the first time
        await other.open_lease("job", fence, leased)
        packs = await appended(other, fence, b"new")
        await other.settle("job", fence, (), packs, {f"packs/{fence}.{INDEX_SUFFIX}": b"new"})
        files |= contents(packs, b"new") | {f"packs/{fence}.{INDEX_SUFFIX}": b"new"}
    sleepy.awake.set()
    await appending
    await assert_only(files, other, sleeper, results(aws, aws_name))
    await sleeper.settle("job", 5, ())
    await assert_only(files, other, sleeper, results(aws, aws_name))


class Deaf(Objects):
    """Never hears that a pack was stored, while `deaf`."""

    deaf = True

    async def put(self, path: str, *args: Any, **kwargs: Any) -> bool:
        stored = await super().put(path, *args, **kwargs)
        if self.deaf and path.endswith(WARC_SUFFIX):
            raise StoreUnavailable("no answer", WaitingFor.DISK)
        return stored


@pytest.mark.req("R2", "Z2")
async def test_what_a_failed_append_left_behind_goes_with_its_lease(place: Objects) -> None:
    deaf = Deaf(place.bucket, place._chain)
    worker = S3Results(deaf)
    await worker.open_lease("job", 5, LEASED)
    with pytest.raises(StoreUnavailable):
        await appended(worker, 5, b"x")
    deaf.deaf = False
    packs = await appended(worker, 5, b"x")
    assert len(await there(place)) == 4
    await worker.settle("job", 5, ["won"], packs, {INDEX_KEY: b"index"})
    assert await there(place) == {*packs, INDEX_KEY}
    await assert_only(contents(packs, b"x") | {INDEX_KEY: b"index"}, worker, S3Results(place))


@pytest.mark.req("R2", "Z2")
async def test_a_settlement_whose_answer_was_lost_can_be_repeated_by_its_holder(place: Objects) -> None:
    class LosingAnswers(Objects):
        async def delete(self, paths: Sequence[str]) -> None:
            await super().delete(paths)
            if paths:
                raise StoreUnavailable("no answer", WaitingFor.DISK)

    worker = S3Results(LosingAnswers(place.bucket, place._chain))
    await worker.open_lease("job", 5)
    packs = await appended(worker, 5, b"x")
    with pytest.raises(StoreUnavailable):
        await worker.settle("job", 5, (), packs, {INDEX_KEY: b"index"})
    await worker.settle("job", 5, (), packs, {INDEX_KEY: b"index"})
    await assert_only(contents(packs, b"x") | {INDEX_KEY: b"index"}, worker, S3Results(place))


async def work(storage: S3Results, job_id: str, accepted: dict[str, int]) -> None:
    """A lease of two commits, of which the store accepts the first."""
    await storage.open_lease(job_id, 5, LEASED)
    accepted |= await appended(storage, 5, b"won", job_id)
    await appended(storage, 5, b"lost", job_id)
    await storage.settle(job_id, 5, ["won"], accepted, {INDEX_KEY: b"index"})


async def assert_exactly(place: Objects, job_id: str, accepted: dict[str, int]) -> None:
    storage = S3Results(place)
    files = contents(accepted, b"won") | ({INDEX_KEY: b"index"} if accepted else {})
    assert await all_files(storage, job_id) == files
    assert await there(place, job_id) == files.keys(), "nor is anything there that is not seen"
    assert await storage.open_leases(job_id) == []


async def rescued(storage: S3Results, job_id: str, accepted: dict[str, int]) -> None:
    documents = {INDEX_KEY: b"index"} if accepted else {}
    await storage.settle(job_id, 5, ["won"] if accepted else [], accepted, documents)


@pytest.mark.req("R2", "Z1", "Z2")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_worker_killed_at_any_request_leaves_exactly_the_packs_that_won(place: Objects, after: bool) -> None:
    for dies_at in range(1, 100):
        job_id, accepted = f"job-{dies_at}", dict[str, int]()
        storage, _ = mortal(place, dies_at, after=after)
        try:
            await work(storage, job_id, accepted)
        except Killed:
            await rescued(S3Results(place), job_id, accepted)
            await assert_exactly(place, job_id, accepted)
        else:
            await assert_exactly(place, job_id, accepted)
            break
    assert dies_at > 10


@pytest.mark.req("R2", "Z1", "Z2")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_rescuer_killed_at_any_request_leaves_packs_to_the_next(place: Objects, after: bool) -> None:
    for dies_at in range(1, 100):
        job_id, worker = f"job-{dies_at}", S3Results(place)
        await worker.open_lease(job_id, 5, LEASED)
        accepted = await appended(worker, 5, b"won", job_id)
        lost = await appended(worker, 5, b"lost", job_id)
        rescuer, _ = mortal(place, dies_at, after=after)
        try:
            await rescued(rescuer, job_id, accepted)
        except Killed:
            assert not lost.keys() & (await all_files(S3Results(place), job_id)).keys()
            await rescued(S3Results(place), job_id, accepted)
            await assert_exactly(place, job_id, accepted)
        else:
            await assert_exactly(place, job_id, accepted)
            break
    assert dies_at > 8


@pytest.fixture
async def proxy(aws: Endpoints, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Faults]:
    """Between every storage opened from now on and S3."""
    async with S3Faults(aws.s3_url, 5, S3Rates()) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        yield proxy


@pytest.mark.req("R2", "Z2", "W5")
@pytest.mark.parametrize("fault", ["slow_down", "server_error", "cut_request", "withheld"])
async def test_while_a_fault_lasts_nothing_is_appended_and_after_it_nothing_is_left_of_the_tries(
    aws: Endpoints, aws_name: str, proxy: S3Faults, fault: str
) -> None:
    storage, body = results(aws, aws_name, patience_seconds=0.6), bytes(range(256)) * 400
    await storage.open_lease("job", 5, LEASED)
    won = await appended(storage, 5, body)
    proxy.rates = S3Rates(**{fault: 1.0})
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(appended(storage, 5, body), 60)
    assert proxy.injected[fault] > 0
    proxy.rates = S3Rates()
    won |= await appended(storage, 5, body)
    assert {key: await storage.get("job", key) for key in won} == contents(won, body)
    await storage.settle("job", 5, ["won"], won, {INDEX_KEY: b"index"})
    assert await all_files(storage) == contents(won, body) | {INDEX_KEY: b"index"}
    assert await there(storage._objects) == {*won, INDEX_KEY}


@pytest.mark.req("R2", "Z1", "Z2")
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_packed_lease_goes_through_a_storm_with_nothing_lost_or_left(
    aws: Endpoints, aws_name: str, proxy: S3Faults, seed: int
) -> None:
    storage = results(aws, aws_name, patience_seconds=0.5)
    proxy.rates = S3Rates(slow_down=0.1, server_error=0.2, cut_request=0.1, cut_answer=0.1, withheld=0.2)

    async def patiently(call: Any, *args: object) -> Any:
        for _ in range(50):
            try:
                return await call(*args)
            except StoreUnavailable:
                continue
        raise AssertionError("never answered")

    won: dict[str, int] = {}
    await patiently(storage.open_lease, "job", 5, LEASED)
    for n in range(4):
        packs = await patiently(appended, storage, 5, b"won")
        won |= packs if n % 2 else {}
    await patiently(storage.settle, "job", 5, ["won"], won, {INDEX_KEY: b"%d" % seed})
    proxy.rates = S3Rates()
    assert sum(proxy.injected.values()) > 5
    assert await all_files(storage) == contents(won, b"won") | {INDEX_KEY: b"%d" % seed}
    assert await storage.open_leases("job") == []


@pytest.mark.req("Z8", "Z10", "Q3")
async def test_removing_replaced_packs_costs_as_many_requests_for_many_as_for_few(place: Objects) -> None:
    asked: dict[int, dict[str, int]] = {}
    for packs in (10, 40):
        storage, job = S3Results(place), Job(job_id=f"job-{packs}", scraper_id="x", layout=Layout.WARC)
        await storage.put(job.job_id, {f"packs/{fence}-0.{RECORDS_SUFFIX}": b"line" for fence in range(1, packs + 1)})
        former = ObsoleteFiles(storage, Lease(fence=99, job=job, worker_id="w"), generation=2)
        storage.meter.requests.clear()
        await former.end()
        asked[packs] = dict(storage.meter.requests)
        assert await all_files(storage, job.job_id) == {}
    assert asked[40] == asked[10]
    assert asked[10]["s3.delete_objects"] == 1
