"""BrowserSession: what `fetch` of a BrowserScraper gets as `browser`. One per attempt.

The scraper opens pages, acts on them and keeps what they show; every page passes the request gate and the
classifier,
as over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from swath.domain.errors import Failed, LeaseLost, NotFound, SiteUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Download, Page
from swath.domain.storage_keys import REFUSED_FRAME_PAGE, SCREENSHOT_FILE
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.action_runner import ActionRunner, BrowserCall
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.document import Document
from swath.fetch.browser.tab.downloads import FileDownloader
from swath.fetch.browser.tab.input import PageActions
from swath.fetch.browser.tab.navigation import Navigation
from swath.fetch.browser.tab.popups import PopupHandler, Windows
from swath.fetch.browser.tab.snapshot import DomSnapshot, PageClassifier, page_of, read_dom
from swath.fetch.http.blocks.classify import Verdict, classify
from swath.fetch.http.messages import RequestGate
from swath.fetch.http.page.attempt_output import AttemptOutput, check_name
from swath.fetch.http.page.page import DEFAULT_NAME, WebPage
from swath.fetch.url import redacted, resolve
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import Frame as DriverFrame
    from patchright.async_api import Page as DriverPage

    from swath.fetch.browser.providers.protocol import BrowserTab

__all__ = ["BrowserSession", "SessionParts", "UndoAction"]

UndoAction = Callable[[], Awaitable[Any]]


class SessionParts(NamedTuple):
    """Those of one attempt. `undo`: what is done before the page goes to the next item, so that it is as it was."""

    opened: BrowserTab
    hands: ActionRunner
    documents: Navigation
    nuisances: PopupHandler
    windows: Windows
    clock: Clock
    undo: list[UndoAction]


_BEGIN_SECONDS: Final = 10.0
_LAST_LOOK_SECONDS: Final = 5.0
_LOAD_STATES: Final = ("load", "domcontentloaded", "networkidle")


class BrowserSession(PageActions, AttemptOutput):
    """Used as `async with`, by the worker: what leaves that block has no browser any more, but all that was collected.

    Every method raises Failed for what is no answer, in bounded time, whatever the page does.
    """

    def __init__(self, opened: BrowserTab, gate: RequestGate, clock: Clock, options: SessionOptions) -> None:
        AttemptOutput.__init__(self)
        self._opened = opened
        self._gate = gate
        self._clock = clock
        self._options = options
        self._calls = DriverCalls(opened, clock)
        self._documents = Navigation(self._calls, gate, clock, options, self._judge)
        self._nuisances = PopupHandler(self._calls, gate, options)
        PageActions.__init__(self, ActionRunner(self._calls, self._documents, gate, clock, options))
        self._judging = PageClassifier(self._hands, gate, clock)
        self._windows = Windows(self._hands, self._nuisances, self._documents)
        self._saving = FileDownloader(self._hands, self._nuisances, self._windows, opened.running)
        self._last_url: str | None = None
        self._undo: list[UndoAction] = []

    # -- beginning and end, for the worker -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._opened.exit is not None:
            self._opened.exit.serve(self._gate, self._options.most_bytes)
        try:
            await self._calls.run("beginning", self._begin, _BEGIN_SECONDS)
        except BaseException:
            await self._opened.close()
            raise
        return self

    async def _begin(self) -> None:
        self._nuisances.watch(self._opened.context)
        self._nuisances.watch_page(self._opened.page)
        await self._documents.attach(self._opened.page)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._wants_picture(error):
                picture = await self._calls.bounded(self._calls.page.screenshot(), _LAST_LOOK_SECONDS)
                if picture is not None:
                    self._keep_download(Download(SCREENSHOT_FILE, self._saving.made(picture, "image/png")))
        finally:
            ended_well = error is None and not self._calls.is_over and self._calls.page is self._opened.page
            self._opened.keeps_page = self._opened.keeps_page and ended_well
            await asyncio.shield(self._end())

    async def _end(self) -> None:
        try:
            await self._nuisances.close(self._calls.page)
            await self._documents.close()
            if self._opened.keeps_page:
                undone = await self._calls.bounded(self._undone())
                self._opened.keeps_page = bool(undone) and await self._documents.detach()
        except self._calls.driver_error:
            self._opened.keeps_page = False  # it is gone, so nobody can be told
        finally:
            self._count()
            await self._opened.close()

    async def _undone(self) -> bool:
        for undo in self._undo:
            await undo()
        return True

    def _wants_picture(self, error: BaseException | None) -> bool:
        if self._calls.is_over or isinstance(error, (LeaseLost, SiteUnavailable)):
            return False
        if any(kept.name == SCREENSHOT_FILE for kept in self.downloads):
            return False  # the author has taken one
        failed = error is not None and not isinstance(error, NotFound)
        return self._options.screenshot == "always" or (failed and self._options.screenshot == "failure")

    # -- going to pages ------------------------------------------------------------------------------------------------

    async def goto(
        self, url: str, wait: str = "load", *, expect_status: Collection[int] = (), seconds: float | None = None
    ) -> None:
        """Opens an address and waits: for `load`, `domcontentloaded`, `networkidle`, or a selector to be shown.

        `expect_status` names statuses beside 2xx that are an answer here; nothing looks whether it is a block. It may
        take `seconds`, else what the job's policy says.
        """
        address = resolve(url, self._base())
        _, mark, fragment = url.partition("#")  # never sent, but what is shown may hang on it
        await self._hands.pause()
        self._calls.forget()
        self._hands.expected = expect_status
        self._documents.opens(address)
        until = wait if wait in _LOAD_STATES else "domcontentloaded"
        most_seconds = self._options.timeouts.navigation_seconds if seconds is None else seconds
        await self._calls.run(
            f"opening {redacted(address)}", lambda: self._go(address + mark + fragment, until), most_seconds
        )
        self._last_url = self._calls.page.url
        self._count()
        if wait not in _LOAD_STATES:
            await self.wait_for(wait)

    async def back(self) -> None:
        """To the page before."""
        await self._hands.pause()
        await self._hands.act("going back", lambda: self._calls.page.go_back(wait_until="commit", timeout=0))

    def _base(self) -> str | None:
        """What relative addresses refer to: the page, or where it should have been."""
        url = self._calls.page.url
        if url.startswith("http"):
            return url
        return self._last_url or self._options.base_url

    async def _go(self, url: str, until: Any) -> None:
        await self._documents.calm()
        try:
            await self._calls.page.goto(url, wait_until=until, timeout=0)
        except self._calls.driver_error as error:
            if not self._documents.is_busy and not self._windows.was_ours(error):
                raise
        await self._documents.settle()
        if self._documents.file is not None:
            kind = self._documents.file.header("content-type") or "nothing"
            message = f"{redacted(url)} is a file ({kind}), not a page; get it with download"
            raise Failed(Failure.of(FailureKind.NAVIGATION, message))

    # -- what a page shows ---------------------------------------------------------------------------------------------

    async def page(self, name: str | None = None) -> WebPage:
        """The page as it stands in the browser now, with the status and headers of its document. A `name` stores it."""
        page = await self._taken(name or DEFAULT_NAME, live=False)
        return page if name is None else self.keep(page, name)

    async def still(self, name: str, frame: DriverFrame | None = None) -> WebPage:
        """Stores the page as a person saw it: with what stands in its fields now. Of a frame, the document in it, which
        is not looked at for blocks: its status is not known."""
        if frame is None or frame is self._calls.page.main_frame:
            return self.keep(await self._taken(name, live=True), name)
        most = self._options.most_page_bytes
        dom = await self._hands.ask("reading a frame", lambda: read_dom(frame, most, live=True))
        return self.keep(WebPage(page_of(dom, None, name, self._clock.now())), name)

    async def refuse(self) -> Failure | None:
        """Keeps the page in front as what was met in the place of the right one, unless there is one. Never raises.
        That it asks for a password, if it does."""
        if self.refused is not None or self._calls.is_over or not self._calls.page.url.startswith("http"):
            return None
        page, document = self._calls.page, self._documents.shown
        with suppress(Failed):
            reading = read_dom(page, self._options.most_page_bytes, live=True)
            dom = await self._calls.bounded(reading, _LAST_LOOK_SECONDS)
            if dom is not None:
                self.refused = page_of(dom, document, DEFAULT_NAME, self._clock.now())
                return self._judging.login_in(dom, document)
        return None

    async def refuse_frame(self, frame: DriverFrame) -> None:
        """Keeps what stands in a frame in which something failed, beside the page around it. Never raises."""
        if self._calls.is_over:
            return
        with suppress(Failed):
            reading = read_dom(frame, self._options.most_page_bytes, live=True)
            dom = await self._calls.bounded(reading, _LAST_LOOK_SECONDS)
            if dom is not None:
                self.keep(WebPage(page_of(dom, None, REFUSED_FRAME_PAGE, self._clock.now())), REFUSED_FRAME_PAGE)

    def fill_in_logins(self) -> None:
        """Pages that ask for a password are no sign from now on that a session has ended."""
        self._judging.fills_in_logins = True

    async def _taken(self, name: str, *, live: bool) -> WebPage:
        check_name(name, "page")
        driver_page, most = self._calls.page, self._options.most_page_bytes
        if driver_page.url == "about:blank" and driver_page is self._opened.page:
            raise Failed(Failure.of(FailureKind.NAVIGATION, "no page has been opened yet"))
        dom = await self._hands.ask("reading the page", lambda: read_dom(driver_page, most, live=live))
        document = self._documents.shown
        page = WebPage(page_of(dom, document, name, self._clock.now()))
        self._conclude(self._judging.verdict(dom, document), page.page)
        return page

    # -- files and pictures --------------------------------------------------------------------------------------------

    async def download(
        self,
        filename: str,
        *,
        click: str | None = None,
        url: str | None = None,
        content_type: str | None = None,
        largest_bytes: int | None = None,
    ) -> WebPage:
        """Stores a file by our own name for it: what a click leads to, in this window or a new one, or an address.

        Raises Failed layout_changed when a `content_type` is asked for and something else comes, too_large when it has
        more than `largest_bytes`, and as over HTTP for what is no file but a wall or an outage.
        """
        if (click is None) == (url is None):
            raise TypeError("download needs either click, a selector, or url")
        await self._hands.pause()
        saving, address = self._saving, "" if url is None else resolve(url, self._base())
        begin = (lambda: saving.open(address)) if click is None else (lambda: saving.click(click))
        return await self.file_of(filename, begin, content_type, largest_bytes)

    async def file_of(
        self, filename: str, begin: BrowserCall[Any], content_type: str | None = None, largest_bytes: int | None = None
    ) -> WebPage:
        """Stores the file that something leads to, whatever it is that begins it. Raises as `download`."""
        check_name(filename, "download")
        self._calls.forget()
        most = min(largest_bytes or self._options.most_file_bytes, self._options.most_file_bytes)
        async with self._windows.wanted():
            before = self._windows.above
            page, response = await self._saving.file(f"downloading {filename}", begin, most)
            await self._calls.bounded(self._windows.back_to(before))
        self._count()
        if response is not None:
            self._conclude(classify(response, self._gate.policy(response.url), page.fetched_at), page)
        if content_type is not None and page.content_type != content_type:
            message = f"{redacted(page.url)} is {page.content_type}, not {content_type}"
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))
        self._keep_download(Download(filename, page))
        return WebPage(page)

    async def pdf(self, filename: str) -> None:
        """Stores the page as it would be printed."""
        check_name(filename, "download")
        page = self._calls.page
        printed = await self._hands.ask("printing", lambda: page.pdf(print_background=True))
        self._keep_download(Download(filename, self._saving.made(printed, "application/pdf")))

    async def screenshot(self, filename: str = SCREENSHOT_FILE, *, full_page: bool = False) -> None:
        """Stores a picture of what is in sight, or of all of the page; without a name as the item's own."""
        check_name(filename, "download")
        page = self._calls.page
        picture = await self._hands.ask("taking a picture", lambda: page.screenshot(full_page=full_page, timeout=0))
        self._keep_download(Download(filename, self._saving.made(picture, "image/png")))

    def keep_file(self, filename: str, body: bytes, content_type: str) -> None:
        """Stores a file that was made here, about the page."""
        check_name(filename, "download")
        self._keep_download(Download(filename, self._saving.made(body, content_type)))

    # -- windows and dialogs ------------------------------------------------------------------------------------------

    async def click_window(self, selector: str) -> None:
        """Clicks what opens a new window, and goes on in it. `close_window` comes back."""
        await self._hands.pause()
        windows, at, times = self._windows, self._find(selector), self._options.timeouts
        async with windows.wanted():
            before = windows.above
            await self._hands.act(f"click on {selector}", lambda: at.click(timeout=self._hands.action_ms))
            waiting = f"waiting for the window of {selector}"
            await self._calls.run(waiting, lambda: windows.more_than(before), times.request_seconds)
            await self._calls.run(waiting, windows.settle, times.navigation_seconds)
        if windows.above == before:
            raise Failed(Failure.of(FailureKind.NAVIGATION, f"the window of {selector} has shut itself again"))
        await self._calls.run(waiting, lambda: windows.bring(windows.above[-1]), _BEGIN_SECONDS)
        loaded = self._calls.page.wait_for_load_state
        await self._calls.run(waiting, lambda: loaded("load", timeout=0), times.navigation_seconds)
        self._count()

    async def close_window(self) -> None:
        """Back to the page from which the window was opened."""
        page = self._calls.page
        await self._calls.run("closing a window", lambda: self._windows.shut(page), _BEGIN_SECONDS)

    @property
    def dialogs(self) -> list[str]:
        """What the last dialogs of the page said. They were answered at once: by yes, unless `answer_no` was called."""
        return list(self._nuisances.said)

    def answer_no(self) -> None:
        """Dialogs are answered by no from now on."""
        self._nuisances.accept = False

    @property
    def inside(self) -> SessionParts:
        """For the stage on which recordings are played."""
        parts = (self._opened, self._hands, self._documents, self._nuisances, self._windows)
        return SessionParts(*parts, self._clock, self._undo)

    @property
    def raw(self) -> DriverPage:
        """The driver's page, for what is missing here. Its calls may hang: bound them by asyncio.timeout."""
        self._opened.keeps_page = False  # what is done to it there is not known here
        return self._calls.page

    # -- judging -------------------------------------------------------------------------------------------------------

    async def _judge(self, document: Document, page: DriverPage) -> None:
        """A document has come, asked for by whomever. What is no page is told to whoever acts now, or next."""
        if document.is_empty:
            dom: DomSnapshot | None = DomSnapshot(document.request.url, "text/html", b"")
        else:
            reading = read_dom(page, self._options.most_page_bytes)
            dom = await self._calls.bounded(reading, self._options.timeouts.request_seconds)
        if dom is None:
            return  # it has gone elsewhere, or does not answer, which whoever waits will notice
        try:
            self._conclude(
                self._judging.verdict(dom, document), page_of(dom, document, DEFAULT_NAME, self._clock.now())
            )
        except (Failed, NotFound) as error:
            self._calls.alarm(error)

    def _conclude(self, verdict: Verdict, page: Page) -> None:
        if verdict.failure is not None:
            self.refused = page
            self._gate.blame(page.url, verdict.failure)
            raise Failed(verdict.failure)
        if verdict.not_found is not None:
            self.pages[page.name] = WebPage(page)  # the site's word that there is no such record is worth keeping
            raise NotFound(verdict.not_found)

    def _count(self) -> None:
        self.requests = self._opened.loads = self._documents.entered
        if self._opened.exit is not None:
            self.bytes = self._opened.exit.received_bytes
