"""An HTTP request as the site sees it, and the answer to it.

The connection makes the one from bytes and turns the other into bytes; everything between works on these two.
"""

from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl

from swath.testing.demo_county.counters import OpenRequest
from swath.testing.demo_county.sessions import COOKIE

HTML = b"text/html; charset=utf-8"
JSON = b"application/json"
PDF = b"application/pdf"
TEXT = b"text/plain; charset=utf-8"

_COOKIE_START = f"{COOKIE}=".encode()
_MOST_FORM_FIELDS = 1_000
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_COMMON_HEADERS = b"Server: demo-county\r\nCache-Control: private, no-store\r\nContent-Type: "


class Request:
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


class Response(NamedTuple):
    status: int
    body: bytes
    content_type: bytes = HTML
    extra_headers: bytes = b""
    """Further header lines, each with its line end."""

    def encoded(self, request: Request) -> bytes:
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


def redirect(location: str, extra_headers: bytes = b"") -> Response:
    """Send the client elsewhere; `location` must be free of control characters."""
    body = b"<html><head><title>Object moved</title></head><body><h2>Object moved.</h2></body></html>\r\n"
    return Response(302, body, HTML, b"Location: " + location.encode("latin-1") + b"\r\n" + extra_headers)


def _fields(encoded: str) -> list[tuple[str, str]]:
    return parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MOST_FORM_FIELDS)
