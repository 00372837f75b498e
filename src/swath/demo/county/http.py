"""The HTTP of the demo county: one HTTP/1.1 connection with bounded memory, requests and responses, signed sessions.

Cookies and hidden form fields are signed in place of being remembered, so the site keeps no state per visitor.
"""

import asyncio
import hashlib
import hmac
import secrets
from base64 import b64encode
from collections import deque
from http import HTTPStatus
from typing import NamedTuple, Protocol, cast
from urllib.parse import parse_qsl

import httptools

from swath.demo.county.control import CLIENT_ABORTED, CONNECTION_DROPPED, OpenRequest

COOKIE = "county_session"
VIEW_STATE_GENERATOR = "CA0B0334"

_KEY = b"everybody may know the key of a demo county"
_SIGNATURE_LENGTH = 32


def new_session() -> str:
    token = secrets.token_hex(16)
    return token + _signature("session", token).hex()[:_SIGNATURE_LENGTH]


def is_genuine(session: str) -> bool:
    token, signature = session[:-_SIGNATURE_LENGTH], session[-_SIGNATURE_LENGTH:]
    expected = _signature("session", token).hex()[:_SIGNATURE_LENGTH]
    return hmac.compare_digest(signature.encode(), expected.encode())


def hidden_fields(session: str) -> dict[str, str]:
    """Return the names and values of the search form's hidden inputs, in page order."""
    return {
        "__EVENTTARGET": "",
        "__EVENTARGUMENT": "",
        "__VIEWSTATE": _view_state(session),
        "__VIEWSTATEGENERATOR": VIEW_STATE_GENERATOR,
        "__EVENTVALIDATION": b64encode(_signature("events", session) * 3).decode(),
    }


def are_genuine_fields(session: str, form: dict[str, str]) -> bool:
    """Say whether the signed fields of a post are those that the form of this session carried."""
    return all(
        hmac.compare_digest(form.get(name, "").encode(), value.encode())
        for name, value in hidden_fields(session).items()
        if value
    )


def _view_state(session: str) -> str:
    # The payload means nothing; it makes the field as long as the ones that scrapers meet.
    payload = hashlib.shake_256(session.encode()).digest(480)
    return b64encode(payload + _signature("viewstate", session)).decode()


def _signature(purpose: str, text: str) -> bytes:
    return hmac.digest(_KEY, f"{purpose}:{text}".encode(), "sha256")


HTML = b"text/html; charset=utf-8"
JSON = b"application/json"
PDF = b"application/pdf"
TEXT = b"text/plain; charset=utf-8"

_COOKIE_START = f"{COOKIE}=".encode()
_MAX_FORM_FIELDS = 1_000
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_COMMON_HEADERS = b"Server: demo-county\r\nCache-Control: private, no-store\r\nContent-Type: "


class SiteRequest:
    """One request. `refused` is the status it must be answered with when it could not be read to its end."""

    __slots__ = ("body", "headers", "keep_alive", "method", "old_client", "open_request", "path", "query", "refused")

    def __init__(self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], *, keep_alive: bool) -> None:
        if target.startswith(b"http"):  # the form that proxies use: a whole URL
            target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
        path, _, query = target.partition(b"?")
        self.method = method
        self.path = path.decode("latin-1")
        self.query = query.decode("latin-1")
        self.headers = headers
        self.body = b""
        self.keep_alive = keep_alive
        self.old_client = False
        self.refused: int | None = None
        self.open_request: OpenRequest | None = None

    def header(self, name: bytes) -> str:
        for known, value in self.headers:
            if known == name:
                return value.decode("latin-1")
        return ""

    def session(self) -> str | None:
        """Return the session cookie as it was sent, genuine or not."""
        for name, value in self.headers:
            if name == b"cookie":
                for pair in value.split(b";"):
                    cookie = pair.strip()
                    if cookie.startswith(_COOKIE_START):
                        return cookie[len(_COOKIE_START) :].decode("latin-1")
        return None

    def is_form(self) -> bool:
        return self.header(b"content-type").startswith("application/x-www-form-urlencoded")

    def query_fields(self) -> list[tuple[str, str]]:
        return _fields(self.query)

    def form_fields(self) -> list[tuple[str, str]]:
        """Return the fields of a posted form, empty ones too; none if the body is no form. ValueError if too many."""
        return _fields(self.body.decode("utf-8", "replace")) if self.is_form() else []


