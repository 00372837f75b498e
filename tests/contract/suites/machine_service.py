"""State machine steps that the service takes: reads, and webhooks."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from swath.domain.item import ItemFilter
from swath.domain.transitions import JobState
from swath.domain.webhook import Delivery, record_delivery, reset_for_resend
from tests.contract.suites.job_store_find import every_filter, found
from tests.contract.suites.machine_base import one, picks
from tests.contract.suites.machine_failures import FailureRules
from tests.contract.suites.model_check import fits

__all__ = ["ServiceRules"]

HOLD_SECONDS = 30.0


class ServiceRules(FailureRules):
    """A part of StoreMachine."""

    @precondition(lambda self: any(job.items and not job.purged for job in self.jobs()))
    @rule(pick=picks, wanted=st.sampled_from(every_filter()), limit=st.integers(1, 9))
    def find_items(self, pick: int, wanted: ItemFilter, limit: int) -> None:
        job = one([job for job in self.jobs() if job.items and not job.purged], pick)
        fitting = [item.seq for item in job.items.values() if fits(self.model, job, item, wanted)]
        records = self.run(found(self.store, wanted, job.order.job_id, limit))
        assert [record.seq for record in records] == sorted(fitting)

    @rule(
        states=st.frozensets(st.sampled_from(list(JobState)), max_size=3),
        on_demand=st.booleans(),
        limit=st.integers(1, 3),
    )
    def list_jobs(self, states: frozenset[JobState], on_demand: bool, limit: int) -> None:
        fitting = [
            job
            for job in sorted(self.jobs(), key=lambda job: -job.number)
            if (not states or job.state in states) and (on_demand or not job.order.on_demand)
        ]
        listed = self.run(self.store.jobs(limit=limit, states=states, on_demand=on_demand))
        assert [status.job for status in listed] == [job.order for job in fitting[:limit]]

    @precondition(lambda self: self.model.outbox.words)
    @rule(limit=st.integers(1, 3), status=st.sampled_from([None, 200, 410, 500]))
    def send_webhooks(self, limit: int, status: int | None) -> None:
        """Whoever takes them may die before it can note how that went."""
        now = self.clock.now()
        taken = self.run(self.store.take_webhooks(HOLD_SECONDS, limit))
        self.model.outbox.take(taken, self.clock.boot(), HOLD_SECONDS, limit)
        for word in taken if status is not None else ():
            self.note(word.job_id, word.generation, Delivery(at=now, seconds=0.0, status=status))

    def note(self, job_id: str, generation: int, delivery: Delivery | None) -> None:
        """How a try went, or without one that a person wants it sent again."""
        known = self.model.outbox.words[job_id, generation]
        boot = self.clock.boot()
        note = reset_for_resend(known, boot) if delivery is None else record_delivery(known, delivery, boot)
        assert self.run(self.store.note_webhook(note))
        shown = {word.generation: word for word in self.run(self.store.webhooks(job_id))}
        self.model.outbox.note(known, shown[generation], note)
        assert not self.run(self.store.note_webhook(note)), "a note of the past was believed"

    @precondition(lambda self: self.model.outbox.words)
    @rule(pick=picks)
    def send_again(self, pick: int) -> None:
        self.note(*one(sorted(self.model.outbox.words), pick), None)

    @precondition(lambda self: self.model.outbox.words)
    @rule(pick=picks, ahead=st.integers(1, 3))
    def note_of_the_future(self, pick: int, ahead: int) -> None:
        known = self.model.outbox.words[one(sorted(self.model.outbox.words), pick)]
        wrong = msgspec.structs.replace(known, revision=known.revision + ahead, url="https://x.test/other")
        assert not self.run(self.store.note_webhook(wrong))
