"""State machine steps that go wrong: worker deaths, silence, clock jumps, stale workers, poison."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from swath.domain.errors import LeaseLost
from swath.domain.lease import POISON_CRASHES, LeaseDirective, SlotReport
from swath.domain.transitions import JobState
from tests.contract.suites.builders import success
from tests.contract.suites.machine_base import LEASE_SECONDS, one, picks
from tests.contract.suites.machine_users import UserRules
from tests.contract.suites.model_records import ModelJob, ModelLease
from tests.contract.suites.simulated_worker import PlannedOutcome, SimulatedWorker, WorkingLease

__all__ = ["FailureRules"]

NOTHING_ENDS = WorkingLease(
    (), PlannedOutcome.GOES_ON, starts=1, sends=9, unready=0, shrinks=False, answer_lost=False, meddles=False
)


class FailureRules(UserRules):
    """A part of StoreMachine."""

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
        worker = one(self.workers, pick)
        overdue = self.model.overdue()
        rescued = {found.fence: found for found in self.run(self.store.rescue(worker))}
        assert set(rescued) == overdue
        for fence, found in rescued.items():
            lease = self.model.leases[fence]
            assert (found.job_id, found.worker_id) == (lease.job_id, lease.owner)
            assert set(found.winners) == self.model.winners(lease)
            assert len(found.winners) == len(set(found.winners))
            assert found.returned == self.model.take_away(lease, worker)

    @precondition(lambda self: self.rescued())
    @rule(pick=picks)
    def clean_up(self, pick: int) -> None:
        lease = one(self.rescued(), pick)
        self.run(self.store.release(lease.owner, lease.fence))
        self.model.let_go(lease)

    @precondition(lambda self: self.leases())
    @rule(pick=picks, starts=st.integers(0, 3), leaves=st.integers(0, 2), dies=st.booleans())
    def lose_a_lease(self, pick: int, starts: int, leaves: int, dies: bool) -> None:
        """Several steps in one: a worker dies or falls silent, is rescued, and comes back as a zombie."""
        lease = one(self.leases(), pick)
        worker = lease.owner
        self.begin_and_leave(lease, starts, leaves)
        if dies and worker in self.workers:
            self.crash(self.workers.index(worker))
        else:
            self.pass_time(LEASE_SECONDS)
        self.rescue(pick)
        self.commit_of_a_zombie(len(self.model.lost) - 1)

    def begin_and_leave(self, lease: ModelLease, starts: int, leaves: int) -> None:
        """What happens between two commits, and only the notes know."""
        worker = SimulatedWorker(self.store, self.model, lease)
        worker.begin_some(starts)
        for seq in sorted(lease.running)[:leaves]:
            worker.leave(seq)

    @precondition(lambda self: self.suspected())
    @rule(
        pick=picks,
        deaths=st.integers(1, POISON_CRASHES + 1),
        known=st.sampled_from([True, True, True, False]),
        silent=st.sampled_from([False, False, False, True]),
    )
    def a_suspect_kills_again(self, pick: int, deaths: int, known: bool, silent: bool) -> None:
        """Several steps in one, because nothing short of this comes so far by chance. A silent worker may be alive."""
        for _ in range(deaths):
            if not self.suspected():
                return
            job_id = one(self.suspected(), pick).order.job_id
            worker = self.workers[0]
            lease = self.run(self.store.claim(worker, job_id))
            assert (lease is None) == (self.model.next_job(worker, job_id) is None)
            if lease is None:
                return
            self.begin_alone(SimulatedWorker(self.store, self.model, self.model.hold(lease)), known=known)
            if silent:
                self.pass_time(LEASE_SECONDS)
            else:
                self.crash(0)
            self.rescue(0)
            while self.rescued():
                self.clean_up(0)

    def begin_alone(self, worker: SimulatedWorker, *, known: bool) -> None:
        """As a worker does with a suspect; it may die before anybody knows that it has begun."""
        worker.begin(worker.lease, worker.lease.seqs[0])
        if known and worker.share.ceiling:
            self.run(worker.commit(NOTHING_ENDS))

    def suspected(self) -> list[ModelJob]:
        """Jobs that could hand out a suspect now."""
        return [job for job in self.jobs() if job.may_start and job.suspects(self.clock.boot())]

    @precondition(lambda self: self.model.lost)
    @rule(pick=picks)
    def commit_of_a_zombie(self, pick: int) -> None:
        lease = one(self.model.lost, pick)
        report = SlotReport(ceiling=4, demand=4, begun=lease.seqs)
        grant = self.run(self.store.finish(lease.lease, [success(seq) for seq in lease.seqs], [], report))
        assert (grant.directive, grant.slots, grant.accepted) == (LeaseDirective.LOST, 0, frozenset())

    @precondition(lambda self: any(lease.ends for lease in self.model.lost))
    @rule(pick=picks)
    def end_of_a_zombie(self, pick: int) -> None:
        lease = one([lease for lease in self.model.lost if lease.ends], pick)
        with pytest.raises(LeaseLost):
            self.run(self.store.sweep(lease.lease, 5))
        with pytest.raises(LeaseLost):
            self.run(self.store.end(lease.lease, JobState.CANCELLED, {}))
