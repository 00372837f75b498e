"""Blocks the requests of popups until the scraper accepts the popup.

A popup starts loading before the driver reports it, so they are stopped by a CDP session of the whole browser,
behind
the gate of the pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchright.async_api import CDPSession

__all__ = ["PopupGuard"]


class PopupGuard:
    """Of one browser; `begin` wants an outer bound."""

    def __init__(self, cdp: CDPSession) -> None:
        self._cdp = cdp
        self._unasked: set[str] = set()  # windows by their target, which is also what their main frame is called
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """From now on."""
        self._cdp.on("Target.targetCreated", self._opened)
        self._cdp.on("Target.targetDestroyed", lambda event: self.admit(event["targetId"]))
        self._cdp.on("Fetch.requestPaused", self._paused)
        await asyncio.gather(
            self._cdp.send("Target.setDiscoverTargets", {"discover": True, "filter": [{"type": "page"}]}),
            self._cdp.send("Fetch.enable", {"patterns": [{"resourceType": "Document"}]}),
        )

    def admit(self, window: str) -> None:
        """Somebody sees to what it loads."""
        self._unasked.discard(window)

    def _opened(self, event: Mapping[str, Any]) -> None:
        target = event["targetInfo"]
        if target.get("openerId"):
            self._unasked.add(target["targetId"])

    def _paused(self, event: Mapping[str, Any]) -> None:
        task = asyncio.ensure_future(self._answer(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, event: Mapping[str, Any]) -> None:
        request = {"requestId": event["requestId"]}
        with suppress(Exception):  # the page, or the browser, has gone
            if event["frameId"] in self._unasked:
                await self._cdp.send("Fetch.failRequest", {**request, "errorReason": "BlockedByClient"})
            else:
                await self._cdp.send("Fetch.continueRequest", request)
