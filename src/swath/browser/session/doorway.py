"""Doorway: how documents of a browser pass the gate: one after the other, counted, and each told about once it is over.

documents.py stops them there, and knows what became of each. What a service worker answers would never come there, so
documents are led past them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from swath.browser.session.calls import Calls
from swath.browser.session.document import Document, request_in
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.ports.clock import Clock
from swath.web.address import canonical, shown
from swath.web.gate import Gate
from swath.web.transport import Request

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, CDPSession, Page

__all__ = ["Doorway", "PastWorkers"]

_WITH_WORKERS: Final[WeakSet[BrowserContext]] = WeakSet()  # kept for another item: Chromium may tell too late


class Doorway:
    """That of one attempt. `entered` is how many documents the gate has let out."""

    def __init__(self, calls: Calls, gate: Gate, clock: Clock, most: int) -> None:
        self._calls = calls
        self._gate = gate
        self._clock = clock
        self._most = most
        self._asked = 0
        self._waiting = 0
        self._idle_seconds = 0.0
        self._idle_since = 0.0
        self.entered = 0
        calls.idle_seconds = self._idle

    async def enter(self, event: Mapping[str, Any]) -> Request:
        """Raises as Gate.enter, and when there have been too many. While one waits here no call's time runs."""
        url = canonical(event["request"]["url"])
        self._asked += 1
        if self._asked > self._most:
            message = f"more than {self._most} pages, one after the other, the last of them {shown(url)}"
            self._calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, message)), for_good=True)
            self._calls.check()
        if not self._waiting:
            self._idle_since = self._clock.boot()
        self._waiting += 1
        try:
            entered = await self._gate.enter(request_in(event, url))
        finally:
            idle_seconds = self._idle()
            self._waiting -= 1
            if not self._waiting:
                self._idle_seconds = idle_seconds
        self.entered += 1
        return entered

    def leave(self, document: Document, failure: Failure | None = None) -> None:
        """Once for each that has entered."""
        if not document.left:
            document.left = True
            self._gate.leave(document.request, document.response, failure)

    def _idle(self) -> float:
        return self._idle_seconds + (self._clock.boot() - self._idle_since if self._waiting else 0.0)


class PastWorkers:
    """Leads what one page loads past service workers, which live on and notice nothing. Only from the moment that there
    is one: Chromium then tells of everything that the page loads, which is work for nothing on all other pages."""

    def __init__(self, page: Page, cdp: CDPSession) -> None:
        self._context = page.context
        self._cdp = cdp
        self._leads = False

    async def begin(self) -> None:
        """With those that a context has from before; from now on `Documents` calls `seen`."""
        await self._cdp.send("ServiceWorker.enable")
        if self._context in _WITH_WORKERS:
            await self._lead()

    async def seen(self, event: Mapping[str, Any]) -> None:
        """Chromium tells which there are."""
        if any(not registration["isDeleted"] for registration in event["registrations"]):
            _WITH_WORKERS.add(self._context)
            await self._lead()

    async def _lead(self) -> None:
        if self._leads:
            return
        self._leads = True
        least = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
        await asyncio.gather(
            self._cdp.send("Network.enable", least),  # without it the other has no effect
            self._cdp.send("Network.setBypassServiceWorker", {"bypass": True}),
        )
