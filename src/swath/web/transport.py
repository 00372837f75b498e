"""Transport: the one-method seam to whatever speaks HTTP. Sends one request, follows nothing, remembers nothing.

Comes after the session (cookies, redirects, default headers); implemented by direct_transport, and by tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from swath.domain.errors import Failed
from swath.proxies.route import Route

__all__ = ["Headers", "Request", "Response", "Transport", "Unreadable", "asked_again"]

T = TypeVar("T")

_HARMLESS: Final = frozenset({"GET", "HEAD"})

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


class Unreadable(Failed):
    """The answer could not be read. Asked again, the transport goes another way, which forgives other mistakes."""


async def asked_again(send: Callable[[Request], Awaitable[T]], request: Request) -> T:
    """What `send` says, the second time if the first answer could not be read. Each passes all limits, so the site
    sees no more requests than it allows; one that may have changed something there is not sent twice."""
    try:
        return await send(request)
    except Unreadable:
        if request.method not in _HARMLESS:
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
