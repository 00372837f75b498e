"""The server side of one HTTP connection, with bounds on what a client can cost before the application sees a request.

A connection ends when the head of a request is too large or too slow, when the client does not read its answer, or
when
the connection limit is reached. A client that still sends when its answer is out is read for a moment, because
closing
a socket with unread bytes would discard the answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import sys
import uuid
from collections.abc import Callable
from contextvars import copy_context
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from swath.entrypoints.api import limits
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.limits import ConnectionAdmission, ConnectionLimits, ConnectionPhase, address_key
from swath.entrypoints.api.middleware import MAX_HEADERS, MAX_PATH_BYTES, MAX_QUERY_BYTES, REQUEST_ID_HEADER
from swath.observability.task_context import serve_request

__all__ = ["LINGER_SECONDS", "ON_AUTHENTICATED", "ON_RESERVED_CONNECTION", "BoundedProtocol", "LingeringTransport"]

UNREAD_SECONDS: Final = 20.0  # for which nothing of what waits may be taken
STOPPING_SECONDS: Final = 5.0  # the same while the controller stops
CHECKS_PER_TIMEOUT: Final = 5  # at what was taken, within that time
LINGER_SECONDS: Final = 5.0  # that a sender may go on after its answer
LINGER_BYTES: Final = 64 << 20  # that it may send by then, and of what was never a request:
LINGER_MALFORMED_BYTES: Final = 1 << 20

_log = logging.getLogger("swath.api")


class LingeringTransport(asyncio.Transport):
    """`arriving` tells whether a request is on its way that was not read to its end."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, arriving: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._arriving = arriving
        self._unread_seconds = UNREAD_SECONDS
        self._written = self._taken = 0
        self._may_drop = LINGER_BYTES
        self._taken_at = 0.0
        self._looking: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport. Nothing is written behind the end."""
        if self.is_closing():
            return
        self._transport.write(data)
        self._written += len(data)
        if self._looking is None and self._transport.get_write_buffer_size():
            self._taken_at = self._loop.time()
            self._look()

    def close(self) -> None:
        """Once: when the sender is done, or its time is over. Twice: at once."""
        if self._transport.is_closing():
            return
        if self._lingering is None and self._arriving():
            self._linger()
        else:
            self._transport.close()

    def close_now(self) -> None:
        """Without waiting for what the sender still has to say, or has not read: others need the room."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def refuse(self, answer: bytes) -> None:
        """The last that is written, to somebody of whom nobody knows what else is on its way."""
        self.write(answer)
        self._may_drop = LINGER_MALFORMED_BYTES
        self._linger()

    def _linger(self) -> None:
        self._lingering = self._loop.call_later(LINGER_SECONDS, self._transport.close)
        try:
            self._transport.write_eof()
        except OSError:  # the other side has gone
            self._transport.abort()
        self._transport.resume_reading()

    def drop(self, count: int) -> None:
        """So many bytes have come that nobody wants."""
        self._may_drop -= count
        if self._may_drop < 0:
            self._transport.close()

    def hurry(self) -> None:
        """The controller stops, and does not wait long for readers."""
        self._unread_seconds = min(self._unread_seconds, STOPPING_SECONDS)

    def lost(self) -> None:
        """The connection is no more."""
        for timer in (self._looking, self._lingering):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        """Cuts the connection when nothing was taken for too long; to close it would be to wait for the reader."""
        waits, now = self._transport.get_write_buffer_size(), self._loop.time()
        if self._written - waits > self._taken:
            self._taken, self._taken_at = self._written - waits, now
        if not waits:
            self._looking = None
        elif now - self._taken_at >= self._unread_seconds:
            _log.info("a caller did not read its answer for %g s; the connection was cut", self._unread_seconds)
            self._transport.abort()
        else:
            self._looking = self._loop.call_later(self._unread_seconds / CHECKS_PER_TIMEOUT, self._look)

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._lingering is not None or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.resume_reading()


