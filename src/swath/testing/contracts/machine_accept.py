"""The steps of the store's state machine that order and load jobs: once, again, wrongly, and given up half-way.

The other steps are in store_machine.py, the frame in machine_base.py.
"""

from __future__ import annotations

from enum import Enum

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.transitions import JobState
from swath.ports.job_store import Batch
from swath.testing.contracts.machine_base import MachineBase, one, picks
from swath.testing.contracts.model_records import ModelJob
from swath.testing.contracts.orders import batch, order

__all__ = ["AcceptRules"]

JOBS = 3
SMALL = [str(n) for n in range(12)]  # few ids, so that many come twice

rows = st.lists(st.sampled_from([*SMALL, None]), min_size=1, max_size=8)  # None: a row that was refused


class Close(Enum):
    """How a load comes to its end."""

    RIGHT = "right"
    TOO_MANY = "a batch too many"
    TOO_FEW = "a batch too few"
    ABANDON = "abandoned"


closes = st.sampled_from([Close.RIGHT, Close.RIGHT, *Close])


class AcceptRules(MachineBase):
    """A part of StoreMachine."""

    @initialize(limit=st.integers(1, 5), items=st.integers(1, 40))
    def begin_with_a_job(self, limit: int, items: int) -> None:
        self.submit(limit, 0)
        self.load(0, [str(n) for n in range(items)])
        self.close_the_load(0, Close.RIGHT)

    @precondition(lambda self: len(self.model.jobs) < JOBS)
    @rule(limit=st.integers(1, 4), priority=st.integers(0, 1))
    def submit(self, limit: int, priority: int) -> None:
        self.ordered += 1
        job = order(f"job-{self.ordered}", limit=limit, priority=priority)
        assert self.run(self.store.submit(job)).state is JobState.LOADING
        self.model.jobs[job.job_id] = ModelJob(job, self.ordered)

    @precondition(lambda self: self.loading())
    @rule(pick=picks, content=rows)
    def load(self, pick: int, content: list[str | None]) -> None:
        job = one(self.loading(), pick)
        first_row = job.rows + 1
        by_row = {row: item_id for row, item_id in enumerate(content, first_row) if item_id is not None}
        new = batch(len(job.batches), first_row, by_row, rows=len(content))
        if job.cancelling:
            with pytest.raises(Conflict):
                self.run(self.store.load(job.order.job_id, new))
        else:
            assert self.run(self.store.load(job.order.job_id, new)) == job.add(new)

    @rule(pick=picks, which=picks, row=picks)
    def say_it_again(self, pick: int, which: int, row: int) -> None:
        """A load was killed, or the same command is run again: what came before answers as it did."""
        job = one(list(self.model.jobs.values()), pick)
        later = msgspec.structs.replace(job.order, created_at=self.clock.now())
        assert self.run(self.store.submit(later)).state is job.state
        with pytest.raises(Conflict):
            self.run(self.store.submit(msgspec.structs.replace(later, scraper_id="other")))
        for before, loaded in job.batches:
            assert self.run(self.store.load(job.order.job_id, before)) == loaded
        if job.batches:
            self.load_other_content(job, one(job.batches, which)[0], row)

    def load_other_content(self, job: ModelJob, before: Batch, row: int) -> None:
        """One row was changed since."""
        changed = one(before.items or [None], row)
        items = [msgspec.structs.replace(i, item_id="other") if i is changed else i for i in before.items]
        other = msgspec.structs.replace(before, digest="other", items=tuple(items))
        differs = r"differ" if changed is None else rf"\brow {changed.seq} differs"
        with pytest.raises(Conflict, match=differs):
            self.run(self.store.load(job.order.job_id, other))

    @precondition(lambda self: self.loading())
    @rule(pick=picks, how=closes)
    def close_the_load(self, pick: int, how: Close) -> None:
        job = one(self.loading(), pick)
        if how is Close.ABANDON:
            self.abandon(job)
            return
        wrong = {Close.RIGHT: 0, Close.TOO_MANY: 1, Close.TOO_FEW: -1}[how]
        call = self.store.seal(job.order.job_id, len(job.batches) + wrong)
        if wrong or not job.items:
            with pytest.raises(Conflict if wrong else BadInput):
                self.run(call)
        else:
            assert self.run(call).state is JobState.PENDING
            job.sealed = True

    def abandon(self, job: ModelJob) -> None:
        """The job vanishes, with the right to end it if somebody had that."""
        self.run(self.store.abandon(job.order.job_id))
        for lease in self.model.leases_of(job):
            self.model.lost.append(self.model.leases.pop(lease.fence))
        del self.model.jobs[job.order.job_id]
        with pytest.raises(UnknownName):
            self.run(self.store.status(job.order.job_id))
