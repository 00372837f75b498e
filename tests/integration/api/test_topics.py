"""The stream of all jobs (I2): a job that comes and ends between two readings is told like any other, and cheaply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.job import JobStatus, WaitingFor
from swath.entrypoints.api import events as topics
from swath.entrypoints.api.event_stream import JobEvent, Subscription
from swath.entrypoints.api.events import AllJobsTopic
from tests.contract.suites.builders import end_job, ready, run_all
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore

pytestmark = pytest.mark.req("I2")


class Jobs(MemoryStore):
    """Counts the jobs that are read of it, and may be away."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.read = 0
        self.away = False

    async def jobs(self, *words: Any, **options: Any) -> Any:
        if self.away:
            raise StoreUnavailable("it is away", WaitingFor.STORE)
        found = await super().jobs(*words, **options)
        self.read += len(found)
        return found

    async def come_and_end(self, job_ids: Iterable[str]) -> None:
        """All within this moment."""
        for job_id in job_ids:
            await ready(self, job_id, 1, created_at=self.clock.now())
            await run_all(self)
            await end_job(self, job_id=job_id)


async def as_it_is(status: JobStatus) -> JobStatus:
    return status


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MIN_READ_INTERVAL_SECONDS", 0.0)


@pytest.fixture
def store() -> Jobs:
    return Jobs(FakeClock())


async def opened(topic: AllJobsTopic, since: float | None = None) -> Subscription:
    watch = Subscription(most=AllJobsTopic.MOST)
    topic.watches.add(watch)
    await topic.show(watch, since)
    return watch


async def told(watch: Subscription) -> dict[str, JobEvent]:
    """The last event of each job that has waited for the reader, when nothing more comes."""
    found: dict[str, JobEvent] = {}
    while events := await watch.take(0.05):
        found.update((event.job_id, event) for event in events)
    return found


@pytest.mark.parametrize("many", [1, topics.NEWEST_JOBS + 5, 300])
async def test_what_came_and_ended_between_two_readings_is_told(store: Jobs, many: int) -> None:
    topic = AllJobsTopic(store, store.clock, as_it_is)
    watch = await opened(topic)
    for turn in range(3):
        store.clock.advance(1)
        names = [f"job-{turn}-{n}" for n in range(many)]
        await store.come_and_end(names)
        topic.changed(None)
        events = await told(watch)
        assert set(events) == set(names)
        assert all(event.last for event in events.values())


async def test_names_are_kept_beside_the_word_that_any_job_may_have_changed(store: Jobs) -> None:
    """An old job that somebody retried here, and that has ended again, is none of the newest."""
    await store.come_and_end(["old"])
    store.clock.advance(3_600)
    await store.come_and_end([f"job-{n}" for n in range(2 * topics.NEWEST_JOBS)])
    store.clock.advance(3_600)
    topic = AllJobsTopic(store, store.clock, as_it_is)
    watch = await opened(topic)
    topic.changed(["old"])
    topic.changed(None)
    assert set(await told(watch)) == {"old"}


async def test_what_had_ended_before_a_stream_began_is_not_told(store: Jobs) -> None:
    await store.come_and_end(["long ago"])
    store.clock.advance(3_600)
    await store.come_and_end(["just now"])
    store.clock.advance(1)
    topic = AllJobsTopic(store, store.clock, as_it_is)
    watch = await opened(topic)
    topic.changed(None)
    assert await told(watch) == {}


async def test_a_second_reader_takes_nothing_from_the_first(store: Jobs) -> None:
    """The end is shown to the one who comes back, before the one who was there has heard of it."""
    topic = AllJobsTopic(store, store.clock, as_it_is)
    first = await opened(topic)
    before = store.clock.now()
    store.clock.advance(1)
    await store.come_and_end(["a"])
    second = await opened(topic, before)
    topic.changed(None)
    assert set(await told(first)) == set(await told(second)) == {"a"}


async def test_nothing_is_lost_while_the_store_is_away(store: Jobs) -> None:
    topic = AllJobsTopic(store, store.clock, as_it_is)
    watch = await opened(topic)
    await store.come_and_end(["a"])
    store.away = True
    topic.changed(None)
    assert await told(watch) == {}
    store.clock.advance(3_600)
    store.away = False
    await asyncio.sleep(0.05)
    assert set(await told(watch)) == {"a"}


async def test_a_reading_looks_at_few_of_many_jobs(store: Jobs) -> None:
    await store.come_and_end([f"old-{n}" for n in range(500)])
    store.clock.advance(3_600)
    topic = AllJobsTopic(store, store.clock, as_it_is)
    watch = await opened(topic)
    store.clock.advance(1)
    await store.come_and_end(["new"])
    before = store.read
    topic.changed(None)
    assert set(await told(watch)) == {"new"}
    assert store.read - before <= topics.NEWEST_JOBS
