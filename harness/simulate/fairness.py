"""Measures which jobs are passed over, for how many leases and for how long (S3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from harness.simulate.memory_store import JobSnapshot
from swath.backends.aws.store.returned_items import BUCKET_SECONDS
from swath.domain.circuit_breaker import release_allowance
from swath.domain.execution_policy import CircuitBreaker
from swath.domain.lease import admits_another_worker

__all__ = ["BOUND", "Claimer", "FairnessCheck"]

BOUND: Final = 4  # leases for each runnable job, after which S3 is broken


class Claimer(NamedTuple):
    """Somebody who got a lease of that job, and did not want one of others."""

    job_id: str
    without: Collection[str]


class _Passed:
    """A job since its last lease: leases that others got instead, and the most jobs that were runnable then."""

    __slots__ = ("leases", "most")

    def __init__(self) -> None:
        self.leases = 0
        self.most = 1


class FairnessCheck:
    """`worst` is the largest number of leases that others got, for each runnable job, before one got its own.

    `longest_seconds` is the longest that a job with items to hand out and a free slot got neither a lease nor a start.
    """

    def __init__(self, limits: dict[str, int], last_start: Callable[[str], float]) -> None:
        self.leases = 0
        self.worst = 0.0
        self.longest_seconds = 0.0
        self.problems: list[str] = []
        self.most_runnable = 0
        self._limits = limits
        self._last_start = last_start
        self._passed: dict[str, _Passed] = {}
        self._hungry_since: dict[str, float] = {}

    def granted(self, claimer: Claimer, seen: Sequence[JobSnapshot], shared: float, now: float) -> None:
        """A lease was handed out, and these are the heads after it."""
        self.leases += 1
        self.look(seen, shared, now)
        self._hungry_since.pop(claimer.job_id, None)
        self._passed.pop(claimer.job_id, None)
        there = {each.head.job_id for each in seen if _claimable(each, shared)}
        for job_id in [job_id for job_id in self._passed if job_id not in there]:
            del self._passed[job_id]
        runnable = [each.head.job_id for each in seen if self._is_runnable(each, claimer) and each.head.job_id in there]
        k = len(runnable) + 1
        self.most_runnable = max(self.most_runnable, k)
        for job_id in runnable:
            self._pass_over(job_id, k)

    def look(self, seen: Sequence[JobSnapshot], shared: float, now: float) -> None:
        """Time has passed."""
        hungry = {each.head.job_id for each in seen if self._has_slots(each) and _claimable(each, shared)}
        for job_id in [job_id for job_id in self._hungry_since if job_id not in hungry]:
            del self._hungry_since[job_id]
        for job_id in hungry:
            since = max(self._hungry_since.setdefault(job_id, now), self._last_start(job_id))
            self.longest_seconds = max(self.longest_seconds, now - since)

    def _pass_over(self, job_id: str, k: int) -> None:
        passed = self._passed.setdefault(job_id, _Passed())
        passed.leases += 1
        passed.most = max(passed.most, k)
        self.worst = max(self.worst, passed.leases / passed.most)
        if passed.leases == BOUND * passed.most:
            self.problems.append(f"{job_id} was passed over {passed.leases} times, with {passed.most} runnable jobs")

    def _has_slots(self, seen: JobSnapshot) -> bool:
        limit = self._limits[seen.head.job_id]
        return seen.workers < limit and seen.slots < limit

    def _is_runnable(self, seen: JobSnapshot, claimer: Claimer) -> bool:
        job_id = seen.head.job_id
        if job_id == claimer.job_id or job_id in claimer.without:
            return False
        return admits_another_worker(self._limits[job_id], seen.workers, seen.slots)


def _claimable(seen: JobSnapshot, shared: float) -> bool:
    """Whether items could be handed out now."""
    head = seen.head
    if not head.may_start:
        return False
    due = [waiting for bucket, waiting in head.waiting.items() if not bucket or bucket + BUCKET_SECONDS <= shared]
    unbegun = head.fresh_left + sum(waiting.untried for waiting in due)
    most = release_allowance(head.circuit, _BREAKER)
    return bool(unbegun if most is None else min(most, unbegun)) or any(each.suspects or each.begun for each in due)


_BREAKER: Final = CircuitBreaker()
