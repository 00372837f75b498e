"""Jobs that have run: every item ended under a lease, its files staged, accepted and published as a worker does it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from swath.domain.execution_policy import Keep
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, Item, SuccessOutcome
from swath.domain.lease import Lease, LeasedItem, SlotReport
from swath.domain.result import Artifact, Page, Result
from swath.domain.transitions import ItemState
from swath.pipeline.formats.artifacts import make_item_files
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage, StagedItem
from tests.contract.suites.builders import Store, new_job

__all__ = ["Outcome", "document", "every_kind", "finish_lease", "loaded", "run", "successes"]

Outcome = Callable[[LeasedItem], EndedItem]


def successes(item: LeasedItem) -> EndedItem:
    """Every item is found."""
    return EndedItem(seq=item.seq, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND, scraper_version="1")


def every_kind(item: LeasedItem) -> EndedItem:
    """Of ten items: six found, one not found, two failed in different ways, one skipped."""
    digit = item.seq % 10
    if digit in (3, 4):
        kind = FailureKind.TIMEOUT if digit == 3 else FailureKind.BLOCKED
        return EndedItem(seq=item.seq, state=ItemState.FAILED, failure=Failure.of(kind, "no answer"))
    if digit == 5:
        failure = Failure.of(FailureKind.ROBOTS_DENIED, "robots.txt")
        return EndedItem(seq=item.seq, state=ItemState.SKIPPED, failure=failure, reason="robots_denied")
    finding = SuccessOutcome.NOT_FOUND if digit == 6 else SuccessOutcome.FOUND
    return EndedItem(seq=item.seq, state=ItemState.SUCCESS, finding=finding, scraper_version="1")


async def loaded(store: Store, ids: list[str], job_id: str = "job") -> None:
    """A job with these items, ready to run."""
    await store.submit(new_job(job_id, limit=100, created_at=1_750_000_000.0))
    items = tuple(Item(row, item_id, {"parcel": item_id}) for row, item_id in enumerate(ids, 1))
    await store.load(job_id, ItemBatch(0, 1, len(items), "digest", items))
    await store.seal(job_id, 1)


async def run(
    store: Store,
    storage: ResultStorage,
    ids: list[str],
    outcome: Outcome = every_kind,
    job_id: str = "job",
) -> None:
    """Loads a job and ends all its items; the job itself has not ended then."""
    await loaded(store, ids, job_id)
    while (lease := await store.claim("worker", job_id)) is not None:
        await finish_lease(store, storage, lease, outcome)


async def finish_lease(
    store: Store, storage: ResultStorage, lease: Lease, outcome: Outcome, *, publish: bool = True
) -> None:
    """Ends every item of a lease. Without `publish` the worker dies between its commit and publishing."""
    await storage.open_lease(lease.job.job_id, lease.fence)
    ends = [outcome(item) for item in lease.items]
    files = [StagedItem(item.item_id, _files(lease, item, end)) for item, end in zip(lease.items, ends, strict=True)]
    artifacts = await storage.stage(lease.job.job_id, lease.fence, files)
    ended = [_with(end, kept) for end, kept in zip(ends, artifacts, strict=True)]
    grant = await store.finish(lease, ended, [], SlotReport(ceiling=0, demand=0))
    assert len(grant.accepted) == len(lease.items)
    if publish:
        await storage.settle(lease.job.job_id, lease.fence, [item.item_id for item in lease.items])
        await store.release(lease.worker_id, lease.fence)


def _files(lease: Lease, item: LeasedItem, end: EndedItem) -> dict[str, bytes]:
    result = None
    if end.state is ItemState.SUCCESS:
        body = b"<p>%d</p>" % item.seq * (400 if item.seq % 2 else 1)
        page = Page(name="html", url="https://demo.local/", status=200, body=body)
        result = Result(pages=(page,), data={"seq": item.seq})
    return make_item_files(lease.job, item.item_id, result, Keep.BOTH, {"outcome": end.finding})


def _with(end: EndedItem, artifacts: tuple[Artifact, ...]) -> EndedItem:
    started = 1_750_000_100.0 + end.seq
    attempt = Attempt(started, started + 0.5, "worker", failure=end.failure, bytes=100, requests=2)
    return EndedItem(
        seq=end.seq,
        state=end.state,
        finding=end.finding,
        failure=end.failure,
        reason=end.reason,
        attempts=(attempt,),
        artifacts=artifacts,
        scraper_version=end.scraper_version,
    )


async def document(storage: ResultStorage, key: str, job_id: str = "job") -> Any:
    """A stored JSON document."""
    return json.loads(await storage.get(job_id, key))
