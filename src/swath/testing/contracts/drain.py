"""The last act of the state machine: whatever state the store is in, every job can be brought to its end.

Then every item has ended exactly once (Z1).
"""

from __future__ import annotations

from swath.domain.attempt import Ended
from swath.domain.job import final_state
from swath.domain.lease import Lease, Report
from swath.domain.transitions import ItemState, JobState
from swath.testing.clock import FakeClock
from swath.testing.contracts.model import Model
from swath.testing.contracts.orders import Store, success

__all__ = ["drain"]

WORKER = "last"
ROUNDS = 200  # more than any sequence of steps can leave to do


async def drain(store: Store, clock: FakeClock, model: Model) -> None:
    """Everybody else falls silent; one worker is left and does the rest."""
    clock.advance(model.lease_seconds)
    await _rescue(store, clock, model)
    for job_id, job in model.jobs.items():
        if job.state is JobState.LOADING and job.items:
            await store.seal(job_id, len(job.batches))
            job.sealed = True
        elif job.state is JobState.LOADING:
            await store.cancel(job_id)
            job.cancelling = True
    for _ in range(ROUNDS):
        lease = await store.claim(WORKER)
        if lease is not None:
            await _run(store, clock, model, lease)
        elif any(job.open_items and not job.cancelling for job in model.jobs.values()):
            clock.advance(60)  # what is left waits for a retry
        else:
            break
    while (lease := await store.claim_ending(WORKER)) is not None:
        await _end(store, clock, model, lease)
    for job_id, job in model.jobs.items():
        assert job.final is not None, f"{job_id} cannot be brought to its end"
        assert all(item.times_accepted == 1 for item in job.items.values()), f"an item of {job_id} was lost or doubled"


async def _rescue(store: Store, clock: FakeClock, model: Model) -> None:
    rescued = [found.fence for found in await store.rescue(WORKER)]
    assert sorted(rescued) == sorted(model.leases), "a silent worker keeps its lease"
    for fence in rescued:
        model.take_away(model.leases[fence], WORKER, clock.boot())
        await store.release(WORKER, fence)
        model.let_go(model.leases[fence])


async def _run(store: Store, clock: FakeClock, model: Model, lease: Lease) -> None:
    held = model.hold(lease, clock.boot())
    assert lease.slots > 0, "nobody else is left, and yet no slot is free"
    ended = [success(item.seq) for item in lease.items]
    expected = model.commit(held, ended, [], clock.boot())
    grant = await store.finish(lease, ended, [], Report(ceiling=0, demand=0))
    assert grant.accepted == expected == {item.seq for item in lease.items}
    await store.release(lease.worker_id, lease.fence)
    model.let_go(held)


async def _end(store: Store, clock: FakeClock, model: Model, lease: Lease) -> None:
    held, job = model.hold(lease, clock.boot()), model.jobs[lease.job.job_id]
    while await store.sweep(lease, 3):
        pass
    for item in job.open_items:
        item.holder = lease.fence
        item.accept(lease.fence, Ended(seq=item.seq, state=ItemState.CANCELLED))
    job.final = final_state(model.counts(job), cancelled=lease.cancelling)
    status = await store.end(lease, job.final, {})
    assert status.state is job.final
    del model.leases[held.fence]
