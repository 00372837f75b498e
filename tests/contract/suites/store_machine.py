"""The state machine of the whole store (property 45): drives a back end with random calls, and compares it with a
model.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from swath.domain.job import final_state
from swath.domain.lease import LeaseDirective
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import Webhook
from tests.contract.suites.builders import webhook
from tests.contract.suites.machine_base import LEASE_SECONDS, one, picks
from tests.contract.suites.machine_service import ServiceRules
from tests.contract.suites.model_check import counts
from tests.contract.suites.model_records import ModelJob, ModelLease
from tests.contract.suites.simulated_worker import PlannedOutcome, SimulatedWorker, WorkingLease, shifts

__all__ = ["StoreMachine"]

ALL_IS_WELL = WorkingLease(
    (), PlannedOutcome.SUCCESS, starts=0, sends=0, unready=0, shrinks=False, answer_lost=False, meddles=False
)


class StoreMachine(ServiceRules):  # deeper than our habit, because Hypothesis collects the steps from the class
    """A back end's own machine inherits this and makes its store; then `run_state_machine_as_test` runs it."""

    # -- dispatch and execute

    @rule(pick=picks)
    def claim(self, pick: int, job_id: str | None = None) -> None:
        worker = one(self.workers, pick)
        expected = self.model.next_job(worker, job_id)
        lease = self.run(self.store.claim(worker, job_id))
        assert (lease and lease.job) == (expected and expected.order), "the wrong job, or none, was handed out"
        if lease is not None:
            assert lease.items
            assert lease.worker_id == worker
            self.model.hold(lease)

    @precondition(lambda self: self.leases())
    @rule(pick=picks, shift=shifts)
    def commit(self, pick: int, shift: WorkingLease) -> None:
        """Also by a worker that is dead by now: what it had sent may still arrive."""
        lease = one(self.leases(), pick)
        self.run(SimulatedWorker(self.store, self.model, lease).commit(shift))
        self.commits += 1

    @rule(pick=picks, work=st.lists(st.tuples(picks, shifts), min_size=1, max_size=4))
    def claim_and_commit(self, pick: int, work: list[tuple[int, WorkingLease]]) -> None:
        """Several steps in one, because few runs would come so far by chance."""
        self.claim(pick)
        for lease, shift in work:
            if self.leases():
                self.commit(lease, shift)

    @precondition(lambda self: self.leases())
    @rule(pick=picks, starts=st.integers(0, 3), leaves=st.integers(0, 2))
    def run_without_a_commit(self, pick: int, starts: int, leaves: int) -> None:
        self.begin_and_leave(one(self.leases(), pick), starts, leaves)

    @precondition(lambda self: sum(job.may_start for job in self.model.jobs.values()) > 1)
    @rule(pick=picks, times=st.integers(2, 9))
    def take_turns(self, pick: int, times: int) -> None:
        """Several steps in one: every lease comes back as it was."""
        for _ in range(times):
            before = set(self.model.leases)
            self.claim(pick)
            for fence in set(self.model.leases) - before:
                self.run(self.store.release(self.model.leases[fence].owner, fence))
                self.model.let_go(self.model.leases[fence])

    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        worker = one(self.workers, pick)
        answers = self.run(self.store.renew(worker, [*self.model.leases, self.model.last_fence + 7]))
        assert answers[self.model.last_fence + 7] is LeaseDirective.LOST
        for fence, lease in self.model.leases.items():
            if lease.owner != worker or lease.rescued:
                assert answers[fence] is LeaseDirective.LOST
                continue
            stop = lease.runs and not self.model.may_begin(lease)
            assert answers[fence] is (LeaseDirective.STOP if stop else LeaseDirective.GO_ON)
            lease.expires = self.clock.boot() + LEASE_SECONDS

    @precondition(lambda self: any(not lease.rescued for lease in self.model.leases.values()))
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        lease = one([lease for lease in self.model.leases.values() if not lease.rescued], pick)
        self.run(self.store.release(lease.owner, lease.fence))
        self.model.let_go(lease)

    # -- finish

    @rule(pick=picks)
    def claim_ending(self, pick: int) -> None:
        worker = one(self.workers, pick)
        endable = {job.order.job_id: job for job in self.model.endable()}
        lease = self.run(self.store.claim_ending(worker))
        assert (lease is not None) == bool(endable)
        if lease is not None:
            assert lease.items == ()
            assert lease.stopping == endable[lease.job.job_id].stopping
            self.model.hold(lease)

    @precondition(lambda self: self.rights(deletes=False))
    @rule(pick=picks, limit=st.integers(1, 5))
    def sweep(self, pick: int, limit: int) -> None:
        lease = one(self.rights(deletes=False), pick)
        job = self.model.jobs[lease.job_id]
        left = len(job.open_items)
        assert self.run(self.store.sweep(lease.lease, limit)) == left
        self.adopt_swept(lease, job, min(limit, left))

    def adopt_swept(self, lease: ModelLease, job: ModelJob, swept: int) -> None:
        """Which items a sweep takes is the store's own affair; how many is not."""
        records = self.run(self.store.items(job.order.job_id))
        ended = {record.seq for record in records if record.state is ItemState.CANCELLED}
        new = [item for item in job.open_items if item.seq in ended]
        assert len(new) == swept
        for item in new:
            self.model.sweep(lease, item)

    @precondition(lambda self: self.rights(deletes=False))
    @rule(pick=picks, due_in=st.sampled_from([None, 0.0, 0.0, 20.0]))
    def end(self, pick: int, due_in: float | None) -> None:
        """Mostly with somebody to tell, in so many seconds."""
        lease = one(self.rights(deletes=False), pick)
        job = self.model.jobs[lease.job_id]
        if job.open_items:
            with pytest.raises(ValueError, match="not ended"):
                self.run(self.store.end(lease.lease, JobState.CANCELLED, {}, self.word_of(job, 0.0)))
            assert self.run(self.store.webhooks(lease.job_id)) == self.model.outbox.of(lease.job_id)
            return
        state, word = final_state(counts(job), lease.lease.stopping), self.word_of(job, due_in)
        status = self.run(self.store.end(lease.lease, state, {"by": lease.fence}, word))
        self.model.end(lease, state, word)
        assert (status.manifest, status.ended_at) == ({"by": lease.fence}, job.ended_at)

    def word_of(self, job: ModelJob, due_in: float | None) -> Webhook | None:
        """What is to be told of its end."""
        if due_in is None:
            return None
        return webhook(job.order.job_id, generation=job.generation, due_at=self.clock.boot() + due_in)

    @precondition(lambda self: self.model.endable())
    @rule(pick=picks, limit=st.integers(3, 9), due_in=st.sampled_from([None, 0.0, 20.0]))
    def end_a_job(self, pick: int, limit: int, due_in: float | None) -> None:
        """Several steps in one."""
        self.claim_ending(pick)
        newest = len(self.rights(deletes=False)) - 1
        if self.model.jobs[self.rights(deletes=False)[newest].job_id].open_items:
            self.end(newest, due_in)  # too early
        for _ in range(4):
            self.sweep(newest, limit)
        self.end(newest, due_in)

    @precondition(lambda self: any(job.may_start for job in self.model.jobs.values()))
    @rule(pick=picks, work=st.lists(shifts, max_size=3))
    def run_to_the_end(self, pick: int, work: list[WorkingLease]) -> None:
        """Several steps in one: everybody else has fallen silent, and one worker goes through a job."""
        job = one([job for job in self.jobs() if job.may_start], pick)
        self.pass_time(LEASE_SECONDS)
        self.rescue(0)
        while self.rescued():
            self.clean_up(0)
        for shift in (*work, *[ALL_IS_WELL] * 9):
            if self.model.next_job(self.workers[0], job.order.job_id) is None:
                break
            self.claim(0, job.order.job_id)
            newest = len(self.leases()) - 1
            self.commit(newest, shift)
            self.release(newest)
        if job in self.model.endable():
            self.end_a_job(0, 9, 0.0)