class SiteResponse(NamedTuple):
    status: int
    body: bytes
    content_type: bytes = HTML
    extra_headers: bytes = b""
    """Further header lines, each with its line end."""

    def encoded(self, request: SiteRequest) -> bytes:
        """Return the bytes to write for this answer to that request."""
        connection = b""
        if not request.keep_alive:
            connection = b"Connection: close\r\n"
        elif request.old_client:
            connection = b"Connection: keep-alive\r\n"
        return b"".join(
            (
                _STATUS_LINES[self.status],
                _COMMON_HEADERS,
                self.content_type,
                b"\r\nContent-Length: %d\r\n" % len(self.body),
                self.extra_headers,
                connection,
                b"\r\n",
                b"" if request.method == "HEAD" else self.body,
            )
        )


def redirect(location: str, extra_headers: bytes = b"") -> SiteResponse:
    """Send the client elsewhere; `location` must be free of control characters."""
    body = b"<html><head><title>Object moved</title></head><body><h2>Object moved.</h2></body></html>\r\n"
    return SiteResponse(302, body, HTML, b"Location: " + location.encode("latin-1") + b"\r\n" + extra_headers)


def _fields(encoded: str) -> list[tuple[str, str]]:
    return parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)


HEAD_LIMIT_BYTES = 64 * 1024
BODY_LIMIT_BYTES = 1024 * 1024
# Chunked bodies carry more bytes than they hold; what a message may send in all, trailers included.
MESSAGE_LIMIT_BYTES = HEAD_LIMIT_BYTES + 2 * BODY_LIMIT_BYTES
PIPELINE_LIMIT = 100
LINGER_SECONDS = 2.0


class Handler(Protocol):
    """What a connection asks of the site."""

    def opened(self, request: SiteRequest) -> None: ...
    def delay_seconds(self, request: SiteRequest) -> float: ...
    def respond(self, request: SiteRequest) -> SiteResponse | None: ...
    def finished(self, request: SiteRequest, status: str) -> None: ...


