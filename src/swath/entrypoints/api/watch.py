"""Watch: what one event stream has still to send. Filled by hub.py, emptied by routes/events.py.

Only the newest status of each job is kept, so a reader that is slow misses steps in between and never the last.
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from swath.domain.job import JobStatus
from swath.entrypoints.api.views import job_view

__all__ = ["Event", "Watch", "gone", "status_event"]


class Event(msgspec.Struct, frozen=True):
    """One server-sent event. `data` is JSON on one line. `last`: nothing more will come of this job for now."""

    event_id: str
    name: str
    job_id: str
    data: bytes
    last: bool = False

    def encode(self, event_id: str | None = None) -> bytes:
        """As it goes over the wire, under its own id or another."""
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (
            (event_id or self.event_id).encode(),
            self.name.encode(),
            self.data,
        )


def status_event(status: JobStatus) -> Event:
    """The id follows from what the job has come to, so that it is the same on every controller and after a restart."""
    marks = (
        status.job.job_id,
        status.state,
        status.counts,
        status.failures,
        status.loaded_rows,
        status.stopping,
        status.circuit_opened,
        status.waiting_for,
        status.waiting_reason,
        status.held_by,
        None if status.ending is None else msgspec.structs.replace(status.ending, retry_seconds=None),
        status.deleting,
        status.job.policy.as_json(),
    )
    mark = hashlib.sha256(msgspec.json.encode(marks)).hexdigest()[:16]
    data = msgspec.json.encode(job_view(status))
    return Event(f"{status.generation}-{mark}", "status", status.job.job_id, data, last=status.state.terminal)


def gone(job_id: str) -> Event:
    """The job was deleted."""
    return Event("gone", "gone", job_id, msgspec.json.encode({"job_id": job_id}), last=True)


class Watch:
    """`seen` is the id of the last event that the reader has. `most` different jobs may wait to be told of; a reader
    that falls further behind is dropped."""

    def __init__(self, seen: str | None = None, most: int = 1) -> None:
        self._seen = seen
        self._most = most
        self._pending: dict[str, Event] = {}
        self._woken = asyncio.Event()
        self.ended = False

    def put(self, event: Event) -> None:
        """Tells the reader, if it is news."""
        if self.ended or (event.event_id == self._seen and not event.last):
            return
        self._pending.pop(event.job_id, None)
        self._pending[event.job_id] = event
        if len(self._pending) > self._most:
            self._pending.clear()
            self.end()
        self._woken.set()

    def end(self) -> None:
        """Nothing more comes; what waits is still sent."""
        self.ended = True
        self._woken.set()

    async def take(self, seconds: float) -> list[Event] | None:
        """What there is to send, none when nothing came for so long; None at the end."""
        if not self._pending and not self.ended:
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return []
        self._woken.clear()
        taken, self._pending = [event for event in self._pending.values() if event.event_id != self._seen], {}
        if taken:
            self._seen = taken[-1].event_id
        return taken or (None if self.ended else [])
