"""Looking at jobs and items in DynamoDB: each look is bounded, and finds what there is all the same; and news."""

import asyncio
import time
from pathlib import Path

import pytest

from swath.backends.aws.store import items as search
from swath.backends.aws.store import jobs
from swath.backends.aws.store.store import AwsStore
from swath.domain.failure import FailureKind
from swath.domain.item import HandedBackItem, ItemFilter, ItemRecord, RetrySelection, SuccessOutcome
from swath.domain.lease import Lease, SlotReport
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import batch, claimed, end_job, failed, finished, listing, new_job, ready, success
from tests.integration.aws.stores import Stores
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock


@pytest.fixture
def store(stores: Stores, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path, FakeClock())


FILTERS = [
    ItemFilter(),
    *(ItemFilter(state) for state in ItemState),
    ItemFilter(kind="not_found"),
    ItemFilter(kind="found"),
    ItemFilter(kind="timeout"),
    ItemFilter(kind="blocked"),
    ItemFilter(ItemState.FAILED, "blocked"),
    ItemFilter(ItemState.SUCCESS, "blocked"),
    ItemFilter(ItemState.PENDING, "blocked"),
]


async def found(store: AwsStore, wanted: ItemFilter, limit: int) -> list[ItemRecord]:
    records: list[ItemRecord] = []
    after: int | None = 0
    while after is not None:
        page = await store.find_items("job", wanted, after, limit)
        assert len(page.items) <= limit
        assert page.next_after is None or page.next_after > after
        records += page.items
        after = page.next_after
    return records


async def worked_at(store: AwsStore) -> list[Lease]:
    """A job in which there is something of everything, and who works on it."""
    await store.submit(new_job(limit=40))
    await store.load("job", batch(0, 1, {n: str(n) for n in range(1, 601) if not 180 <= n < 340}, rows=600))
    await store.seal("job", 1)
    leases = [await claimed(store, f"worker-{n}") for n in range(5)]
    for lease in leases:
        seqs = [item.seq for item in lease.items]
        blocked, waiting = [failed(seqs[0], FailureKind.BLOCKED)], [HandedBackItem(seq=seqs[1], delay_seconds=9)]
        ends = [*blocked, failed(seqs[2]), success(seqs[3], SuccessOutcome.NOT_FOUND), *map(success, seqs[4:-4])]
        report = SlotReport(ceiling=lease.slots, demand=3, queued=tuple(seqs[-2:-1]), begun=tuple(seqs[-1:]))
        await finished(store, lease, ends, waiting, report)
    return leases


async def retried(store: AwsStore, leases: list[Lease]) -> None:
    """The same in its second generation, after it was cancelled."""
    for lease in leases:
        await store.release(lease.worker_id, lease.fence)
    await store.cancel("job")
    ending = await store.claim_ending("worker")
    assert ending is not None
    while await store.sweep(ending, 5_000):
        pass
    await store.end(ending, JobState.PARTIALLY_COMPLETED, {})
    await store.retry("job", RetrySelection(kinds=frozenset({FailureKind.BLOCKED})))
    again = await claimed(store)
    report = SlotReport(ceiling=8, demand=8, begun=(again.items[-1].seq,))
    await finished(store, again, [success(again.items[0].seq)], report=report)


