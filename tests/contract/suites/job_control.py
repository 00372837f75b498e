"""The contract of the JobControl port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swath.domain.errors import Conflict, UnknownName
from swath.domain.item import HandedBackItem, RetrySelection
from swath.domain.job import Counts, JobStatus, StopReason
from swath.domain.lease import LeaseDirective
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    Store,
    batch,
    begun,
    claimed,
    end_job,
    finished,
    listing,
    new_job,
    policy,
    ready,
    run_all,
    success,
)
from tests.contract.suites.job_control_policy import PolicyContract
from tests.contract.suites.job_control_retry import RetryContract
from tests.contract.suites.job_control_versions import VersionsContract

__all__ = ["JobControlContract"]

CALLS: dict[str, Callable[[Store, str], Awaitable[JobStatus]]] = {
    "pause": lambda store, job_id: store.pause(job_id),
    "resume": lambda store, job_id: store.resume(job_id),
    "cancel": lambda store, job_id: store.cancel(job_id),
    "change_policy": lambda store, job_id: store.change_policy(job_id, policy(2)),
    "retry": lambda store, job_id: store.retry(job_id, RetrySelection(since=0.0)),
    "delete": lambda store, job_id: store.delete(job_id),
}


class JobControlContract(PolicyContract, RetryContract, VersionsContract):  # one suite in four files
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock)."""

    @pytest.mark.parametrize("call", CALLS)
    async def test_a_job_that_is_not_there_is_named(self, store: Store, call: str) -> None:
        await ready(store, "maricopa")
        with pytest.raises(UnknownName, match="maricopa"):
            await CALLS[call](store, "maricopo")

    @pytest.mark.parametrize("call", [call for call in CALLS if call != "delete"])
    async def test_a_job_that_is_being_deleted_is_left_alone(self, store: Store, call: str) -> None:
        await store.submit(new_job())
        before = await store.delete("job")
        with pytest.raises(Conflict, match="'job'"):
            await CALLS[call](store, "job")
        assert await store.status("job") == before

    # -- pause and resume

    async def test_a_pending_job_is_paused_and_resumed(self, store: Store) -> None:
        await ready(store)
        assert (await store.pause("job")).state is JobState.PAUSED
        assert (await store.pause("job")).state is JobState.PAUSED
        assert await store.claim("worker") is None
        assert (await store.resume("job")).state is JobState.PENDING
        assert (await store.resume("job")).state is JobState.PENDING
        assert await store.claim("worker") is not None

    async def test_in_a_paused_job_nothing_starts_and_what_runs_may_finish(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        begun(store, lease, 1)
        assert (await store.pause("job")).state is JobState.PAUSED
        assert not store.begin(lease, 2)
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.STOP}
        grant = await finished(store, lease, [success(1)], [HandedBackItem(seq=2)])
        assert (grant.directive, set(grant.accepted)) == (LeaseDirective.STOP, {1, 2})
        await store.release(lease.worker_id, lease.fence)
        assert await store.claim("worker") is None
        assert (await store.resume("job")).state is JobState.RUNNING
        assert (await claimed(store)).items[0].seq == 2

    async def test_a_lease_that_outlasts_the_pause_goes_on(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        await store.pause("job")
        await store.resume("job")
        assert store.begin(lease, 1)
        assert (await finished(store, lease, [success(1)])).directive is LeaseDirective.GO_ON

    async def test_a_paused_job_whose_items_have_all_ended_can_be_ended(self, store: Store) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        await store.pause("job")
        await finished(store, lease, [success(1)])
        await store.release(lease.worker_id, lease.fence)
        assert (await end_job(store)).state is JobState.COMPLETED

    async def test_a_paused_job_with_items_left_cannot_be_ended(self, store: Store) -> None:
        await ready(store, items=1)
        await store.pause("job")
        assert await store.claim_ending("worker") is None

    async def test_only_what_could_run_is_paused(self, store: Store) -> None:
        await store.submit(new_job("loading"))
        await ready(store, "stopping")
        await store.cancel("stopping")
        await ready(store, "ended")
        await run_all(store)
        await end_job(store, job_id="ended")
        for job_id in ("loading", "stopping", "ended"):
            before = await store.status(job_id)
            with pytest.raises(Conflict):
                await store.pause(job_id)
            assert await store.status(job_id) == before

    async def test_an_ended_job_is_not_resumed_and_retry_is_named(self, store: Store) -> None:
        await ready(store)
        await run_all(store)
        await end_job(store)
        with pytest.raises(Conflict, match="retry"):
            await store.resume("job")

    async def test_a_job_that_stops_is_not_resumed(self, store: Store) -> None:
        await ready(store)
        await store.pause("job")
        before = await store.cancel("job")
        assert await store.resume("job") == before

    async def test_a_job_that_is_not_paused_is_returned_as_it_is(self, store: Store) -> None:
        await store.submit(new_job())
        assert (await store.resume("job")).state is JobState.LOADING

    # -- cancel

    async def test_cancelling_stops_what_has_not_started_and_leaves_what_runs(self, store: Store) -> None:
        """Property 11."""
        await ready(store, items=6)
        lease = await claimed(store)
        begun(store, lease, 1)
        status = await store.cancel("job")
        assert (status.state, status.stopping) == (JobState.RUNNING, StopReason.CANCELLED)
        assert not store.begin(lease, 2)
        assert await store.claim("other") is None
        grant = await finished(store, lease, [success(1)])
        assert (grant.directive, set(grant.accepted)) == (LeaseDirective.STOP, {1})
        await store.release(lease.worker_id, lease.fence)
        status = await end_job(store)
        assert (status.state, status.counts) == (JobState.CANCELLED, Counts(success=1, cancelled=5, total=6))
        records = await listing(store)
        assert {record.reason for record in records.values() if record.state is ItemState.CANCELLED} == {"cancelled"}

    async def test_a_paused_job_can_be_cancelled(self, store: Store) -> None:
        await ready(store)
        await store.pause("job")
        status = await store.cancel("job")
        assert (status.state, status.stopping) == (JobState.PAUSED, StopReason.CANCELLED)
        assert (await end_job(store)).state is JobState.CANCELLED

    async def test_cancel_may_be_repeated_and_leaves_a_terminal_job_unchanged(self, store: Store) -> None:
        await ready(store)
        assert await store.cancel("job") == await store.cancel("job")
        before = await end_job(store)
        assert await store.cancel("job") == before

    # -- delete

    @pytest.mark.parametrize("state", ["pending", "running", "paused"])
    async def test_a_job_that_may_still_run_is_to_be_cancelled_first(self, store: Store, state: str) -> None:
        await ready(store)
        if state == "running":
            await claimed(store)
        if state == "paused":
            await store.pause("job")
        with pytest.raises(Conflict, match="cancel"):
            await store.delete("job")
        assert not (await store.status("job")).deleting

    async def test_an_ended_or_loading_job_is_marked(self, store: Store) -> None:
        await ready(store, "ended")
        await run_all(store)
        await end_job(store)
        await store.submit(new_job("loading"))
        for job_id in ("ended", "loading"):
            assert (await store.delete(job_id)).deleting
            assert (await store.delete(job_id)).deleting

    async def test_nothing_is_added_to_a_job_that_is_being_deleted(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "ab"))
        await store.delete("job")
        for call in (store.submit(new_job()), store.load("job", batch(1, 3, "c")), store.seal("job", 1)):
            with pytest.raises(Conflict):
                await call

    async def test_many_words_at_once_leave_one_truth(self, store: Store) -> None:
        await ready(store, items=30)
        lease = await claimed(store)
        calls = [store.pause("job"), store.resume("job"), store.change_policy("job", policy(3)), store.resume("job")]
        await asyncio.gather(*calls, finished(store, lease, [success(1)]), store.resume("job"))
        status = await store.resume("job")
        assert (status.state, status.counts.success, status.job.policy) == (JobState.RUNNING, 1, policy(3))
