"""Builds jobs, batches and outcomes for the suites, and says what a suite needs of the back end under test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, HandedBackItem, Item, ItemRecord, SuccessOutcome
from swath.domain.job import Job, JobStatus, final_state
from swath.domain.lease import Lease, RescuedLease, SlotGrant, SlotReport
from swath.domain.transitions import ItemState
from swath.domain.webhook import Webhook
from swath.ports.job_control import JobControl
from swath.ports.job_endings import JobEndings
from swath.ports.job_store import ItemBatch, JobStore
from swath.ports.lease_store import LeaseStore
from swath.ports.store import KeyRing, WebhookOutbox

__all__ = [
    "CALM",
    "Kill",
    "Store",
    "batch",
    "begun",
    "claim_all",
    "claimed",
    "dies",
    "end_job",
    "failed",
    "finished",
    "listing",
    "new_job",
    "policy",
    "ready",
    "run_all",
    "success",
    "webhook",
]

Kill = Callable[[str], None]
"""Makes a worker dead: from now on what it holds can be rescued at once. The worker makes no more claims of any kind,
but what it had sent before may still arrive."""


class Store(JobStore, JobControl, LeaseStore, JobEndings, WebhookOutbox, KeyRing, Protocol):
    """All parts of a store."""


CALM: Final = {"min_requests": 100_000, "consecutive_failures": 100_000}
"""A circuit that neither opens nor holds anything back."""


def policy(limit: int = 8, breaker: Mapping[str, Any] = CALM, **more: Any) -> ExecutionPolicy:
    """Allows `limit` items at once."""
    document = {"throttling": {"max_concurrent_workers": limit}, "circuit_breaker": dict(breaker), **more}
    return ExecutionPolicy.model_validate(document)


def new_job(job_id: str = "job", *, limit: int = 8, priority: int = 0, **more: Any) -> Job:
    """A job that allows `limit` items at once and whose circuit keeps out of the way, unless `policy` is given."""
    given = more.pop("policy", None) or policy(limit)
    return Job(job_id=job_id, scraper_id="example-mock", priority=priority, policy=given, **more)


def batch(
    number: int, first_row: int, items: Mapping[int, str] | Iterable[str], *, rows: int | None = None
) -> ItemBatch:
    """A batch of items by row, or of the ids of rows without gaps; its digest follows from its content."""
    by_row = dict(items) if isinstance(items, Mapping) else dict(enumerate(items, first_row))
    made = tuple(Item(row, item_id, {"parcel": item_id}) for row, item_id in by_row.items())
    covered = len(made) if rows is None else rows
    digest = hashlib.sha256(msgspec.json.encode((first_row, covered, made))).hexdigest()
    return ItemBatch(number, first_row, covered, digest, made)


async def ready(store: Store, job_id: str = "job", items: int = 3, *, limit: int = 8, **more: Any) -> Job:
    """A sealed job of items `1`, `2`, … in one batch; the rest is as for `order`."""
    job = new_job(job_id, limit=limit, **more)
    await store.submit(job)
    await store.load(job_id, batch(0, 1, [str(n) for n in range(1, items + 1)]))
    await store.seal(job_id, 1)
    return job


async def claimed(store: Store, worker_id: str = "worker", job_id: str | None = None) -> Lease:
    """A lease that must be there. Its size is the store's affair, but half of a small job is not too much to expect."""
    lease = await store.claim(worker_id, job_id)
    assert lease is not None
    return lease


async def claim_all(store: Store, worker_id: str = "worker", job_id: str | None = None) -> list[Lease]:
    """Every lease that the worker can get now."""
    leases = []
    while (lease := await store.claim(worker_id, job_id)) is not None:
        leases.append(lease)
    return leases


def success(seq: int, finding: SuccessOutcome = SuccessOutcome.FOUND) -> EndedItem:
    """A success."""
    return EndedItem(seq=seq, state=ItemState.SUCCESS, finding=finding, scraper_version="1")


def failed(seq: int, kind: FailureKind = FailureKind.TIMEOUT) -> EndedItem:
    """A final failure."""
    return EndedItem(seq=seq, state=ItemState.FAILED, failure=Failure.of(kind, "no answer"))


async def finished(
    store: Store,
    lease: Lease,
    ended: Iterable[EndedItem] = (),
    handed_back: Iterable[HandedBackItem] = (),
    report: SlotReport | None = None,
) -> SlotGrant:
    """One commit. Without a report the worker keeps its slots and wants no more."""
    return await store.finish(
        lease, list(ended), list(handed_back), report or SlotReport(ceiling=lease.slots, demand=lease.slots)
    )


async def run_all(store: Store, worker_id: str = "worker") -> None:
    """Ends every item that can be claimed well, and gives up every lease."""
    for lease in await claim_all(store, worker_id):
        ended = [success(item.seq) for item in lease.items]
        await finished(store, lease, ended, report=SlotReport(ceiling=0, demand=0))
        await store.release(lease.worker_id, lease.fence)


def webhook(job_id: str = "job", *, generation: int = 1, due_at: float | None = 0.0, **more: Any) -> Webhook:
    """Word of the end of a job; due at once, unless it is said otherwise."""
    given = {"url": "https://x.test/hook", "summary": {"status": "completed"}, "created_at": 5.5, **more}
    return Webhook(webhook_id=f"{job_id}-{generation}", job_id=job_id, generation=generation, due_at=due_at, **given)


async def end_job(
    store: Store, worker_id: str = "worker", job_id: str | None = None, webhook: Webhook | None = None
) -> JobStatus:
    """Ends a job that can be ended now, as the finish step does."""
    lease = await store.claim_ending(worker_id, job_id)
    assert lease is not None
    while await store.sweep(lease, 2):
        pass
    counts = (await store.status(lease.job.job_id)).counts
    return await store.end(lease, final_state(counts, lease.stopping), {"parts": 0}, webhook)


async def dies(store: Store, kill: Kill, worker_id: str) -> list[RescuedLease]:
    """A worker's process is gone; somebody else cleans up."""
    kill(worker_id)
    rescued = await store.rescue("cleaner")
    for lease in rescued:
        await store.release("cleaner", lease.fence)
    return rescued


def begun(store: Store, lease: Lease, *seqs: int) -> None:
    """Items that must be allowed to start, and do."""
    for seq in seqs:
        assert store.begin(lease, seq)


async def listing(store: Store, job_id: str = "job") -> dict[int, ItemRecord]:
    """All items by row."""
    return {record.seq: record for record in await store.items(job_id)}
