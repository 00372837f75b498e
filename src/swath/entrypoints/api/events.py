"""Distributes changes of jobs to event streams and to scrapes that wait for their end.

One subscription to the store serves the whole controller. Each job that is watched is read at most five times a
second,
and once more after its last change. A slow stream skips intermediate statuses and never the last one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import ClassVar, Final

from swath.domain.errors import StoreUnavailable, SwathError, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.api.event_stream import JobEvent, Subscription, gone_event, status_event
from swath.ports.clock import Clock
from swath.ports.job_store import ChangeFeed, JobStore

__all__ = ["CLOCK_SKEW_SECONDS", "MIN_READ_INTERVAL_SECONDS", "AllJobsTopic", "EventHub", "ExplainStatus", "JobTopic"]

MIN_READ_INTERVAL_SECONDS: Final = 0.2  # between two readings of one topic
CLOCK_SKEW_SECONDS: Final = 5.0  # that the clock of another process may be behind
NEWEST_JOBS: Final = 20  # of the newest jobs: as a rule those that have come between two readings are among them
UNFINISHED_STATES: Final = tuple(state for state in JobState if not state.terminal)

_log = logging.getLogger("swath.hub")

ExplainStatus = Callable[[JobStatus], Awaitable[JobStatus]]
"""Adds to a status why its job waits, where the store does not know that."""


class _Topic(ABC):
    """Reads when something has changed, but not too often. `watches` are the streams about it."""

    def __init__(self) -> None:
        self.watches: set[Subscription] = set()
        self._dirty = False
        self._telling: asyncio.Task[None] | None = None

    def changed(self, jobs: Collection[str] | None) -> None:
        """Something may have changed: these jobs, or any."""
        if self.watches:
            self._dirty = True
            self._note(jobs)
            if self._telling is None:
                self._telling = asyncio.create_task(self._tell())

    def close(self) -> None:
        """Reads no more."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        try:
            while self._dirty and self.watches:
                self._dirty = False
                try:
                    await self._read()
                except (StoreUnavailable, SwathError) as error:
                    self._dirty = isinstance(error, StoreUnavailable)
                    _log.info("a stream is behind: %s", error)
                await asyncio.sleep(MIN_READ_INTERVAL_SECONDS)
        except Exception:  # noqa: BLE001 one row that cannot be read must not end the streams of others
            _log.exception("a stream was not told")
        finally:
            self._telling = None

    @abstractmethod
    def _note(self, jobs: Collection[str] | None) -> None:
        """Remembers what has to be read again."""

    @abstractmethod
    async def _read(self) -> None:
        """Reads it, and tells the streams what has changed."""


class JobTopic(_Topic):
    """A job; its streams end when it does, or when it is gone."""

    def __init__(self, job_id: str, look: Callable[[str], Awaitable[JobStatus]]) -> None:
        super().__init__()
        self._job_id = job_id
        self._look = look

    def _note(self, jobs: Collection[str] | None) -> None:
        """There is only one."""

    async def _read(self) -> None:
        try:
            event = status_event(await self._look(self._job_id))
        except UnknownName:
            event = gone_event(self._job_id)
        for watch in self.watches:
            watch.put(event)
            if event.last:
                watch.end()


