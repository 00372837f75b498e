"""Handles what a page opens by itself: dialogs, popup windows, downloads. Wanted windows are kept, others are closed.

A new window loads before the driver shows it. While windows are wanted, a route of the whole context answers their
first request with an empty page, and the window is then sent to its address through the request gate. A page that
opens
too many is given up: its renderer is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from swath.domain.errors import Failed, LeaseLost, SiteUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.action_runner import ActionRunner
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.navigation import Navigation
from swath.fetch.browser.tab.net_errors import IGNORED_ERRORS, net_error_in
from swath.fetch.http.messages import Request, RequestGate
from swath.fetch.url import canonical, redacted

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Dialog, Download, Page, Route

__all__ = ["PopupHandler", "Windows"]

_MOST_TEXTS: Final = 20
_TEXT_CHARS: Final = 1_000


class PopupHandler:
    """`said` is what the last dialogs said. `accept`: whether questions are answered with yes. `adopt` takes windows
    that are wanted, and `on_closed` says whether a window could close without harm.

    `file` is where a file goes that somebody waits for, and that came by no document: one that the page has made
    itself.
    """

    def __init__(self, calls: DriverCalls, gate: RequestGate, options: SessionOptions) -> None:
        self._calls = calls
        self._gate = gate
        self._options = options
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dialogs = 0
        self._windows = 0
        self.said: list[str] = []
        self.accept = True
        self.adopt: Callable[[Page], None] | None = None
        self.on_closed: Callable[[Page], bool] = lambda _: False
        self.file: asyncio.Future[Download] | None = None

    def watch(self, context: BrowserContext) -> None:
        """From now on; ends with `close`."""
        self._context = context
        context.on("page", self._window)
        context.on("dialog", self._dialog)

    def watch_page(self, page: Page) -> None:
        """A page that we work in."""
        page.on("download", self._download)
        page.on("crash", self._crashed)
        page.on("close", self._closed)

    async def close(self, page: Page) -> None:
        """Stops watching: a kept context lives on, and is another attempt's next."""
        self._context.remove_listener("page", self._window)
        self._context.remove_listener("dialog", self._dialog)
        page.remove_listener("download", self._download)
        page.remove_listener("crash", self._crashed)
        page.remove_listener("close", self._closed)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _dialog(self, dialog: Dialog) -> None:
        self._dialogs += 1
        self.said.append(dialog.message[:_TEXT_CHARS])
        del self.said[:-_MOST_TEXTS]
        leave = dialog.type == "beforeunload"
        yes = leave or self.accept
        self._spawn(self._calls.bounded(_accept(dialog) if yes else dialog.dismiss()))
        if self._dialogs > self._options.most_dialogs:
            self._give_up(f"more than {self._options.most_dialogs} dialogs, one after the other")

    def _window(self, page: Page) -> None:
        self._windows += 1
        if self.adopt is not None:
            self.adopt(page)
        else:
            self._spawn(self._shut(page))
        if self._windows > self._options.most_windows:
            self._give_up(f"more than {self._options.most_windows} windows, one after the other")

    async def _shut(self, page: Page) -> None:
        """A window that nobody wants. Browsers of our own let nothing of it out (chromium/porter.py). Elsewhere what it
        asked for has left before we could say no: the site's pace knows of it, so that whatever comes next waits."""
        url = page.url
        await self._calls.bounded(page.close())
        try:
            request = await self._gate.enter(Request(url=canonical(url)))
        except Failed:
            return  # no address, or one where we would not have gone
        except (LeaseLost, SiteUnavailable) as error:
            self._calls.alarm(error, for_good=True)
            return
        self._gate.leave(request, None, None)

    def _download(self, download: Download) -> None:
        if self.file is not None and not self.file.done():
            self.file.set_result(download)
        else:
            self._spawn(self._calls.bounded(download.cancel()))

    def _crashed(self, _: Page) -> None:
        self._calls.alarm(self._calls.gone("the page's process died"), for_good=True)

    def _closed(self, page: Page) -> None:
        if not self.on_closed(page) and page is self._calls.page:
            self._calls.alarm(self._calls.gone("the page was closed, or the browser is gone"), for_good=True)

    def _give_up(self, what: str) -> None:
        if self._calls.is_over:
            return
        message = f"the page {redacted(self._calls.page.url)} opened {what}"
        self._calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, message)), for_good=True)
        self._spawn(self._calls.end_renderer())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _accept(dialog: Dialog) -> None:
    """OK, as a person presses it: a prompt keeps the text that the page has put into it."""
    if dialog.type == "prompt":
        await dialog.accept(dialog.default_value)
    else:
        await dialog.accept()


_EVERYTHING: Final = "**/*"
_EMPTY_PAGE: Final = "<!DOCTYPE html><html><head></head><body></body></html>"
_OPEN_SECONDS: Final = 3.0  # within which a window is there after its page has said that it opens one


class _StoppedRequest(NamedTuple):
    """What a new window asked for; `page` is None when it was too new to be known."""

    page: Page | None
    method: str
    url: str
    referer: str | None


class Windows:
    """Those of one attempt: the page that it began with, and at most a few above it."""

    def __init__(self, hands: ActionRunner, nuisances: PopupHandler, documents: Navigation) -> None:
        self._hands = hands
        self._nuisances = nuisances
        self._documents = documents
        self._main = hands.calls.page
        self._above: list[Page] = []
        self._stopped: list[_StoppedRequest] = []
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
        return net_error_in(str(error)) in IGNORED_ERRORS

    @asynccontextmanager
    async def wanted(self) -> AsyncIterator[None]:
        """While it lasts, windows that pages open are kept, and what they load passes the gate."""
        calls, context = self._hands.calls, self._main.context
        self._wanting += 1
        try:
            if self._wanting == 1:
                await calls.run("waiting for windows", lambda: context.route(_EVERYTHING, self._look), _OPEN_SECONDS)
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
        self._announced_at = [at for at in self._announced_at if now - at < _OPEN_SECONDS]
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
        self._stopped.append(_StoppedRequest(page, request.method, request.url, headers.get("referer")))
        await calls.bounded(route.fulfill(status=200, content_type="text/html", body=_EMPTY_PAGE))

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
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._documents.open(page)
            asked = self._asked_by(page)
            if asked is not None:
                await self._go(page, asked)
        except TimeoutError:
            calls.alarm(Failed(Failure.of(FailureKind.TIMEOUT, f"the window {redacted(page.url)} does not answer")))
        except Failed as failed:
            calls.alarm(failed)
        except calls.driver_error:
            if not page.is_closed():  # one that has shut itself again is nobody's trouble
                calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, f"the window {redacted(page.url)} did not open")))

    def _asked_by(self, page: Page) -> _StoppedRequest | None:
        for asked in reversed(self._stopped):
            if asked.page is page or (asked.page is None and asked.url == page.url):
                self._stopped.remove(asked)
                return asked
        if page.url.startswith("http") and self._documents.shown_in(page) is None:
            # Answered in the browser itself, by a service worker: nothing was stopped, and nobody knows what it was.
            return _StoppedRequest(page, "GET", page.url, None)
        return None

    async def _go(self, page: Page, asked: _StoppedRequest) -> None:
        if asked.method != "GET":
            message = f"a window is opened by {asked.method}, which cannot be asked for again: {redacted(asked.url)}"
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
            async with asyncio.timeout(_OPEN_SECONDS):
                await self.bring(page)

    async def _stop_opening(self) -> None:
        tasks = list(self._opening)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
