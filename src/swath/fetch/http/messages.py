"""HTTP requests, responses and redirects, and the two protocols that take a request.

Transport sends one; RequestGate says when and by which route it may be sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.proxies.route import Route
from swath.fetch.url import canonical, origin_of, redacted, resolve

__all__ = [
    "MOST_REDIRECTS",
    "Headers",
    "Request",
    "RequestGate",
    "Response",
    "Transport",
    "UnreadableResponse",
    "UnrestrictedGate",
    "is_redirect",
    "next_request",
    "send_with_retry",
]

T = TypeVar("T")

_REPEATABLE_METHODS: Final = frozenset({"GET", "HEAD"})

Headers = tuple[tuple[str, str], ...]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, complete. `request_timeout_seconds` bounds everything from the dial to the last byte.

    Without a `route` it goes straight to the site. `impersonate` names a browser to imitate below HTTP. A body above
    `largest_bytes` (or the transport's own cap, where that is lower or nothing is said) is given up.
    """

    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""
    connect_timeout_seconds: float = 10.0
    request_timeout_seconds: float = 30.0
    route: Route | None = None
    impersonate: str | None = None
    largest_bytes: int | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Header names are lower-case, values Latin-1; `body` is decoded, `wire_bytes` is what was received."""

    url: str
    status: int
    headers: Headers = ()
    body: bytes = b""
    wire_bytes: int = 0

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        for known, value in self.headers:
            if known == name:
                return value
        return None


class UnreadableResponse(Failed):
    """The answer could not be read. Asked again, the transport goes another way, which forgives other mistakes."""


async def send_with_retry(send: Callable[[Request], Awaitable[T]], request: Request) -> T:
    """What `send` says, the second time if the first answer could not be read. Each passes all limits, so the site
    sees no more requests than it allows; one that may have changed something there is not sent twice."""
    try:
        return await send(request)
    except UnreadableResponse:
        if request.method not in _REPEATABLE_METHODS:
            raise
    return await send(request)


class Transport(Protocol):
    """Shared by all items of a process."""

    async def send(self, request: Request) -> Response:
        """Answers with whatever status came, or raises Failed. Nothing else comes out, but for a cancellation."""
        ...

    async def close(self) -> None:
        """Lets go of the connections; further requests fail."""
        ...


MOST_REDIRECTS: Final = 10
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_BODY_HEADERS: Final = frozenset({"content-type", "content-encoding", "content-language", "content-length", "origin"})
_CREDENTIAL_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


def is_redirect(status: int, headers: Headers) -> bool:
    """Whether an answer sends us on; its body is then nobody's page."""
    return status in _REDIRECT_STATUSES and any(name == "location" for name, _ in headers)


def next_request(request: Request, response: Response) -> Request | None:
    """The request for the next hop; None when the answer is no redirect. Raises Failed navigation for a bad target."""
    location = response.header("location") if response.status in _REDIRECT_STATUSES else None
    if location is None:
        return None
    try:
        # A header is bytes: what is not ASCII goes on as the very bytes that came.
        url = resolve(
            location if location.isascii() else quote(location.encode("latin-1"), safe=_URL_CHARACTERS), request.url
        )
    except Failed:
        message = f"{redacted(request.url)} redirects to {redacted(location)[:100]!r}"
        raise Failed(Failure.of(FailureKind.NAVIGATION, message)) from None
    method, body, dropped = request.method, request.body, frozenset[str]()
    if (response.status in {301, 302} and method == "POST") or (
        response.status == 303 and method not in {"GET", "HEAD"}
    ):
        method, body, dropped = "GET", b"", _BODY_HEADERS
    if origin_of(url) != origin_of(canonical(request.url)):
        dropped |= _CREDENTIAL_HEADERS
    headers = tuple((name, value) for name, value in request.headers if name.lower() not in dropped)
    return msgspec.structs.replace(request, url=url, method=method, body=body, headers=headers)


_URL_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~ "


class RequestGate(Protocol):
    """One per attempt."""

    async def enter(self, request: Request) -> Request:
        """Waits until the request may be sent, and says how: the answer is the request to send.

        Raises Failed (robots.txt denies it, no proxy is healthy), SiteHeld, or LeaseLost. Each `enter` that returned is
        followed by one `leave`.
        """
        ...

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        """The exchange is over: with an answer, a failure, both (an answer that means one), or neither (cancelled)."""
        ...

    def blame(self, url: str, failure: Failure) -> None:
        """An answer from this address was judged to be a failure."""
        ...

    def policy(self, url: str) -> SitePolicy:
        """How the site of an address is visited."""
        ...

    def route(self, url: str) -> Route | None:
        """By which way requests to the site of an address leave; None: straight. Raises Failed when there is none."""
        ...


class UnrestrictedGate:
    """Implements Gate. Nothing is asked of anybody: for a look at one page by hand, and for tests."""

    async def enter(self, request: Request) -> Request:
        """As it is."""
        return request

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        """Nobody wants to know."""

    def blame(self, url: str, failure: Failure) -> None:
        """Nor this."""

    def policy(self, url: str) -> SitePolicy:
        """The default."""
        del url
        return _DEFAULT_POLICY

    def route(self, url: str) -> Route | None:
        """Straight."""
        del url
        return None


_DEFAULT_POLICY = SitePolicy()
