"""Topics: what event streams are about. Each is read at most five times a second, however often it changes, and read
once more after its last change; hub.py says when something has changed."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from typing import ClassVar, Final

from swath.domain.errors import StoreUnavailable, SwathError, UnknownName
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.api.watch import Event, Watch, gone, status_event
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore

__all__ = ["BACK_SECONDS", "PAUSE_SECONDS", "AllJobs", "Explain", "OneJob"]

PAUSE_SECONDS: Final = 0.2  # between two readings of one topic
BACK_SECONDS: Final = 5.0  # that the clock of another process may be behind
FEW: Final = 20  # of the newest jobs: as a rule those that have come between two readings are among them
ACTIVE: Final = tuple(state for state in JobState if not state.terminal)

_log = logging.getLogger("swath.hub")

Explain = Callable[[JobStatus], Awaitable[JobStatus]]
"""Adds to a status why its job waits, where the store does not know that."""


class _Topic(ABC):
    """Reads when something has changed, but not too often. `watches` are the streams about it."""

    def __init__(self) -> None:
        self.watches: set[Watch] = set()
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
                await asyncio.sleep(PAUSE_SECONDS)
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


class OneJob(_Topic):
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
            event = gone(self._job_id)
        for watch in self.watches:
            watch.put(event)
            if event.last:
                watch.end()


class AllJobs(_Topic):
    """Jobs that have not ended, until they have; scrapes on demand are not among them."""

    MOST: ClassVar[int] = 1_000  # jobs that are followed at once, the newest

    def __init__(self, store: JobStore, clock: Clock, explain: Explain) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._explain = explain
        self._active: set[str] = set()
        self._told: dict[str, str] = {}  # job by job, the id of the last event
        self._named: set[str] = set()  # these have changed since the last reading
        self._any = False  # and so may have any other
        self._read_at = 0.0  # when all jobs were read last, in Unix seconds

    async def show(self, watch: Watch, since: float | None) -> None:
        """Tells a new stream what there is: jobs that have not ended, and those that have since (Unix seconds)."""
        now, alone = self._clock.now(), len(self.watches) == 1
        if alone:
            self._read_at = now
        from_at, look_at = (now, FEW) if since is None else (since, self.MOST)
        for status in await self._listed(min(from_at, now - BACK_SECONDS), look_at):
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
            statuses = await self._listed(self._read_at - BACK_SECONDS, FEW)
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
        listed = await self._store.jobs(limit=self.MOST, states=ACTIVE, on_demand=False)
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

    def _keep(self, event: Event) -> None:
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
                watch.put(gone(job_id))
