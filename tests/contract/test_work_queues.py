"""The queues and the leader of one process keep the contracts of their ports."""

from __future__ import annotations

import asyncio

import pytest

from swath.backends.clock import SystemClock
from swath.backends.polling_queue import PollingQueue
from swath.ports.work_queue import WorkHint
from tests.contract.suites import (
    HINT_LEASE_SECONDS,
    LEAD_SECONDS,
    Candidate,
    HintedQueueContract,
    LeaderContract,
    OpenQueue,
    WorkQueueContract,
)
from tests.support.clock import FakeClock
from tests.support.memory.leader import MemoryLead, MemoryLeader
from tests.support.memory.queue import MemoryHints, MemoryQueue


class TestPollingQueue(WorkQueueContract):
    @pytest.fixture
    def open_queue(self) -> OpenQueue:
        return lambda: PollingQueue(SystemClock())


class TestMemoryQueue(HintedQueueContract):
    @pytest.fixture
    def open_queue(self) -> OpenQueue:
        shared = MemoryHints(SystemClock(), HINT_LEASE_SECONDS)
        return lambda: MemoryQueue(shared)


class TestMemoryLeader(LeaderContract):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def candidate(self, clock: FakeClock) -> Candidate:
        shared = MemoryLead()
        return lambda worker_id: MemoryLeader(shared, clock, worker_id, LEAD_SECONDS)


@pytest.mark.req("Q1", "Q2")
async def test_a_queue_that_polls_never_lets_a_worker_wait_for_long() -> None:
    clock = SystemClock()
    queue = PollingQueue(clock, poll_seconds=0.01)
    assert await asyncio.wait_for(queue.wait(600), 60) is None


@pytest.mark.req("I3")
async def test_what_is_announced_in_this_process_ends_the_pause_of_a_poll_at_once() -> None:
    queue = PollingQueue(SystemClock(), poll_seconds=600)
    waiting = asyncio.create_task(queue.wait(600))
    await asyncio.sleep(0.05)
    await queue.announce([WorkHint(job_id="j", express=True)])
    assert await asyncio.wait_for(waiting, 60) is None
    with pytest.raises(TimeoutError):  # it was told once
        await asyncio.wait_for(queue.wait(600), 0.1)


async def test_what_is_announced_while_a_worker_asks_the_book_is_not_missed() -> None:
    queue = PollingQueue(SystemClock(), poll_seconds=600)
    await queue.announce([WorkHint(job_id="j")])
    await asyncio.wait_for(queue.wait(600), 60)


async def test_a_poll_may_be_ended_from_another_thread() -> None:
    queue = PollingQueue(SystemClock(), poll_seconds=600)
    waiting = asyncio.create_task(queue.wait(600))
    await asyncio.sleep(0.05)
    await asyncio.to_thread(lambda: asyncio.run(queue.announce([WorkHint(job_id="j")])))
    await asyncio.wait_for(waiting, 60)
