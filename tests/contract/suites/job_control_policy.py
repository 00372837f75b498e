"""What JobControl promises of `change_policy` (J5). Part of JobControlContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.errors import Conflict, Outdated
from swath.domain.lease import LeaseDirective, SlotReport
from tests.contract.suites.builders import Store, claimed, end_job, finished, new_job, policy, ready, success

__all__ = ["PolicyContract"]


class PolicyContract:
    """See JobControlContract."""

    async def test_another_policy_is_obeyed_by_what_is_claimed_later(self, store: Store) -> None:
        job = await ready(store, items=60, limit=4)
        old = await claimed(store)
        status = await store.change_policy("job", policy(7, keep="data"))
        assert status.job.policy == policy(7, keep="data")
        assert (await store.status("job")).job == status.job
        new = await claimed(store, "other")
        assert new.job == status.job
        assert new.revision != old.revision
        assert old.job == job

    async def test_leases_under_the_former_policy_are_told_to_stop(self, store: Store) -> None:
        await ready(store, items=60)
        old = await claimed(store)
        await store.change_policy("job", policy(7))
        assert not store.begin(old, 1)
        assert dict(await store.renew("worker", [old.fence])) == {old.fence: LeaseDirective.STOP}
        grant = await finished(store, old, [success(1)])
        assert (grant.directive, set(grant.accepted)) == (LeaseDirective.STOP, {1})
        new = await claimed(store, "worker")
        assert store.begin(new, new.items[0].seq)
        assert (await finished(store, new)).directive is LeaseDirective.GO_ON

    async def test_an_equal_policy_changes_nothing(self, store: Store) -> None:
        await ready(store, items=60)
        lease = await claimed(store)
        await store.change_policy("job", policy(8))
        assert store.begin(lease, 1)
        assert (await finished(store, lease)).directive is LeaseDirective.GO_ON

    async def test_a_lower_limit_holds_as_soon_as_what_runs_beyond_it_has_ended(self, store: Store) -> None:
        await ready(store, items=60, limit=8)
        first = await claimed(store)
        assert first.slots == 8
        await store.change_policy("job", policy(3))
        second = await claimed(store, "other")
        assert second.slots == 0
        for ceiling, expected in ((8, 8), (5, 5)):
            grant = await finished(store, first, report=SlotReport(ceiling=ceiling, demand=ceiling))
            assert grant.slots == expected
            assert (await finished(store, second, report=SlotReport(ceiling=0, demand=9))).slots == 0
        await finished(store, first, report=SlotReport(ceiling=1, demand=1))
        assert (await finished(store, second, report=SlotReport(ceiling=0, demand=9))).slots == 2

    async def test_a_higher_limit_is_granted_with_the_next_report(self, store: Store) -> None:
        await ready(store, items=60, limit=2)
        old = await claimed(store)
        await store.change_policy("job", policy(6))
        assert (await finished(store, old, report=SlotReport(ceiling=2, demand=9))).slots == 6

    async def test_the_order_is_compared_as_it_was_first_given(self, store: Store) -> None:
        job = await ready(store)
        await store.change_policy("job", policy(2))
        assert (await store.submit(job)).job.policy == policy(2)
        with pytest.raises(Conflict):
            await store.submit(new_job(limit=2))

    async def test_a_policy_can_be_changed_in_every_state(self, store: Store) -> None:
        await store.submit(new_job())
        for limit, step in ((1, None), (2, store.cancel("job"))):
            if step is not None:
                await step
                await end_job(store)
            assert (await store.change_policy("job", policy(limit))).job.policy == policy(limit)

    # -- what it was made of

    async def test_a_policy_made_of_the_present_one_is_taken(self, store: Store) -> None:
        await ready(store, limit=4)
        assert (await store.change_policy("job", policy(5), policy(4))).job.policy == policy(5)
        assert (await store.change_policy("job", policy(6), policy(5))).job.policy == policy(6)

    async def test_a_policy_made_of_a_former_one_is_refused_and_changes_nothing(self, store: Store) -> None:
        await ready(store, items=60, limit=4)
        await store.change_policy("job", policy(5))
        lease, before = await claimed(store), await store.status("job")
        with pytest.raises(Outdated, match="'job'"):
            await store.change_policy("job", policy(6), policy(4))
        assert await store.status("job") == before
        assert store.begin(lease, 1)

    async def test_what_is_so_already_is_never_outdated(self, store: Store) -> None:
        """Or a caller who does not know whether it was heard could not say it again."""
        await ready(store, limit=4)
        for _ in range(2):
            assert (await store.change_policy("job", policy(5), policy(4))).job.policy == policy(5)

    async def test_of_many_made_of_the_same_policy_one_is_taken(self, store: Store) -> None:
        await ready(store, limit=1)
        limits = range(2, 8)
        calls = [store.change_policy("job", policy(limit), policy(1)) for limit in limits]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        taken = [limit for limit, answer in zip(limits, answers, strict=True) if not isinstance(answer, Outdated)]
        assert [policy(limit) for limit in taken] == [(await store.status("job")).job.policy]
