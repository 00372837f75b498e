"""A hostile site and the real way to it: session, transport and egress guard, with short patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.fakes.hostile_site import Behaviour, HostileSite
from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import FailureKind
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.page.page import WebPage

__all__ = ["HARD_SECONDS", "LONG_PATIENCE", "PATIENCE", "Meeting", "meeting", "read_all"]

PATIENCE = Timeouts(connect_seconds=0.3, request_seconds=0.5)
# For behaviours that must not end by a timeout of ours, however busy the machine is.
LONG_PATIENCE = Timeouts(connect_seconds=60.0, request_seconds=60.0)
# Only against hanging: no test fails because the machine is slow.
HARD_SECONDS = 120.0


class Meeting:
    """Fetches from the site as an item would."""

    def __init__(self, site: HostileSite, transport: DirectTransport) -> None:
        self.site = site
        self._transport = transport

    def session(self, patience: Timeouts) -> WebSession:
        return WebSession(self._transport, patience, SystemClock())

    async def end_of(self, behaviour: Behaviour) -> WebPage | FailureKind:
        """The page or the kind of failure. Reads the page, as an extractor would."""
        ended: WebPage | FailureKind
        try:
            async with asyncio.timeout(HARD_SECONDS):
                patience = PATIENCE if FailureKind.TIMEOUT in behaviour.kinds else LONG_PATIENCE
                ended = await self.session(patience).get(self.site.address(behaviour))
                read_all(ended)
        except Failed as failed:
            ended = failed.failure.kind
        return ended

    async def next_is_fine(self, behaviour: Behaviour) -> bool:
        """A good page from the same place; over the same connection, if the client still has it."""
        page = await self.session(LONG_PATIENCE).get(self.site.fine(behaviour))
        return page.text_of("h1") == "fine"


def read_all(page: WebPage) -> None:
    """Everything that reading a page does: decode, parse, search."""
    page.text.encode("utf-8")
    page.css("h1")
    page.text_of("title")
    assert page.base_url


@asynccontextmanager
async def meeting(
    folder: Path, limits: ResponseLimits | None = None, way: type[DirectTransport] = DirectTransport
) -> AsyncIterator[Meeting]:
    async with HostileSite() as site:
        authority = folder / "authority.pem"
        authority.write_bytes(site.ca_pem)
        clock = SystemClock()
        guard = EgressGuard(SystemResolver(clock), clock, allow_private=site.places)
        transport = way(guard, limits, authority)
        try:
            yield Meeting(site, transport)
        finally:
            await transport.close()
