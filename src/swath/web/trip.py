"""Trip: one route in use, as the gateway knows it: its token, its credentials, and what went wrong on its lines.

Made by the gateway for the proxied transport, which afterwards asks it whose fault a failure was.
"""

from __future__ import annotations

import asyncio
import base64
import secrets

from swath.domain.failure import Failure, FailureKind
from swath.proxies.route import Route

__all__ = ["Line", "Trip"]


class Line:
    """One connection through the gateway to one site. `waiting`: something was asked, and no answer has begun."""

    __slots__ = ("authority", "task", "waiting")

    def __init__(self, authority: str, task: asyncio.Task[None] | None) -> None:
        self.authority = authority
        self.task = task
        self.waiting = True


class Trip:
    """Holds no reference to its route: it ends with it. Nothing here is for people to see."""

    __slots__ = (
        *("__weakref__", "_troubles", "authorities", "authorization", "connect_seconds", "host", "lines", "meter"),
        *("name", "port", "read_refusal", "scheme", "taken_bytes", "token"),
    )

    def __init__(self, route: Route) -> None:
        self.token = secrets.token_hex(16)
        self.name, self.scheme, self.host, self.port = route.name, route.scheme, route.host, route.port
        self.meter, self.read_refusal = route.meter, route.read_refusal
        self.authorization = _authorization(route)
        self.connect_seconds = 10.0
        self.authorities: set[str] = set()
        self.lines: set[Line] = set()
        self.taken_bytes = 0
        self._troubles: dict[str, Failure] = {}

    def failed(self, authority: str, message: str) -> None:
        """The proxy itself failed on the way to a site."""
        self.refused(authority, Failure.of(FailureKind.PROXY, f"the proxy {self.name} {message}"))

    def refused(self, authority: str, failure: Failure) -> None:
        """The proxy said no."""
        self._troubles[authority] = failure

    def trouble(self, authority: str) -> Failure | None:
        """What last went wrong on the way to a site, told once. A line on which no answer began is trouble, too."""
        known = self._troubles.pop(authority, None)
        if known is None and any(line.waiting and line.authority == authority for line in self.lines):
            return Failure.of(FailureKind.PROXY, f"the proxy {self.name} did not answer in time")
        return known

    def ended(self, line: Line) -> None:
        """A line is closed, by whomever. When no answer ever began on it, that is the proxy's doing."""
        self.lines.discard(line)
        if line.waiting and line.authority not in self._troubles:
            self.failed(line.authority, "sent back no answer")

    def take_bytes(self) -> int:
        """What went over the route since this was last asked."""
        taken, self.taken_bytes = self.taken_bytes, self.meter.bytes
        return self.taken_bytes - taken

    def end(self) -> None:
        """Nobody has the route any more: its lines are closed."""
        for line in self.lines:
            if line.task is not None:
                line.task.cancel()


def _authorization(route: Route) -> bytes:
    if route.username is None:
        return b""
    password = "" if route.password is None else route.password.reveal()
    pair = f"{route.username.reveal()}:{password}".encode()
    return b"Proxy-Authorization: Basic " + base64.b64encode(pair) + b"\r\n"
