"""The work queue on SQS, and who leads on DynamoDB: the contracts of their ports, and what only real queues do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from harness.fakes.aws import Endpoints
from harness.fakes.aws_faults import Faults, Rates
from swath.backends.aws.client.client import Answer, AwsClients, Send
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.shared_clock import SharedClock
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.provisioning import QueueNames, drop_queue, drop_table, make_queues, make_table
from swath.backends.aws.sqs import SqsQueue
from swath.backends.aws.store.leader_election import DynamoLeader
from swath.backends.clock import SystemClock
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.pipeline.worker.sweeper import Sweeper
from swath.ports.work_queue import WorkHint
from tests.contract.suites import (
    HINT_LEASE_SECONDS,
    LEAD_SECONDS,
    Candidate,
    HintedQueueContract,
    LeaderContract,
    OpenQueue,
)
from tests.contract.suites.builders import ready, run_all
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.support.memory.leader import MemoryLead, MemoryLeader
from tests.support.memory.store import MemoryStore

T = TypeVar("T")


@pytest.fixture
def bridge() -> Iterator[EventLoopThread]:
    bridge = EventLoopThread()
    yield bridge
    bridge.close()


class Sqs:
    """The queues of one name. All ends that were opened are closed with it."""

    def __init__(self, bridge: EventLoopThread, name: str) -> None:
        self.bridge = bridge
        self.names = QueueNames.of(name)
        self.clients = AwsClients(patience_seconds=2.0)
        self._all_clients = [self.clients]
        self._ends: list[SqsQueue] = []

    def open(self, faults: Faults | None = None, lease_seconds: float = HINT_LEASE_SECONDS) -> SqsQueue:
        clients = self.clients
        if faults is not None:
            clients = AwsClients(patience_seconds=5.0, intercept=faults)
            self._all_clients.append(clients)
        self._ends.append(SqsQueue(self.bridge, clients, self.names.main, lease_seconds))
        return self._ends[-1]

    async def make(self) -> None:
        await self.bridge.run(lambda: make_queues(self.clients, self.names, HINT_LEASE_SECONDS))

    async def drop(self) -> None:
        for name in self.names.all:
            await self.bridge.run(partial(drop_queue, self.clients, name))

    async def put(self, body: str) -> None:
        found = await self.bridge.run(lambda: self.clients.call("sqs", "get_queue_url", QueueName=self.names.main))
        url = found["QueueUrl"]
        await self.bridge.run(lambda: self.clients.call("sqs", "send_message", QueueUrl=url, MessageBody=body))

    async def close(self) -> None:
        for end in self._ends:
            await end.close()
        await self.drop()
        for clients in self._all_clients:
            await self.bridge.run(clients.close)


@pytest_asyncio.fixture
async def sqs(aws: Endpoints, bridge: EventLoopThread, aws_name: str) -> AsyncIterator[Sqs]:
    sqs = Sqs(bridge, aws_name)
    await sqs.make()
    yield sqs
    await sqs.close()


class TestSqsQueue(HintedQueueContract):
    @pytest_asyncio.fixture
    async def open_queue(self, sqs: Sqs) -> OpenQueue:
        return sqs.open


class TestDynamoLeader(LeaderContract):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest_asyncio.fixture
    async def candidate(
        self, aws: Endpoints, bridge: EventLoopThread, aws_name: str, clock: FakeClock
    ) -> AsyncIterator[Candidate]:
        clients = AwsClients()
        await bridge.run(lambda: make_table(clients, aws_name))
        table = Table(clients, aws_name)
        # Hosts that were booted at other times agree all the same.
        yield lambda worker_id: DynamoLeader(bridge, table, SharedClock(clock), worker_id, LEAD_SECONDS)
        await bridge.run(lambda: drop_table(clients, aws_name))
        await bridge.run(clients.close)

    @pytest.mark.req("Q5")
    async def test_of_two_who_find_nobody_in_the_same_moment_one_leads(self, candidate: Candidate) -> None:
        both, looked = [candidate("one"), candidate("two")], asyncio.Barrier(2)
        for leader in both:
            assert isinstance(leader, DynamoLeader)
            leader._read = _after_both(leader._read, looked)  # type: ignore[method-assign]
        assert sorted(await asyncio.gather(*(leader.lead() for leader in both))) == [False, True]


def _after_both(read: Callable[[], Awaitable[T]], looked: asyncio.Barrier) -> Callable[[], Coroutine[Any, Any, T]]:
    async def slow() -> T:
        found = await read()
        await looked.wait()
        return found

    return slow


@pytest.mark.req("Q3")
async def test_to_wait_costs_two_long_requests_and_no_more(sqs: Sqs) -> None:
    queue = sqs.open()
    await queue.wait(0.1)
    before = sqs.clients.meter.of("sqs")
    for seconds in (0.5, 1.0, 2.0):
        assert await queue.wait(seconds) is None
    assert sqs.clients.meter.of("sqs") == before  # both still wait, twenty seconds at a time: six a minute
    assert sqs.clients.meter.requests["sqs.receive_message"] == 2


@pytest.mark.req("Q5")
async def test_what_comes_for_one_who_no_longer_waits_goes_to_another_at_once(sqs: Sqs) -> None:
    first, second = sqs.open(lease_seconds=60), sqs.open(lease_seconds=60)
    assert await first.wait(0.3) is None  # its requests go on waiting for a moment
    await second.announce([WorkHint(job_id="j")])
    await asyncio.sleep(0.3)
    assert await second.wait(HANGING_SECONDS) == WorkHint(job_id="j")


@pytest.mark.req("Q3")
async def test_who_has_nothing_to_wait_for_does_not_touch_the_queue(sqs: Sqs) -> None:
    queue = sqs.open()
    before = sqs.clients.meter.of("sqs")
    for _ in range(20):
        await queue.keep()
        await queue.settle("j")
    assert sqs.clients.meter.of("sqs") == before


@pytest.mark.req("Z9", "Q5")
async def test_a_queue_that_was_deleted_is_missed_soon_and_used_again_when_it_is_back(sqs: Sqs) -> None:
    queue = sqs.open()
    await queue.announce([WorkHint(job_id="before")])
    assert await queue.wait(HANGING_SECONDS) == WorkHint(job_id="before")
    await sqs.drop()
    with pytest.raises(StoreUnavailable) as caught:
        await asyncio.wait_for(queue.wait(600), HANGING_SECONDS)
    assert caught.value.waiting_for is WaitingFor.QUEUE
    for trouble in (queue.keep(), queue.waiting(), queue.announce([WorkHint(job_id="lost")])):
        with pytest.raises(StoreUnavailable):
            await trouble
    await sqs.make()
    await queue.announce([WorkHint(job_id="after")])
    assert await queue.wait(HANGING_SECONDS) == WorkHint(job_id="after")


@pytest.mark.req("Z9", "W2")
async def test_a_queue_that_does_not_answer_is_missed_soon_and_holds_up_nobody(sqs: Sqs) -> None:
    faults = Faults(1, Rates())
    queue = sqs.open(faults)
    await queue.announce([WorkHint(job_id="j")])
    assert await queue.wait(HANGING_SECONDS) is not None
    faults.down.add("sqs")
    with pytest.raises(StoreUnavailable) as caught:
        await asyncio.wait_for(queue.wait(600), HANGING_SECONDS)
    assert caught.value.waiting_for is WaitingFor.QUEUE
    await asyncio.wait_for(queue.close(), HANGING_SECONDS)  # although it still has a hint to give back


class Hanging(Faults):
    """From now on there is no answer, and no error either."""

    hangs = False

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if self.hangs:
            await asyncio.sleep(3_600)
        return await super().__call__(service, operation, params, send)


@pytest.mark.req("Z9")
async def test_a_queue_that_was_gone_is_back_when_it_has_answered_and_not_before(sqs: Sqs) -> None:
    faults = Hanging(1, Rates())
    queue = sqs.open(faults)
    faults.down.add("sqs")
    with pytest.raises(StoreUnavailable):
        await queue.wait(20)
    faults.hangs = True
    with pytest.raises(StoreUnavailable):
        await queue.wait(0.3)
    faults.hangs, faults.down = False, set()
    async with asyncio.timeout(60):
        while True:
            try:
                assert await queue.wait(2.0) is None
                break
            except StoreUnavailable:
                continue


@pytest.mark.req("Z5")
async def test_a_message_that_is_no_hint_is_thrown_away(sqs: Sqs) -> None:
    queue = sqs.open()
    await sqs.put("{not json")
    await sqs.put('{"chunk": 3}')
    await queue.announce([WorkHint(job_id="j")])
    assert await queue.wait(HANGING_SECONDS) == WorkHint(job_id="j")
    await asyncio.sleep(HINT_LEASE_SECONDS)
    assert await queue.waiting() <= 1


@pytest.mark.req("Z9")
async def test_a_mistake_of_the_operator_stops_no_worker(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    queue = sqs.open(Faults(1, Rates()))
    with pytest.raises(StoreUnavailable, match="credentials"):
        await queue.wait(5)


@pytest.mark.req("Q5", "Z1")
async def test_every_job_is_worked_on_though_messages_are_lost_doubled_late_and_mixed_up(sqs: Sqs) -> None:
    """These workers ask the store only when they are told."""
    clock = SystemClock()
    store = MemoryStore(clock)
    for number in range(10):
        await ready(store, f"job {number}", items=5, limit=3)
    rates = Rates(lost=0.05, duplicated=0.05, late=0.05, reordered=0.05, throttled=0.05, server_error=0.02)
    sweeper = Sweeper(store, sqs.open(Faults(7, rates)), MemoryLeader(MemoryLead(), clock, "leader"), clock)
    done = asyncio.Event()

    async def work(number: int) -> None:
        queue = sqs.open(Faults(number, rates))
        while not done.is_set():
            try:
                if (hint := await queue.wait(1.0)) is not None:
                    await run_all(store, f"worker {number}")
                    await queue.settle(hint.job_id)
            except StoreUnavailable:
                await asyncio.sleep(0.2)

    workers = [asyncio.create_task(work(number)) for number in range(3)]
    try:
        async with asyncio.timeout(60):
            while any(job.pending for job in await store.backlog()):
                try:
                    await sweeper.run_once()
                except StoreUnavailable:
                    continue
                await asyncio.sleep(0.3)
    finally:
        done.set()
        await asyncio.gather(*workers)
