"""What a store that outlives its process promises beside the calls of both ports. The memory store does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from swath.domain.attempt import HandedBack
from swath.domain.lease import Report
from swath.testing.contracts.orders import Kill, Store, batch, claimed, failed, finished, listing, order, ready, success

__all__ = ["DurableStoreContract", "Reopen"]

Reopen = Callable[[], Awaitable[Store]]
"""Opens the same data once more, as another process would, while `store` stays open."""


class DurableStoreContract:
    """Fixtures to give: `store` and `kill`, as for the other suites, and `reopen` (see Reopen)."""

    async def test_what_was_answered_is_there_for_whoever_opens_the_store_next(
        self, store: Store, reopen: Reopen
    ) -> None:
        await ready(store, items=12)
        lease = await claimed(store)
        back = HandedBack(seq=3, delay_seconds=9)
        await finished(store, lease, [success(1), failed(2)], [back], Report(ceiling=2, demand=2, begun=(4,)))
        other = await reopen()
        assert await other.status("job") == await store.status("job")
        assert await listing(other) == await listing(store)
        assert await other.jobs() == await store.jobs()

    async def test_a_load_goes_on_where_it_was_killed(self, store: Store, reopen: Reopen) -> None:
        batches = [batch(0, 1, "aab"), batch(1, 4, "bcd"), batch(2, 7, "def")]
        await store.submit(order())
        answers = [await store.load("job", each) for each in batches[:2]]
        other = await reopen()
        await other.submit(order())
        again = [await other.load("job", each) for each in batches]
        assert again[:2] == answers
        assert (await other.seal("job", 3)).counts.total == 6

    async def test_a_lease_is_as_good_in_another_process(self, store: Store, kill: Kill, reopen: Reopen) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        other = await reopen()
        assert await other.rescue("other") == []
        kill("worker")
        assert [rescued.fence for rescued in await other.rescue("other")] == [lease.fence]
        again = await claimed(other, "other")
        assert again.fence > lease.fence
        assert (await finished(store, lease, [success(1)])).accepted == frozenset()
        assert (await finished(other, again, [success(1)])).accepted == {1}

    async def test_several_processes_share_no_item_and_no_slot(self, store: Store, reopen: Reopen) -> None:
        await ready(store, items=200, limit=5)
        stores = [store, await reopen(), await reopen()]
        claims = await asyncio.gather(*(stores[n % 3].claim(f"w{n}") for n in range(12)))
        leases = [lease for lease in claims if lease is not None]
        held = [item.seq for lease in leases for item in lease.items]
        assert len(held) == len(set(held)) > 50
        assert sum(lease.slots for lease in leases) <= 5
