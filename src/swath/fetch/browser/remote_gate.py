"""The request gate for browsers that do not run on this machine (cdp, browserbase).

Their traffic does not pass our forward proxy, so each address is checked before the browser is sent to it, and a
job's
proxy is refused.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.http.messages import Request, RequestGate, Response
from swath.fetch.proxies.route import Route
from swath.fetch.url import redacted

__all__ = ["RemoteBrowserGate"]

_LOOK_UP_SECONDS: Final = 10.0


class RemoteBrowserGate:
    """Implements Gate, before another one. What a name means where the browser is cannot be known here."""

    def __init__(self, gate: RequestGate, guard: EgressGuard) -> None:
        self._gate = gate
        self._guard = guard

    async def enter(self, request: Request) -> Request:
        """See Gate. Raises Failed: egress_denied, or access_policy where a proxy of ours is asked for, which such a
        browser cannot take and must not be said to have taken."""
        route = self._gate.route(request.url)
        if route is not None:
            message = (
                f"a browser elsewhere cannot go to {redacted(request.url)} by the proxy {route.tier}; local ones can"
            )
            raise Failed(Failure.of(FailureKind.ACCESS_POLICY, message))
        try:
            async with asyncio.timeout(_LOOK_UP_SECONDS):
                await self._guard.check_proxied(request.url)
        except TimeoutError:
            raise Failed(Failure.of(FailureKind.DNS_TEMPORARY, "the name could not be looked up in time")) from None
        return await self._gate.enter(request)

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        """See Gate."""
        self._gate.leave(request, response, failure)

    def blame(self, url: str, failure: Failure) -> None:
        """See Gate."""
        self._gate.blame(url, failure)

    def policy(self, url: str) -> SitePolicy:
        """See Gate."""
        return self._gate.policy(url)

    def route(self, url: str) -> Route | None:
        """See Gate."""
        return self._gate.route(url)
