"""What a store that outlives its process promises beyond its ports. The memory store does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swath.domain.clock_watch import CONFIRM_SECONDS
from swath.domain.item import HandedBackItem, RetrySelection
from swath.domain.job import WaitingFor
from swath.domain.lease import SlotReport
from swath.domain.service_key import Scope, new_key
from tests.contract.suites.builders import (
    Kill,
    Store,
    batch,
    begun,
    claimed,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    policy,
    ready,
    run_all,
    success,
    webhook,
)
from tests.contract.suites.change_feed import hears, quiet
from tests.support.clock import FakeClock

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
        back = HandedBackItem(seq=3, delay_seconds=9)
        await finished(store, lease, [success(1), failed(2)], [back], SlotReport(ceiling=2, demand=2, begun=(4,)))
        other = await reopen()
        assert await other.status("job") == await store.status("job")
        assert await listing(other) == await listing(store)
        assert await other.jobs() == await store.jobs()

    async def test_a_load_goes_on_where_it_was_killed(self, store: Store, reopen: Reopen) -> None:
        batches = [batch(0, 1, "aab"), batch(1, 4, "bcd"), batch(2, 7, "def")]
        await store.submit(new_job())
        answers = [await store.load("job", each) for each in batches[:2]]
        other = await reopen()
        await other.submit(new_job())
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

    async def test_what_ran_is_known_to_whoever_finds_its_process_dead(
        self, store: Store, kill: Kill, reopen: Reopen
    ) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        begun(store, lease, 1, 2)
        store.leave(lease, 1)
        other = await reopen()
        kill("worker")
        await other.rescue("other")
        assert [seq for seq, record in (await listing(other)).items() if record.suspect] == [2]

    async def test_nothing_begins_after_another_process_has_stopped_the_job(self, store: Store, reopen: Reopen) -> None:
        await ready(store, items=40)
        lease = await claimed(store)
        other = await reopen()
        begun(store, lease, 1)
        await other.pause("job")
        assert not store.begin(lease, 2)
        await other.resume("job")
        begun(store, lease, 2)
        await other.change_policy("job", policy(3))
        assert not store.begin(lease, 3)
        further = await claimed(store)
        begun(store, further, further.items[0].seq)
        await other.cancel("job")
        assert not store.begin(further, further.items[1].seq)

    async def test_what_a_worker_waits_for_is_told_in_every_process(
        self, store: Store, kill: Kill, reopen: Reopen
    ) -> None:
        await ready(store)
        await claimed(store)
        other = await reopen()
        store.tell_waiting("worker", WaitingFor.DISK)
        assert (await other.status("job")).waiting_for is WaitingFor.DISK
        store.tell_waiting("worker", None)
        assert (await other.status("job")).waiting_for is None
        store.tell_waiting("worker", WaitingFor.STORE)
        kill("worker")
        assert (await other.status("job")).waiting_for is None

    async def test_a_new_generation_is_there_for_whoever_opens_the_store_next(
        self, store: Store, reopen: Reopen
    ) -> None:
        await ready(store)
        await run_all(store)
        await end_job(store)
        await store.retry("job", RetrySelection(item_ids=frozenset({"2"})))
        other = await reopen()
        assert await other.status("job") == await store.status("job")
        assert await other.item("job", "2") == await store.item("job", "2")
        assert [item.item_id for item in (await claimed(other, "other")).items] == ["2"]

    async def test_several_processes_share_no_item_and_no_slot(self, store: Store, reopen: Reopen) -> None:
        await ready(store, items=200, limit=5)
        stores = [store, await reopen(), await reopen()]
        claims = await asyncio.gather(*(stores[n % 3].claim(f"w{n}") for n in range(12)))
        leases = [lease for lease in claims if lease is not None]
        held = [item.seq for lease in leases for item in lease.items]
        assert len(held) == len(set(held)) > 50
        assert sum(lease.slots for lease in leases) <= 5

    async def test_webhooks_and_keys_are_there_for_whoever_opens_the_store_next(
        self, store: Store, reopen: Reopen
    ) -> None:
        await ready(store)
        await run_all(store)
        await end_job(store, webhook=webhook())
        key, _ = new_key("robot", (Scope.ADMIN,), 1.0)
        await store.add_key(key)
        other = await reopen()
        assert await other.keys() == [key]
        assert await other.webhooks("job") == [webhook()]
        (taken,) = await other.take_webhooks(60)
        assert await store.take_webhooks(60) == []
        await other.revoke_key(key.key_id)
        assert (await store.keys())[0].revoked_at is not None
        assert await store.note_webhook(taken)
        assert not await other.note_webhook(taken)

    async def test_a_load_begins_where_it_did_in_another_process(self, store: Store, reopen: Reopen) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "ab"))
        start = await store.begin_load("job", "key")
        await store.load("job", batch(1, 3, "cd"))
        assert await (await reopen()).begin_load("job", "key") == start

    @pytest.mark.req("J5", "Z10")
    async def test_short_runs_reach_the_hour_before_a_deletion_together(
        self, store: Store, clock: FakeClock, reopen: Reopen
    ) -> None:
        await ready(store, policy=policy(retention_days=1))
        await run_all(store)
        await end_job(store)
        clock.advance(86_400)
        for n in range(4):
            assert await (await reopen()).claim_deletion(f"worker-{n}") is None
            clock.advance(CONFIRM_SECONDS / 4)
        assert await (await reopen()).claim_deletion("last") is not None

    async def test_who_listens_hears_what_another_process_has_changed(self, store: Store, reopen: Reopen) -> None:
        await ready(store)
        other = await reopen()
        news = store.news()
        for step in (other.pause, other.resume, other.cancel):
            await quiet(news)
            await step("job")
            await hears(news)
        news.close()
