"""Passes every document that the main frame of a page requests through the request gate, whatever caused it.

A CDP session of our own pauses documents, and only documents, before they are sent and again when they are answered:
opened addresses, clicks, forms, scripts, refreshes, redirects. The answer is classified like one over HTTP
(`judge`),
and `settle` returns when no navigation is under way. Each window has its own state; one is in front, and calls and
their time refer to it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from swath.domain.errors import Failed, SwathError
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.document import (
    AwaitedFile,
    Document,
    DocumentGate,
    ServiceWorkerBypass,
    WindowState,
    is_file,
    read_body,
    response_from_event,
)
from swath.fetch.browser.tab.net_errors import ABORTED, IGNORED_ERRORS, NO_BODY, net_error_in
from swath.fetch.http.messages import RequestGate, Response, is_redirect
from swath.fetch.url import canonical, redacted
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, Page
    from patchright.async_api import Request as DriverRequest

__all__ = ["Navigation"]

_ERROR_PAGE_SECONDS: Final = 2.0
_ANNOUNCED_SECONDS: Final = 0.5  # within which a document is asked for after the page has said that it will be
_FROM_BACK_FORWARD_CACHE: Final = "BackForwardCacheRestore"  # a page that was left, whole
_TYPES: Final = {"image": "Image", "font": "Font", "media": "Media", "stylesheet": "Stylesheet"}


class Navigation:
    """Those of one attempt. `file` is the file that came in the place of the address that was opened last."""

    def __init__(
        self,
        calls: DriverCalls,
        gate: RequestGate,
        clock: Clock,
        options: SessionOptions,
        judge: Callable[[Document, Page], Awaitable[None]],
    ) -> None:
        self._calls = calls
        self._door = DocumentGate(calls, gate, clock, options.most_documents)
        self._clock = clock
        self._judge = judge
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_loader: dict[str, Document] = {}
        self._earlier: set[str] = set()  # loaders whose documents were asked for before we were here
        self._gated: set[str] = set()  # main frames that show nothing any more but what has passed here
        self._news = asyncio.Event()
        self._lines: dict[Page, WindowState] = {}
        self._front: WindowState | None = None
        self.on_window: Callable[[], None] = lambda: None  # a page has said that it opens one
        self.blocked: tuple[str, ...] = options.block
        self.file: Response | None = None
        self._opened: str | None = None  # an address, until it is shown
        self._opened_loader: str | None = None  # that of its document, and of what it is redirected to
        self.wanted: AwaitedFile | None = None
        calls.awaits_site = lambda: self._front is not None and self._front.awaits_site

    # -- the pages -----------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> Document | None:
        """What the page in front shows, if it came this way."""
        return None if self._front is None else self._front.shown

    def shown_in(self, page: Page) -> Document | None:
        """The same of any page."""
        line = self._lines.get(page)
        return None if line is None else line.shown

    def knows(self, page: Page) -> bool:
        """Whether its documents pass here."""
        return page in self._lines

    async def attach(self, page: Page) -> None:
        """From now on this page is in front, for the first time or again; whoever calls bounds it."""
        line = await self.open(page)
        self._front = line
        self._calls.page, self._calls.cdp = page, line.cdp

    async def open(self, page: Page) -> WindowState:
        """From now on the documents of this page pass here."""
        if page in self._lines:
            return self._lines[page]
        cdp = await page.context.new_cdp_session(page)
        told: list[dict[str, Any]] = await asyncio.gather(
            cdp.send("Page.getFrameTree"),
            cdp.send("Page.enable"),
            cdp.send("Page.setLifecycleEventsEnabled", {"enabled": True}),
        )
        line = WindowState(page, cdp, told[0]["frameTree"]["frame"]["id"])
        if not self._lines:
            self._gated.add(line.main_frame)  # other windows come with a page that is not the site's (windows.py)
        workers = ServiceWorkerBypass(page, cdp)
        cdp.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: self._spawn(self._calls.bounded(workers.seen(event))),
        )
        cdp.on("Fetch.requestPaused", lambda event: self._spawn(self._paused(line, event)))
        cdp.on("Fetch.authRequired", lambda event: self._spawn(self._no_password(cdp, event)))
        cdp.on("Page.frameRequestedNavigation", functools.partial(self._announced, line))
        cdp.on("Page.frameNavigated", functools.partial(self._went, line))
        cdp.on("Page.lifecycleEvent", functools.partial(self._lives, line))
        cdp.on("Page.windowOpen", lambda _: self.on_window())
        line.failed = functools.partial(self._failed, line)
        page.on("requestfailed", line.failed)
        await asyncio.gather(self._stop_at(line), workers.begin())
        self._lines[page] = line
        self._calls.admit(line.main_frame)
        return line

    def drop(self, page: Page) -> None:
        """It is closed."""
        line = self._lines.pop(page, None)
        if line is None:
            return
        for document in (line.coming, line.shown):
            if document is not None:
                self._door.leave(document)
        line.asked = line.coming = line.announced_at = None
        self._news.set()

    async def stop_at(self, blocked: tuple[str, ...]) -> None:
        """Tells Chromium what to stop: documents both ways, and what is not to be loaded at all."""
        unknown = [kind for kind in blocked if kind not in _TYPES]
        if unknown:
            raise ValueError(f"block: {unknown[0]!r} cannot be left out; one of {', '.join(_TYPES)} can")
        self.blocked = blocked
        await asyncio.gather(*(self._stop_at(line) for line in self._lines.values()))

    async def _stop_at(self, line: WindowState) -> None:
        patterns = [{"resourceType": "Document"}, {"resourceType": "Document", "requestStage": "Response"}]
        patterns += [{"resourceType": _TYPES[kind]} for kind in self.blocked]
        await line.cdp.send("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})

    def opens(self, url: str) -> None:
        """Somebody opens this address in the page in front. Files that it throws once it is shown are not what came."""
        self.file, self._opened, self._opened_loader = None, _without_scheme(url), None

    @property
    def is_busy(self) -> bool:
        """Whether a document is on its way to the page in front."""
        return self._front is not None and self._is_busy(self._front)

    @property
    def entered(self) -> int:
        """How many the gate has let out."""
        return self._door.entered

    async def settle(self, page: Page | None = None) -> None:
        """Returns when no document is on its way to the page in front, or to another: the last has come and was looked
        at, or nothing came of it."""
        line = self._front if page is None else self._lines.get(page)
        while line is not None and self._is_busy(line):
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANNOUNCED_SECONDS):
                    await self._news.wait()

    async def calm(self) -> None:
        """Returns when Chromium has shown its own page for what failed last, which else would come in between."""
        line = self._front
        if line is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_ERROR_PAGE_SECONDS):
                while line.error_comes:
                    self._news.clear()
                    await self._news.wait()
        line.error_comes = False

    async def close(self) -> None:
        """Lets go of everything; the gate hears that what was open is over."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for document in self._by_loader.values():
            self._door.leave(document)

    async def detach(self) -> bool:
        """Leaves the page in front as if it had never been there. Whether that could be done."""
        line = self._front
        if line is None or line.failed is None:
            return False
        line.page.remove_listener("requestfailed", line.failed)
        return await self._calls.bounded(_detach(line.cdp)) is not None

    # -- what Chromium stops -------------------------------------------------------------------------------------------

    async def _paused(self, line: WindowState, event: Mapping[str, Any]) -> None:
        cdp, at = line.cdp, {"requestId": event["requestId"]}
        if event["resourceType"] != "Document":
            await self._calls.bounded(cdp.send("Fetch.failRequest", {**at, "errorReason": "BlockedByClient"}))
        elif event["frameId"] != line.main_frame or "responseErrorReason" in event:
            await self._calls.bounded(cdp.send("Fetch.continueRequest", at))
        elif "responseStatusCode" in event:
            await self._answered(line, event)
        else:
            if line.entering is not None:
                line.entering.cancel()  # the page has changed its mind
            line.entering = asyncio.current_task()
            await self._ask(line, event)

    async def _ask(self, line: WindowState, event: Mapping[str, Any]) -> None:
        loader_id = event.get("networkId") or event["requestId"]
        former, line.coming, line.asked = line.coming, None, loader_id
        line.announced_at = line.error_url = None
        self._gated.add(line.main_frame)
        # What is still loading elsewhere is no longer waited for: its site may let in one at a time.
        for document in (former, *(other.shown for other in self._lines.values())):
            if document is not None:
                self._door.leave(document)
        try:
            entered = await self._door.enter(event)
        except Exception as error:  # noqa: BLE001 whatever it is, somebody waits for this document, and must hear of it
            self._calls.alarm(error, for_good=isinstance(error, SwathError) and not isinstance(error, Failed))
            await self._stop(line, event, "BlockedByClient")
            return
        document = line.coming = self._by_loader[loader_id] = Document(loader_id, entered)
        if line is self._front and self._opened == _without_scheme(entered.url):
            self._opened_loader = loader_id
        going = self._calls.bounded(line.cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]}))
        if await going is None:
            self._door.leave(document)

    async def _answered(self, line: WindowState, event: Mapping[str, Any]) -> None:
        loader_id = event.get("networkId") or event["requestId"]
        document = self._by_loader.get(loader_id)
        going_on = {"requestId": event["requestId"]}
        if document is None:
            self._earlier.add(loader_id)
            await self._calls.bounded(line.cdp.send("Fetch.continueRequest", going_on))
            return
        response = response_from_event(event, document.request.url)
        failure = self._calls.exits_own(response)
        if failure is not None:
            self._door.leave(document, failure)
            self._calls.alarm(Failed(failure))
            await self._stop(line, event, "BlockedByClient")
            return
        document.response = response
        if self.wanted is not None and not is_redirect(response.status, response.headers):
            await self._take(line, event, document, response, self.wanted)
        elif is_file(response, asked_as_file="networkId" not in event):
            if line is self._front and self._opened is not None:
                self.file = response
            self._door.leave(document)
            await self._stop(line, event, "Aborted")
        else:
            if is_redirect(response.status, response.headers):
                self._door.leave(document)
            await self._calls.bounded(line.cdp.send("Fetch.continueRequest", going_on))

    async def _take(
        self, line: WindowState, event: Mapping[str, Any], document: Document, response: Response, wanted: AwaitedFile
    ) -> None:
        self.wanted = None
        try:
            body = await read_body(line.cdp, event["requestId"], response, wanted.largest_bytes)
            document.response = msgspec.structs.replace(response, body=body)
            if not wanted.came.done():
                wanted.came.set_result((document.request, document.response))
        except Failed as failed:
            self._calls.alarm(failed)
        finally:
            self._door.leave(document)
            await self._stop(line, event, "Aborted")

    async def _stop(self, line: WindowState, event: Mapping[str, Any], reason: str) -> None:
        failing = {"requestId": event["requestId"], "errorReason": reason}
        await self._calls.bounded(line.cdp.send("Fetch.failRequest", failing))
        self._over(line, event.get("networkId") or event["requestId"])

    async def _no_password(self, cdp: CDPSession, event: Mapping[str, Any]) -> None:
        """Nobody is there to type one: the site's answer to those who have none is shown."""
        answer = {"requestId": event["requestId"], "authChallengeResponse": {"response": "CancelAuth"}}
        await self._calls.bounded(cdp.send("Fetch.continueWithAuth", answer))

    # -- what becomes of it --------------------------------------------------------------------------------------------

    def _announced(self, line: WindowState, event: Mapping[str, Any]) -> None:
        if event["frameId"] == line.main_frame and event["disposition"] == "currentTab":
            line.announced_at = self._clock.boot()

    def _is_busy(self, line: WindowState) -> bool:
        since = line.announced_at
        return line.asked is not None or (since is not None and self._clock.boot() - since < _ANNOUNCED_SECONDS)

    def _went(self, line: WindowState, event: Mapping[str, Any]) -> None:
        """The main frame shows another document, or one that it had shown before."""
        frame = event["frame"]
        if frame["id"] == line.main_frame:
            line.shown = self._by_loader.get(frame["loaderId"])
            line.error_comes, line.error_url = False, frame.get("unreachableUrl")
            if frame["loaderId"] == self._opened_loader:
                self.file = self._opened = None
            if line.shown is None and event.get("type") != _FROM_BACK_FORWARD_CACHE:
                self._came_otherwise(line, frame)
            self._news.set()

    def _came_otherwise(self, line: WindowState, frame: Mapping[str, Any]) -> None:
        """Of a page of the site's that has not passed here nobody knows what it was: it may be a refusal."""
        url, is_ours = frame["url"], line.main_frame in self._gated and frame["loaderId"] not in self._earlier
        if is_ours and url.startswith(("http:", "https:")):
            message = (
                f"{redacted(url)} was answered in the browser itself, as by a service worker, and cannot be judged"
            )
            self._calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, message)))

    def _lives(self, line: WindowState, event: Mapping[str, Any]) -> None:
        document = line.shown
        if event["frameId"] != line.main_frame or document is None or event["loaderId"] != document.loader_id:
            return
        if event["name"] == "DOMContentLoaded":
            document.parsed = True
            self._spawn(self._look_at(line, document))
        elif event["name"] == "load":
            document.parsed = document.loaded = True
            self._door.leave(document)

    async def _look_at(self, line: WindowState, document: Document) -> None:
        if document.judged:
            return
        document.judged = True
        try:
            await self._judge(document, line.page)
        finally:
            self._over(line, document.loader_id)

    def _failed(self, line: WindowState, request: DriverRequest) -> None:
        """A request came to nothing; those of pictures and the like are the page's own business."""
        name = net_error_in(request.failure or "")
        if name is None or not request.is_navigation_request() or request.frame != line.page.main_frame:
            return
        document = line.coming
        line.error_comes = name != ABORTED and line.error_url != request.url
        if name == NO_BODY and document is not None:
            document.is_empty = True
            self._spawn(self._look_at(line, document))
            return
        if name not in IGNORED_ERRORS:
            failure = self._calls.network_failure(name, request.url)
            if document is not None:
                self._door.leave(document, failure)
            self._calls.alarm(Failed(failure))
        if document is not None and document.request.url == canonical(request.url):
            self._door.leave(document)
            self._over(line, document.loader_id)

    def _over(self, line: WindowState, loader_id: str) -> None:
        line.over(loader_id)
        self._news.set()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_scheme(url: str) -> str:
    """An address without its scheme: Chromium may try https first."""
    return url.partition("://")[2]


async def _detach(cdp: CDPSession) -> bool:
    await cdp.send("Page.resetNavigationHistory")  # the next item cannot go back to the pages of this one
    await cdp.detach()
    return True
