"""The last act of the state machine: whatever state the store is in, every job can be brought to its end, or deleted.

Then every item has ended exactly once in each generation that it belongs to (Z1).
"""

from __future__ import annotations

from swath.domain.job import final_state
from swath.domain.lease import Lease, Report
from swath.domain.transitions import JobState
from swath.testing.clock import FakeClock
from swath.testing.contracts.model import Model
from swath.testing.contracts.model_check import check_earlier, counts
from swath.testing.contracts.orders import Store, success

__all__ = ["drain"]

WORKER = "last"
ROUNDS = 400  # more than any sequence of steps can leave to do


async def drain(store: Store, clock: FakeClock, model: Model) -> None:
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
    grant = await store.finish(lease, ended, [], Report(ceiling=0, demand=0))
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
