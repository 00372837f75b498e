"""State machine steps that create and load jobs: once, again, wrongly, and abandoned half-way."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.transitions import JobState
from swath.ports.job_store import ItemBatch
from tests.contract.suites.builders import CALM, batch, new_job, policy
from tests.contract.suites.machine_base import MachineBase, one, picks
from tests.contract.suites.model_records import ModelJob

__all__ = ["LoadRules", "policies"]

JOBS = 3
RETENTION_DAYS = 0.5
SMALL = [str(n) for n in range(12)]  # few ids, so that many come twice

rows = st.lists(st.sampled_from([*SMALL, None]), min_size=1, max_size=8)  # None: a row that was refused


class Close(Enum):
    """How a load comes to its end."""

    RIGHT = "right"
    TOO_MANY = "a batch too many"
    TOO_FEW = "a batch too few"
    ABANDON = "abandoned"


BREAKERS: list[dict[str, Any]] = [
    CALM,
    CALM,
    CALM,
    {"min_requests": 3, "failure_threshold_percentage": 0.6},
    {"min_requests": 5, "max_not_found_percentage": 0.5, "on_open": "pause"},
    {"min_requests": 8, "failure_threshold_percentage": 1, "consecutive_failures": 2, "on_open": "pause"},
    {"min_requests": 6, "consecutive_failures": 3},
]

policies = st.builds(
    policy,
    limit=st.integers(1, 5),
    breaker=st.sampled_from(BREAKERS),
    retention_days=st.sampled_from([None, None, RETENTION_DAYS]),
)

closes = st.sampled_from([Close.RIGHT, Close.RIGHT, *Close])


class LoadRules(MachineBase):
    """A part of StoreMachine."""

    def free_name(self) -> str:
        """The id of no job, or of one that is gone."""
        return next(name for n in range(JOBS) if (name := f"job-{n}") not in self.model.jobs)

    @initialize(policy=policies, items=st.integers(1, 40))
    def begin_with_a_job(self, policy: ExecutionPolicy, items: int) -> None:
        self.submit(policy, 0, [str(n) for n in range(items)])

    @precondition(lambda self: len(self.model.jobs) < JOBS)
    @rule(policy=policies, priority=st.integers(0, 1), content=st.one_of(st.just([]), rows, rows))
    def submit(self, policy: ExecutionPolicy, priority: int, content: list[str | None]) -> None:
        """Also under the id of a job that is gone, and mostly with all that it needs."""
        self.ordered += 1
        job_id = self.free_name()
        job = new_job(job_id, policy=policy, priority=priority)
        assert self.run(self.store.submit(job)).state is JobState.LOADING
        self.model.jobs[job_id] = ModelJob(job, self.ordered, job)
        if any(content):
            newest = self.loading().index(self.model.jobs[job_id])
            self.load(newest, content)
            self.close_the_load(newest, Close.RIGHT)

    @precondition(lambda self: len(self.model.jobs) < JOBS)
    @rule(policy=policies, ids=st.lists(st.sampled_from(SMALL), min_size=1, max_size=6), on_demand=st.booleans())
    def order_whole(self, policy: ExecutionPolicy, ids: list[str], on_demand: bool) -> None:
        """There with all its items, or not at all."""
        job_id = self.free_name()
        job, whole = new_job(job_id, policy=policy, priority=int(on_demand), on_demand=on_demand), batch(0, 1, ids)
        if len(set(ids)) < len(ids):
            with pytest.raises(Conflict):
                self.run(self.store.order(job, whole))
            return
        self.ordered += 1
        assert self.run(self.store.order(job, whole)).state is JobState.PENDING
        made = self.model.jobs[job_id] = ModelJob(job, self.ordered, job)
        made.add(whole)
        made.sealed, made.served = True, self.model.granted

    @precondition(lambda self: any(job.sealed and len(job.batches) == 1 for job in self.jobs()))
    @rule(pick=picks)
    def order_again(self, pick: int) -> None:
        """Answered as it stands, if every row of it was an item."""
        job = one([job for job in self.jobs() if job.sealed and len(job.batches) == 1], pick)
        whole, loaded = job.batches[0]
        if job.deleting or loaded.duplicates:
            with pytest.raises(Conflict):
                self.run(self.store.order(job.first_order, whole))
        else:
            assert self.run(self.store.order(job.first_order, whole)).state is job.state
        other = msgspec.structs.replace(whole, digest="other")
        with pytest.raises(Conflict):
            self.run(self.store.order(job.first_order, other))

    @precondition(lambda self: self.loading())
    @rule(pick=picks, content=rows)
    def load(self, pick: int, content: list[str | None]) -> None:
        job = one(self.loading(), pick)
        first_row = job.rows + 1
        by_row = {row: item_id for row, item_id in enumerate(content, first_row) if item_id is not None}
        new = batch(len(job.batches), first_row, by_row, rows=len(content))
        if job.stopping or job.deleting:
            with pytest.raises(Conflict):
                self.run(self.store.load(job.order.job_id, new))
        else:
            assert self.run(self.store.load(job.order.job_id, new)) == job.add(new)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, which=picks, row=picks)
    def say_it_again(self, pick: int, which: int, row: int) -> None:
        """A load was killed, or the same command is run again: what came before answers as it did."""
        job = one(self.jobs(), pick)
        later = msgspec.structs.replace(job.first_order, created_at=self.clock.now())
        if job.deleting:
            with pytest.raises(Conflict):
                self.run(self.store.submit(later))
            return
        assert self.run(self.store.submit(later)).state is job.state
        with pytest.raises(Conflict):
            self.run(self.store.submit(msgspec.structs.replace(later, scraper_id="other")))
        for before, loaded in job.batches:
            assert self.run(self.store.load(job.order.job_id, before)) == loaded
        if job.batches:
            self.load_other_content(job, one(job.batches, which)[0], row)

    def load_other_content(self, job: ModelJob, before: ItemBatch, row: int) -> None:
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
        if wrong or job.deleting or not job.items:
            with pytest.raises(Conflict if wrong or job.deleting else BadInput):
                self.run(call)
        else:
            assert self.run(call).state is JobState.PENDING
            job.sealed, job.served = True, self.model.granted

    def abandon(self, job: ModelJob) -> None:
        """The job vanishes, with the right to end or delete it if somebody had that."""
        self.run(self.store.abandon(job.order.job_id))
        self.model.vanish(job)
        with pytest.raises(UnknownName):
            self.run(self.store.status(job.order.job_id))