class Connection(asyncio.Protocol):
    """The life of one connection. Requests are answered one after the other, in the order they came."""

    def __init__(self, handler: Handler, connections: set["Connection"]) -> None:
        self._handler = handler
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # What is being read.
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._reading_head = False
        self._incoming: SiteRequest | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._message_bytes = 0
        self._refusal = 400
        self._deaf = False
        # What is to be answered.
        self._waiting: deque[SiteRequest] = deque()
        self._answering: SiteRequest | None = None
        self._written_status: str | None = None
        self._writing_paused = False
        self._reading_paused = False

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # With both limits at zero, resume_writing means that the last byte has left for the client.
        self._transport.set_write_buffer_limits(high=0)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 asyncio names it
        # Also soon after the client's end of file: one that was killed and one that half-closes look the same, and
        # clients of web sites do not half-close.
        self._abandon()
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._message_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._waiting[-1].keep_alive = False  # answered as if it had not asked; what follows is not for us
            self._deaf = True
        except httptools.HttpParserError:
            self._refuse(self._refusal)
        else:
            self._refuse_if_endless()
        self._advance()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._written_status is not None:
            self._close_answer()
        self._advance()

    def abort(self) -> None:
        """Cut the connection; whatever is open on it ends as aborted."""
        if self._transport is not None:
            self._transport.abort()

    # -- the parser's calls

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._reading_head = True
        self._message_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading_head:  # trailers are left out
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._reading_head = False
        parser = self._parser
        request = SiteRequest(
            parser.get_method().decode(), self._target, self._headers, keep_alive=parser.should_keep_alive()
        )
        request.old_client = parser.get_http_version() == "1.0"
        self._handler.opened(request)
        self._incoming = request
        self._body_bytes = 0
        if sum(len(name) + len(value) for name, value in self._headers) + len(self._target) > HEAD_LIMIT_BYTES:
            self._stop_parsing(431)
        length = request.header(b"content-length")
        if length and int(length) > BODY_LIMIT_BYTES:  # the parser has seen to it that it is a number
            self._stop_parsing(413)
        if request.header(b"expect").lower() == "100-continue" and self._answering is None and self._transport:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > BODY_LIMIT_BYTES:
            self._stop_parsing(413)

    def on_message_complete(self) -> None:
        if self._incoming is not None:
            if self._body:
                self._incoming.body = b"".join(self._body)
                self._body = []
            self._waiting.append(self._incoming)
            self._incoming = None

    # -- refusing

    def _stop_parsing(self, status: int) -> None:
        self._refusal = status
        raise ValueError(status)  # the parser stops at any exception and reports it as an error of its own

    def _refuse_if_endless(self) -> None:
        """Refuse a message that goes on for too long; the packet it began in is not counted."""
        if self._reading_head and self._message_bytes > HEAD_LIMIT_BYTES:
            self._refuse(431)
        elif self._incoming is not None and self._message_bytes > MESSAGE_LIMIT_BYTES:
            self._refuse(413)

    def _refuse(self, status: int) -> None:
        """Answer the message that is being read with an error, after those before it, and read no more."""
        request = self._incoming
        if request is None:
            request = SiteRequest("GET", b"", [], keep_alive=False)
            self._handler.opened(request)
        self._incoming, self._body = None, []
        request.keep_alive = False
        request.refused = status
        self._waiting.append(request)
        self._deaf = True

    # -- answering

    def _advance(self) -> None:
        """Answer what can be answered now, and read on only as long as the line of requests is short."""
        while self._waiting and self._answering is None:
            request = self._answering = self._waiting.popleft()
            delay_seconds = 0.0 if request.refused else self._handler.delay_seconds(request)
            if delay_seconds > 0:
                self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._answer_late)
            else:
                self._answer(request)
        crowded = len(self._waiting) > PIPELINE_LIMIT
        if crowded != self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = crowded
            if crowded:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _answer_late(self) -> None:
        self._timer = None
        if self._answering is not None:
            self._answer(self._answering)
            self._advance()

    def _answer(self, request: SiteRequest) -> None:
        if self._transport is None or self._transport.is_closing():
            self._abandon()
            return
        response = self._handler.respond(request)
        if response is None:
            self._answering = None
            self._handler.finished(request, CONNECTION_DROPPED)
            self._transport.abort()
            return
        self._written_status = str(response.status)
        self._transport.write(response.encoded(request))
        if not self._writing_paused:
            self._close_answer()

    def _close_answer(self) -> None:
        """Book the answer whose last byte was written, and say goodbye if it was the last one."""
        request, status = self._answering, self._written_status
        self._answering = self._written_status = None
        if request is None or status is None:
            return
        self._handler.finished(request, status)
        if request.keep_alive or self._transport is None:
            return
        self._deaf = True
        self._abandon()
        if request.refused:
            # Closing with bytes unread would reset the connection, and the client might never see the answer.
            self._transport.write_eof()
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.abort)
        else:
            self._transport.close()

    def _abandon(self) -> None:
        """End everything that is open on this connection and was not yet answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        open_requests = [*self._waiting, *(r for r in (self._answering, self._incoming) if r is not None)]
        self._waiting.clear()
        self._answering = self._incoming = self._written_status = None
        for request in open_requests:
            self._handler.finished(request, CLIENT_ABORTED)
