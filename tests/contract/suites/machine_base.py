"""The base of the store's state machine: store, clock and model, the checks after each step, and the drain at the end
(Z1).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from swath.domain.job import final_state
from swath.domain.lease import Lease, SlotReport
from swath.domain.transitions import JobState
from tests.contract.suites.builders import Kill, Store, success
from tests.contract.suites.model import Model
from tests.contract.suites.model_check import check, check_earlier, counts
from tests.contract.suites.model_records import ModelJob, ModelLease
from tests.support.clock import FakeClock

__all__ = ["LEASE_SECONDS", "MachineBase", "end_every_job", "machine_settings", "one", "picks"]

WORKER = "last"
ROUNDS = 400  # more than any sequence of steps can leave to do


async def end_every_job(store: Store, clock: FakeClock, model: Model) -> None:
    """Everybody else falls silent; one worker is left and does the rest."""
    clock.advance(model.lease_seconds)
    await _rescue(store, model)
    await _close_loads(store, model)
    for _ in range(ROUNDS):
        await _resume(store, model)
        lease = await store.claim(WORKER)
        if lease is not None:
            await _run(store, model, lease)
        elif any(job.open_items and job.may_start for job in model.jobs.values()):
            clock.advance(60)  # what is left waits for a retry
        else:
            break
    for job_id, job in model.jobs.items():
        if job.final is None and job.ending_due > clock.boot():
            await store.resume(job_id)
            job.ending_due = 0.0
    for job in model.endable():
        await _end(store, model, job.order.job_id)
    for job in model.deletable():
        await _delete(store, model, job.order.job_id)
    assert (await store.claim_ending(WORKER), await store.claim_deletion(WORKER)) == (None, None)
    for job_id, job in model.jobs.items():
        assert job.final is not None, f"{job_id} cannot be brought to its end"
        for item in job.items.values():
            assert item.accepted == dict.fromkeys(item.ran_in, 1), f"an item of {job_id} was lost or doubled"
            check_earlier(item, await store.item(job_id, item.item_id))


async def _rescue(store: Store, model: Model) -> None:
    rescued = [found.fence for found in await store.rescue(WORKER)]
    assert sorted(rescued) == sorted(model.leases), "a silent worker keeps its lease"
    for fence in rescued:
        model.take_away(model.leases[fence], WORKER)
        await store.release(WORKER, fence)
        model.let_go(model.leases[fence])


async def _close_loads(store: Store, model: Model) -> None:
    for job_id, job in model.jobs.items():
        if job.state is not JobState.LOADING or job.deleting:
            continue
        if job.items:
            await store.seal(job_id, len(job.batches))
            job.sealed, job.served = True, model.granted
        else:
            job.stopping = (await store.cancel(job_id)).stopping


async def _resume(store: Store, model: Model) -> None:
    for job_id, job in model.jobs.items():
        if job.state is JobState.PAUSED and job.stopping is None and job.open_items:
            await store.resume(job_id)
            model.resume(job)


async def _run(store: Store, model: Model, lease: Lease) -> None:
    held = model.hold(lease)
    assert lease.slots > 0, "nobody else is left, and yet no slot is free"
    ended = [success(item.seq) for item in lease.items]
    expected = model.commit(held, ended, [])
    grant = await store.finish(lease, ended, [], SlotReport(ceiling=0, demand=0))
    assert grant.accepted == expected == {item.seq for item in lease.items}
    await store.release(lease.worker_id, lease.fence)
    model.let_go(held)


async def _end(store: Store, model: Model, job_id: str) -> None:
    lease = await store.claim_ending(WORKER, job_id)
    assert lease is not None
    held, job = model.hold(lease), model.jobs[job_id]
    for left in range(len(job.open_items), -3, -3):
        assert await store.sweep(lease, 3) == max(0, left)
    for item in job.open_items:
        model.sweep(held, item)
    state = final_state(counts(job), lease.stopping)
    assert (await store.end(lease, state, {})).state is state
    model.end(held, state)


async def _delete(store: Store, model: Model, job_id: str) -> None:
    lease, job = await store.claim_deletion(WORKER, job_id), model.jobs[job_id]
    assert lease is not None
    for left in range(len(job.items) - job.purged, 0, -3):
        assert await store.purge(lease, 3) == left
    assert await store.purge(lease, 3) == 0
    model.vanish(job)


T = TypeVar("T")

LEASE_SECONDS = 15.0
WORKERS = 3

picks = st.integers(0, 11)  # of whatever there is, modulo its number


def one(of: Sequence[T], pick: int) -> T:
    """The one that was picked."""
    return of[pick % len(of)]


def machine_settings(profile: str = "fast", examples: int = 60, steps: int = 60) -> settings:
    """`fast` takes the same steps in every run and shows a failure as it is found.

    `deep` searches fifty times as long and never the same way, and reduces a failure to the fewest steps.
    """
    deep = profile == "deep"
    return settings(
        max_examples=examples * 50 if deep else examples,
        stateful_step_count=100 if deep else steps,
        deadline=None,
        derandomize=not deep,
        phases=list(Phase) if deep else [Phase.generate],
        database=None,
        report_multiple_bugs=deep,  # else it goes on for a while after the first
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


class MachineBase(RuleBasedStateMachine):
    """What StoreMachine stands on."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.model = Model(LEASE_SECONDS, self.clock)
        self.workers = [f"w{n}" for n in range(WORKERS)]
        self.hired = WORKERS
        self.ordered = 0
        self.commits = 0  # since a person last had a say
        self.store, self.kill = self.make_store(self.clock)

    def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
        """An empty store whose leases last LEASE_SECONDS, and how to make one of its workers dead."""
        raise NotImplementedError

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # after a failed step the end would only fail again
                self.run(end_every_job(self.store, self.clock, self.model))
                self.agree()
        finally:
            self.run(self.store.close())
            self.runner.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """One call to the store."""
        return self.runner.run(call)

    @invariant()
    def agree(self) -> None:
        """Store and model say the same, and no job has more slots or running items than its limit.

        After the limit was lowered it may have as many as it had, but never more.
        """
        self.run(self._agree())
        for job in self.model.jobs.values():
            slots = sum(share.ceiling for share in job.shares.values())
            assert slots <= max(job.limit, job.slots_before), "more slots than the limit allows"
            assert all(share.running <= share.ceiling for share in job.shares.values())
            job.slots_before = slots

    async def _agree(self) -> None:
        listed = await self.store.jobs()
        newest_first = sorted(self.model.jobs.values(), key=lambda job: -job.number)
        assert [status.job for status in listed] == [job.order for job in newest_first]
        for status in listed:
            job_id = status.job.job_id
            check(self.model, status, await self.store.items(job_id))
            if status.state.terminal or status.generation > 1:
                assert await self.store.webhooks(job_id) == self.model.outbox.of(job_id)

    def loading(self) -> list[ModelJob]:
        """Jobs whose load is not closed."""
        return [job for job in self.model.jobs.values() if job.state is JobState.LOADING]

    def jobs(self) -> list[ModelJob]:
        """All of them."""
        return list(self.model.jobs.values())

    def leases(self) -> list[ModelLease]:
        """Leases of items that have not been taken away."""
        return [lease for lease in self.model.leases.values() if lease.runs and not lease.rescued]

    def rights(self, *, deletes: bool) -> list[ModelLease]:
        """Rights to end or to delete a job that have not been taken away."""
        rights = [lease for lease in self.model.leases.values() if not lease.runs and not lease.rescued]
        return [lease for lease in rights if lease.deletes == deletes]

    def rescued(self) -> list[ModelLease]:
        """Leases that somebody is to clean up."""
        return [lease for lease in self.model.leases.values() if lease.rescued]
