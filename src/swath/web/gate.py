"""Gate: what every request of an attempt passes before it is sent, hops included, and passes back when it is answered.

Asked by the session; web/passage.py is the one that workers use.
"""

from __future__ import annotations

from typing import Protocol

from swath.domain.failure import Failure
from swath.domain.site import SitePolicy
from swath.proxies.route import Route
from swath.web.transport import Request, Response

__all__ = ["Gate", "OpenGate"]


class Gate(Protocol):
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


class OpenGate:
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
        return _DEFAULT

    def route(self, url: str) -> Route | None:
        """Straight."""
        del url
        return None


_DEFAULT = SitePolicy()
