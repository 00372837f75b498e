"""Bytes to HTTP/1.1 messages and back, for plain requests of browsers.

Parsed strictly by httptools and written anew, so that a message which two parsers could read differently is never
passed on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import httptools

__all__ = [
    "MalformedMessage",
    "MessageReader",
    "RawFields",
    "RequestHead",
    "ResponseHead",
    "body_bytes",
    "request_head_bytes",
    "response_head_bytes",
]

RawFields = list[tuple[bytes, bytes]]

_READ_BYTES: Final = 64 * 1024
_MOST_HEAD_BYTES: Final = 256 * 1024
_BODILESS: Final = frozenset({204, 304})
# Between two neighbours only (RFC 9110, 7.6.1), with those that proxies are known to invent.
_HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"),
        *(b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"proxy-authentication-info"),
    }
)


class MalformedMessage(Exception):
    """It is no HTTP. `raw` is all of the message so far, if nothing of it was told yet."""

    def __init__(self, raw: bytes = b"") -> None:
        super().__init__("no HTTP")
        self.raw = raw


class RequestHead(NamedTuple):
    """The head of a request. `stays`: the connection is to be kept. `left_over` came after a CONNECT."""

    method: bytes
    target: bytes
    fields: RawFields
    stays: bool
    left_over: bytes = b""

    @property
    def has_body(self) -> bool:
        """Whether one follows."""
        return _value(self.fields, b"content-length") not in {b"", b"0"} or self.is_chunked

    @property
    def is_chunked(self) -> bool:
        """Whether it comes in chunks."""
        return _value(self.fields, b"transfer-encoding") != b""


class ResponseHead(NamedTuple):
    """The head of an answer."""

    status: int
    reason: bytes
    fields: RawFields
    stays: bool

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return _value(self.fields, b"transfer-encoding").lower().endswith(b"chunked")

    @property
    def ends_with_line(self) -> bool:
        """Whether only the end of the connection tells the end of the body."""
        framed = self.is_chunked or _value(self.fields, b"content-length") != b""
        return not framed and self.status not in _BODILESS

    @property
    def is_empty(self) -> bool:
        """Whether it says that nothing follows."""
        return _value(self.fields, b"content-length") == b"0"


MessageEvent = RequestHead | ResponseHead | bytes | None  # a head, a piece of a body, or the end of a message


class MessageReader:
    """One side of a connection, as messages. `heard` is told of every piece that comes."""

    def __init__(self, reader: asyncio.StreamReader, heard: Callable[[int], None], *, answers: bool) -> None:
        self._reader = reader
        self._heard = heard
        self._answers = answers
        self._parser = httptools.HttpResponseParser(self) if answers else httptools.HttpRequestParser(self)
        self._events: deque[MessageEvent | MalformedMessage] = deque()
        self._raw: bytes | None = b""  # of a head that is not complete
        self._first = b""
        self._fields: RawFields = []
        self.begun = False

    @property
    def is_idle(self) -> bool:
        """Whether the last message is over and nothing came behind it."""
        return not self._events and self._raw == b""

    async def next(self) -> MessageEvent:
        """Raises Garbled, and IncompleteReadError at the end of the connection unless it ends a message."""
        while not self._events:
            try:
                data = await self._reader.read(_READ_BYTES)
            except OSError:
                data = b""  # who resets a connection has ended it
            if not data:
                raise asyncio.IncompleteReadError(self._raw or b"", None)
            self.begun = True
            self._heard(len(data))
            self._feed(data)
        event = self._events.popleft()
        if isinstance(event, MalformedMessage):
            raise event
        return event

    def _feed(self, data: bytes) -> None:
        if self._raw is not None:
            self._raw += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._events.append(MalformedMessage(self._raw or b""))
        if self._raw is not None and len(self._raw) > _MOST_HEAD_BYTES:
            self._events.append(MalformedMessage(self._raw))

    def _upgraded(self, left_over: bytes) -> None:
        """After a CONNECT comes what is none of ours. Nothing else that a browser says to a proxy leads there."""
        asked = self._events[-2] if len(self._events) > 1 else None
        if isinstance(asked, RequestHead) and asked.method == b"CONNECT":
            self._events[-2] = asked._replace(left_over=left_over)
        else:
            self._events.append(MalformedMessage())

    # -- what httptools calls ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The next message."""
        self._first, self._fields = b"", []

    def on_url(self, piece: bytes) -> None:
        """Of a request."""
        self._first += piece

    def on_status(self, piece: bytes) -> None:
        """The words of an answer."""
        self._first += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come here as well, and go nowhere."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        stays, self._raw = self._parser.should_keep_alive(), None
        if isinstance(self._parser, httptools.HttpResponseParser):
            self._events.append(ResponseHead(self._parser.get_status_code(), self._first, self._fields[:], stays))
        else:
            ask = RequestHead(self._parser.get_method(), self._first, self._fields[:], stays)
            codings = _value(self._fields, b"transfer-encoding").lower()
            self._events.append(ask if codings in {b"", b"chunked"} else MalformedMessage())

    def on_body(self, piece: bytes) -> None:
        """Without the frames of chunks."""
        self._events.append(piece)

    def on_message_complete(self) -> None:
        """Nothing more of it."""
        self._events.append(None)
        self._raw = b""


def request_head_bytes(ask: RequestHead, target: bytes, host: bytes, extra: bytes = b"") -> bytes:
    """A request as it goes on: to `target`, with `extra` lines."""
    dropped = _HOP_BY_HOP | _connection_tokens(ask.fields) | {b"host"}
    lines = [b"%b %b HTTP/1.1" % (ask.method, target), b"Host: " + host]
    for name, value in ask.fields:
        lower = name.lower()
        if lower in {b"connection", b"proxy-connection"} and not any(line == _KEEP_ALIVE for line in lines):
            lines.append(_KEEP_ALIVE)  # in its place: a site may look at the order
        elif lower not in dropped:
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join(lines) + b"\r\n" + extra + b"\r\n"


def response_head_bytes(said: ResponseHead, *, last: bool) -> bytes:
    """The head of an answer as it goes on. `last`: the connection ends with it."""
    dropped = _HOP_BY_HOP | _connection_tokens(said.fields)
    lines = [b"HTTP/1.1 %d %b" % (said.status, said.reason)]
    lines += [b"%b: %b" % (name, value) for name, value in said.fields if name.lower() not in dropped]
    return b"\r\n".join([*lines, b"Connection: close"] if last else lines) + b"\r\n\r\n"


def body_bytes(piece: bytes, *, chunked: bool) -> bytes:
    """A piece of a body as it goes on; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece


_KEEP_ALIVE: Final = b"Connection: keep-alive"


def _value(fields: RawFields, name: bytes) -> bytes:
    return next((value for known, value in fields if known.lower() == name), b"")


def _connection_tokens(fields: RawFields) -> set[bytes]:
    """What the neighbour says is for us alone; never what tells how long a message is, or whose."""
    listed = b",".join(value for name, value in fields if name.lower() in {b"connection", b"proxy-connection"})
    kept = {b"host", b"content-length", b"transfer-encoding", b"cookie", b"authorization", b"set-cookie", b""}
    return {word.strip().lower() for word in listed.split(b",")} - kept
