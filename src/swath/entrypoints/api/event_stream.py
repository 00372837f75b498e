"""EventStream: an answer that goes on, as server-sent events. Before: hub.py fills a watch. After: the caller's socket.

It ends when the watch does, when the caller goes away, when the caller does not read (nothing piles up), and when the
caller's key is revoked or expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final

from fastapi import Response

from swath.domain.errors import StoreUnavailable
from swath.entrypoints.api.watch import Event, Watch

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["EventStream"]

HEARTBEAT_SECONDS: Final = 15.0  # proxies cut what is silent for a minute
SEND_SECONDS: Final = 30.0  # for a reader to take what it was sent
RETRY_MS: Final = 2_000
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}

Encode = Callable[[Event], bytes]


class EventStream(Response):
    """`watching` is entered when the answer begins, and left when it ends. `still_admitted` is asked at each heartbeat
    whether the caller may go on reading; it may raise StoreUnavailable, which ends the answer too."""

    media_type = "text/event-stream"

    def __init__(
        self,
        watching: AbstractAsyncContextManager[Watch],
        encode: Encode = Event.encode,
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
            leaving = asyncio.create_task(_left(receive))
            checking = asyncio.create_task(self._check_key(watch))  # beside the sending: a busy stream is never silent
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                tasks = (leaving, sending, checking)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_key(self, watch: Watch) -> None:
        """Ends the watch when the caller may no longer read it."""
        with suppress(StoreUnavailable):
            admitted = True
            while admitted:
                await asyncio.sleep(self._heartbeat_seconds)
                admitted = await self._still_admitted()
        watch.end()

    async def _send_all(self, watch: Watch, send: Send) -> None:
        await self._send(send, b"retry: %d\n\n" % RETRY_MS)
        while (events := await watch.take(self._heartbeat_seconds)) is not None:
            body = b"".join(map(self._encode, events)) or b": nothing new\n\n"
            await self._send(send, body)
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        """Raises TimeoutError when the caller does not read; the server then cuts the connection."""
        async with asyncio.timeout(self._send_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
