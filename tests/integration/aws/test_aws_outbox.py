"""The outbox on DynamoDB: what it costs, two who send at once, and what a death leaves in its list."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import EndpointConnectionError

from swath.backends.aws.client.client import Answer, Send
from swath.backends.aws.client.rows import Key, Put
from swath.backends.aws.store.store import AwsStore
from swath.domain.errors import StoreUnavailable
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.domain.webhook import Delivery, Webhook, record_delivery
from tests.contract.suites.builders import ready, run_all
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock

HOLD_SECONDS = 30.0


@pytest.fixture
def store(stores: Stores, tmp_path: Path, clock: FakeClock) -> AwsStore:
    return stores.open(tmp_path, clock)


class Dies:
    """Before its next request of that kind."""

    def __init__(self) -> None:
        self.operation: str | None = None

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if operation == self.operation:
            raise EndpointConnectionError(endpoint_url="http://gone.invalid")
        return await send()


def webhook(clock: FakeClock, job_id: str = "job") -> Webhook:
    return Webhook(
        webhook_id=f"msg_{job_id}",
        job_id=job_id,
        generation=1,
        url="https://hooks.test/",
        summary={"job_id": job_id, "status": "completed"},
        created_at=clock.now(),
        due_at=clock.boot(),
    )


async def ended(store: AwsStore, clock: FakeClock, job_id: str = "job") -> JobStatus:
    """A job of one item, ended with a webhook."""
    await ready(store, job_id, items=1)
    await run_all(store)
    lease = await store.claim_ending("worker", job_id)
    assert lease is not None
    return await store.end(lease, JobState.COMPLETED, {}, webhook(clock, job_id))


async def deleted(store: AwsStore, job_id: str = "job") -> None:
    await store.delete(job_id)
    lease = await store.claim_deletion("worker", job_id)
    assert lease is not None
    while await store.purge(lease, 100):
        pass


def listed(keys: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {key for key in keys if key[0].startswith("due/")}


@pytest.mark.req("N1", "Q3")
async def test_looking_for_webhooks_costs_a_few_small_reads_and_no_write(
    stores: Stores, store: AwsStore, clock: FakeClock
) -> None:
    meter = stores.meter(store)
    await store.backlog()  # the first request of a process asks for the format of the table
    meter.requests.clear()
    assert await store.take_webhooks(HOLD_SECONDS) == []
    assert meter.requests == {"dynamodb.query": 4}
    await ended(store, clock)
    (taken,) = await store.take_webhooks(HOLD_SECONDS)
    meter.requests.clear()
    assert await store.note_webhook(
        record_delivery(taken, Delivery(at=clock.now(), seconds=0.1, status=204), clock.boot())
    )
    assert meter.of("dynamodb") == 3
    assert listed(await stores.keys()) == set()


@pytest.mark.req("N1", "Z1", "Q3")
async def test_a_webhook_is_written_with_the_end_or_not_at_all(
    stores: Stores, tmp_path: Path, clock: FakeClock
) -> None:
    """Property 43: every terminal state sends its webhook."""
    death = Dies()
    store = stores.open(tmp_path, clock, intercept=death, patience_seconds=1.0)
    await ready(store, items=1)
    await run_all(store)
    lease = await store.claim_ending("worker")
    assert lease is not None
    death.operation = "transact_write_items"
    with pytest.raises(StoreUnavailable):
        await store.end(lease, JobState.COMPLETED, {}, webhook(clock))
    assert not (await store.status("job")).state.terminal
    assert await store.webhooks("job") == await store.take_webhooks(HOLD_SECONDS) == []
    death.operation = None
    meter = stores.meter(store)
    meter.requests.clear()
    assert (await store.end(lease, JobState.COMPLETED, {}, webhook(clock))).state is JobState.COMPLETED
    assert meter.requests["dynamodb.transact_write_items"] == 1
    assert [each.webhook_id for each in await store.webhooks("job")] == ["msg_job"]


@pytest.mark.req("N1", "Q3")
async def test_two_who_send_at_once_get_each_webhook_once(stores: Stores, tmp_path: Path, clock: FakeClock) -> None:
    one, two = (stores.open(tmp_path / name, clock) for name in ("one", "two"))
    for number in range(9):
        await ended(one, clock, f"job-{number}")
        clock.advance(1)
    taken = await asyncio.gather(*(store.take_webhooks(HOLD_SECONDS, limit=6) for store in (one, two)))
    taken += await asyncio.gather(*(store.take_webhooks(HOLD_SECONDS, limit=6) for store in (one, two)))
    each = [webhook.webhook_id for some in taken for webhook in some]
    assert sorted(each) == [f"msg_job-{number}" for number in range(9)]
    assert all(webhook.revision == 1 for some in taken for webhook in some)
    assert await two.take_webhooks(HOLD_SECONDS) == []
    clock.advance(HOLD_SECONDS)
    assert len(await two.take_webhooks(HOLD_SECONDS)) == 9, "nobody noted how it went"


@pytest.mark.req("N1", "Q3", "Z10")
@pytest.mark.parametrize("days", [-400, 400])
async def test_a_host_whose_wall_clock_is_wrong_neither_repeats_nor_delays_a_webhook(
    stores: Stores, tmp_path: Path, days: float
) -> None:
    """Each host counts a wait from when it first saw it. So it does not matter when the wrong one opened the store."""
    here, there = FakeClock(), FakeClock(boot=77_000.0)
    there.jump_wall(days * 86_400)
    right, wrong = stores.open(tmp_path / "right", here), stores.open(tmp_path / "wrong", there)

    def advance(seconds: float) -> None:
        for clock in (here, there):
            clock.advance(seconds)

    await ended(right, here)
    (taken,) = await wrong.take_webhooks(HOLD_SECONDS)
    assert await right.take_webhooks(HOLD_SECONDS) == [], "the other is sending it"
    failed = Delivery(at=there.now(), seconds=0.0, status=500)
    assert await wrong.note_webhook(record_delivery(taken, failed, there.boot()))
    assert await right.take_webhooks(HOLD_SECONDS) == []
    advance(2.0)
    (taken,) = await right.take_webhooks(HOLD_SECONDS)
    assert await wrong.take_webhooks(HOLD_SECONDS) == []
    advance(HOLD_SECONDS)
    assert [one.webhook_id for one in await wrong.take_webhooks(HOLD_SECONDS)] == [taken.webhook_id]


@pytest.mark.req("N1", "Q3")
async def test_webhooks_come_by_when_they_are_due_over_all_parts_of_the_list(
    stores: Stores, store: AwsStore, clock: FakeClock
) -> None:
    for number in range(8):
        await ended(store, clock, f"job-{number}")
        clock.advance(0.25)
    partitions = {partition for partition, _ in listed(await stores.keys())}
    assert len(partitions) == 4
    taken = [*await store.take_webhooks(HOLD_SECONDS, limit=3), *await store.take_webhooks(HOLD_SECONDS, limit=30)]
    assert [webhook.job_id for webhook in taken] == [f"job-{number}" for number in range(8)]


@pytest.mark.req("J5", "N1", "Q3")
async def test_nothing_of_a_webhook_stays_when_its_job_is_deleted(
    stores: Stores, store: AwsStore, clock: FakeClock
) -> None:
    await ended(store, clock)
    (taken,) = await store.take_webhooks(HOLD_SECONDS)
    assert len(listed(await stores.keys())) == 1
    await deleted(store)
    assert await stores.keys() == {("fleet", "counters")}
    assert not await store.note_webhook(taken)
    await ended(store, clock)
    assert not await store.note_webhook(taken), "another job of the same id"


@pytest.mark.req("J5", "N1", "Z1", "Q3")
async def test_a_job_that_is_half_deleted_sends_nothing(stores: Stores, tmp_path: Path, clock: FakeClock) -> None:
    death = Dies()
    store, other = (
        stores.open(tmp_path / "a", clock, intercept=death, patience_seconds=1.0),
        stores.open(tmp_path / "b", clock),
    )
    await ended(store, clock)
    await store.delete("job")
    lease = await store.claim_deletion("worker", "job")
    assert lease is not None
    assert await store.purge(lease, 100)
    death.operation = "batch_write_item"
    with pytest.raises(StoreUnavailable):
        await store.purge(lease, 100)
    assert any("webhook/" in sort for _, sort in await stores.keys())
    assert await other.take_webhooks(HOLD_SECONDS) == []
    await other.claim_deletion("worker")
    assert await stores.keys() == {("fleet", "counters"), ("fleet", "clock")}


@pytest.mark.req("N1", "Q3")
async def test_an_entry_of_the_list_without_a_webhook_is_taken_out(
    stores: Stores, store: AwsStore, clock: FakeClock
) -> None:
    """Such as a note leaves behind that came while its job was deleted."""
    await ended(store, clock)
    keys = listed(await stores.keys())
    (stale,) = (Key(partition, sort.replace("#00001#", "#00007#")) for partition, sort in keys)
    await stores.bridge.run(lambda: store._ledger.table.commit(Put(stale, b"")))
    assert len(listed(await stores.keys())) == 2
    (taken,) = await store.take_webhooks(HOLD_SECONDS)
    assert taken.generation == 1
    assert len(listed(await stores.keys())) == 1
    changed = msgspec.structs.replace(taken, due_at=None)
    assert await store.note_webhook(changed)
    assert listed(await stores.keys()) == set()
