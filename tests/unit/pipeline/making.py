"""Jobs of either layout that have run and ended, with just the pages and records that a test wants.

Everything goes the way of a worker: leases, keepers, accepted ends, and the finisher.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, Item, SuccessOutcome
from swath.domain.lease import Lease, LeasedItem, SlotReport
from swath.domain.result import Download, Page, Result
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.outcome_buffer import Outcome
from swath.pipeline.worker.result_writer import result_writer_for
from swath.ports.clock import Clock
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job

__all__ = ["BOTH_LAYOUTS", "FAILED", "MISSING", "SKIPPED", "Made", "end_lease", "load", "make_job", "page"]

T = TypeVar("T")
BOTH_LAYOUTS = (Layout.FILES, Layout.WARC)
MISSING = "not_found"
FAILED = "failed"
SKIPPED = "skipped"
STARTED = 1_750_000_100.0


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """How one item ends: `data`, or one of the words above. `tiers` are the ways out of its attempts, of which only the
    last one counts."""

    data: Any = None
    pages: tuple[Page, ...] = ()
    downloads: tuple[Download, ...] = ()
    how: str = "found"
    tiers: tuple[str, ...] = ("datacenter",)


def page(name: str, body: bytes, url: str = "https://county.example/", fetched_at: float = STARTED) -> Page:
    """A page as it was fetched."""
    return Page(name=name, url=url, status=200, body=body, fetched_at=fetched_at)


async def make_job(
    store: Store,
    storage: ResultStorage,
    clock: Clock,
    items: Mapping[str, Made],
    job_id: str = "job",
    layout: Layout = Layout.FILES,
    **more: Any,
) -> None:
    """Loads a job, ends its items and the job itself."""
    await load(store, list(items), job_id, layout, **more)
    while (lease := await store.claim("worker", job_id)) is not None:
        await end_lease(store, storage, lease, items)
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None


async def load(store: Store, ids: Sequence[str], job_id: str, layout: Layout, **more: Any) -> None:
    """A job that can be run."""
    await store.submit(new_job(job_id, limit=100, created_at=1_750_000_000.0, layout=layout, **more))
    rows = tuple(Item(row, item_id, {"parcel": item_id}) for row, item_id in enumerate(ids, 1))
    await store.load(job_id, ItemBatch(0, 1, len(rows), "digest", rows))
    await store.seal(job_id, 1)


async def end_lease(
    store: Store, storage: ResultStorage, lease: Lease, items: Mapping[str, Made], *, settle: bool = True
) -> None:
    """Ends every item of a lease. Without `settle` its worker dies after the commit."""
    job_id, keeper = lease.job.job_id, result_writer_for(lease, storage)
    await storage.open_lease(job_id, lease.fence, lease.items)
    outcomes = [Outcome(one.item_id, _end(one, items[one.item_id]), _result(items[one.item_id])) for one in lease.items]
    ends = await keeper.store(outcomes, _at_once)
    grant = await store.finish(lease, ends, [], SlotReport(ceiling=0, demand=0))
    assert len(grant.accepted) == len(lease.items)
    await keeper.publish([one.item_id for one in lease.items])
    if settle:
        await keeper.settle()
        await store.release(lease.worker_id, lease.fence)


async def _at_once(call: Callable[[], Awaitable[T]], /) -> T:
    return await call()


def _result(made: Made) -> Result | None:
    return Result(pages=made.pages, downloads=made.downloads, data=made.data) if made.how == "found" else None


def _end(item: LeasedItem, made: Made) -> EndedItem:
    state = ItemState.SUCCESS
    finding: SuccessOutcome | None = SuccessOutcome.FOUND
    failure: Failure | None = None
    if made.how == MISSING:
        finding = SuccessOutcome.NOT_FOUND
    elif made.how == FAILED:
        state, finding, failure = ItemState.FAILED, None, Failure.of(FailureKind.TIMEOUT, "no answer")
    elif made.how == SKIPPED:
        state, finding, failure = ItemState.SKIPPED, None, Failure.of(FailureKind.ROBOTS_DENIED, "robots.txt")
    before = Failure.of(FailureKind.BLOCKED, "try another way")
    ends = (*(before for _ in made.tiers[1:]), failure)
    attempts = tuple(
        Attempt(STARTED, STARTED + 0.5, "worker", end, bytes=100, requests=2, proxy_tier=tier)
        for end, tier in zip(ends, made.tiers, strict=True)
    )
    return EndedItem(
        seq=item.seq,
        state=state,
        finding=finding,
        failure=failure,
        attempts=attempts,
        scraper_version="1",
    )
