"""The whole store driven at random (property 45): a Hypothesis state machine that any back end can be put under.

Several workers load, claim, commit, repeat themselves, fall silent, die and come back as zombies, while clocks jump and
jobs are cancelled. After each step the store must agree with model.py; at the end every job is brought to its end (Z1).
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from swath.domain.attempt import Ended
from swath.domain.errors import LeaseLost
from swath.domain.job import final_state
from swath.domain.lease import Directive, Report
from swath.domain.transitions import ItemState, JobState
from swath.testing.contracts.machine_accept import AcceptRules
from swath.testing.contracts.machine_base import LEASE_SECONDS, one, picks
from swath.testing.contracts.model_records import ModelJob, ModelLease
from swath.testing.contracts.orders import success
from swath.testing.contracts.worker import Shift, commit, shifts

__all__ = ["StoreMachine"]

COMMITS_PER_CANCEL = 10  # or most runs would only show cancelled jobs


class StoreMachine(AcceptRules):  # deeper than our habit, because Hypothesis collects the steps from the class
    """A back end's own machine inherits this and makes its store; then `run_state_machine_as_test` runs it."""

    # -- dispatch and execute

    @rule(pick=picks)
    def claim(self, pick: int) -> None:
        worker, boot = one(self.workers, pick), self.clock.boot()
        expected = self.model.next_job(worker, boot)
        lease = self.run(self.store.claim(worker))
        assert (lease and lease.job) == (expected and expected.order), "the wrong job, or none, was handed out"
        if lease is not None:
            assert lease.items
            assert lease.worker_id == worker
            self.model.hold(lease, boot)

    @precondition(lambda self: self.leases(ending=False))
    @rule(pick=picks, shift=shifts)
    def commit(self, pick: int, shift: Shift) -> None:
        """Also by a worker that is dead by now: what it had sent may still arrive."""
        lease = one(self.leases(ending=False), pick)
        self.run(commit(self.store, self.clock, self.model, lease, shift))
        self.commits += 1

    @rule(pick=picks, work=st.lists(st.tuples(picks, shifts), min_size=1, max_size=4))
    def claim_and_commit(self, pick: int, work: list[tuple[int, Shift]]) -> None:
        """Several steps in one, because few runs would come so far by chance."""
        self.claim(pick)
        for lease, shift in work:
            if self.leases(ending=False):
                self.commit(lease, shift)

    @precondition(lambda self: self.model.lost)
    @rule(pick=picks)
    def commit_of_a_zombie(self, pick: int) -> None:
        lease = one(self.model.lost, pick)
        report = Report(ceiling=4, demand=4, begun=lease.seqs)
        grant = self.run(self.store.finish(lease.lease, [success(seq) for seq in lease.seqs], [], report))
        assert (grant.directive, grant.slots, grant.accepted) == (Directive.LOST, 0, frozenset())

    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        worker, boot = one(self.workers, pick), self.clock.boot()
        answers = self.run(self.store.renew(worker, [*self.model.leases, self.model.last_fence + 7]))
        assert answers[self.model.last_fence + 7] is Directive.LOST
        for fence, lease in self.model.leases.items():
            if lease.owner != worker or lease.rescued:
                assert answers[fence] is Directive.LOST
                continue
            stop = self.model.jobs[lease.job_id].cancelling and not lease.ending
            assert answers[fence] is (Directive.STOP if stop else Directive.GO_ON)
            lease.expires = boot + LEASE_SECONDS

    @precondition(lambda self: self.leases(ending=False))
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        lease = one(self.leases(ending=False), pick)
        self.run(self.store.release(lease.owner, lease.fence))
        self.model.let_go(lease)

    # -- trouble

    @rule(pick=picks)
    def crash(self, pick: int) -> None:
        worker = one(self.workers, pick)
        self.workers.remove(worker)
        self.hired += 1
        self.workers.append(f"w{self.hired}")
        if any(lease.owner == worker for lease in self.model.leases.values()):
            self.kill(worker)
            self.model.dead.add(worker)

    @rule(seconds=st.sampled_from([0.25, 4.0, LEASE_SECONDS - 0.25, LEASE_SECONDS, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3_600.0, 3_600.0]))
    def jump_of_the_wall_clock(self, seconds: float) -> None:
        self.clock.jump_wall(seconds)

    @rule(pick=picks)
    def rescue(self, pick: int) -> None:
        worker, boot = one(self.workers, pick), self.clock.boot()
        overdue = self.model.overdue(boot)
        rescued = {found.fence: found for found in self.run(self.store.rescue(worker))}
        assert set(rescued) == overdue
        for fence, found in rescued.items():
            lease = self.model.leases[fence]
            assert (found.job_id, found.worker_id) == (lease.job_id, lease.owner)
            assert set(found.winners) == self.model.winners(lease)
            assert len(found.winners) == len(set(found.winners))
            assert found.returned == self.model.take_away(lease, worker, boot)

    @precondition(lambda self: self.rescued())
    @rule(pick=picks)
    def clean_up(self, pick: int) -> None:
        lease = one(self.rescued(), pick)
        self.run(self.store.release(lease.owner, lease.fence))
        self.model.let_go(lease)

    @precondition(lambda self: self.leases(ending=False))
    @rule(pick=picks, dies=st.booleans())
    def lose_a_lease(self, pick: int, dies: bool) -> None:
        """Several steps in one: a worker dies or falls silent, is rescued, and comes back as a zombie."""
        worker = one(self.leases(ending=False), pick).owner
        if dies and worker in self.workers:
            self.crash(self.workers.index(worker))
        else:
            self.pass_time(LEASE_SECONDS)
        self.rescue(pick)
        self.commit_of_a_zombie(len(self.model.lost) - 1)
        self.claim_ending(pick)

    # -- finish

    @precondition(lambda self: self.commits >= COMMITS_PER_CANCEL)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        self.commits = 0
        job = one(list(self.model.jobs.values()), pick)
        job.cancelling = job.cancelling or job.final is None
        assert self.run(self.store.cancel(job.order.job_id)).cancelling == job.cancelling

    @rule(pick=picks)
    def claim_ending(self, pick: int) -> None:
        worker, boot = one(self.workers, pick), self.clock.boot()
        endable = {job.order.job_id: job for job in self.model.endable()}
        lease = self.run(self.store.claim_ending(worker))
        assert (lease is not None) == bool(endable)
        if lease is not None:
            assert lease.items == ()
            assert lease.cancelling == endable[lease.job.job_id].cancelling
            self.model.hold(lease, boot)

    @precondition(lambda self: self.leases(ending=True))
    @rule(pick=picks, limit=st.integers(1, 5))
    def sweep(self, pick: int, limit: int) -> None:
        lease = one(self.leases(ending=True), pick)
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
            item.holder = lease.fence
            item.accept(lease.fence, Ended(seq=item.seq, state=ItemState.CANCELLED))

    @precondition(lambda self: self.leases(ending=True))
    @rule(pick=picks)
    def end(self, pick: int) -> None:
        lease = one(self.leases(ending=True), pick)
        job = self.model.jobs[lease.job_id]
        if job.open_items:
            with pytest.raises(ValueError, match="not ended"):
                self.run(self.store.end(lease.lease, JobState.CANCELLED, {}))
            return
        state = final_state(self.model.counts(job), cancelled=lease.lease.cancelling)
        assert self.run(self.store.end(lease.lease, state, {"by": lease.fence})).manifest == {"by": lease.fence}
        job.final = state
        del self.model.leases[lease.fence]
        self.model.lost.append(lease)

    @precondition(lambda self: self.model.endable())
    @rule(pick=picks, limit=st.integers(3, 9))
    def end_a_job(self, pick: int, limit: int) -> None:
        """Several steps in one."""
        self.claim_ending(pick)
        newest = len(self.leases(ending=True)) - 1
        for _ in range(4):
            self.sweep(newest, limit)
        self.end(newest)

    @precondition(lambda self: any(lease.ending for lease in self.model.lost))
    @rule(pick=picks)
    def end_of_a_zombie(self, pick: int) -> None:
        lease = one([lease for lease in self.model.lost if lease.ending], pick)
        with pytest.raises(LeaseLost):
            self.run(self.store.sweep(lease.lease, 5))
        with pytest.raises(LeaseLost):
            self.run(self.store.end(lease.lease, JobState.CANCELLED, {}))
