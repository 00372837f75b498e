"""Windows: those that a page opens and that are wanted. What they would load first is stopped, and opened through the
gate.

A new window loads before the driver lets anybody look. So while windows are wanted, a route of the whole context
answers their first request with an empty page: nothing leaves. The window itself stays, with its opener, and is then
sent to the address by us. What nobody wants is shut (nuisances.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from swath.browser.session.documents import Documents
from swath.browser.session.hands import Hands
from swath.browser.session.net_errors import IGNORED, name_in
from swath.browser.session.nuisances import Nuisances
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown

if TYPE_CHECKING:
    from patchright.async_api import Page, Route

__all__ = ["Windows"]

_EVERYTHING: Final = "**/*"
_EMPTY: Final = "<!DOCTYPE html><html><head></head><body></body></html>"
_COMES_SECONDS: Final = 3.0  # within which a window is there after its page has said that it opens one


class _Stopped(NamedTuple):
    """What a new window asked for; `page` is None when it was too new to be known."""

    page: Page | None
    method: str
    url: str
    referer: str | None


class Windows:
    """Those of one attempt: the page that it began with, and at most a few above it."""

    def __init__(self, hands: Hands, nuisances: Nuisances, documents: Documents) -> None:
        self._hands = hands
        self._nuisances = nuisances
        self._documents = documents
        self._main = hands.calls.page
        self._above: list[Page] = []
        self._stopped: list[_Stopped] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._announced_at: list[float] = []
        self._wanting = 0
        nuisances.on_closed = self._closed
        documents.on_window = self._announced

    @property
    def main(self) -> Page:
        """The page that the attempt began with."""
        return self._main

    @property
    def above(self) -> list[Page]:
        """Those that are open, the newest last."""
        return list(self._above)

    def was_ours(self, error: Exception) -> bool:
        """Whether a page was not opened because it was stopped on purpose, or has become a file."""
        return name_in(str(error)) in IGNORED

    @asynccontextmanager
    async def wanted(self) -> AsyncIterator[None]:
        """While it lasts, windows that pages open are kept, and what they load passes the gate."""
        calls, context = self._hands.calls, self._main.context
        self._wanting += 1
        try:
            if self._wanting == 1:
                await calls.run("waiting for windows", lambda: context.route(_EVERYTHING, self._look), _COMES_SECONDS)
                self._nuisances.adopt = self._adopt
            yield
        finally:
            self._wanting -= 1
            if not self._wanting:
                self._nuisances.adopt = None
                await self._stop_opening()
                await calls.bounded(context.unroute(_EVERYTHING, self._look))

    async def settle(self) -> None:
        """Returns when every window that was announced is there, and shows its first page."""
        while self._wanting and (self._opening or self._is_announced()):
            if self._opening:
                await asyncio.wait(self._opening)
            else:
                await asyncio.sleep(0.02)

    async def more_than(self, before: Sequence[Page]) -> None:
        """Returns when there is a window that was not there before."""
        while len(self._above) <= len(before):  # noqa: ASYNC110 the driver sets no event
            await asyncio.sleep(0.02)

    async def bring(self, page: Page) -> None:
        """This one is in front from now on; whoever calls bounds it."""
        if self._hands.calls.page is not page:
            await self._documents.attach(page)
            await page.bring_to_front()  # what is behind others may open no windows

    async def shut(self, page: Page) -> None:
        """Closes one; that below is in front again. Whoever calls bounds it."""
        if page not in self._above:
            raise Failed(Failure.of(FailureKind.INTERNAL, "there is no window to close"))
        below = self._above[: self._above.index(page)]
        await self.bring(below[-1] if below else self._main)
        await page.close()

    async def back_to(self, before: Sequence[Page]) -> None:
        """Closes those that have come since then."""
        for page in reversed(self.above):
            if page not in before:
                await self.shut(page)

    # -- how they come -------------------------------------------------------------------------------------------------

    def _announced(self) -> None:
        self._announced_at.append(asyncio.get_running_loop().time())

    def _is_announced(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._announced_at = [at for at in self._announced_at if now - at < _COMES_SECONDS]
        return bool(self._announced_at)

    async def _look(self, route: Route) -> None:
        request, calls = route.request, self._hands.calls
        page: Page | None = None
        mine = True
        if request.is_navigation_request():
            try:
                page = request.frame.page
                mine = request.frame is not page.main_frame or self._documents.knows(page)
            except calls.driver_error:  # the window is so new that its frame is not there yet
                mine = False
        if mine:
            await calls.bounded(route.continue_())
            return
        headers = request.headers
        self._stopped.append(_Stopped(page, request.method, request.url, headers.get("referer")))
        await calls.bounded(route.fulfill(status=200, content_type="text/html", body=_EMPTY))

    def _adopt(self, page: Page) -> None:
        """A window is there."""
        del self._announced_at[:1]
        task = asyncio.ensure_future(self._open(page))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, page: Page) -> None:
        calls = self._hands.calls
        self._nuisances.watch_page(page)
        self._above.append(page)
        try:
            async with asyncio.timeout(_COMES_SECONDS):
                await self._documents.open(page)
            asked = self._asked_by(page)
            if asked is not None:
                await self._go(page, asked)
        except TimeoutError:
            calls.alarm(Failed(Failure.of(FailureKind.TIMEOUT, f"the window {shown(page.url)} does not answer")))
        except Failed as failed:
            calls.alarm(failed)
        except calls.driver_error:
            if not page.is_closed():  # one that has shut itself again is nobody's trouble
                calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, f"the window {shown(page.url)} did not open")))

    def _asked_by(self, page: Page) -> _Stopped | None:
        for asked in reversed(self._stopped):
            if asked.page is page or (asked.page is None and asked.url == page.url):
                self._stopped.remove(asked)
                return asked
        if page.url.startswith("http") and self._documents.shown_in(page) is None:
            # Answered in the browser itself, by a service worker: nothing was stopped, and nobody knows what it was.
            return _Stopped(page, "GET", page.url, None)
        return None

    async def _go(self, page: Page, asked: _Stopped) -> None:
        if asked.method != "GET":
            message = f"a window is opened by {asked.method}, which cannot be asked for again: {shown(asked.url)}"
            raise Failed(Failure.of(FailureKind.NAVIGATION, message))
        try:
            await page.goto(asked.url, wait_until="domcontentloaded", timeout=0, referer=asked.referer)
        except self._hands.calls.driver_error as error:
            if not self.was_ours(error) and not self._hands.calls.has_moved(error):  # its opener sent it elsewhere
                raise
        await self._documents.settle(page)

    def _closed(self, page: Page) -> bool:
        """Whether it is one of those above, which may close without harm."""
        if page not in self._above:
            return False
        below = [other for other in self._above if other is not page]
        self._above = below
        if self._hands.calls.page is page:
            task = asyncio.ensure_future(self._step_back(below[-1] if below else self._main))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        self._documents.drop(page)
        return True

    async def _step_back(self, page: Page) -> None:
        calls = self._hands.calls
        with suppress(TimeoutError, calls.driver_error):
            async with asyncio.timeout(_COMES_SECONDS):
                await self.bring(page)

    async def _stop_opening(self) -> None:
        tasks = list(self._opening)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
