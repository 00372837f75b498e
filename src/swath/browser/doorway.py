"""Doorway: how documents of a browser pass the gate: one after the other, counted, and each told about once it is over.

browser/documents.py stops them there, and knows what became of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swath.browser.calls import Calls
from swath.browser.document import Document, request_in
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.ports.clock import Clock
from swath.web.address import canonical, shown
from swath.web.gate import Gate
from swath.web.transport import Request

__all__ = ["Doorway"]


class Doorway:
    """That of one attempt. `entered` is how many documents the gate has let out."""

    def __init__(self, calls: Calls, gate: Gate, clock: Clock, most: int) -> None:
        self._calls = calls
        self._gate = gate
        self._clock = clock
        self._most = most
        self._asked = 0
        self._idle_seconds = 0.0
        self._idle_since: float | None = None
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
        self._idle_since = self._clock.boot()
        try:
            entered = await self._gate.enter(request_in(event, url))
        finally:
            self._idle_seconds, self._idle_since = self._idle(), None
        self.entered += 1
        return entered

    def leave(self, document: Document, failure: Failure | None = None) -> None:
        """Once for each that has entered."""
        if not document.left:
            document.left = True
            self._gate.leave(document.request, document.response, failure)

    def _idle(self) -> float:
        since = self._idle_since
        return self._idle_seconds + (0.0 if since is None else self._clock.boot() - since)
