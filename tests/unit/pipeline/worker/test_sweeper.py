"""The sweeper: workers that wait to be told hear of everything, whatever becomes of messages (Q5)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.item import Attempt, HandedBackItem, TryCounts
from swath.domain.job import JobStatus
from swath.pipeline.worker.sweeper import MAX_HINTS, Sweeper, announce
from swath.ports.work_queue import WorkHint
from tests.contract.suites.builders import claimed, finished, ready, run_all
from tests.support.clock import FakeClock
from tests.support.memory.leader import MemoryLead, MemoryLeader
from tests.support.memory.queue import MemoryHints, MemoryQueue
from tests.support.memory.store import MemoryStore

LEASE_SECONDS = 15.0


class Fleet:
    """A store, a queue, and who leads."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, LEASE_SECONDS)
        self.hints = MemoryHints(self.clock, LEASE_SECONDS)
        self.lead = MemoryLead()
        self.queue = MemoryQueue(self.hints)

    def sweeper(self, worker_id: str = "a") -> Sweeper:
        leader = MemoryLeader(self.lead, self.clock, worker_id, LEASE_SECONDS)
        return Sweeper(self.store, MemoryQueue(self.hints), leader, self.clock)

    @property
    def on_their_way(self) -> list[WorkHint]:
        return [given.hint for given in self.hints.hints]


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.mark.req("Q5", "W1")
async def test_as_many_workers_are_told_as_could_find_something_to_do(fleet: Fleet) -> None:
    await ready(fleet.store, "small", items=2, limit=8)
    await ready(fleet.store, "large", items=50, limit=4)
    assert await fleet.sweeper().run_once() == 6
    told = [hint.job_id for hint in fleet.on_their_way]
    assert (told.count("small"), told.count("large")) == (2, 4)


@pytest.mark.req("Q5")
async def test_workers_that_are_there_already_are_not_told_again(fleet: Fleet) -> None:
    await ready(fleet.store, items=50, limit=4)
    await claimed(fleet.store, "a")
    await claimed(fleet.store, "b")
    assert await fleet.sweeper().run_once() == 2


@pytest.mark.req("Q3", "Q5")
async def test_nothing_is_said_twice_while_nobody_has_heard_it(fleet: Fleet) -> None:
    await ready(fleet.store, items=50, limit=4)
    sweeper = fleet.sweeper()
    assert [await sweeper.run_once() for _ in range(5)] == [4, 0, 0, 0, 0]


@pytest.mark.req("Q5")
async def test_what_was_lost_is_said_again(fleet: Fleet) -> None:
    await ready(fleet.store, items=50, limit=4)
    sweeper = fleet.sweeper()
    await sweeper.run_once()
    del fleet.hints.hints[1:]
    assert await sweeper.run_once() == 0  # a queue may not have counted yet what it was told a moment ago
    assert await sweeper.run_once() == 3


@pytest.mark.req("Q5")
async def test_what_comes_due_is_told(fleet: Fleet) -> None:
    await ready(fleet.store, items=1)
    lease = await claimed(fleet.store)
    tried = Attempt(fleet.clock.now(), fleet.clock.now(), "worker")
    await finished(
        fleet.store, lease, [], [HandedBackItem(seq=1, delay_seconds=60, attempts=(tried,), tries=TryCounts(1))]
    )
    await fleet.store.release(lease.worker_id, lease.fence)
    sweeper = fleet.sweeper()
    assert await sweeper.run_once() == 0
    fleet.clock.advance(61)
    assert await sweeper.run_once() == 1


@pytest.mark.req("S3")
async def test_a_scrape_on_demand_is_told_as_such_and_first(fleet: Fleet) -> None:
    await ready(fleet.store, "bulk", items=3)
    await ready(fleet.store, "one of many", items=1)
    await ready(fleet.store, "asked for", items=1, priority=10)
    await fleet.sweeper().run_once()
    first, *others = fleet.on_their_way
    assert first == WorkHint(job_id="asked for", epoch=int(fleet.clock.now()), express=True)
    assert not any(hint.express for hint in others)


@pytest.mark.req("Q3")
async def test_there_is_an_end_to_what_is_said_at_once_and_every_job_has_a_part_in_it(fleet: Fleet) -> None:
    await ready(fleet.store, "huge", items=2 * MAX_HINTS, limit=2 * MAX_HINTS)
    await ready(fleet.store, "huger", items=3 * MAX_HINTS, limit=2 * MAX_HINTS)
    assert await fleet.sweeper().run_once() == MAX_HINTS
    assert {hint.job_id for hint in fleet.on_their_way} == {"huge", "huger"}


