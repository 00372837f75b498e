"""Windows: those that a click opens and that the scraper wants. What they would open is opened by us, through the gate.

A new window loads before the driver lets anybody look. So its first document is stopped by a route of the whole
context, and its address is then opened in a page of ours. It has no opener, which few pages look for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from swath.browser.documents import Documents
from swath.browser.hands import Hands
from swath.browser.net_errors import IGNORED, name_in
from swath.browser.nuisances import Nuisances
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical

if TYPE_CHECKING:
    from patchright.async_api import Page, Route

__all__ = ["Windows"]

_EVERYTHING: Final = "**/*"


class Windows:
    """Those of one attempt: the page that it began with, and at most a few above it."""

    def __init__(self, hands: Hands, nuisances: Nuisances) -> None:
        self._hands = hands
        self._nuisances = nuisances
        self._below: list[Page] = []

    def was_ours(self, error: Exception) -> bool:
        """Whether a page was not opened because it was stopped on purpose, or has become a file."""
        return name_in(str(error)) in IGNORED

    async def opened_by(self, selector: str) -> tuple[str, str]:
        """The address that a click would open in a new window, which stays shut; and that of the page it is on."""
        asked: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        async with _Stopped(self._hands, self._nuisances, asked):
            page = self._hands.calls.page
            here = page.url
            await self._hands.act(
                f"click on {selector}", lambda: page.locator(selector).first.click(timeout=self._hands.action_ms)
            )
            method, url = await self._hands.calls.run(
                f"waiting for the window of {selector}",
                lambda: _of(asked),
                self._hands.options.timeouts.request_seconds,
            )
        if method != "GET":
            message = f"{selector} opens a window by {method}, which cannot be opened again; use raw"
            raise Failed(Failure.of(FailureKind.NAVIGATION, message))
        return canonical(url), here

    async def enter(self, documents: Documents) -> None:
        """A new page, in which everything happens from now on."""
        calls = self._hands.calls
        page = await self._nuisances.let_open(calls.page.context.new_page())
        self._nuisances.watch_page(page)
        self._below.append(calls.page)
        await documents.attach(page)

    async def leave(self, documents: Documents) -> None:
        """Closes the present page; the one below is as it was."""
        if not self._below:
            raise Failed(Failure.of(FailureKind.INTERNAL, "there is no window to close"))
        page = self._hands.calls.page
        below = self._below.pop()
        await documents.attach(below)
        await page.close()
        await below.bring_to_front()  # what is behind others may open no windows


class _Stopped:
    """While it lasts, no window loads anything; the first address that one asks for is told."""

    def __init__(self, hands: Hands, nuisances: Nuisances, asked: asyncio.Future[tuple[str, str]]) -> None:
        self._calls = hands.calls
        self._nuisances = nuisances
        self._asked = asked

    async def __aenter__(self) -> None:
        await self._calls.bounded(self._calls.page.context.route(_EVERYTHING, self._look))

    async def __aexit__(self, *_: object) -> None:
        await self._calls.bounded(self._calls.page.context.unroute(_EVERYTHING, self._look))

    async def _look(self, route: Route) -> None:
        if self._is_of_a_window(route):
            if not self._asked.done():
                self._asked.set_result((route.request.method, route.request.url))
            await self._calls.bounded(route.abort())
        else:
            await self._calls.bounded(route.continue_())

    def _is_of_a_window(self, route: Route) -> bool:
        if not route.request.is_navigation_request():
            return False
        try:
            return route.request.frame.page is not self._calls.page
        except self._calls.driver_error:  # the window is so new that its frame is not there yet
            return True


async def _of(asked: asyncio.Future[tuple[str, str]]) -> tuple[str, str]:
    return await asked
