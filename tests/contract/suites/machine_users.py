"""State machine steps that users take: pause, resume, cancel, change of policy, retry, delete."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from swath.domain.errors import BadInput, Conflict, LeaseLost, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus, StopReason
from swath.domain.transitions import JobState
from tests.contract.suites.machine_base import one, picks
from tests.contract.suites.machine_load import RETENTION_DAYS, SMALL, LoadRules, policies
from tests.contract.suites.model_check import check_earlier
from tests.contract.suites.model_records import ModelJob

__all__ = ["UserRules"]

COMMITS_PER_WORD = 4  # or most runs would only show jobs that somebody has stopped
COMMITS_PER_CANCEL = 10
RETENTION_SECONDS = RETENTION_DAYS * 86_400

selections = st.builds(
    RetrySelection,
    failed=st.booleans(),
    kinds=st.frozensets(st.sampled_from([FailureKind.TIMEOUT, FailureKind.POISON, FailureKind.BLOCKED]), max_size=2),
    not_run=st.booleans(),
    item_ids=st.frozensets(st.sampled_from(SMALL), max_size=3),
)


class UserRules(LoadRules):
    """A part of StoreMachine."""

    def say(self, job: ModelJob, call: Coroutine[Any, Any, JobStatus], *, refused: bool) -> bool:
        """One word to the store; answers whether it was taken."""
        if refused or job.deleting:
            with pytest.raises(Conflict):
                self.run(call)
            return False
        self.run(call)
        return True

    @precondition(lambda self: self.commits >= COMMITS_PER_WORD and self.model.jobs)
    @rule(pick=picks)
    def pause(self, pick: int) -> None:
        self.commits = 0
        job = one(self.jobs(), pick)
        refused = job.stopping is not None or job.final is not None or job.state is JobState.LOADING
        if self.say(job, self.store.pause(job.order.job_id), refused=refused):
            job.paused = True

    @precondition(lambda self: any(job.paused for job in self.model.jobs.values()))
    @rule(pick=picks)
    def resume(self, pick: int) -> None:
        job = one(sorted(self.jobs(), key=lambda job: not job.paused), pick)
        said = self.say(job, self.store.resume(job.order.job_id), refused=job.final is not None)
        if said:
            job.ending_due = 0.0
        if said and job.state is JobState.PAUSED and job.stopping is None:
            self.model.resume(job)

    @precondition(lambda self: self.commits >= COMMITS_PER_CANCEL and self.model.jobs)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        self.commits = 0
        job = one(self.jobs(), pick)
        said = self.say(job, self.store.cancel(job.order.job_id), refused=False)
        if said and job.final is None and job.stopping is None:
            job.stopping = StopReason.CANCELLED

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, policy=policies, only_limit=st.booleans(), expected=st.none() | policies)
    def change_policy(
        self, pick: int, policy: ExecutionPolicy, only_limit: bool, expected: ExecutionPolicy | None
    ) -> None:
        job = one(self.jobs(), pick)
        former = job.order.policy
        if only_limit:
            policy, expected = former.with_concurrency(policy.throttling.max_concurrent_workers), former
        outdated = policy != former and expected not in (None, former)
        if self.say(job, self.store.change_policy(job.order.job_id, policy, expected), refused=outdated):
            self.model.change_policy(job, policy)

    @precondition(lambda self: any(job.final for job in self.model.jobs.values()))
    @rule(pick=picks, selection=selections, ago=st.sampled_from([None, None, 0.0, 5.0, 1e6]))
    def retry(self, pick: int, selection: RetrySelection, ago: float | None) -> None:
        job = one(sorted(self.jobs(), key=lambda job: job.final is None), pick)
        since = None if ago is None else self.clock.now() - ago
        selection = RetrySelection(
            failed=selection.failed, kinds=selection.kinds, not_run=selection.not_run,
            item_ids=selection.item_ids, since=since,
        )  # fmt: skip
        call = self.store.retry(job.order.job_id, selection)
        nothing_fits = not any(item.fits(selection) for item in job.items.values())
        if job.final is not None and not job.deleting and nothing_fits:
            with pytest.raises(BadInput):
                self.run(call)
        elif self.say(job, call, refused=job.final is None):
            self.model.retry(job, selection)

    @precondition(lambda self: any(job.items for job in self.model.jobs.values()))
    @rule(pick=picks, which=picks)
    def look_at_an_item(self, pick: int, which: int) -> None:
        job = one([job for job in self.jobs() if job.items], pick)
        item = one(list(job.items.values()), which)
        if not job.purged:
            check_earlier(item, self.run(self.store.item(job.order.job_id, item.item_id)))

    # -- deletion

    @precondition(lambda self: self.commits >= COMMITS_PER_WORD and self.model.jobs)
    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        self.commits = 0
        job = one(sorted(self.jobs(), key=lambda job: job.final is None), pick)
        if job.final is None and job.state is not JobState.LOADING:
            with pytest.raises(Conflict, match="cancel"):
                self.run(self.store.delete(job.order.job_id))
        else:
            assert self.run(self.store.delete(job.order.job_id)).deleting
            job.deleting = True

    @rule(pick=picks)
    def claim_deletion(self, pick: int) -> None:
        worker = one(self.workers, pick)
        deletable = {job.order.job_id: job for job in self.model.deletable()}
        lease = self.run(self.store.claim_deletion(worker))
        assert (lease is not None) == bool(deletable)
        if lease is not None:
            assert lease.items == ()
            deletable[lease.job.job_id].deleting = True
            self.model.hold(lease, deletes=True)

    @precondition(lambda self: any(job.final and job.order.policy.retention_days for job in self.jobs()))
    @rule(pick=picks, seconds=st.sampled_from([RETENTION_SECONDS / 2, RETENTION_SECONDS]))
    def retention_runs(self, pick: int, seconds: float) -> None:
        self.clock.advance(seconds)
        self.claim_deletion(pick)

    @precondition(lambda self: self.rights(deletes=True))
    @rule(pick=picks, limit=st.integers(1, 15), times=st.integers(1, 4))
    def purge(self, pick: int, limit: int, times: int) -> None:
        lease = one(self.rights(deletes=True), pick)
        job = self.model.jobs[lease.job_id]
        for _ in range(times):
            left = len(job.items) - job.purged
            assert self.run(self.store.purge(lease.lease, limit)) == left
            job.purged += min(left, limit)
            if not left:
                self.model.vanish(job)
                with pytest.raises(UnknownName):
                    self.run(self.store.status(lease.job_id))
                return

    @precondition(lambda self: any(lease.deletes for lease in self.model.lost))
    @rule(pick=picks)
    def purge_of_a_zombie(self, pick: int) -> None:
        lease = one([lease for lease in self.model.lost if lease.deletes], pick)
        with pytest.raises(LeaseLost):
            self.run(self.store.purge(lease.lease, 5))