class AllJobsTopic(_Topic):
    """Jobs that have not ended, until they have; scrapes on demand are not among them."""

    MOST: ClassVar[int] = 1_000  # jobs that are followed at once, the newest

    def __init__(self, store: JobStore, clock: Clock, explain: ExplainStatus) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._explain = explain
        self._active: set[str] = set()
        self._told: dict[str, str] = {}  # job by job, the id of the last event
        self._named: set[str] = set()  # these have changed since the last reading
        self._any = False  # and so may have any other
        self._read_at = 0.0  # when all jobs were read last, in Unix seconds

    async def show(self, watch: Subscription, since: float | None) -> None:
        """Tells a new stream what there is: jobs that have not ended, and those that have since (Unix seconds)."""
        now, alone = self._clock.now(), len(self.watches) == 1
        if alone:
            self._read_at = now
        from_at, look_at = (now, NEWEST_JOBS) if since is None else (since, self.MOST)
        for status in await self._listed(min(from_at, now - CLOCK_SKEW_SECONDS), look_at):
            event = status_event(await self._explain(status))
            if not event.last or (status.ended_at or 0.0) >= from_at:
                watch.put(event)
            if alone:  # others may not have heard of it yet
                self._keep(event)

    def _note(self, jobs: Collection[str] | None) -> None:
        self._any = self._any or jobs is None
        self._named.update(jobs or ())

    async def _read(self) -> None:
        named, self._named, everything, self._any = self._named, set(), self._any, False
        now = self._clock.now()
        try:
            statuses = await self._changed(named, everything=everything)
        except StoreUnavailable:  # it is read again
            self._named |= named
            self._any |= everything
            raise
        if everything:
            self._read_at = now
        for status in statuses:
            if not status.job.on_demand:
                self._tell_of(await self._explain(status))

    async def _changed(self, named: Collection[str], *, everything: bool) -> list[JobStatus]:
        wanted, statuses = set(named), list[JobStatus]()
        if everything:
            statuses = await self._listed(self._read_at - CLOCK_SKEW_SECONDS, NEWEST_JOBS)
            wanted |= self._active  # those that are not listed any more have ended
        for job_id in wanted - {status.job.job_id for status in statuses}:
            try:
                statuses.append(await self._store.status(job_id))
            except UnknownName:
                self._forget(job_id)
        return statuses

    async def _listed(self, since: float, look_at: int) -> list[JobStatus]:
        """Jobs that have not ended, and those of the newest that have since: some came and ended between two readings.
        Looks at so many of the newest, and at more of them while even the oldest of these has come since."""
        listed = await self._store.jobs(limit=self.MOST, states=UNFINISHED_STATES, on_demand=False)
        while True:
            newest = await self._store.jobs(limit=look_at, on_demand=False)
            if len(newest) < look_at or look_at >= self.MOST or newest[-1].job.created_at < since:
                return listed + [one for one in newest if one.ended_at is not None and one.ended_at >= since]
            look_at = min(self.MOST, 8 * look_at)

    def _tell_of(self, status: JobStatus) -> None:
        event = status_event(status)
        if self._told.get(event.job_id) == event.event_id:
            return
        self._keep(event)
        for watch in self.watches:
            watch.put(event)

    def _keep(self, event: JobEvent) -> None:
        self._told.pop(event.job_id, None)  # the newest is last
        self._told[event.job_id] = event.event_id
        if len(self._told) > 2 * self.MOST:
            del self._told[next(iter(self._told))]
        self._active.discard(event.job_id)
        if not event.last:
            self._active.add(event.job_id)

    def _forget(self, job_id: str) -> None:
        self._active.discard(job_id)
        if self._told.pop(job_id, None) is not None:
            for watch in self.watches:
                watch.put(gone_event(job_id))


POLL_SECONDS: Final = 1.0  # without any news everything is looked at so often: news is a hint
RETRY_SECONDS: Final = 0.5  # before a store is asked again that did not answer


ReadStatus = Callable[[str], Awaitable[JobStatus]]
TaskFuture = asyncio.Future[ItemRecord | None]


