"""What every store promises for large inputs: whatever it returns at once is bounded in bytes. Part of
JobStoreContract.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial

import pytest

from swath.domain.item import HandedBackItem, Item, ItemFilter, ItemRecord, RetrySelection
from swath.domain.lease import Lease, LeasedItem, SlotReport
from swath.domain.transitions import ItemState
from swath.ports.job_store import ItemBatch, ItemPage
from tests.contract.suites.builders import Store, claim_all, end_job, failed, finished, new_job

__all__ = ["LargeInputContract"]

ITEMS = 12
TEXT_BYTES = 800_000
MOST_BYTES = 8 * 1024 * 1024  # in a lease, and in a page
GIANT = 5  # an item that is larger than that alone


async def loaded(store: Store) -> None:
    """A job of large items, loaded one by one."""
    await store.submit(new_job(limit=64))
    for number, row in enumerate(range(1, ITEMS + 1)):
        await store.load("job", ItemBatch(number, row, 1, f"digest {row}", (_item(row),)))
    await store.seal("job", ITEMS)


def _item(row: int) -> Item:
    size = MOST_BYTES + 1 if row == GIANT else TEXT_BYTES
    return Item(row, str(row), {"parcel": str(row), "text": chr(96 + row) * size})


def fits(items: Collection[LeasedItem | ItemRecord]) -> bool:
    """Whether they are no more bytes together than may be handed out at once, or one alone."""
    return len(items) <= 1 or sum(len(item.input["text"]) for item in items) <= MOST_BYTES


@pytest.mark.req("Z8", "Z10")
class LargeInputContract:
    """See JobStoreContract."""

    async def test_a_page_of_items_is_bounded_by_bytes(self, store: Store) -> None:
        await loaded(store)

        async def page(after: int) -> ItemPage:
            records = await store.items("job", after)
            return ItemPage(records, records[-1].seq if records else None)

        async def page_of(state: ItemState | None, after: int) -> ItemPage:
            return await store.find_items("job", ItemFilter(state), after, 1_000)

        for read in (page, partial(page_of, None), partial(page_of, ItemState.PENDING)):
            await self._check_pages(read)

    async def _check_pages(self, read: Callable[[int], Awaitable[ItemPage]]) -> None:
        seqs: list[int] = []
        after: int | None = 0
        while after is not None:
            page = await read(after)
            assert fits(page.items)
            seqs += [record.seq for record in page.items]
            after = page.next_after
        assert seqs == list(range(1, ITEMS + 1))

    async def test_a_lease_is_bounded_by_bytes(self, store: Store) -> None:
        await loaded(store)
        for lease in await self._leases(store):  # of items that were never handed out
            await finished(store, lease, handed_back=[HandedBackItem(seq=item.seq) for item in lease.items])
            await store.release(lease.worker_id, lease.fence)
        for lease in await self._leases(store):  # of items that came back
            ended = [failed(item.seq) for item in lease.items]
            await finished(store, lease, ended, report=SlotReport(ceiling=0, demand=0))
            await store.release(lease.worker_id, lease.fence)
        await end_job(store)
        await store.retry("job", RetrySelection(failed=True))
        await self._leases(store)  # of items that are run again

    async def _leases(self, store: Store) -> list[Lease]:
        leases = await claim_all(store)
        assert all(fits(lease.items) for lease in leases)
        assert sorted(item.seq for lease in leases for item in lease.items) == list(range(1, ITEMS + 1))
        return leases
