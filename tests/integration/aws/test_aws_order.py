"""Jobs that come whole into DynamoDB: in one commit, however long they are, and at the price of two requests."""

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from harness.fakes.aws_faults import Faults, Rates
from swath.backends.aws.client.client import Answer, Send
from swath.backends.aws.store import loading
from swath.backends.aws.store.store import AwsStore
from swath.domain.errors import BadInput, Conflict, StoreUnavailable, UnknownName
from swath.domain.job import Counts
from swath.domain.lease import SlotReport
from swath.domain.transitions import JobState
from tests.contract.suites.builders import batch, claim_all, claimed, end_job, finished, listing, new_job, success
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock

HOUR_SECONDS = 3_600


@pytest.fixture
def store(stores: Stores, tmp_path: Path, clock: FakeClock) -> AwsStore:
    return stores.open(tmp_path, clock)


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has more than two hundred items is too long for a transaction."""
    monkeypatch.setattr(loading, "_COMMIT_ROWS", 2)


class Before:
    """Calls something before each transaction, which may well be the last thing that happens."""

    def __init__(self) -> None:
        self.call: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if operation == "transact_write_items" and self.call is not None:
            await self.call()
        return await send()


class DiesAfter:
    """So many removals of rows."""

    def __init__(self, removals: int) -> None:
        self.left = removals

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        self.left -= operation == "batch_write_item"
        if self.left < 0:
            raise EndpointConnectionError(endpoint_url="http://gone.invalid")
        return await send()


def ids(items: int) -> list[str]:
    return [f"parcel-{n}" for n in range(1, items + 1)]


async def requests_of(stores: Stores, store: AwsStore, call: Awaitable[object]) -> int:
    before = stores.meter(store).of("dynamodb")
    await call
    return stores.meter(store).of("dynamodb") - before


@pytest.mark.req("I3", "Q3")
@pytest.mark.parametrize("items", [1, 100, 3_000])
async def test_an_order_is_two_requests(stores: Stores, store: AwsStore, items: int) -> None:
    """A number for it, and the one transaction."""
    await store.backlog()  # the first request of a process asks for the format of the table
    job, rows = new_job(on_demand=True), batch(0, 1, ids(items))
    assert await requests_of(stores, store, store.order(job, rows)) == 2
    assert (await store.status("job")).counts == Counts(pending=items, total=items)
    assert [record.item_id for record in await store.items("job", limit=items)] == ids(items)
    assert (await store.item("job", f"parcel-{items}")).seq == items


@pytest.mark.req("I3", "Q3")
async def test_what_one_scrape_on_demand_asks_of_the_table(stores: Stores, store: AwsStore) -> None:
    """By the process that ordered it: nothing that it has just written is read again."""
    await store.order(new_job(on_demand=True), batch(0, 1, ["a"]))
    meter = stores.meter(store)
    meter.requests.clear()
    lease = await claimed(store, job_id="job")
    await finished(store, lease, [success(1)], report=SlotReport(ceiling=0, demand=0))
    await store.release(lease.worker_id, lease.fence)
    await end_job(store, job_id="job")
    assert meter.requests["dynamodb.query"] == 0
    assert meter.of("dynamodb") <= 14, meter.requests


@pytest.mark.req("J6", "Q3")
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("items", [3, 450])
async def test_nobody_sees_a_part_of_an_order(stores: Stores, tmp_path: Path, clock: FakeClock, items: int) -> None:
    network = Before()
    store, other = (
        stores.open(tmp_path / "a", clock, intercept=network, patience_seconds=1.0),
        stores.open(tmp_path / "b", clock),
    )
    commits = []

    async def look() -> None:
        with pytest.raises(UnknownName):
            await other.status("job")
        assert await other.jobs() == []
        assert await other.claim("worker") is None
        commits.append(1)

    network.call = look
    await store.order(new_job(), batch(0, 1, ids(items)))
    assert len(commits) == (1 if items == 3 else 2), "rows come before the job if they are too many"
    assert len(await listing(other)) == items
    assert sorted(item.item_id for lease in await claim_all(other) for item in lease.items) == sorted(ids(items))


@pytest.mark.req("Z1", "Q3")
@pytest.mark.usefixtures("small_commits")
async def test_what_somebody_left_who_died_in_a_long_order_is_removed_after_a_while(
    stores: Stores, tmp_path: Path, clock: FakeClock
) -> None:
    network = Before()
    store, other = (
        stores.open(tmp_path / "a", clock, intercept=network, patience_seconds=1.0),
        stores.open(tmp_path / "b", clock),
    )
    commits = []

    async def die_before_the_second() -> None:
        commits.append(1)
        if len(commits) > 1:
            raise EndpointConnectionError(endpoint_url="http://gone.invalid")

    network.call = die_before_the_second
    with pytest.raises(StoreUnavailable):
        await store.order(new_job(), batch(0, 1, ids(450)))
    assert await other.claim_deletion("worker") is None
    left = await stores.keys()
    assert any(p.startswith("items/") for p, _ in left)
    clock.jump_wall(400 * 86_400)
    assert await other.claim_deletion("worker") is None
    clock.jump_wall(-400 * 86_400)
    assert await other.claim_deletion("worker") is None
    assert await stores.keys() == left, "he might still be at it"
    clock.advance(HOUR_SECONDS)
    await other.claim_deletion("worker")
    assert await stores.keys() == {("fleet", "counters"), ("fleet", "clock")}
    network.call = None
    await store.order(new_job(), batch(0, 1, ids(450)))
    assert len(await listing(other)) == 450


@pytest.mark.req("Z1", "Q3")
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("removals", [1, 99], ids=["some", "all"])
async def test_a_long_order_whose_rows_were_removed_meanwhile_is_made_anew(
    stores: Stores, tmp_path: Path, clock: FakeClock, removals: int
) -> None:
    """It took more than an hour, and somebody took it for dead, who may have died in his turn."""
    network = Before()
    store, other = (
        stores.open(tmp_path / "a", clock, intercept=network, patience_seconds=1.0),
        stores.open(tmp_path / "b", clock),
    )
    cleaner = stores.open(tmp_path / "c", clock, intercept=DiesAfter(removals), patience_seconds=1.0)
    commits = []

    async def sleep_before_the_second() -> None:
        commits.append(1)
        if len(commits) == 2:
            clock.advance(HOUR_SECONDS)
            with contextlib.suppress(StoreUnavailable):
                await cleaner.claim_deletion("worker")

    await other.claim_deletion("worker")  # a first look at the clocks
    network.call = sleep_before_the_second
    await store.order(new_job(), batch(0, 1, ids(450)))
    assert len(commits) == 4
    assert [record.item_id for record in (await listing(other)).values()] == ids(450)


@pytest.mark.req("J6", "Q3")
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("items", [3, 450])
async def test_an_order_that_is_refused_leaves_nothing(stores: Stores, store: AwsStore, items: int) -> None:
    twice = {**dict(enumerate(ids(items), 1)), items + 1: "parcel-2"}
    with pytest.raises(Conflict, match="'parcel-2'"):
        await store.order(new_job(), batch(0, 1, twice))
    with pytest.raises(BadInput, match="no items"):
        await store.order(new_job(), batch(0, 1, {}, rows=2))
    assert await stores.keys() == set()
    await store.order(new_job(), batch(0, 1, ids(items)))
    there = await stores.keys()
    with pytest.raises(Conflict, match="row 2 differs"):
        await store.order(new_job(), batch(0, 1, {**dict(enumerate(ids(items), 1)), 2: "other"}))
    with pytest.raises(Conflict, match="another"):
        await store.order(new_job(limit=3), batch(0, 1, ids(items)))
    assert await stores.keys() == there


@pytest.mark.req("Z1", "J6", "Q3")
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("items", [3, 450])
async def test_an_order_on_a_bad_day_is_made_once(stores: Stores, tmp_path: Path, items: int) -> None:
    rates = Rates(throttled=0.1, conflict=0.2, server_error=0.1, lost_answer=0.3, unprocessed=0.3)
    faults = Faults(4, rates)
    store = stores.open(tmp_path, FakeClock(), intercept=faults)
    for number in range(4):
        status = await store.order(new_job(f"job-{number}"), batch(0, 1, ids(items)))
        assert (status.state, status.counts.total) == (JobState.PENDING, items)
        again = await store.order(new_job(f"job-{number}", created_at=9.0), batch(0, 1, ids(items)))
        assert again.counts == status.counts
    assert faults.injected["lost_answer"] > 0
    assert [status.job.job_id for status in await store.jobs()] == ["job-3", "job-2", "job-1", "job-0"]


@pytest.mark.req("J5", "Q3")
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("items", [1, 450])
async def test_nothing_of_a_deleted_order_stays(stores: Stores, store: AwsStore, items: int) -> None:
    await store.order(new_job(on_demand=items == 1), batch(0, 1, ids(items)))
    await store.cancel("job")
    await end_job(store)
    await store.delete("job")
    lease = await store.claim_deletion("worker")
    assert lease is not None
    while await store.purge(lease, 1_000):
        pass
    assert await stores.keys() == {("fleet", "counters"), ("fleet", "clock")}
