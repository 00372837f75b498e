"""BoundedProtocol: the server's end of a connection, with bounds on what comes before any of our code sees a request.

Before: a socket (listen.py). After: edge.py, which sees whole requests only; what goes back passes outgoing.py. Without
it a head that never ends would be kept in memory as long as it comes.
"""

from __future__ import annotations

import asyncio
import re
import resource
import sys
import uuid
from contextvars import copy_context
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from swath.entrypoints.api import connections
from swath.entrypoints.api.connections import Connections, Phase, Room, client_of
from swath.entrypoints.api.edge import MOST_HEADERS, MOST_PATH_BYTES, MOST_QUERY_BYTES, REQUEST_ID_HEADER
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.outgoing import LINGER_BYTES, LINGER_SECONDS, Outgoing
from swath.observe.context import serve_request

__all__ = ["NOTE_ADMITTED", "ON_RESERVE", "BoundedProtocol"]

MOST_HEAD_BYTES: Final = 128 << 10  # more than edge.py lets through, so that most get an answer in the envelope
HEAD_SECONDS: Final = 20.0  # from the first byte of a request, or from the connection, to the end of its headers
MOST_CONNECTIONS: Final = 1_500  # at once: more than there may be event streams
MOST_WAITING: Final = 8  # requests that were sent behind one that is under way; each is kept in memory
AGAIN_SECONDS: Final = 5.0
MALFORMED: Final = "that is not a request of HTTP/1.1"
ON_RESERVE: Final = "on_reserve"  # set in the state of requests that only the reserve had room for
NOTE_ADMITTED: Final = "note_admitted"  # in the state of each: to be called when its caller was let in

_REQUEST_LINE: Final = re.compile(rb"[A-Za-z][!#$%&'*+.^_`|~0-9A-Za-z-]{0,30} [^ \r\n]{1,8000} HTTP/1\.[01]\r?\n")


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose request does not begin within bounds; bodies are bounded where they are read.

    `open_connections` is shared by all of a listener.
    """

    def __init__(self, *arguments: Any, open_connections: Connections, **options: Any) -> None:
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
        self._outgoing: Outgoing | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See asyncio.Protocol."""
        self._outgoing = Outgoing(transport, self.loop, lambda: self._arriving)
        super().connection_made(self._outgoing)
        most = _most_connections()
        client = client_of(None if self.client is None else self.client[0])
        room = self._open.enter(self, client, most)
        self._on_reserve = room is Room.RESERVE
        if room in (Room.FREE, Room.RESERVE):
            self._begin_head()
        elif (
            len(self.connections) > most + connections.RESERVED + most // 10
        ):  # some are told so; it must not take as long as serving them
            transport.abort()
        else:
            self._refuse(_no_room(room, most))

    def make_room(self, phase: Phase) -> None:
        """Others have to get in. Whoever was late to ask is told so; a connection that was kept just ends."""
        self._end_head()
        if self._outgoing is not None:
            if phase is Phase.OPENING and not self._outgoing.is_closing():
                told = "the request did not come in time, and others were waiting; send it again"
                late = ApiError(ErrorCode.RATE_LIMITED, told, retry_after=AGAIN_SECONDS)
                self._outgoing.write(copy_context().run(_raw_answer, late))
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
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the head of the request is too large"))
        elif self._arriving:
            self._bound_the_rest(len(data))

    def _bound_the_rest(self, count: int) -> None:
        """Of a request that is not over: what is around its chunks and behind them, and what comes after its answer."""
        if self._around_bytes > MOST_HEAD_BYTES:
            self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "what stands around the body is too large"))
        elif self._last is not None and self._last.response_complete:
            self._read_over_bytes += count
            if self._read_over_bytes > LINGER_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins, on a new connection or on one that was kept. Raises to have the connection closed."""
        if len(self.pipeline) >= MOST_WAITING:
            raise ValueError("too many requests wait on one connection")
        super().on_message_begin()
        self.scope["state"][NOTE_ADMITTED] = self._note_admitted
        if self._on_reserve:
            self.scope["state"][ON_RESERVE] = True
        self._arriving = True
        self._read_over_bytes = 0
        self._begin_head()
        self._note_phase()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of a head, so many that edge.py sees when there are too many; what stands behind a body is of no use here."""
        if self._in_head and len(self.headers) <= MOST_HEADERS:
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
            self._open.note(self, Phase.OPENING if self._in_head else Phase.IDLE)
        else:
            self._open.note(self, Phase.BUSY if self._admitted else Phase.OPEN_TO_ALL)

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
        if len(self.url or b"") > MOST_PATH_BYTES + MOST_QUERY_BYTES:  # so long that it was not even parsed
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
        self._open.note(self, Phase.IDLE)
        self._outgoing.refuse(copy_context().run(_raw_answer, error))

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


def _no_room(room: Room, most: int) -> ApiError:
    told = f"{most:,} connections are open here already; try again later"
    if room is Room.ADDRESS_FULL:
        told = "your address has as many connections open here as one may have (SWATH_CONNECTIONS_PER_ADDRESS)"
    return ApiError(ErrorCode.RATE_LIMITED, told, retry_after=AGAIN_SECONDS)


def _most_connections() -> int:
    """So many that files and the store get descriptors, too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if descriptors < 0 else min(MOST_CONNECTIONS, descriptors * 3 // 4)


def _raw_answer(error: ApiError) -> bytes:
    """As it goes over the wire, in a context of its own: no request was read whose id it could have."""
    shown_id = str(uuid.uuid4())
    serve_request(shown_id)
    answer = error.answer()
    headers = [*answer.raw_headers, (REQUEST_ID_HEADER.lower().encode(), shown_id.encode()), (b"connection", b"close")]
    lines = [f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}".encode()]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in headers), b"", bytes(answer.body)])
