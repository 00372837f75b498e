"""The queues and the leader of one process keep the contracts of their ports. AWS does too: tests/aws/test_queue.py."""

from __future__ import annotations

import pytest

from swath.backends.clock import SystemClock
from swath.backends.memory.leader import MemoryLead, MemoryLeader
from swath.backends.memory.queue import MemoryHints, MemoryQueue
from swath.backends.polling import PollingQueue
from swath.testing.clock import FakeClock
from swath.testing.contracts import (
    HINT_LEASE_SECONDS,
    LEAD_SECONDS,
    Candidate,
    HintedQueueContract,
    LeaderContract,
    OpenQueue,
    WorkQueueContract,
)


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
    begun = clock.boot()
    assert await queue.wait(60) is None
    assert clock.boot() - begun < 1
