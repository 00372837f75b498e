"""One HTTP/1.1 connection: sends a request and parses the response with httptools, within the limits."""

from __future__ import annotations

import asyncio
import socket
from typing import Final, cast

import httptools

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.client.content_decoding import ResponseBody
from swath.fetch.http.client.limits import MOST_HEADERS, BodyProgress, ResponseLimits, StallDetector, too_large
from swath.fetch.http.messages import Headers, Request, Response, UnreadableResponse, is_redirect
from swath.fetch.url import redacted

__all__ = ["Http1Connection", "ResponseReader"]

_BODILESS: Final = frozenset({101, 204, 304})


class ResponseReader:
    """One answer on its way in. `is_enough`: nothing more is waited for; `is_complete`: all of it has come."""

    __slots__ = (
        *("answer", "body", "ends_with_line", "failed", "fields", "has_two_lengths", "head_bytes", "is_complete"),
        *("is_enough", "is_interim", "is_watched", "pace", "received_bytes", "request", "status", "stays"),
    )

    def __init__(self, answer: asyncio.Future[Response], request: Request, pace: BodyProgress) -> None:
        self.answer = answer
        self.request = request
        self.pace = pace
        self.fields: list[tuple[str, str]] = []
        self.status = 0
        self.head_bytes = 0
        self.received_bytes = 0
        self.body: ResponseBody | None = None
        self.failed: Failed | None = None
        self.is_interim = self.is_enough = self.is_complete = self.is_watched = False
        self.ends_with_line = self.has_two_lengths = False
        self.stays = False

    def add(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        self.fields.append((_header_name(name), str(value, "latin-1")))

    def begin(self, status: int, limits: ResponseLimits) -> None:
        """The head is known. Raises Failed when that is enough to refuse the rest."""
        request, headers = self.request, tuple(self.fields)
        self.status, self.head_bytes = status, _head_size(headers)
        limits.check_head(self.head_bytes, request)
        announced, encodings, coding = _framing(headers)
        if is_redirect(status, headers) or request.method == "HEAD" or status in _BODILESS:
            self.body, self.is_enough = ResponseBody([], 0), True
            return
        if coding is None:
            limits.check_announced(announced, request)
        self.body = ResponseBody(encodings, limits.cap_bytes(request))
        self.has_two_lengths = coding is not None and announced is not None  # the first counts, to everybody
        self.ends_with_line = announced is None if coding is None else coding.rpartition(",")[2].strip() != "chunked"

    def response(self) -> Response:
        """Raises Failed when the body does not decode."""
        body = cast("ResponseBody", self.body)
        return Response(
            url=self.request.url,
            status=self.status,
            headers=tuple(self.fields),
            body=body.whole(),
            wire_bytes=self.head_bytes + body.wire_bytes,
        )


def _header_name(raw: bytes) -> str:
    """In lower case. Those that are common are kept."""
    known = _KNOWN_NAMES.get(raw)
    if known is None:
        known = str(raw, "latin-1").lower()
        if len(raw) <= _LONGEST_KEPT and len(_KNOWN_NAMES) < _MOST_KEPT:
            _KNOWN_NAMES[raw] = known
    return known


_KNOWN_NAMES: Final[dict[bytes, str]] = {}
_LONGEST_KEPT: Final = 40
_MOST_KEPT: Final = 1_000


def _head_size(headers: Headers) -> int:
    return sum([len(name) + len(value) + 4 for name, value in headers])


def _framing(headers: Headers) -> tuple[int | None, list[str], str | None]:
    """How long the body is said to be, how it is encoded, and how it is coded on its way. The parser has checked it."""
    announced, encodings, coding = None, list[str](), None
    for name, value in headers:
        if name == "content-length":
            announced = int(value) if value.isdecimal() and value.isascii() else None
        elif name == "content-encoding":
            encodings.append(value)
        elif name == "transfer-encoding":
            coding = value.lower()
    return announced, encodings, coding


_SWITCHING: Final = 101
_FIRST: Final = 100
_FIRST_FINAL: Final = 200
_YIELD_BYTES: Final = 64 * 1024


class Http1Connection(asyncio.Protocol):
    """To one origin. `idle_since` is when the last answer ended, in the loop's time; 0 if there was none.

    `line` is the socket below it, to be looked at only.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ResponseLimits, stalls: StallDetector) -> None:
        self._loop = loop
        self._limits = limits
        self._stalls = stalls
        self._parser: httptools.HttpResponseParser | None = None
        self._transport: asyncio.Transport | None = None
        self._reading: ResponseReader | None = None
        self.line: socket.socket | None = None
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a further request may be sent: the last answer was read to its end, and nobody has closed it."""
        return self._reading is None and self._transport is not None and not self._transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came since then, not even its end, of which the event loop may not have heard yet."""
        if self.line is None:
            return True
        try:
            self.line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def answer_to(self, request: Request, raw: bytes, pace: BodyProgress) -> Response:
        """Sends the request, which is `raw` on the wire, and reads its answer. Raises Failed.

        Whoever gives up waiting loses the connection with it.
        """
        if self._transport is None or not self.usable:
            raise _connection_lost(request, None)
        reading = self._reading = ResponseReader(self._loop.create_future(), request, pace)
        self._transport.write(raw)
        try:
            return await reading.answer
        finally:
            self._stalls.end(pace)
            if reading.stays and self._has_sent_all:
                self._reading, self.idle_since = None, self._loop.time()
            else:
                self.abort()

    @property
    def _has_sent_all(self) -> bool:
        """A server may answer before it has read a large request, and not read the rest at all."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def abort(self) -> None:
        """Whoever waits for an answer learns that there will be none: it was not the server that ended it."""
        if self._reading is not None and not self._reading.answer.done():
            self._reading.answer.set_exception(_connection_lost(self._reading.request, None))
        if self._transport is not None:
            self._transport.abort()

    # -- what the event loop calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        # As other clients, and browsers, read it: what such an answer means is in no doubt.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_data_after_close=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        reading = self._reading
        if reading is None or reading.answer.done() or self._parser is None:
            self.abort()  # it speaks without being asked
            return
        reading.received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            reading.stays = False
        except httptools.HttpParserError:
            reading.stays = False
            if not reading.is_complete:
                self._fail(reading, reading.failed or UnreadableResponse(_not_http(reading.request)))
                return
        if reading.is_enough:
            self._deliver(reading)
        elif (failed := self._too_much(reading)) is not None:
            self._fail(reading, failed)
        else:
            if reading.body is not None and not reading.is_watched:
                reading.is_watched = True
                self._stalls.begin(reading.pace, reading.body)
            if len(data) >= _YIELD_BYTES:
                self._give_way()

    def _give_way(self) -> None:
        """Somebody else has a turn before more is read: uvloop would go on as long as a server sends quickly."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol. A body without a length ends with its connection."""
        reading, self._reading = self._reading, None
        self._parser = self._transport = None
        if reading is None or reading.answer.done():
            return
        if error is None and reading.ends_with_line:
            self._deliver(reading)
        else:
            reading.answer.set_exception(_connection_lost(reading.request, error))

    # -- what httptools calls ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The answer, an interim one before it, or one that nobody asked for."""
        reading = self._current
        if reading.is_complete:
            raise _UnexpectedResponse
        reading.fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come here as well, and go nowhere."""
        reading = self._current
        if reading.body is not None:
            return
        if len(reading.fields) >= MOST_HEADERS:
            self._stop(too_large(f"the head of the answer has more than {MOST_HEADERS} lines", reading.request))
        reading.add(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        reading, parser = self._current, cast("httptools.HttpResponseParser", self._parser)
        status = parser.get_status_code()
        reading.is_interim = _FIRST <= status < _FIRST_FINAL and status != _SWITCHING
        if reading.is_interim:
            return
        try:
            if status < _FIRST:
                raise Failed(_not_http(reading.request))
            reading.begin(status, self._limits)
        except Failed as failed:
            self._stop(failed)

    def on_body(self, piece: bytes) -> None:
        """Without the frames of chunks."""
        reading = self._current
        if reading.body is None or reading.is_enough:
            return
        try:
            reading.body.feed(piece)
        except Failed as failed:
            self._stop(failed)

    def on_message_complete(self) -> None:
        """Nothing more of it; what was interim is followed by the answer."""
        reading = self._current
        if reading.is_interim:
            return
        reading.is_complete = reading.is_enough = True
        parser = cast("httptools.HttpResponseParser", self._parser)
        reading.stays = parser.should_keep_alive() and not reading.has_two_lengths

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> ResponseReader:
        """Bytes are parsed only while an answer is waited for."""
        return cast("ResponseReader", self._reading)

    def _stop(self, failed: Failed) -> None:
        """Out of the parser, which would go on with the rest of what came."""
        self._current.failed = failed
        raise failed

    def _too_much(self, reading: ResponseReader) -> Failed | None:
        """What has come without becoming part of a body: heads, interim answers, blank lines, frames of chunks."""
        most_bytes = self._limits.header_bytes
        if reading.body is None:
            is_over = reading.received_bytes > most_bytes
            return too_large("the head of the answer is too large", reading.request) if is_over else None
        if reading.received_bytes <= 2 * (most_bytes + reading.body.wire_bytes):
            return None
        return _failed(FailureKind.SERVER_ERROR, "the answer is more frame than body", reading.request)

    def _deliver(self, reading: ResponseReader) -> None:
        try:
            response = reading.response()
        except Failed as failed:
            self._fail(reading, failed)
        else:
            reading.answer.set_result(response)

    def _fail(self, reading: ResponseReader, failed: Failed) -> None:
        reading.stays = False
        reading.answer.set_exception(failed)


class _UnexpectedResponse(Exception):
    """There is more than one answer."""


def _connection_lost(request: Request, error: Exception | None) -> Failed:
    words = "the connection was closed early" if error is None else "the connection was reset"
    return _failed(FailureKind.CONNECT, words, request)


def _not_http(request: Request) -> Failure:
    return Failure.of(FailureKind.SERVER_ERROR, f"the answer is no HTTP at {redacted(request.url)}")


def _failed(kind: FailureKind, words: str, request: Request) -> Failed:
    return Failed(Failure.of(kind, f"{words} at {redacted(request.url)}"))
