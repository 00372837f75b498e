"""Documents: each address that the main frame of a page goes to passes the gate before it leaves, whoever asked for it.

By a CDP session of our own, in which Chromium stops documents, and them alone, before they are sent and again when they
are answered: addresses that are opened, clicks, forms, scripts, refreshes, hops of redirects. What comes after: the
answer is looked at as one over HTTP is (`judge`), and `settle` says when nothing is on its way any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from swath.browser.calls import Calls
from swath.browser.document import Document, FileWanted, is_file, response_in
from swath.browser.doorway import Doorway
from swath.browser.files import take_body
from swath.browser.net_errors import ABORTED, IGNORED, NO_BODY, name_in
from swath.browser.session_options import SessionOptions
from swath.domain.errors import Failed, SwathError
from swath.ports.clock import Clock
from swath.web.address import canonical
from swath.web.gate import Gate
from swath.web.redirects import is_redirect
from swath.web.transport import Response

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, Page
    from patchright.async_api import Request as DriverRequest

__all__ = ["Documents"]

_ERROR_PAGE_SECONDS: Final = 2.0
_ANNOUNCED_SECONDS: Final = 0.5  # within which a document is asked for after the page has said that it will be
_TYPES: Final = {"image": "Image", "font": "Font", "media": "Media", "stylesheet": "Stylesheet"}


class Documents:
    """Those of one attempt, in one page at a time. `shown` is what the page shows, if it came this way."""

    def __init__(
        self,
        calls: Calls,
        gate: Gate,
        clock: Clock,
        options: SessionOptions,
        judge: Callable[[Document], Awaitable[None]],
    ) -> None:
        self._calls = calls
        self._door = Doorway(calls, gate, clock, options.most_documents)
        self._clock = clock
        self._judge = judge
        self._tasks: set[asyncio.Task[None]] = set()
        self._entering: asyncio.Task[None] | None = None
        self._by_loader: dict[str, Document] = {}
        self._coming: Document | None = None
        self._asked: str | None = None  # the loader whose document is on its way, from the first word of it
        self._news = asyncio.Event()
        self._main_frame = ""
        self._lines: dict[Page, tuple[CDPSession, str, Document | None]] = {}  # of the pages below this one
        self._error_comes = False
        self._error_url: str | None = None
        self._announced_at: float | None = None
        self.blocked: tuple[str, ...] = options.block
        self.shown: Document | None = None
        self.file: Response | None = None  # the last answer that was a file, and that nobody wanted
        self.wanted: FileWanted | None = None
        calls.awaits_site = self._awaits_site

    # -- the page ------------------------------------------------------------------------------------------------------

    async def attach(self, page: Page) -> None:
        """From now on this page is the one, for the first time or again; whoever calls bounds it."""
        self._asked, self._announced_at = None, None
        if page in self._lines:
            self._calls.page = page
            self._calls.cdp, self._main_frame, self.shown = self._lines[page]
            return
        if self._calls.cdp is not None:
            self._lines[self._calls.page] = (self._calls.cdp, self._main_frame, self.shown)
        cdp = await page.context.new_cdp_session(page)
        told: list[dict[str, Any]] = await asyncio.gather(
            cdp.send("Page.getFrameTree"),
            cdp.send("Page.enable"),
            cdp.send("Page.setLifecycleEventsEnabled", {"enabled": True}),
        )
        main_frame = self._main_frame = told[0]["frameTree"]["frame"]["id"]
        cdp.on("Fetch.requestPaused", lambda event: self._spawn(self._paused(cdp, event, main_frame)))
        cdp.on("Fetch.authRequired", lambda event: self._spawn(self._no_password(cdp, event)))
        cdp.on("Page.frameRequestedNavigation", self._announced)
        cdp.on("Page.frameNavigated", self._went)
        cdp.on("Page.lifecycleEvent", self._lives)
        page.on("requestfailed", self._failed)
        self._calls.page, self._calls.cdp = page, cdp
        self.shown = None
        await self.stop_at(self.blocked)

    async def stop_at(self, blocked: tuple[str, ...]) -> None:
        """Tells Chromium what to stop: documents both ways, and what is not to be loaded at all."""
        self.blocked = blocked
        patterns = [{"resourceType": "Document"}, {"resourceType": "Document", "requestStage": "Response"}]
        patterns += [{"resourceType": _TYPES[kind]} for kind in blocked]
        if self._calls.cdp is not None:
            await self._calls.cdp.send("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})

    @property
    def is_busy(self) -> bool:
        """Whether a document is on its way."""
        return self._asked is not None or self._is_announced()

    @property
    def entered(self) -> int:
        """How many the gate has let out."""
        return self._door.entered

    async def settle(self) -> None:
        """Returns when no document is on its way: the last has come and was looked at, or nothing came of it."""
        while self._asked is not None or self._is_announced():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANNOUNCED_SECONDS):
                    await self._news.wait()

    async def calm(self) -> None:
        """Returns when Chromium has shown its own page for what failed last, which else would come in between."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ERROR_PAGE_SECONDS):
                while self._error_comes:
                    self._news.clear()
                    await self._news.wait()
        self._error_comes = False

    async def close(self) -> None:
        """Lets go of everything; the gate hears that what was open is over."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for document in self._by_loader.values():
            self._door.leave(document)

    async def detach(self) -> bool:
        """Leaves the page as if it had never been there. Whether that could be done."""
        self._calls.page.remove_listener("requestfailed", self._failed)
        return self._calls.cdp is not None and await self._calls.bounded(_detached(self._calls.cdp)) is not None

    # -- what Chromium stops -------------------------------------------------------------------------------------------

    async def _paused(self, cdp: CDPSession, event: Mapping[str, Any], main_frame: str) -> None:
        at = {"requestId": event["requestId"]}
        if event["resourceType"] != "Document":
            await self._calls.bounded(cdp.send("Fetch.failRequest", {**at, "errorReason": "BlockedByClient"}))
        elif event["frameId"] != main_frame or "responseErrorReason" in event:
            await self._calls.bounded(cdp.send("Fetch.continueRequest", at))
        elif "responseStatusCode" in event:
            await self._answered(cdp, event)
        else:
            if self._entering is not None:
                self._entering.cancel()  # the page has changed its mind
            self._entering = asyncio.current_task()
            await self._ask(cdp, event)

    async def _ask(self, cdp: CDPSession, event: Mapping[str, Any]) -> None:
        loader_id = event.get("networkId") or event["requestId"]
        former, self._coming, self._asked = self._coming, None, loader_id
        self._announced_at = self._error_url = None
        for document in (former, self.shown):
            if document is not None:
                self._door.leave(document)
        try:
            entered = await self._door.enter(event)
        except Exception as error:  # noqa: BLE001 whatever it is, somebody waits for this document, and must hear of it
            self._calls.alarm(error, for_good=isinstance(error, SwathError) and not isinstance(error, Failed))
            await self._stop(cdp, event, "BlockedByClient")
            return
        document = self._coming = self._by_loader[loader_id] = Document(loader_id, entered)
        going = self._calls.bounded(cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]}))
        if await going is None:
            self._door.leave(document)

    async def _answered(self, cdp: CDPSession, event: Mapping[str, Any]) -> None:
        loader_id = event.get("networkId") or event["requestId"]
        document = self._by_loader.get(loader_id)
        if document is None:  # asked for before we were here
            await self._calls.bounded(cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]}))
            return
        response = response_in(event, document.request.url)
        failure = self._calls.exits_own(response)
        if failure is not None:
            self._door.leave(document, failure)
            self._calls.alarm(Failed(failure))
            await self._stop(cdp, event, "BlockedByClient")
            return
        document.response = response
        if self.wanted is not None and not is_redirect(response.status, response.headers):
            await self._take(cdp, event, document, response, self.wanted)
        elif is_file(response, asked_as_file="networkId" not in event):
            self.file = response
            self._door.leave(document)
            await self._stop(cdp, event, "Aborted")
        else:
            if is_redirect(response.status, response.headers):
                self._door.leave(document)
            await self._calls.bounded(cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]}))

    async def _take(
        self, cdp: CDPSession, event: Mapping[str, Any], document: Document, response: Response, wanted: FileWanted
    ) -> None:
        self.wanted = None
        try:
            body = await take_body(cdp, event["requestId"], response, wanted.largest_bytes)
            document.response = msgspec.structs.replace(response, body=body, wire_bytes=len(body))
            if not wanted.came.done():
                wanted.came.set_result((document.request, document.response))
        except Failed as failed:
            self._calls.alarm(failed)
        finally:
            self._door.leave(document)
            await self._stop(cdp, event, "Aborted")

    async def _stop(self, cdp: CDPSession, event: Mapping[str, Any], reason: str) -> None:
        await self._calls.bounded(
            cdp.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": reason})
        )
        self._over(event.get("networkId") or event["requestId"])

    async def _no_password(self, cdp: CDPSession, event: Mapping[str, Any]) -> None:
        """Nobody is there to type one: the site's answer to those who have none is shown."""
        answer = {"requestId": event["requestId"], "authChallengeResponse": {"response": "CancelAuth"}}
        await self._calls.bounded(cdp.send("Fetch.continueWithAuth", answer))

    # -- what becomes of it --------------------------------------------------------------------------------------------

    def _announced(self, event: Mapping[str, Any]) -> None:
        if event["frameId"] == self._main_frame and event["disposition"] == "currentTab":
            self._announced_at = self._clock.boot()

    def _is_announced(self) -> bool:
        since = self._announced_at
        return since is not None and self._clock.boot() - since < _ANNOUNCED_SECONDS

    def _went(self, event: Mapping[str, Any]) -> None:
        """The main frame shows another document, or one that it had shown before."""
        frame = event["frame"]
        if frame["id"] == self._main_frame:
            self.shown = self._by_loader.get(frame["loaderId"])
            self._error_comes, self._error_url = False, frame.get("unreachableUrl")
            self._news.set()

    def _lives(self, event: Mapping[str, Any]) -> None:
        document = self.shown
        if event["frameId"] != self._main_frame or document is None or event["loaderId"] != document.loader_id:
            return
        if event["name"] == "DOMContentLoaded":
            self._spawn(self._look_at(document))
        elif event["name"] == "load":
            document.loaded = True
            self._door.leave(document)

    async def _look_at(self, document: Document) -> None:
        if document.judged:
            return
        document.judged = True
        try:
            await self._judge(document)
        finally:
            self._over(document.loader_id)

    def _failed(self, request: DriverRequest) -> None:
        """A request came to nothing; those of pictures and the like are the page's own business."""
        name = name_in(request.failure or "")
        if name is None or not request.is_navigation_request() or request.frame != self._calls.page.main_frame:
            return
        document = self._coming
        self._error_comes = name != ABORTED and self._error_url != request.url
        if name == NO_BODY and document is not None:
            document.is_empty = True
            self._spawn(self._look_at(document))
            return
        if name not in IGNORED:
            failure = self._calls.network_failure(name, request.url)
            if document is not None:
                self._door.leave(document, failure)
            self._calls.alarm(Failed(failure))
        if document is not None and document.request.url == canonical(request.url):
            self._door.leave(document)
            self._over(document.loader_id)

    def _over(self, loader_id: str) -> None:
        if self._asked == loader_id:
            self._asked = self._coming = None
        self._news.set()

    def _awaits_site(self) -> bool:
        return self._asked is not None and (self._coming is None or self._coming.response is None)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _detached(cdp: CDPSession) -> bool:
    await cdp.detach()
    return True