class EventHub:
    """`look` reads a job as people see it; `explain` adds to a status that was read of the store why its job waits.
    Lives on one event loop."""

    def __init__(self, store: JobStore, look: ReadStatus, clock: Clock, explain: ExplainStatus) -> None:
        self._store = store
        self._look = look
        self._tasks: dict[str, dict[TaskFuture, str]] = {}  # by job: who waits for which task
        self._topics: dict[str, JobTopic] = {}
        self._all = AllJobsTopic(store, clock, explain)
        self._news: ChangeFeed | None = None
        self._listening: asyncio.Task[None] | None = None
        self._streams_ended = False
        self._closed = False

    # -- waiting for a task --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def expecting(self, job_id: str, task_id: str) -> AsyncIterator[AwaitedTask]:
        """Entered before the task is ordered, so that its end cannot be missed."""
        waiting: TaskFuture = asyncio.get_running_loop().create_future()
        if self._closed:
            waiting.set_result(None)
        waiters = self._tasks.setdefault(job_id, {})
        waiters[waiting] = task_id
        self._listen()
        try:
            yield AwaitedTask(waiting)
        finally:
            waiting.cancel()
            del waiters[waiting]
            if not waiters:
                self._tasks.pop(job_id, None)

    async def _look_at_tasks(self, job_id: str) -> None:
        """Every task that somebody waits for is read once, for all of them."""
        waiting = dict(self._tasks.get(job_id, {}))
        for task_id in set(waiting.values()):
            try:
                record = await self._store.item(job_id, task_id)
            except UnknownName:  # it is just being ordered
                continue
            if record.state.terminal:
                for one, wanted in waiting.items():
                    if wanted == task_id and not one.done():
                        one.set_result(record)

    # -- event streams -------------------------------------------------------------------------------------------------

    @property
    def streams_ended(self) -> bool:
        """Whether the controller stops, so that no stream begins any more."""
        return self._streams_ended

    @property
    def watches(self) -> int:
        """How many streams there are."""
        return len(self._all.watches) + sum(len(topic.watches) for topic in self._topics.values())

    @contextmanager
    def watching(self, job_id: str, seen: str | None = None) -> Iterator[Subscription]:
        """One job from now on, its present status first unless that was `seen`; ends when the job does."""
        watch = Subscription(seen)
        topic = self._topics.setdefault(job_id, JobTopic(job_id, self._look))
        try:
            with self._watching(watch, topic):
                topic.changed(None)
                yield watch
        finally:
            if not topic.watches:
                topic.close()
                self._topics.pop(job_id, None)

    @asynccontextmanager
    async def watching_all(self, since: float | None = None) -> AsyncIterator[Subscription]:
        """All jobs but scrapes on demand: those that have not ended, and what becomes of them. With `since` (Unix
        seconds) also those that have ended since then. Raises StoreUnavailable."""
        watch = Subscription(most=AllJobsTopic.MOST)
        with self._watching(watch, self._all):
            await self._all.show(watch, since)
            yield watch

    @contextmanager
    def _watching(self, watch: Subscription, topic: JobTopic | AllJobsTopic) -> Iterator[None]:
        topic.watches.add(watch)
        if self._streams_ended:
            watch.end()
        self._listen()
        try:
            yield
        finally:
            topic.watches.discard(watch)

    # -- listening -----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._news is None and not self._closed:
            self._news = self._store.news()
            self._listening = asyncio.create_task(self._hear(self._news), name="hub")

    @property
    def _wanted(self) -> bool:
        return bool(self._tasks or self._topics or self._all.watches)

    async def _hear(self, news: ChangeFeed) -> None:
        """Until nobody waits any more. Trouble with the store is that of those who wait, and passes."""
        looked_at = time.monotonic()
        try:
            while self._wanted:
                try:
                    changed = await news.hear(POLL_SECONDS)
                    begun = time.monotonic()
                    if changed:
                        await self._tell(changed)
                    if not changed or begun - looked_at > POLL_SECONDS:
                        looked_at = begun
                        await self._tell(None)
                        # Others may change something all the time: no more than half of our time is theirs.
                        await asyncio.sleep(min(POLL_SECONDS, time.monotonic() - begun))
                except SwathError as error:
                    _log.warning("nobody was told: %s", error)
                    looked_at = 0.0
                    await asyncio.sleep(RETRY_SECONDS)
                except Exception:  # noqa: BLE001 one row that cannot be read must not cost all others their news
                    _log.exception("nobody was told")
                    looked_at = 0.0
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            news.close()
            self._news = None

    async def _tell(self, changed: Collection[str] | None) -> None:
        """`changed` None: any job may have. Scrapes come first: somebody waits for them."""
        for job_id in list(self._tasks) if changed is None else [one for one in changed if one in self._tasks]:
            if job_id in self._tasks:
                await self._look_at_tasks(job_id)
        for job_id in list(self._topics) if changed is None else changed:
            topic = self._topics.get(job_id)
            if topic is not None:
                topic.changed(None)
        self._all.changed(changed)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def end_streams(self) -> None:
        """The controller stops: event streams end, and no new one begins. Who waits for a task may go on waiting."""
        self._streams_ended = True
        for topic in (self._all, *self._topics.values()):
            for watch in topic.watches:
                watch.end()

    async def close(self) -> None:
        """Lets everybody go. Tasks that were waited for go on, if there is a worker."""
        self.end_streams()
        self._closed = True
        for waiting in [one for waiters in self._tasks.values() for one in waiters]:
            if not waiting.done():
                waiting.set_result(None)
        for topic in (self._all, *self._topics.values()):
            topic.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)


class AwaitedTask:
    """A task that somebody waits for."""

    def __init__(self, waiting: TaskFuture) -> None:
        self._waiting = waiting
        self.let_go = False

    async def ended(self, seconds: float) -> ItemRecord | None:
        """The task when it has ended; None when that takes longer, or, with `let_go`, when the controller stops."""
        done, _ = await asyncio.wait({self._waiting}, timeout=seconds)
        record = self._waiting.result() if done else None
        self.let_go = bool(done) and record is None
        return record