@pytest.mark.req("I2", "Q3")
@pytest.mark.parametrize("later", [False, True], ids=["first generation", "retried"])
async def test_pages_of_every_filter_hold_what_fits_and_nothing_else(
    store: AwsStore, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    monkeypatch.setattr(search, "_SCANNED_CHUNKS", 3)
    monkeypatch.setattr(search, "_SOUGHT_CHUNKS", 2)
    leases = await worked_at(store)
    if later:
        await retried(store, leases)
    everything = list((await listing(store)).values())
    assert len({record.state for record in everything}) >= 5
    for wanted in FILTERS:
        fitting = [record for record in everything if wanted.takes(record)]
        assert await found(store, wanted, limit=30) == fitting, wanted


@pytest.mark.req("I2", "Q3", "Z8")
async def test_a_look_for_items_costs_the_same_in_a_large_job(
    stores: Stores, store: AwsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SCANNED_CHUNKS", 5)
    costs = []
    for job_id, items in (("small", 1_000), ("large", 10_000)):
        await store.order(new_job(job_id), batch(0, 1, [str(n) for n in range(items)]))
        lease = await claimed(store, job_id=job_id)
        await finished(store, lease, [failed(1), success(2)], report=SlotReport(ceiling=8, demand=8, begun=(5,)))
        each = []
        for wanted in (ItemFilter(ItemState.FAILED), ItemFilter(ItemState.IN_PROGRESS), ItemFilter(kind="blocked")):
            meter = stores.meter(store)
            before = meter.of("dynamodb"), meter.read_units
            await store.find_items(job_id, wanted)
            each.append((meter.of("dynamodb") - before[0], meter.read_units - before[1]))
        costs.append(each)
    small, large = ([requests for requests, _ in each] for each in costs)
    assert small == large
    assert all(units < 60 for each in costs for _, units in each), costs
    assert costs[1][2][1] <= 4, "that there is none is known without a look"


@pytest.mark.req("I2", "Q3")
async def test_scrapes_on_demand_are_listed_apart(stores: Stores, store: AwsStore) -> None:
    for number in range(6):
        await store.order(new_job(f"job-{number}", on_demand=number % 2 == 0), batch(0, 1, ["a"]))
    names = [status.job.job_id for status in await store.jobs()]
    assert names == [f"job-{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert [status.job.job_id for status in await store.jobs("job-4", 3)] == ["job-3", "job-2", "job-1"]
    meter = stores.meter(store)
    meter.requests.clear()
    assert [status.job.job_id for status in await store.jobs(limit=2, on_demand=False)] == ["job-5", "job-3"]
    assert meter.requests["dynamodb.query"] == 1
    assert [status.job.job_id for status in await store.jobs("job-3", on_demand=False)] == ["job-1"]
    assert [backlog.on_demand for backlog in await store.backlog()] == [True, False] * 3


@pytest.mark.req("I2", "Q3")
async def test_jobs_of_a_state_are_looked_for_in_bounded_pieces(
    stores: Stores, store: AwsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(jobs, "_MOST_LOOKED", 4)
    for number in range(8):
        await ready(store, f"job-{number}", items=1)
    for job_id in ("job-0", "job-1", "job-5"):
        await store.cancel(job_id)
        await end_job(store, job_id=job_id)
    await store.pause("job-2")
    ended = await store.jobs(limit=1, states=[JobState.CANCELLED])
    assert [status.job.job_id for status in ended] == ["job-5"]
    meter = stores.meter(store)
    meter.requests.clear()
    assert await store.jobs(limit=1, states=[JobState.COMPLETED, JobState.FAILED]) == []
    assert meter.of("dynamodb") == 6, "two lists and some heads, twice"
    paused = await store.jobs(limit=9, states=[JobState.PAUSED])
    assert [status.job.job_id for status in paused] == ["job-2"]
    open_ones = await store.jobs(limit=3, states=[JobState.PENDING, JobState.RUNNING])
    assert [status.job.job_id for status in open_ones] == ["job-7", "job-6", "job-4"]


@pytest.mark.req("I3", "Q3")
async def test_own_changes_are_heard_at_once_and_those_of_others_within_a_second(
    stores: Stores, tmp_path: Path
) -> None:
    clock = FakeClock()
    store, other = stores.open(tmp_path / "a", clock), stores.open(tmp_path / "b", clock)
    await ready(store)
    news = store.news()
    hearing = asyncio.create_task(news.hear(600))
    await asyncio.sleep(0.05)
    await store.pause("job")
    assert await asyncio.wait_for(hearing, HANGING_SECONDS) == {"job"}
    await other.resume("job")
    assert await asyncio.wait_for(news.hear(600), HANGING_SECONDS) is None
    news.close()


@pytest.mark.req("I3", "Q3")
async def test_listening_asks_nothing_of_the_table(stores: Stores, store: AwsStore) -> None:
    await ready(store)
    news = store.news()
    meter = stores.meter(store)
    meter.requests.clear()
    heard = [await news.hear(0.3) for _ in range(9)]
    assert heard.count(None) == 2, "once a second that anything may have changed"
    assert [each for each in heard if each] == []
    assert meter.of("dynamodb") == 0
    news.close()


@pytest.mark.req("I3", "Q3")
async def test_a_busy_process_hears_of_others_too(store: AwsStore) -> None:
    news = store.news()
    until = time.monotonic() + 3.5
    heard = []
    while time.monotonic() < until:
        store._ledger.tell("mine")
        heard.append(await news.hear(1))
        await asyncio.sleep(0.02)
    assert {"mine"} in heard
    assert heard.count(None) in (1, 2)
    news.close()
