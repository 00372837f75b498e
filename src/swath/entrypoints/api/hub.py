"""Hub: who waits for what. One listener for the whole controller hears which jobs change, reads each of them once, and
tells all that wait: scrapes that somebody waits for, and event streams.

Before: a commit of this process or another (ports/news.py). After: routes/scrape.py and routes/events.py answer.
Nothing runs while nobody waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from swath.domain.errors import SwathError, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.entrypoints.api.topics import AllJobs, Explain, OneJob
from swath.entrypoints.api.watch import Watch
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore
from swath.ports.news import News

__all__ = ["Hub"]

LOOK_SECONDS: Final = 1.0  # without any news everything is looked at so often: news is a hint
RETRY_SECONDS: Final = 0.5  # before a store is asked again that did not answer

_log = logging.getLogger("swath.hub")

Look = Callable[[str], Awaitable[JobStatus]]
Waiting = asyncio.Future[ItemRecord | None]


class Hub:
    """`look` reads a job as people see it; `explain` adds to a status that was read of the store why its job waits.
    Lives on one event loop."""

    def __init__(self, store: JobStore, look: Look, clock: Clock, explain: Explain) -> None:
        self._store = store
        self._look = look
        self._tasks: dict[str, dict[Waiting, str]] = {}  # by job: who waits for which task
        self._topics: dict[str, OneJob] = {}
        self._all = AllJobs(store, clock, explain)
        self._news: News | None = None
        self._listening: asyncio.Task[None] | None = None
        self._streams_ended = False
        self._closed = False

    # -- waiting for a task --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def expecting(self, job_id: str, task_id: str) -> AsyncIterator[Expected]:
        """Entered before the task is ordered, so that its end cannot be missed."""
        waiting: Waiting = asyncio.get_running_loop().create_future()
        if self._closed:
            waiting.set_result(None)
        waiters = self._tasks.setdefault(job_id, {})
        waiters[waiting] = task_id
        self._listen()
        try:
            yield Expected(waiting)
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
    def watching(self, job_id: str, seen: str | None = None) -> Iterator[Watch]:
        """One job from now on, its present status first unless that was `seen`; ends when the job does."""
        watch = Watch(seen)
        topic = self._topics.setdefault(job_id, OneJob(job_id, self._look))
        try:
            with self._watching(watch, topic):
                topic.changed(None)
                yield watch
        finally:
            if not topic.watches:
                topic.close()
                self._topics.pop(job_id, None)

    @asynccontextmanager
    async def watching_all(self, since: float | None = None) -> AsyncIterator[Watch]:
        """All jobs but scrapes on demand: those that have not ended, and what becomes of them. With `since` (Unix
        seconds) also those that have ended since then. Raises StoreUnavailable."""
        watch = Watch(most=AllJobs.MOST)
        with self._watching(watch, self._all):
            await self._all.show(watch, since)
            yield watch

    @contextmanager
    def _watching(self, watch: Watch, topic: OneJob | AllJobs) -> Iterator[None]:
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

    async def _hear(self, news: News) -> None:
        """Until nobody waits any more. Trouble with the store is that of those who wait, and passes."""
        looked_at = time.monotonic()
        try:
            while self._wanted:
                try:
                    changed = await news.hear(LOOK_SECONDS)
                    begun = time.monotonic()
                    if changed:
                        await self._tell(changed)
                    if not changed or begun - looked_at > LOOK_SECONDS:
                        looked_at = begun
                        await self._tell(None)
                        # Others may change something all the time: no more than half of our time is theirs.
                        await asyncio.sleep(min(LOOK_SECONDS, time.monotonic() - begun))
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


class Expected:
    """A task that somebody waits for."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self.let_go = False

    async def ended(self, seconds: float) -> ItemRecord | None:
        """The task when it has ended; None when that takes longer, or, with `let_go`, when the controller stops."""
        done, _ = await asyncio.wait({self._waiting}, timeout=seconds)
        record = self._waiting.result() if done else None
        self.let_go = bool(done) and record is None
        return record
