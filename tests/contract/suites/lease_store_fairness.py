"""What LeaseStore promises of priorities (S3, property 36): the most urgent job first, and none starves. Part of
LeaseStoreContract.
"""

from __future__ import annotations

from collections import Counter

from swath.domain.item import RetrySelection
from tests.contract.suites.builders import Store, claimed, end_job, ready, run_all

__all__ = ["FairnessContract"]


async def claimed_jobs(store: Store, leases: int) -> list[str]:
    """Whose turn it was, when a worker gives every lease back as it is."""
    jobs = []
    for _ in range(leases):
        lease = await claimed(store)
        jobs.append(lease.job.job_id)
        await store.release(lease.worker_id, lease.fence)
    return jobs


class FairnessContract:
    """See LeaseBookContract."""

    async def test_items_of_smaller_jobs_are_handed_out_first_and_none_starves(self, store: Store) -> None:
        await ready(store, "large", items=9)
        await ready(store, "small", items=2)
        await ready(store, "middle", items=5)
        await ready(store, "urgent", items=20, priority=1)
        served = await claimed_jobs(store, 64)
        assert served[0] == "urgent"
        assert Counter(served).most_common(1)[0][0] == "urgent"
        for first in range(len(served) - 16):
            assert set(served[first : first + 16]) == {"large", "small", "middle", "urgent"}

    async def test_without_the_urgent_one_the_smallest_goes_first(self, store: Store) -> None:
        await ready(store, "large", items=9)
        await ready(store, "small", items=2)
        assert (await claimed_jobs(store, 3)) == ["small"] * 3

    async def test_a_job_that_comes_late_has_not_been_passed_over(self, store: Store) -> None:
        await ready(store, "small", items=2)
        await claimed_jobs(store, 20)
        await ready(store, "large", items=9)
        assert (await claimed_jobs(store, 3)) == ["small"] * 3

    async def test_a_job_has_not_been_passed_over_while_it_was_paused(self, store: Store) -> None:
        await ready(store, "small", items=2)
        await ready(store, "large", items=9)
        await store.pause("large")
        await claimed_jobs(store, 20)
        await store.resume("large")
        assert (await claimed_jobs(store, 3)) == ["small"] * 3

    async def test_a_job_has_not_been_passed_over_while_it_was_over(self, store: Store) -> None:
        await ready(store, "large", items=9)
        await run_all(store)
        await end_job(store)
        await ready(store, "small", items=2)
        await claimed_jobs(store, 20)
        await store.retry("large", RetrySelection(since=0.0))
        assert (await claimed_jobs(store, 3)) == ["small"] * 3
