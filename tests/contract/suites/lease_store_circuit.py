"""What LeaseStore promises of a job's circuit (S4). Part of LeaseStoreContract."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swath.domain.errors import UnknownName
from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, EndedItem, HandedBackItem, RetrySelection, SuccessOutcome, TryCounts
from swath.domain.job import Counts, StopReason
from swath.domain.lease import POISON_CRASHES, Lease, LeaseDirective, SlotReport
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    Kill,
    Store,
    begun,
    claim_all,
    claimed,
    dies,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    policy,
    ready,
    success,
)

__all__ = ["CircuitContract"]


async def broken_site(store: Store, items: int = 10, limit: int = 3, **breaker: Any) -> list[Lease]:
    """All leases that a worker can get of a job before anything has ended."""
    await ready(store, items=items, policy=policy(limit, {"consecutive_failures": 1_000, **breaker}))
    return await claim_all(store)


def held(leases: list[Lease]) -> list[tuple[Lease, int]]:
    """Every item with its lease, in the order they were handed out."""
    return [(lease, item.seq) for lease in leases for item in lease.items]


def tried(seq: int, delay_seconds: float = 0.0) -> HandedBackItem:
    """An item that has begun and waits for its retry."""
    return HandedBackItem(
        seq=seq, delay_seconds=delay_seconds, tries=TryCounts(own=1), attempts=(Attempt(1.0, 2.0, "worker"),)
    )


class CircuitContract:
    """See LeaseBookContract."""

    async def test_no_more_than_min_requests_are_released_before_that_many_have_ended(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        await store.claim("other")
        out = held(leases)
        assert len(out) == 6
        for lease, seq in out[:5]:
            await finished(store, lease, [success(seq)])
            assert await store.claim("other") is None
        lease, seq = out[5]
        await finished(store, lease, [success(seq)])
        assert (await claimed(store, "other")).items[0].seq == 7

    async def test_what_comes_back_untouched_was_not_released(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        lease, seq = held(leases)[0]
        await finished(store, lease, handed_back=[HandedBackItem(seq=seq)])
        assert [item.seq for item in (await claimed(store, "other")).items] == [seq]
        assert await store.claim("other") is None
        await store.release(lease.worker_id, lease.fence)
        assert sum(len(each.items) for each in await claim_all(store, "other")) == len(lease.items) - 1

    async def test_what_has_begun_and_waits_was_released(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        for lease, seq in held(leases):
            await finished(store, lease, handed_back=[tried(seq, delay_seconds=20)])
        for lease in leases:
            await store.release(lease.worker_id, lease.fence)
        assert await store.claim("other") is None, "if all of them wait, the job waits"

    async def test_what_has_begun_may_go_on_while_nothing_new_is_released(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        for lease, seq in held(leases)[:2]:
            await finished(store, lease, handed_back=[tried(seq)])
        again = [seq for _, seq in held(await claim_all(store, "other"))]
        assert sorted(again) == [1, 2]

    async def test_of_what_a_death_gives_back_only_what_had_not_begun_is_unreleased(
        self, store: Store, kill: Kill
    ) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        lease, seq = held(leases)[0]
        begun(store, lease, seq)
        await dies(store, kill, "worker")
        out = held(await claim_all(store, "other"))
        assert len(out) == 6
        assert out[0][1] == seq

    async def test_outcomes_of_every_kind_open_the_gate(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=4)
        out = held(leases)
        for n, (lease, seq) in enumerate(out):
            skipped = EndedItem(seq=seq, state=ItemState.SKIPPED, reason="robots")
            await finished(store, lease, [skipped if n % 2 else failed(seq, FailureKind.PROXY)])
        assert (await store.status("job")).circuit_opened is None
        assert (await claimed(store, "other")).items[0].seq == 5

    async def test_it_opens_when_enough_have_ended_and_the_share_is_reached(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=5, failure_threshold_percentage=0.8)
        out = held(leases)
        assert len(out) == 5
        for lease, seq in out[:4]:
            assert (await finished(store, lease, [failed(seq)])).directive is LeaseDirective.GO_ON
        lease, seq = out[4]
        assert (await finished(store, lease, [success(seq)])).directive is LeaseDirective.STOP
        status = await store.status("job")
        assert (status.state, status.stopping) == (JobState.RUNNING, StopReason.CIRCUIT_OPEN)
        assert status.circuit_opened == "4 of the last 5 items failed"

    async def test_nothing_starts_after_it_opened(self, store: Store) -> None:
        leases = await broken_site(store, items=30, min_requests=20, consecutive_failures=2)
        (first, one), (_, two), *_, (last, other) = held(leases)
        begun(store, last, other)
        await finished(store, first, [failed(one), failed(two)])
        assert not store.begin(last, other)
        assert not store.begin(first, first.items[-1].seq)
        assert await store.claim("other") is None
        answers = await store.renew("worker", [lease.fence for lease in leases])
        assert set(answers.values()) == {LeaseDirective.STOP}

    async def test_it_is_looked_at_after_each_outcome_and_not_after_each_commit(self, store: Store) -> None:
        leases = await broken_site(store, items=30, limit=20, min_requests=20, consecutive_failures=3)
        ends = [failed(1), failed(2), failed(3), *(success(seq) for seq in range(4, 11))]
        await finished(store, leases[0], ends)
        assert (await store.status("job")).circuit_opened == "3 items failed in a row"

    async def test_only_what_is_accepted_counts(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=10, consecutive_failures=3)
        for _ in range(3):
            await finished(store, leases[0], [failed(1), failed(2), failed(77)])
        status = await store.status("job")
        assert (status.circuit_opened, status.stopping) == (None, None)

    async def test_too_many_not_found_open_it(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=4, max_not_found_percentage=0.5)
        for n, (lease, seq) in enumerate(held(leases)):
            await finished(store, lease, [success(seq, SuccessOutcome.NOT_FOUND if n < 2 else SuccessOutcome.FOUND)])
        assert (await store.status("job")).circuit_opened == "2 of the last 4 items were not found"

    async def test_a_job_whose_circuit_opened_ends_failed_and_the_rest_is_cancelled(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=5, failure_threshold_percentage=0.8)
        for lease, seq in held(leases):
            await finished(store, lease, [success(seq) if seq == 1 else failed(seq)])
        for lease in leases:
            await store.release(lease.worker_id, lease.fence)
        status = await end_job(store)
        assert (status.state, status.counts) == (
            JobState.FAILED, Counts(success=1, failed=4, cancelled=5, total=10),
        )  # fmt: skip
        reasons = [record.reason for record in (await listing(store)).values()]
        assert reasons == [None] * 5 + ["circuit_open"] * 5
        assert status.circuit_opened is not None

    async def test_it_may_pause_the_job_instead(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=5, consecutive_failures=2, on_open="pause")
        (lease, one), (_, two), *_ = held(leases)
        assert (await finished(store, lease, [failed(one), failed(two)])).directive is LeaseDirective.STOP
        status = await store.status("job")
        assert (status.state, status.stopping) == (JobState.PAUSED, None)
        assert status.circuit_opened is not None
        assert not store.begin(lease, lease.items[-1].seq)
        assert await store.claim("other") is None
        assert (await store.resume("job")).circuit_opened is None
        assert store.begin(lease, lease.items[-1].seq)

    async def test_a_resumed_job_has_a_new_circuit(self, store: Store) -> None:
        leases = await broken_site(store, items=30, limit=8, min_requests=10, consecutive_failures=3, on_open="pause")
        await finished(store, leases[0], [failed(1), failed(2), failed(3)])
        await store.resume("job")
        await finished(store, leases[0], [failed(4), failed(5)])
        assert (await store.status("job")).circuit_opened is None
        for lease in leases:
            await store.release(lease.worker_id, lease.fence)
        (lease, *_) = await claim_all(store)
        await finished(store, lease, [failed(lease.items[0].seq)])
        assert (await store.status("job")).state is JobState.PAUSED

    async def test_what_is_held_or_waits_counts_as_released_by_a_new_circuit(self, store: Store) -> None:
        leases = await broken_site(store, items=40, min_requests=6)
        (first, one), (_, two), *_ = held(leases)
        await finished(store, first, [success(one)], [tried(two, delay_seconds=60)])
        await store.pause("job")
        await store.resume("job")
        assert sum(len(lease.items) for lease in await claim_all(store, "other")) == 1

    async def test_a_job_that_stops_already_goes_on_stopping_for_the_first_reason(self, store: Store) -> None:
        leases = await broken_site(store, min_requests=10, consecutive_failures=2)
        await store.cancel("job")
        await finished(store, leases[0], [failed(1), failed(2)])
        status = await store.status("job")
        assert (status.state, status.stopping) == (JobState.RUNNING, StopReason.CANCELLED)

    @pytest.mark.parametrize("on_open", ["fail", "pause"])
    async def test_the_circuit_of_a_paused_job_opens_too(self, store: Store, on_open: str) -> None:
        leases = await broken_site(store, min_requests=10, consecutive_failures=2, on_open=on_open)
        await store.pause("job")
        await finished(store, leases[0], [failed(1), failed(2)])
        status = await store.status("job")
        assert status.state is JobState.PAUSED
        assert status.stopping is (StopReason.CIRCUIT_OPEN if on_open == "fail" else None)
        assert status.circuit_opened is not None

    async def test_poison_counts_like_any_outcome(self, store: Store, kill: Kill) -> None:
        leases = await broken_site(store, min_requests=10, consecutive_failures=1)
        begun(store, leases[0], 1)
        await dies(store, kill, "worker")
        for n in range(POISON_CRASHES):
            lease = await claimed(store, f"worker-{n}")
            begun(store, lease, 1)
            await finished(store, lease, report=SlotReport(ceiling=1, demand=1, begun=(1,)))
            assert (await store.status("job")).stopping is None
            await dies(store, kill, f"worker-{n}")
        assert (await store.status("job")).stopping is StopReason.CIRCUIT_OPEN

    @pytest.mark.req("D3")
    async def test_a_circuit_opened_from_outside_stops_the_job(self, store: Store) -> None:
        (lease,) = await broken_site(store, items=3)
        await store.open_circuit("job", "its site is gone")
        assert (await finished(store, lease, [success(1)])).directive is LeaseDirective.STOP
        assert await store.claim("other") is None
        status = await store.status("job")
        assert (status.stopping, status.circuit_opened) == (StopReason.CIRCUIT_OPEN, "its site is gone")

    @pytest.mark.req("D3")
    async def test_a_circuit_opened_from_outside_pauses_the_job_if_that_is_its_policy(self, store: Store) -> None:
        await broken_site(store, items=3, on_open="pause")
        await store.open_circuit("job", "its site is gone")
        status = await store.status("job")
        assert (status.state, status.stopping, status.circuit_opened) == (JobState.PAUSED, None, "its site is gone")
        assert (await store.resume("job")).circuit_opened is None

    @pytest.mark.req("D3", "Z10")
    @pytest.mark.parametrize("retried", [False, True])
    async def test_a_job_that_is_still_pending_when_its_circuit_opens_ends(self, store: Store, retried: bool) -> None:
        """A worker that took items of it before a retry still waits for their site, say."""
        await ready(store, items=3)
        if retried:
            (lease,) = await claim_all(store)
            await finished(store, lease, [success(1), failed(2), failed(3)])
            await store.release(lease.worker_id, lease.fence)
            await end_job(store)
            await store.retry("job", RetrySelection(failed=True))
        assert (await store.status("job")).state is JobState.PENDING
        await store.open_circuit("job", "its site is gone")
        ended = await end_job(store)
        assert (ended.state, ended.circuit_opened) == (JobState.FAILED, "its site is gone")
        assert (ended.counts.success, ended.counts.cancelled) == ((1, 2) if retried else (0, 3))

    @pytest.mark.req("D3", "Z10")
    async def test_a_pending_job_is_paused_by_its_circuit_and_resumed(self, store: Store) -> None:
        await ready(store, items=3, policy=policy(3, {"on_open": "pause"}))
        await store.open_circuit("job", "its site is gone")
        assert (await store.status("job")).state is JobState.PAUSED
        assert (await store.resume("job")).state is JobState.PENDING

    @pytest.mark.req("D3")
    async def test_a_circuit_is_opened_from_outside_once_and_only_while_the_job_may_run(self, store: Store) -> None:
        await broken_site(store, items=3)
        await store.open_circuit("job", "first")
        await store.open_circuit("job", "second")
        assert (await store.status("job")).circuit_opened == "first"
        await store.submit(new_job("loading"))
        await store.open_circuit("loading", "too early")
        assert (await store.status("loading")).circuit_opened is None
        with pytest.raises(UnknownName):
            await store.open_circuit("nobody", "why not")

    @pytest.mark.req("D3")
    async def test_a_circuit_is_not_opened_from_outside_while_too_many_items_are_left(self, store: Store) -> None:
        (lease,) = await broken_site(store, items=3)
        await store.open_circuit("job", "its site is gone", 2)
        assert (await store.status("job")).circuit_opened is None
        await finished(store, lease, [success(1)])
        await store.open_circuit("job", "its site is gone", 2)
        assert (await store.status("job")).circuit_opened == "its site is gone"

    @pytest.mark.req("P3")
    async def test_what_the_attempts_of_ended_items_cost_is_summed_up_once(self, store: Store) -> None:
        (lease,) = await broken_site(store, items=2, min_requests=1_000)
        paid = msgspec.structs.replace(success(1), attempts=(attempt_at(0.25), attempt_at(0.5)))
        await finished(store, lease, [paid])
        await finished(store, lease, [paid])
        await finished(store, lease, handed_back=[HandedBackItem(seq=2, attempts=(attempt_at(4.0),))])
        assert (await store.status("job")).cost == pytest.approx(0.75)

    @pytest.mark.req("P3")
    async def test_the_attempts_of_cancelled_items_are_in_the_cost_once(self, store: Store) -> None:
        (lease,) = await broken_site(store, items=3, min_requests=1_000)
        paid = msgspec.structs.replace(success(1), attempts=(attempt_at(0.25),))
        back = [HandedBackItem(seq=seq, attempts=(attempt_at(1.0), attempt_at(2.0))) for seq in (2, 3)]
        await finished(store, lease, [paid], back)
        await store.release(lease.worker_id, lease.fence)
        await store.cancel("job")
        ended = await end_job(store)
        assert ended.counts.cancelled == 2
        assert ended.cost == pytest.approx(6.25)
        await store.retry("job", RetrySelection(not_run=True))
        await store.cancel("job")
        again = await end_job(store)
        assert again.counts.cancelled == 2
        assert again.cost == pytest.approx(6.25)


def attempt_at(cost: float) -> Attempt:
    """One that cost so much."""
    return Attempt(1.0, 2.0, "worker", cost=cost)
