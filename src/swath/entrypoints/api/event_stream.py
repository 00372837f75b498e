"""A stream of server-sent events: what one subscriber has still to receive, and the response that sends it.

Only the newest status of each job is kept. The response ends with its subscription, when the client leaves or stops
reading, and when its service key is revoked or expires.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import Response

from swath.domain.errors import StoreUnavailable
from swath.domain.job import JobStatus
from swath.entrypoints.api.models import job_view

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["EventStreamResponse", "JobEvent", "Subscription", "gone_event", "status_event"]


class JobEvent(msgspec.Struct, frozen=True):
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


def status_event(status: JobStatus) -> JobEvent:
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
    return JobEvent(f"{status.generation}-{mark}", "status", status.job.job_id, data, last=status.state.terminal)


def gone_event(job_id: str) -> JobEvent:
    """The job was deleted."""
    return JobEvent("gone", "gone", job_id, msgspec.json.encode({"job_id": job_id}), last=True)


class Subscription:
    """`seen` is the id of the last event that the reader has. `most` different jobs may wait to be told of; a reader
    that falls further behind is dropped."""

    def __init__(self, seen: str | None = None, most: int = 1) -> None:
        self._seen = seen
        self._most = most
        self._pending: dict[str, JobEvent] = {}
        self._woken = asyncio.Event()
        self.ended = False

    def put(self, event: JobEvent) -> None:
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

    async def take(self, seconds: float) -> list[JobEvent] | None:
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


HEARTBEAT_SECONDS: Final = 15.0  # proxies cut what is silent for a minute
SEND_SECONDS: Final = 30.0  # for a reader to take what it was sent
RETRY_MS: Final = 2_000
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}

Encode = Callable[[JobEvent], bytes]


class EventStreamResponse(Response):
    """`watching` is entered when the answer begins, and left when it ends. `still_admitted` is asked at each heartbeat
    whether the caller may go on reading; it may raise StoreUnavailable, which ends the answer too."""

    media_type = "text/event-stream"

    def __init__(
        self,
        watching: AbstractAsyncContextManager[Subscription],
        encode: Encode = JobEvent.encode,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        send_seconds: float = SEND_SECONDS,
        *,
        still_admitted: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._watching = watching
        self._encode = encode
        self._heartbeat_seconds = heartbeat_seconds
        self._send_seconds = send_seconds
        self._still_admitted = still_admitted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 as ASGI calls it
        """See ASGI."""
        async with self._watching as watch:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            sending = asyncio.create_task(self._send_all(watch, send))
            leaving = asyncio.create_task(_client_disconnected(receive))
            checking = asyncio.create_task(self._check_key(watch))  # beside the sending: a busy stream is never silent
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                tasks = (leaving, sending, checking)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_key(self, watch: Subscription) -> None:
        """Ends the watch when the caller may no longer read it."""
        with suppress(StoreUnavailable):
            admitted = True
            while admitted:
                await asyncio.sleep(self._heartbeat_seconds)
                admitted = await self._still_admitted()
        watch.end()

    async def _send_all(self, watch: Subscription, send: Send) -> None:
        await self._send(send, b"retry: %d\n\n" % RETRY_MS)
        while (events := await watch.take(self._heartbeat_seconds)) is not None:
            body = b"".join(map(self._encode, events)) or b": nothing new\n\n"
            await self._send(send, body)
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        """Raises TimeoutError when the caller does not read; the server then cuts the connection."""
        async with asyncio.timeout(self._send_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def _client_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
