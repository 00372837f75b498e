"""The frame of the store's state machine: its store, clock and model, what is checked after each step, and at the end.

The steps themselves are in machine_accept.py, machine_people.py, machine_trouble.py, machine_service.py and
store_machine.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from swath.domain.transitions import JobState
from swath.testing.clock import FakeClock
from swath.testing.contracts.drain import drain
from swath.testing.contracts.model import Model
from swath.testing.contracts.model_check import check
from swath.testing.contracts.model_records import ModelJob, ModelLease
from swath.testing.contracts.orders import Kill, Store

__all__ = ["LEASE_SECONDS", "MachineBase", "machine_settings", "one", "picks"]

T = TypeVar("T")

LEASE_SECONDS = 15.0
WORKERS = 3

picks = st.integers(0, 11)  # of whatever there is, modulo its number


def one(of: Sequence[T], pick: int) -> T:
    """The one that was picked."""
    return of[pick % len(of)]


def machine_settings(profile: str = "fast", examples: int = 60, steps: int = 60) -> settings:
    """`fast` takes the same steps in every run and shows a failure as it is found.

    `deep` searches fifty times as long and never the same way, and reduces a failure to the fewest steps.
    """
    deep = profile == "deep"
    return settings(
        max_examples=examples * 50 if deep else examples,
        stateful_step_count=100 if deep else steps,
        deadline=None,
        derandomize=not deep,
        phases=list(Phase) if deep else [Phase.generate],
        database=None,
        report_multiple_bugs=deep,  # else it goes on for a while after the first
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


class MachineBase(RuleBasedStateMachine):
    """What StoreMachine stands on."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.model = Model(LEASE_SECONDS, self.clock)
        self.workers = [f"w{n}" for n in range(WORKERS)]
        self.hired = WORKERS
        self.ordered = 0
        self.commits = 0  # since a person last had a say
        self.store, self.kill = self.make_store(self.clock)

    def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
        """An empty store whose leases last LEASE_SECONDS, and how to make one of its workers dead."""
        raise NotImplementedError

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # after a failed step the end would only fail again
                self.run(drain(self.store, self.clock, self.model))
                self.agree()
        finally:
            self.run(self.store.close())
            self.runner.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """One call to the store."""
        return self.runner.run(call)

    @invariant()
    def agree(self) -> None:
        """Store and model say the same, and no job has more slots or running items than its limit.

        After the limit was lowered it may have as many as it had, but never more.
        """
        self.run(self._agree())
        for job in self.model.jobs.values():
            slots = sum(share.ceiling for share in job.shares.values())
            assert slots <= max(job.limit, job.slots_before), "more slots than the limit allows"
            assert all(share.running <= share.ceiling for share in job.shares.values())
            job.slots_before = slots

    async def _agree(self) -> None:
        listed = await self.store.jobs()
        newest_first = sorted(self.model.jobs.values(), key=lambda job: -job.number)
        assert [status.job for status in listed] == [job.order for job in newest_first]
        for status in listed:
            job_id = status.job.job_id
            check(self.model, status, await self.store.items(job_id))
            if status.state.terminal or status.generation > 1:
                assert await self.store.webhooks(job_id) == self.model.outbox.of(job_id)

    def loading(self) -> list[ModelJob]:
        """Jobs whose load is not closed."""
        return [job for job in self.model.jobs.values() if job.state is JobState.LOADING]

    def jobs(self) -> list[ModelJob]:
        """All of them."""
        return list(self.model.jobs.values())

    def leases(self) -> list[ModelLease]:
        """Leases of items that have not been taken away."""
        return [lease for lease in self.model.leases.values() if lease.runs and not lease.rescued]

    def rights(self, *, deletes: bool) -> list[ModelLease]:
        """Rights to end or to delete a job that have not been taken away."""
        rights = [lease for lease in self.model.leases.values() if not lease.runs and not lease.rescued]
        return [lease for lease in rights if lease.deletes == deletes]

    def rescued(self) -> list[ModelLease]:
        """Leases that somebody is to clean up."""
        return [lease for lease in self.model.leases.values() if lease.rescued]