MAX_HEAD_BYTES: Final = 128 << 10  # more than edge.py lets through, so that most get an answer in the envelope
HEAD_SECONDS: Final = 20.0  # from the first byte of a request, or from the connection, to the end of its headers
MAX_CONNECTIONS: Final = 1_500  # at once: more than there may be event streams
MAX_PIPELINED: Final = 8  # requests that were sent behind one that is under way; each is kept in memory
RETRY_AFTER_SECONDS: Final = 5.0
MALFORMED: Final = "that is not a request of HTTP/1.1"
ON_RESERVED_CONNECTION: Final = "on_reserve"  # set in the state of requests that only the reserve had room for
ON_AUTHENTICATED: Final = "note_admitted"  # in the state of each: to be called when its caller was let in

_REQUEST_LINE: Final = re.compile(rb"[A-Za-z][!#$%&'*+.^_`|~0-9A-Za-z-]{0,30} [^ \r\n]{1,8000} HTTP/1\.[01]\r?\n")


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose request does not begin within bounds; bodies are bounded where they are read.

    `open_connections` is shared by all of a listener.
    """

    def __init__(self, *arguments: Any, open_connections: ConnectionLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open = open_connections
        self._on_reserve = False
        self._admitted = False
        self._head_bytes = 0
        self._around_bytes = 0
        self._read_over_bytes = 0
        self._in_head = True
        self._foreign = False
        self._hears_no_more = False
        self._malformed = MALFORMED
        self._arriving = False
        self._timer: asyncio.TimerHandle | None = None
        self._outgoing: LingeringTransport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See asyncio.Protocol."""
        self._outgoing = LingeringTransport(transport, self.loop, lambda: self._arriving)
        super().connection_made(self._outgoing)
        most = _connection_limit()
        client = address_key(None if self.client is None else self.client[0])
        room = self._open.enter(self, client, most)
        self._on_reserve = room is ConnectionAdmission.RESERVE
        if room in (ConnectionAdmission.FREE, ConnectionAdmission.RESERVE):
            self._begin_head()
        elif (
            len(self.connections) > most + limits.RESERVED_CONNECTIONS + most // 10
        ):  # some are told so; it must not take as long as serving them
            transport.abort()
        else:
            self._refuse(_too_many_connections(room, most))

    def make_room(self, phase: ConnectionPhase) -> None:
        """Others have to get in. Whoever was late to ask is told so; a connection that was kept just ends."""
        self._end_head()
        if self._outgoing is not None:
            if phase is ConnectionPhase.OPENING and not self._outgoing.is_closing():
                told = "the request did not come in time, and others were waiting; send it again"
                late = ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS)
                self._outgoing.write(copy_context().run(_raw_response, late))
            self._outgoing.close_now()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._end_head()
        self._open.leave(self)
        if self._outgoing is not None:
            self._outgoing.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._outgoing is not None and (self._hears_no_more or self._outgoing.is_closing()):
            self._outgoing.drop(len(data))
            return
        self._foreign = not self._arriving and _REQUEST_LINE.match(data) is not None
        self._around_bytes += len(data)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the head of the request is too large"))
        elif self._arriving:
            self._bound_the_rest(len(data))

    def _bound_the_rest(self, count: int) -> None:
        """Of a request that is not over: what is around its chunks and behind them, and what comes after its answer."""
        if self._around_bytes > MAX_HEAD_BYTES:
            self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "what stands around the body is too large"))
        elif self._last is not None and self._last.response_complete:
            self._read_over_bytes += count
            if self._read_over_bytes > LINGER_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins, on a new connection or on one that was kept. Raises to have the connection closed."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests wait on one connection")
        super().on_message_begin()
        self.scope["state"][ON_AUTHENTICATED] = self._note_admitted
        if self._on_reserve:
            self.scope["state"][ON_RESERVED_CONNECTION] = True
        self._arriving = True
        self._read_over_bytes = 0
        self._begin_head()
        self._note_phase()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of a head, so many that edge.py sees when there are too many; what stands behind a body is of no use here."""
        if self._in_head and len(self.headers) <= MAX_HEADERS:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A piece of it."""
        self._around_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Now it is the app's. Raises for an upgrade with a body."""
        self._around_bytes = 0
        if self.parser.should_upgrade():
            self._let_nothing_follow()
        self._end_head()
        super().on_headers_complete()
        if self._on_reserve or self._hears_no_more:  # the reserve is for single requests
            self.cycle.keep_alive = False
        self._note_phase()

    def _let_nothing_follow(self) -> None:
        """To the parser a request ends where it asks for another protocol, so a body would be taken for the next one,
        which whoever passed on this one has never seen."""
        self._hears_no_more = True
        if any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        ):
            self._malformed = "send no header Upgrade with a body: this is HTTP/1.1, and stays so"
            raise ValueError(self._malformed)

    def on_message_complete(self) -> None:
        """All of it has come."""
        self._arriving = False
        self._end_head()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is out. What still comes of its request is read over, if that does not take long."""
        self._admitted = False  # who sent the next one, which begins here, is asked again
        super().on_response_complete()
        self._note_phase()
        if self._arriving and not self._in_head and self.cycle.response_complete and not self.transport.is_closing():
            self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def shutdown(self) -> None:
        """The server stops."""
        if self._outgoing is not None:
            self._outgoing.hurry()
        super().shutdown()

    def _note_phase(self) -> None:
        """A request that was sent behind another is no reason to cut off the answer to that one."""
        answered = self._last is None or self._last.response_complete
        if answered:
            self._open.note(self, ConnectionPhase.OPENING if self._in_head else ConnectionPhase.IDLE)
        else:
            self._open.note(self, ConnectionPhase.BUSY if self._admitted else ConnectionPhase.OPEN_TO_ALL)

    def _note_admitted(self) -> None:
        """Of the request that is being answered."""
        self._admitted = True
        self._note_phase()

    def _begin_head(self) -> None:
        self._end_head()
        self._in_head, self._head_bytes = True, 0
        late = ApiError(ErrorCode.VALIDATION_ERROR, f"the request did not come within {HEAD_SECONDS:g} s")
        self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, late)

    def _end_head(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        """What is no request is refused in the envelope, too; uvicorn, which calls this, has plain text for it."""
        del msg
        if len(self.url or b"") > MAX_PATH_BYTES + MAX_QUERY_BYTES:  # so long that it was not even parsed
            self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the address is too long"))
        elif self._foreign and isinstance(sys.exc_info()[1], HttpParserInvalidMethodError):
            allowed = {"Allow": "DELETE, GET, HEAD, PATCH, POST"}
            self._refuse(ApiError(ErrorCode.METHOD_NOT_ALLOWED, "that method is known nowhere here", headers=allowed))
        else:
            self._refuse(ApiError(ErrorCode.VALIDATION_ERROR, self._malformed, status=HTTPStatus.BAD_REQUEST))

    def _refuse(self, error: ApiError) -> None:
        may_answer = self._may_answer()
        self._end_head()
        if self._outgoing is None or self._outgoing.is_closing():
            return
        if not may_answer:  # it would get into the middle of another answer, or be taken for one
            self._outgoing.close()
            return
        if self._last is not None:  # its body is nonsense: whatever the app makes of it, this is the answer
            self._last.disconnected = True
            self._last.message_event.set()
        self._open.note(self, ConnectionPhase.IDLE)
        self._outgoing.refuse(copy_context().run(_raw_response, error))

    def _may_answer(self) -> bool:
        """Whether what is written now is the answer to the request that has come so far, and to no other."""
        if self._last is None:
            return True
        if self._in_head or not self._arriving:
            return self._last.response_complete
        return not self._last.response_started and not self.pipeline

    @property
    def _last(self) -> RequestResponseCycle | None:
        """The request that came last; uvicorn does not say that there is none before the first."""
        return self.cycle


def _too_many_connections(room: ConnectionAdmission, most: int) -> ApiError:
    told = f"{most:,} connections are open here already; try again later"
    if room is ConnectionAdmission.ADDRESS_FULL:
        told = "your address has as many connections open here as one may have (SWATH_CONNECTIONS_PER_ADDRESS)"
    return ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS)


def _connection_limit() -> int:
    """So many that files and the store get descriptors, too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if descriptors < 0 else min(MAX_CONNECTIONS, descriptors * 3 // 4)


def _raw_response(error: ApiError) -> bytes:
    """As it goes over the wire, in a context of its own: no request was read whose id it could have."""
    shown_id = str(uuid.uuid4())
    serve_request(shown_id)
    answer = error.answer()
    headers = [*answer.raw_headers, (REQUEST_ID_HEADER.lower().encode(), shown_id.encode()), (b"connection", b"close")]
    lines = [f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}".encode()]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in headers), b"", bytes(answer.body)])
