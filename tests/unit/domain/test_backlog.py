"""W5: how many workers are at what waits."""

import pytest

from swath.domain.fair_scheduling import JobBacklog, count_workers


def waiting(job_id: str, *workers: str) -> JobBacklog:
    return JobBacklog(
        job_id=job_id, priority=0, items=9, pending=9, claimable=9, limit=4, worker_ids=frozenset(workers)
    )


@pytest.mark.req("W5")
def test_a_worker_that_is_at_several_jobs_counts_once() -> None:
    jobs = [waiting("one", "a", "b"), waiting("two", "b", "c"), waiting("three")]
    assert [job.workers for job in jobs] == [2, 2, 0]
    assert count_workers(jobs) == 3
