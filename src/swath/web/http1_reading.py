"""One answer of HTTP/1.1 while it is read: its head, then its body, and in the end a Response.

Filled by http1_connection.py with what the parser finds.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from swath.domain.errors import Failed
from swath.web.decode import Body
from swath.web.limits import Limits
from swath.web.redirects import is_redirect
from swath.web.stalls import Pace
from swath.web.transport import Headers, Request, Response

__all__ = ["Reading"]

_BODILESS: Final = frozenset({101, 204, 304})


class Reading:
    """One answer on its way in. `is_enough`: nothing more is waited for; `is_complete`: all of it has come."""

    __slots__ = (
        *("answer", "body", "ends_with_line", "failed", "fields", "has_two_lengths", "head_bytes", "is_complete"),
        *("is_enough", "is_interim", "is_watched", "pace", "received_bytes", "request", "status", "stays"),
    )

    def __init__(self, answer: asyncio.Future[Response], request: Request, pace: Pace) -> None:
        self.answer = answer
        self.request = request
        self.pace = pace
        self.fields: list[tuple[str, str]] = []
        self.status = 0
        self.head_bytes = 0
        self.received_bytes = 0
        self.body: Body | None = None
        self.failed: Failed | None = None
        self.is_interim = self.is_enough = self.is_complete = self.is_watched = False
        self.ends_with_line = self.has_two_lengths = False
        self.stays = False

    def add(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        self.fields.append((_name(name), str(value, "latin-1")))

    def begin(self, status: int, limits: Limits) -> None:
        """The head is known. Raises Failed when that is enough to refuse the rest."""
        request, headers = self.request, tuple(self.fields)
        self.status, self.head_bytes = status, _size(headers)
        limits.check_head(self.head_bytes, request)
        announced, encodings, coding = _framing(headers)
        if is_redirect(status, headers) or request.method == "HEAD" or status in _BODILESS:
            self.body, self.is_enough = Body([], 0), True
            return
        if coding is None:
            limits.check_announced(announced, request)
        self.body = Body(encodings, limits.cap_bytes(request))
        self.has_two_lengths = coding is not None and announced is not None  # the first counts, to everybody
        self.ends_with_line = announced is None if coding is None else coding.rpartition(",")[2].strip() != "chunked"

    def response(self) -> Response:
        """Raises Failed when the body does not decode."""
        body = cast("Body", self.body)
        return Response(
            url=self.request.url,
            status=self.status,
            headers=tuple(self.fields),
            body=body.whole(),
            wire_bytes=self.head_bytes + body.wire_bytes,
        )


def _name(raw: bytes) -> str:
    """In lower case. Those that are common are kept."""
    known = _NAMES.get(raw)
    if known is None:
        known = str(raw, "latin-1").lower()
        if len(raw) <= _LONGEST_KEPT and len(_NAMES) < _MOST_KEPT:
            _NAMES[raw] = known
    return known


_NAMES: Final[dict[bytes, str]] = {}
_LONGEST_KEPT: Final = 40
_MOST_KEPT: Final = 1_000


def _size(headers: Headers) -> int:
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
