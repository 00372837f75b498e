"""Ended jobs with just the results that a test wants, in either layout, stored by the worker's own keepers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, Item, SuccessOutcome
from swath.domain.lease import Lease, SlotReport
from swath.domain.result import Download, Page, Result
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.outcome_buffer import Outcome
from swath.pipeline.worker.result_writer import result_writer_for
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job
from tests.support.clock import FakeClock

__all__ = ["FETCHED_AT", "NOT_FOUND", "TIMED_OUT", "end_items", "load", "page", "stored_job"]

T = TypeVar("T")

FETCHED_AT = 1_750_000_000.25  # 2025-06-15T15:06:40.250Z
NOT_FOUND = object()
TIMED_OUT = object()


def page(number: int, size: int = 3_000, name: str = "html") -> Page:
    """Large ones are compressed in the files layout."""
    body = (b"<p>%d</p>" % number * size)[:size]
    return Page(name=name, url=f"https://demo.local/{name}/{number}", status=200, body=body, fetched_at=FETCHED_AT)


async def load(store: Store, job_id: str, inputs: Sequence[tuple[str, dict[str, Any]]], layout: Layout) -> None:
    """A job that is ready to run."""
    job = new_job(job_id, limit=100, created_at=1_750_000_000.0)
    await store.submit(msgspec.structs.replace(job, layout=layout))
    items = tuple(Item(row, item_id, input_) for row, (item_id, input_) in enumerate(inputs, 1))
    await store.load(job_id, ItemBatch(0, 1, len(items), "digest", items))
    await store.seal(job_id, 1)


async def stored_job(
    store: Store, storage: ResultStorage, data: Sequence[Any], layout: Layout, job_id: str = "job"
) -> None:
    """A job that has ended with these data, one item each: `item-1` with input {"parcel": "p1", "n": 1} and so on."""
    inputs = [(f"item-{number}", {"parcel": f"p{number}", "n": number}) for number in range(1, len(data) + 1)]
    await load(store, job_id, inputs, layout)
    await end_items(store, storage, data, job_id)
    assert await Finisher(store, store, storage, FakeClock(), "finisher").run_once() is not None


async def end_items(
    store: Store, storage: ResultStorage, data: Sequence[Any], job_id: str = "job", leases: int = 1_000_000
) -> None:
    """Ends the items of so many leases, each with the data of its `seq`."""
    while leases and (lease := await store.claim("worker", job_id)) is not None:
        leases -= 1
        await _end(store, storage, lease, data)


async def _end(store: Store, storage: ResultStorage, lease: Lease, data: Sequence[Any]) -> None:
    await storage.open_lease(lease.job.job_id, lease.fence, lease.items)
    keeper = result_writer_for(lease, storage)
    outcomes = [_outcome(item.seq, item.item_id, data[item.seq - 1]) for item in lease.items]
    half = len(outcomes) // 2
    for group in (outcomes[:half], outcomes[half:]):  # a pack is added to more than once
        if group:
            ended = await keeper.store(group, _at_once)
            await store.finish(lease, ended, [], SlotReport(ceiling=0, demand=0))
            await keeper.publish([outcome.item_id for outcome in group])
    await keeper.settle()
    await store.release(lease.worker_id, lease.fence)


async def _at_once(call: Callable[[], Awaitable[T]], /) -> T:
    return await call()


def _outcome(seq: int, item_id: str, data: Any) -> Outcome:
    failure = Failure.of(FailureKind.TIMEOUT, "no answer") if data is TIMED_OUT else None
    finding = None if failure else SuccessOutcome.NOT_FOUND if data is NOT_FOUND else SuccessOutcome.FOUND
    attempt = Attempt(FETCHED_AT, FETCHED_AT + 1, "worker", failure=failure, requests=1, proxy_tier="datacenter")
    state = ItemState.FAILED if failure else ItemState.SUCCESS
    end = EndedItem(seq=seq, state=state, finding=finding, failure=failure, attempts=(attempt,), scraper_version="1.2")
    if failure:
        return Outcome(item_id, end)
    found = data if isinstance(data, Result) else Result(pages=(page(seq),), data=None if data is NOT_FOUND else data)
    return Outcome(item_id, end, found)


def with_download(seq: int, data: Any) -> Result:
    """Two pages and a file beside the data."""
    bill = Page(name="", url=f"https://demo.local/bill/{seq}.pdf", status=200, body=b"%PDF " + bytes(seq))
    return Result(pages=(page(seq), page(seq, 100, "owner")), downloads=(Download("bill 1.pdf", bill),), data=data)
