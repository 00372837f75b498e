"""The contract of the WebhookOutbox port, with what Endings promises of webhooks."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.item import RetrySelection
from swath.domain.transitions import JobState
from swath.domain.webhook import Delivery, Webhook, WebhookState, record_delivery, reset_for_resend
from tests.contract.suites.builders import Kill, Store, batch, end_job, new_job, ready, run_all, webhook
from tests.support.clock import FakeClock

__all__ = ["WebhookOutboxContract"]

HOLD_SECONDS = 30.0


async def ended(store: Store, job_id: str = "job", due_at: float | None = 0.0) -> Webhook:
    """A job that is over, and the word of it."""
    await ready(store, job_id)
    await run_all(store)
    word = webhook(job_id, due_at=due_at)
    await end_job(store, job_id=job_id, webhook=word)
    return word


async def deleted(store: Store, job_id: str = "job") -> None:
    """The job is gone."""
    await store.delete(job_id)
    right = await store.claim_deletion("worker", job_id)
    assert right is not None
    while await store.purge(right, 10):
        pass


def answered(clock: FakeClock, status: int) -> Delivery:
    """A try that took no time."""
    return Delivery(at=clock.now(), seconds=0.0, status=status)


class WebhookOutboxContract:
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""

    async def test_a_webhook_is_there_with_the_end_of_its_job(self, store: Store) -> None:
        word = await ended(store)
        assert await store.webhooks("job") == [word]

    async def test_a_job_that_ends_without_a_webhook_has_none(self, store: Store) -> None:
        await ready(store)
        await run_all(store)
        await end_job(store)
        assert await store.webhooks("job") == []
        assert await store.take_webhooks(HOLD_SECONDS) == []

    async def test_a_webhook_comes_back_as_it_was(self, store: Store, clock: FakeClock) -> None:
        word = webhook(
            url="https://x.test/ä?q='; --",
            summary={"status": "failed", "ü\U0001f600": [1.5, None, {"": True}], "big": 2**60},
            state=WebhookState.GIVEN_UP,
            due_at=None,
            tries=3,
            deliveries=(Delivery(at=1.25, seconds=0.5, status=503), Delivery(at=2.5, seconds=10.0, error="no answer")),
        )
        await ready(store)
        await run_all(store)
        await end_job(store, webhook=word)
        assert await store.webhooks("job") == [word]
        clock.advance(1e6)
        assert await store.take_webhooks(HOLD_SECONDS) == [], "nothing of it is to be sent"

    async def test_an_end_that_is_refused_leaves_no_webhook(self, store: Store, kill: Kill) -> None:
        await ready(store, items=2)
        await store.cancel("job")
        lease = await store.claim_ending("worker")
        assert lease is not None
        with pytest.raises(ValueError, match="2 items"):
            await store.end(lease, JobState.CANCELLED, {}, webhook())
        await store.sweep(lease, 5)
        kill("worker")
        await store.rescue("other")
        with pytest.raises(LeaseLost):
            await store.end(lease, JobState.CANCELLED, {}, webhook())
        assert await store.webhooks("job") == []
        assert await store.take_webhooks(HOLD_SECONDS) == []

    @pytest.mark.req("Z1")
    async def test_nobody_ever_sees_a_job_ended_without_its_webhook(self, store: Store) -> None:
        """Property 43: whoever dies after the end finds it in the outbox."""
        names = [f"job-{number}" for number in range(6)]
        for name in names:
            await ready(store, name, items=1)
        await run_all(store)

        async def look(over: asyncio.Event) -> None:
            while not over.is_set():
                for status in await store.jobs():
                    told = not status.state.terminal or await store.webhooks(status.job.job_id)
                    assert told, f"{status.job.job_id} has ended and nobody would ever know"
                await asyncio.sleep(0)

        over = asyncio.Event()
        looking = asyncio.create_task(look(over))
        for name in names:
            await end_job(store, job_id=name, webhook=webhook(name))
        over.set()
        await looking

    async def test_an_unknown_job_has_no_webhooks_to_show(self, store: Store) -> None:
        with pytest.raises(UnknownName):
            await store.webhooks("job")

    async def test_what_is_due_is_handed_out_the_longest_due_first(self, store: Store, clock: FakeClock) -> None:
        now = clock.boot()
        for name, due_at in (("b", now - 1), ("late", now + 5), ("a", now - 9), ("c", now)):
            await ended(store, name, due_at)
        assert [word.job_id for word in await store.take_webhooks(HOLD_SECONDS, limit=2)] == ["a", "b"]
        assert [word.job_id for word in await store.take_webhooks(HOLD_SECONDS)] == ["c"]
        clock.advance(5)
        assert [word.job_id for word in await store.take_webhooks(HOLD_SECONDS)] == ["late"]

    async def test_who_takes_one_may_die_and_then_it_is_due_again(self, store: Store, clock: FakeClock) -> None:
        word = await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        assert (taken.webhook_id, taken.url, taken.summary) == (word.webhook_id, word.url, word.summary)
        assert (taken.state, taken.tries) == (WebhookState.PENDING, 0)
        assert [taken] == await store.webhooks("job")
        clock.advance(HOLD_SECONDS - 1)
        assert await store.take_webhooks(HOLD_SECONDS) == []
        clock.advance(1)
        assert [again.webhook_id for again in await store.take_webhooks(HOLD_SECONDS)] == [word.webhook_id]

    async def test_of_several_that_take_at_once_one_gets_it(self, store: Store) -> None:
        for name in "abcde":
            await ended(store, name)
        takes = await asyncio.gather(*(store.take_webhooks(HOLD_SECONDS, limit=2) for _ in range(6)))
        assert sorted(word.job_id for taken in takes for word in taken) == list("abcde")

    async def test_what_was_delivered_is_not_sent_again(self, store: Store, clock: FakeClock) -> None:
        await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        delivered = record_delivery(taken, answered(clock, 204), clock.boot())
        assert await store.note_webhook(delivered)
        clock.advance(10 * HOLD_SECONDS)
        assert await store.take_webhooks(HOLD_SECONDS) == []
        (kept,) = await store.webhooks("job")
        assert kept == msgspec.structs.replace(delivered, revision=kept.revision)
        assert kept.revision > taken.revision

    async def test_what_was_not_taken_is_due_again_by_the_schedule(self, store: Store, clock: FakeClock) -> None:
        await ended(store)
        for wait in (2.0, 4.0, 8.0):
            (taken,) = await store.take_webhooks(HOLD_SECONDS)
            assert await store.note_webhook(record_delivery(taken, answered(clock, 500), clock.boot()))
            clock.advance(wait - 0.5)
            assert await store.take_webhooks(HOLD_SECONDS) == []
            clock.advance(0.5)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        assert await store.note_webhook(record_delivery(taken, answered(clock, 500), clock.boot()))
        clock.advance(1e6)
        assert await store.take_webhooks(HOLD_SECONDS) == []
        (kept,) = await store.webhooks("job")
        assert (kept.state, kept.tries, len(kept.deliveries)) == (WebhookState.GIVEN_UP, 4, 4)

    @pytest.mark.req("N1", "Z10")
    @pytest.mark.parametrize("days", [-400, 400])
    async def test_a_jump_of_the_wall_clock_neither_delays_nor_repeats_one(
        self, store: Store, clock: FakeClock, days: float
    ) -> None:
        await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        clock.jump_wall(days * 86_400)
        assert await store.take_webhooks(HOLD_SECONDS) == [], "somebody is sending it"
        assert await store.note_webhook(record_delivery(taken, answered(clock, 500), clock.boot()))
        clock.jump_wall(-2 * days * 86_400)
        assert await store.take_webhooks(HOLD_SECONDS) == []
        clock.advance(2)
        (again,) = await store.take_webhooks(HOLD_SECONDS)
        clock.jump_wall(days * 86_400)
        clock.advance(HOLD_SECONDS)
        assert [one.webhook_id for one in await store.take_webhooks(HOLD_SECONDS)] == [again.webhook_id]

    async def test_a_person_has_one_sent_again(self, store: Store, clock: FakeClock) -> None:
        word = await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        assert await store.note_webhook(record_delivery(taken, answered(clock, 200), clock.boot()))
        (kept,) = await store.webhooks("job")
        assert await store.note_webhook(reset_for_resend(kept, clock.boot()))
        (again,) = await store.take_webhooks(HOLD_SECONDS)
        assert (again.webhook_id, again.tries, len(again.deliveries)) == (word.webhook_id, 0, 1)

    async def test_what_somebody_else_has_changed_since_is_not_overwritten(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ended(store)
        (first,) = await store.take_webhooks(HOLD_SECONDS)
        assert await store.note_webhook(record_delivery(first, answered(clock, 200), clock.boot()))
        before = await store.webhooks("job")
        assert not await store.note_webhook(record_delivery(first, answered(clock, 500), clock.boot()))
        assert not await store.note_webhook(msgspec.structs.replace(first, revision=first.revision + 7))
        assert await store.webhooks("job") == before

    async def test_who_was_too_slow_does_not_overwrite_whoever_took_it_next(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ended(store)
        (slow,) = await store.take_webhooks(HOLD_SECONDS)
        clock.advance(HOLD_SECONDS)
        (fast,) = await store.take_webhooks(HOLD_SECONDS)
        assert not await store.note_webhook(record_delivery(slow, answered(clock, 500), clock.boot()))
        assert await store.note_webhook(record_delivery(fast, answered(clock, 200), clock.boot()))
        assert [word.state for word in await store.webhooks("job")] == [WebhookState.DELIVERED]

    async def test_of_several_notes_at_once_one_counts(self, store: Store, clock: FakeClock) -> None:
        await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        notes = [record_delivery(taken, answered(clock, 500 + number), clock.boot()) for number in range(5)]
        answers = await asyncio.gather(*(store.note_webhook(note) for note in notes))
        assert answers.count(True) == 1
        (kept,) = await store.webhooks("job")
        assert kept.deliveries == notes[answers.index(True)].deliveries

    async def test_each_generation_has_its_own_the_oldest_first(self, store: Store) -> None:
        first = await ended(store)
        await store.retry("job", RetrySelection(since=0.0))
        assert await store.webhooks("job") == [first]
        await run_all(store)
        second = webhook(generation=2, due_at=1.0)
        await end_job(store, webhook=second)
        assert await store.webhooks("job") == [first, second]
        taken = await store.take_webhooks(HOLD_SECONDS)
        assert [word.webhook_id for word in taken] == [first.webhook_id, second.webhook_id]

    async def test_a_jobs_webhooks_go_with_it(self, store: Store, clock: FakeClock) -> None:
        await ended(store, "stays", due_at=None)
        await ended(store)
        (taken,) = await store.take_webhooks(HOLD_SECONDS)
        await deleted(store)
        clock.advance(HOLD_SECONDS)
        assert await store.take_webhooks(HOLD_SECONDS) == []
        assert not await store.note_webhook(record_delivery(taken, answered(clock, 200), clock.boot()))
        with pytest.raises(UnknownName):
            await store.webhooks("job")
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "a"))
        assert await store.webhooks("job") == []
        assert not await store.note_webhook(record_delivery(taken, answered(clock, 200), clock.boot()))
        assert len(await store.webhooks("stays")) == 1
