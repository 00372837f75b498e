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
from swath.entrypoints.api.watch import Watch, gone, status_event
from swath.ports.job_store import JobStore

__all__ = ["PAUSE_SECONDS", "AllJobs", "OneJob"]

PAUSE_SECONDS: Final = 0.2  # between two readings of one topic
ACTIVE: Final = tuple(state for state in JobState if not state.terminal)

_log = logging.getLogger("swath.hub")


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

    def __init__(self, store: JobStore) -> None:
        super().__init__()
        self._store = store
        self._active: set[str] = set()
        self._told: dict[str, str] = {}  # job by job, the id of the last event
        self._named: set[str] | None = set()  # changed since the last reading; None: any

    async def show(self, watch: Watch, since: float | None) -> None:
        """Tells a new stream what there is: jobs that have not ended, and those that have since (Unix seconds)."""
        for status in await self._listed(since):
            event = status_event(status)
            watch.put(event)
            self._told.setdefault(event.job_id, event.event_id)
            if not event.last:
                self._active.add(event.job_id)

    def _note(self, jobs: Collection[str] | None) -> None:
        self._named = None if jobs is None or self._named is None else self._named | set(jobs)

    async def _read(self) -> None:
        named, self._named = self._named, set()
        statuses = await self._listed() if named is None else []
        found = {status.job.job_id for status in statuses}
        # Those that were active and are not listed any more have ended; those that were named may be new.
        for job_id in (set(self._active) if named is None else named) - found:
            try:
                statuses.append(await self._store.status(job_id))
            except UnknownName:
                self._forget(job_id)
        for status in statuses:
            self._tell_of(status)

    async def _listed(self, since: float | None = None) -> list[JobStatus]:
        listed = await self._store.jobs(limit=self.MOST, states=ACTIVE, on_demand=False)
        if since is not None:
            newest = await self._store.jobs(limit=self.MOST, on_demand=False)
            listed += [one for one in newest if one.ended_at is not None and one.ended_at >= since]
        return listed

    def _tell_of(self, status: JobStatus) -> None:
        event = status_event(status)
        if status.job.on_demand or self._told.get(event.job_id) == event.event_id:
            return
        self._told.pop(event.job_id, None)  # the newest is last
        self._told[event.job_id] = event.event_id
        if len(self._told) > 2 * self.MOST:
            del self._told[next(iter(self._told))]
        self._active.discard(event.job_id)
        if not event.last:
            self._active.add(event.job_id)
        for watch in self.watches:
            watch.put(event)

    def _forget(self, job_id: str) -> None:
        self._active.discard(job_id)
        if self._told.pop(job_id, None) is not None:
            for watch in self.watches:
                watch.put(gone(job_id))
