"""Binds the socket, runs uvicorn in our event loop, and stops it in order. Signals and logs stay with the command."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from swath.domain.errors import BadInput
from swath.entrypoints.api.envelope import request_id
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.http_protocol import BoundedProtocol
from swath.entrypoints.api.limits import ConnectionLimits
from swath.entrypoints.api.middleware import REQUEST_ID_HEADER

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["ApiServer", "bind_socket", "url_of_socket"]

BACKLOG: Final = 2_048
SEND_BUFFER_BYTES: Final = 256 << 10  # of the system, for each connection; larger ones hide for long who does not read
KEEP_ALIVE_SECONDS: Final = 15
START_SECONDS: Final = 10.0
CANCELLED_SECONDS: Final = 2.0
RETRY_AFTER_SECONDS: Final = 5.0
CONNECTIONS_PER_ADDRESS: Final = 500

_log = logging.getLogger("swath.api")


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that is ours, and does not listen yet; port 0 takes a free one. Raises BadInput, in one line."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BadInput(f"cannot listen at {host}: {error.strerror}; correct --host") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # connections inherit it
        if family == socket.AF_INET6:
            with suppress(OSError):  # `::` means both, also where the system is set up otherwise
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError as error:
        bound.close()
        shown = f"[{host}]" if ":" in host else host
        raise BadInput(f"cannot listen at {shown}:{port}: {error.strerror}; choose another --port or --host") from None
    bound.setblocking(False)
    return bound


def url_of_socket(bound: socket.socket) -> str:
    """How this machine reaches it."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 that is asked for, not chosen
    return f"http://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"http://{host}:{port}"


class _UvicornServer(uvicorn.Server):
    """One that leaves signals to us, and says when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _AnswersWhenCancelled:
    """The app, whose requests are answered also when the server breaks them off because their time is over."""

    def __init__(self, app: ASGIApp, stopping: Callable[[], bool]) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noticed(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noticed)
        except asyncio.CancelledError:
            if not self._stopping():
                raise
            _log.warning("a request was broken off: the controller stops")
            if not begun:
                told = "the controller stops; send the request again"
                headers = {REQUEST_ID_HEADER: request_id(), "Connection": "close"}
                error = ApiError(ErrorCode.STORE_UNAVAILABLE, told, retry_after=RETRY_AFTER_SECONDS, headers=headers)
                await error.answer()(scope, receive, send)


class ApiServer:
    """The API while it is served. `drain_seconds`: requests under way may take so long after `stop`."""

    def __init__(
        self,
        app: ASGIApp,
        bound: socket.socket,
        drain_seconds: float,
        connections_per_address: int = CONNECTIONS_PER_ADDRESS,
    ) -> None:
        self._bound = bound
        made = partial(BoundedProtocol, open_connections=ConnectionLimits(connections_per_address))
        self._server = _UvicornServer(
            uvicorn.Config(
                _AnswersWhenCancelled(app, lambda: self._server.should_exit),
                http=made,  # type: ignore[arg-type]  # uvicorn only calls it
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # whoever says where a request comes from must not be believed
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(drain_seconds)),
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it answers."""
        self._serving = asyncio.create_task(self._server.serve([self._bound]))
        answers = asyncio.create_task(self._server.answers.wait())
        try:
            waits = {answers, self._serving}
            await asyncio.wait(waits, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answers.cancel()
        if self._serving.done():
            await self._serving

    def stop(self) -> None:
        """Takes no more connections; requests under way may finish."""
        self._server.should_exit = True

    async def ended(self) -> None:
        """Returns when it serves no more, and those who were broken off know it."""
        if self._serving is not None:
            await self._serving
        if self._server.server_state.tasks:
            await asyncio.wait(set(self._server.server_state.tasks), timeout=CANCELLED_SECONDS)