@pytest.mark.req("W1")
async def test_one_speaks_for_all_and_another_when_it_is_gone(fleet: Fleet) -> None:
    await ready(fleet.store, items=3)
    a, b = fleet.sweeper("a"), fleet.sweeper("b")
    assert await a.run_once() == 3
    fleet.hints.hints.clear()
    assert await b.run_once() == 0
    assert (a.leads, b.leads) == (True, False)
    fleet.clock.advance(LEASE_SECONDS + 1)  # and nothing is heard of a
    assert await b.run_once() == 3
    assert await a.run_once() == 0
    assert (a.leads, b.leads) == (False, True)


@pytest.mark.req("W2")
async def test_a_leader_that_stops_makes_room_at_once(fleet: Fleet) -> None:
    a, b = fleet.sweeper("a"), fleet.sweeper("b")
    await a.run_once()
    await b.resign()  # was not asked
    await b.run_once()
    assert not b.leads
    await a.resign()
    await b.run_once()
    assert b.leads


@pytest.mark.req("Z9")
async def test_a_queue_that_is_gone_is_said_to_be(fleet: Fleet) -> None:
    await ready(fleet.store)
    fleet.hints.gone = True
    with pytest.raises(StoreUnavailable, match="queue"):
        await fleet.sweeper().run_once()


class Unreliable(MemoryQueue):
    """Loses, doubles, delays and mixes up what it is given."""

    def __init__(self, shared: MemoryHints, luck: random.Random, rate: float) -> None:
        super().__init__(shared)
        self._luck = luck
        self._rate = rate

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        kept = [hint for hint in hints if self._luck.random() >= self._rate]
        doubled = [hint for hint in kept if self._luck.random() < self._rate]
        known = len(self._shared.hints)
        await super().announce([*kept, *doubled])
        for given in self._shared.hints[known:]:
            given.visible_at = self._shared.clock.boot() + (self._luck.uniform(0, 30) if self._happens() else 0.0)
        self._luck.shuffle(self._shared.hints)

    async def settle(self, job_id: str) -> None:
        if self._happens():
            self._mine = []  # the deletion was lost, so it comes back
        else:
            await super().settle(job_id)

    def _happens(self) -> bool:
        return self._luck.random() < self._rate


@pytest.mark.req("Q5", "S3")
@pytest.mark.parametrize("rate", [0.05, 0.6])
@pytest.mark.parametrize("seed", range(5))
async def test_every_job_is_worked_on_whatever_becomes_of_messages(fleet: Fleet, seed: int, rate: float) -> None:
    """These workers ask only when they are told, and die with what they hold now and then."""
    luck = random.Random(seed)
    for number in range(12):
        await ready(fleet.store, f"job {number}", items=luck.randint(1, 30), limit=luck.randint(1, 6))
    names = [f"worker {number}" for number in range(4)]
    ends = {name: Unreliable(fleet.hints, luck, rate) for name in names}
    leader = MemoryLeader(fleet.lead, fleet.clock, names[0], LEASE_SECONDS)
    sweeper = Sweeper(fleet.store, Unreliable(fleet.hints, luck, rate), leader, fleet.clock)
    for second in range(600):
        if second % 5 == 0:
            await sweeper.run_once()
            for rescued in await fleet.store.rescue("cleaner"):
                await fleet.store.release("cleaner", rescued.fence)
        for name, end in ends.items():
            hint = await end.wait(0)
            if hint is None:
                continue
            if luck.random() < 0.1:
                await fleet.store.claim(name)  # and falls silent: its lease and its hint come back by themselves
                ends[name] = Unreliable(fleet.hints, luck, rate)
                break
            await run_all(fleet.store, name)
            await end.settle(hint.job_id)
        fleet.clock.advance(1)
        if all(not job.pending for job in await fleet.store.backlog()):
            return
    left = [(job.job_id, job.pending) for job in await fleet.store.backlog() if job.pending]
    pytest.fail(f"never worked on, seed {seed}: {left}")


# -- when it is ordered ------------------------------------------------------------------------------------------------


async def _status(fleet: Fleet) -> JobStatus:
    return await fleet.store.status("job")


@pytest.mark.req("S3", "W1")
async def test_an_order_is_announced_to_as_many_as_one_message_reaches(fleet: Fleet) -> None:
    await ready(fleet.store, items=500, limit=100)
    await announce(fleet.queue, fleet.clock, await _status(fleet))
    assert [hint.job_id for hint in fleet.on_their_way] == ["job"] * 10


async def test_a_job_that_cannot_run_is_not_announced(fleet: Fleet) -> None:
    await ready(fleet.store)
    await fleet.store.pause("job")
    await announce(fleet.queue, fleet.clock, await _status(fleet))
    await fleet.store.cancel("job")
    await announce(fleet.queue, fleet.clock, await _status(fleet))
    assert fleet.on_their_way == []


@pytest.mark.req("Z9")
async def test_an_order_stands_although_the_queue_is_gone(fleet: Fleet) -> None:
    await ready(fleet.store)
    fleet.hints.gone = True
    await announce(fleet.queue, fleet.clock, await _status(fleet))
    assert (await _status(fleet)).counts.pending == 3
    assert fleet.on_their_way == []
