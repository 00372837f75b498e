"""What the store asks of DynamoDB, counted in requests and in its own units; decision 0013 has the figures."""

import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple

import pytest

from swath.backends.aws.store.store import AwsStore
from swath.domain.item import Attempt, EndedItem, SuccessOutcome, TryCounts
from swath.domain.lease import Lease, SlotReport
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import batch, claimed, end_job, new_job
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock

WRITE_DOLLARS = 0.625e-6  # on demand, per unit
READ_DOLLARS = 0.125e-6


@pytest.fixture
def store(stores: Stores, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path, FakeClock())


class Cost(NamedTuple):
    requests: int
    reads: float
    writes: float

    def since(self, before: "Cost") -> "Cost":
        return Cost(self.requests - before.requests, self.reads - before.reads, self.writes - before.writes)

    def times(self, factor: float) -> "Cost":
        return Cost(round(self.requests * factor), self.reads * factor, self.writes * factor)

    @property
    def dollars(self) -> float:
        return self.reads * READ_DOLLARS + self.writes * WRITE_DOLLARS


def so_far(stores: Stores, store: AwsStore) -> Cost:
    meter = stores.meter(store)
    return Cost(meter.of("dynamodb"), meter.read_units, meter.write_units)


async def cost_of(stores: Stores, store: AwsStore, call: Awaitable[object]) -> Cost:
    before = so_far(stores, store)
    await call
    return so_far(stores, store).since(before)


async def loaded(store: AwsStore, items: int, job_id: str = "job", limit: int = 8) -> None:
    await store.submit(new_job(job_id, limit=limit))
    for number, first in enumerate(range(1, items + 1, 10_000)):
        ids = [f"{n:03d}-{n % 97:02d}-{n % 1_013:04d}" for n in range(first, min(first + 10_000, items + 1))]
        await store.load(job_id, batch(number, first, ids))
    await store.seal(job_id, -(-items // 10_000))


def ended(lease: Lease, seq: int) -> EndedItem:
    """As long as the ends of a usual scraper: an attempt, a page and its data."""
    names = ("data.json", "page.html.gz")
    artifacts = tuple(
        Artifact(f"items/{seq}/{name}", 4_000 + seq % 999, hashlib.sha256(f"{seq}{name}".encode()).hexdigest())
        for name in names
    )
    attempt = Attempt(1.75e9 + seq / 7, 1.75e9 + seq / 7 + 0.2, lease.worker_id, bytes=12_000 + seq % 999, requests=2)
    return EndedItem(
        seq=seq,
        state=ItemState.SUCCESS,
        finding=SuccessOutcome.FOUND,
        attempts=(attempt,),
        artifacts=artifacts,
        tries=TryCounts(own=1),
        scraper_version="1.0.0",
    )


async def run_lease(store: AwsStore, lease: Lease, commits: int = 2) -> None:
    """Ends all items of a lease in so many commits, and gives it up."""
    seqs = [item.seq for item in lease.items]
    size = -(-len(seqs) // commits)
    await store.renew(lease.worker_id, [lease.fence])
    for at in range(0, len(seqs), size):
        report = SlotReport(ceiling=8, demand=8, begun=tuple(seqs[at + size : at + size + 8]))
        await store.finish(lease, [ended(lease, seq) for seq in seqs[at : at + size]], [], report)
    await store.release(lease.worker_id, lease.fence)


@pytest.mark.req("Q3", "Z3")
async def test_a_million_items_cost_less_than_half_a_dollar(stores: Stores, store: AwsStore) -> None:
    """From the load to the end, with the leases and commits of a usual worker."""
    items = 3_000
    load = await cost_of(stores, store, loaded(store, items))

    async def run() -> None:
        while (lease := await store.claim("worker")) is not None:
            await run_lease(store, lease)
        await end_job(store)

    run_cost = await cost_of(stores, store, run())
    each = 1_000_000 / items
    told = f"per million items: load {load.times(each)}, run {run_cost.times(each)}"
    assert (load.dollars + run_cost.dollars) * each < 0.5, told
    assert run_cost.requests / items < 0.15, told


@pytest.mark.req("Q3", "Z3")
async def test_a_claim_and_a_commit_cost_the_same_in_a_large_job(stores: Stores, store: AwsStore) -> None:
    costs = []
    for job_id, items in (("small", 400), ("large", 20_000)):
        await loaded(store, items, job_id)
        lease = await claimed(store, job_id=job_id)
        await run_lease(store, lease)
        claim = await cost_of(stores, store, store.claim("worker", job_id))
        lease = await claimed(store, job_id=job_id)
        finish = await cost_of(stores, store, run_lease(store, lease, commits=1))
        status = await cost_of(stores, store, store.status(job_id))
        costs.append((claim.requests, finish.requests, status.requests, status.reads))
    assert costs[0] == costs[1]


@pytest.mark.req("Q3", "S1")
async def test_to_begin_and_to_leave_an_item_asks_for_nothing(stores: Stores, store: AwsStore) -> None:
    await loaded(store, 40)
    lease = await claimed(store)
    before = so_far(stores, store)
    for item in lease.items:
        assert store.begin(lease, item.seq)
        store.leave(lease, item.seq)
    assert so_far(stores, store) == before


@pytest.mark.req("Q3", "Z3")
async def test_a_renewal_is_one_plain_write(stores: Stores, store: AwsStore) -> None:
    await loaded(store, 400)
    leases = [await claimed(store), await claimed(store)]
    cost = await cost_of(stores, store, store.renew("worker", [lease.fence for lease in leases]))
    assert (cost.requests, cost.reads) == (1, 0.0)
    assert cost.writes <= 2


@pytest.mark.req("Q3", "Z3")
async def test_a_claim_may_choose_by_what_it_saw_a_moment_ago(stores: Stores, tmp_path: Path) -> None:
    store = stores.open(tmp_path, FakeClock(), look_seconds=60.0)
    for n in range(5):
        await loaded(store, 400, f"job-{n}")
    await claimed(store)
    lately = await cost_of(stores, store, store.claim("worker"))
    exact = stores.open(tmp_path / "exact", FakeClock(), look_seconds=0.0)
    await claimed(exact, "other")
    now = await cost_of(stores, exact, exact.claim("other"))
    assert lately.requests < now.requests
    assert lately.reads <= 3
