"""Z9: a worker that gets no answer says what it waits for, asks again, and goes on when there is one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from swath.domain.errors import LeaseLost, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.lease import LeaseDirective, RescuedLease
from swath.pipeline.retrying import WaitingStatus
from swath.pipeline.worker.heartbeat import Heartbeat
from swath.pipeline.worker.rescue import PASSES_AFTER_TROUBLE, Rescuer
from tests.contract.suites.builders import new_job
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore

FULL = StoreUnavailable("the disk is full", WaitingFor.DISK)
LOCKED = StoreUnavailable("the store is locked", WaitingFor.STORE)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class Away(MemoryStore):
    """Can be taken away; what it was told about waiting gets through all the same."""

    away = False
    told: WaitingFor | None = None

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        self.told = what
        super().tell_waiting(worker_id, what)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
        if self.away:
            raise LOCKED
        return await super().renew(worker_id, fences)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        if self.away:
            raise LOCKED
        return await super().rescue(worker_id)


@pytest.mark.req("Z9", "J7")
async def test_what_is_waited_for_is_in_the_status_until_every_loop_goes_on(clock: FakeClock) -> None:
    store = Away(clock)
    await store.submit(new_job("job"))
    waits = WaitingStatus(store, clock, "w")
    waits.met("claim", LOCKED)
    waits.met("lease 1", FULL)
    assert (await store.status("job")).waiting_for is WaitingFor.STORE
    waits.over("claim")
    assert (await store.status("job")).waiting_for is WaitingFor.DISK
    waits.over("lease 1")
    assert (await store.status("job")).waiting_for is None


@pytest.mark.req("Z9")
async def test_a_call_is_repeated_until_it_is_answered(clock: FakeClock) -> None:
    store = Away(clock)
    waits = WaitingStatus(store, clock, "w")
    answers: list[Any] = [FULL, FULL, "done"]

    async def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    calling = asyncio.create_task(waits.patiently("lease 1", WaitingFor.DISK, call, in_vain=lambda: False))
    for _ in range(2):
        await asyncio.sleep(0)
        assert store.told is WaitingFor.DISK
        clock.advance(0.5)
    assert await calling == "done"
    assert store.told is None


@pytest.mark.req("Z9")
async def test_an_answer_that_is_late_is_told_before_it_turns_into_an_error(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.retrying.LATE_SECONDS", 0.01)
    store = Away(clock)
    waits = WaitingStatus(store, clock, "w")
    with waits.noticing("claim", WaitingFor.STORE):
        await asyncio.sleep(0.03)
        assert store.told is WaitingFor.STORE
    assert store.told is None


@pytest.mark.req("Z9", "W3")
async def test_nobody_waits_for_a_lease_that_is_lost(clock: FakeClock) -> None:
    store = Away(clock)
    waits = WaitingStatus(store, clock, "w")

    async def call() -> None:
        raise FULL

    with pytest.raises(LeaseLost):
        await waits.patiently("lease 1", WaitingFor.DISK, call, in_vain=lambda: True)
    assert store.told is None


@pytest.mark.req("Z9", "Z1")
async def test_after_an_outage_the_living_can_renew_before_anybody_is_rescued(clock: FakeClock) -> None:
    store = Away(clock, lease_seconds=15.0)
    await store.submit(new_job("job"))
    await store.cancel("job")
    lease = await store.claim_ending("alive")
    assert lease is not None
    rescuer = Rescuer(store, MemoryResults(), MemorySiteState(clock), clock, "w")
    store.away = True
    for _ in range(60):
        clock.advance(0.5)
        with pytest.raises(StoreUnavailable):
            await rescuer.run_once()
    store.away = False
    for _ in range(PASSES_AFTER_TROUBLE):
        with pytest.raises(StoreUnavailable):
            await rescuer.run_once()
    assert (await store.renew("alive", [lease.fence]))[lease.fence] is LeaseDirective.GO_ON
    assert await rescuer.run_once() == []
    clock.advance(15.0)
    assert len(await rescuer.run_once()) == 1  # now it is really silent


@pytest.mark.req("Z9")
async def test_a_disk_that_stays_full_is_told_all_the_time_while_a_dead_lease_waits(clock: FakeClock) -> None:
    """The store answers, and what is written last does not go through: nothing is over before it does."""

    class Full(MemoryResults):
        full = True
        settled: ClassVar[list[int]] = []

        async def settle(
            self,
            job_id: str,
            fence: int,
            winners: Collection[str],
            packs: Mapping[str, int] = MappingProxyType({}),
            documents: Mapping[str, bytes] = MappingProxyType({}),
        ) -> None:
            if self.full:
                raise FULL
            await super().settle(job_id, fence, winners, packs, documents)
            self.settled.append(fence)

    store, storage = MemoryStore(clock, lease_seconds=15.0), Full()
    await store.submit(new_job("job"))
    await store.cancel("job")
    lease = await store.claim_ending("dead")
    assert lease is not None
    clock.advance(20.0)
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "w")
    for _ in range(3 * PASSES_AFTER_TROUBLE):
        clock.advance(0.5)
        with pytest.raises(StoreUnavailable):
            await rescuer.run_once()
    storage.full = False
    for _ in range(PASSES_AFTER_TROUBLE):
        with contextlib.suppress(StoreUnavailable):
            await rescuer.run_once()
    assert storage.settled == [lease.fence]
    assert await rescuer.run_once() == []


@pytest.mark.req("Z9", "W2")
async def test_a_heartbeat_that_was_not_heard_comes_again_soon(clock: FakeClock) -> None:
    store = Away(clock)
    waits = WaitingStatus(store, clock, "w")
    beats: list[float] = []
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(store, clock, waits, "w", lambda: [1], lambda *_: beats.append(loop.time()))
    store.away = True
    heartbeat.start(0.2)
    try:
        async with asyncio.timeout(60):
            while store.told is None:
                await asyncio.sleep(0.01)
            store.away = False
            while not beats:
                await asyncio.sleep(0.01)
        assert store.told is None
    finally:
        await heartbeat.stop()


@pytest.mark.req("W2", "W3")
async def test_a_heartbeat_survives_whatever_its_worker_does(clock: FakeClock) -> None:
    beats = 0

    def breaks() -> list[int]:
        nonlocal beats
        beats += 1
        raise RuntimeError("dictionary changed size during iteration")

    store = Away(clock)
    heartbeat = Heartbeat(store, clock, WaitingStatus(store, clock, "w"), "w", breaks, lambda *_: None)
    heartbeat.start(0.005)
    async with asyncio.timeout(60):
        while beats < 3:
            await asyncio.sleep(0.005)
    await heartbeat.stop()
