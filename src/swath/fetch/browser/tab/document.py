"""Documents that the main frame of a page requests: what is known of each, its body, and its way through the request
gate.

Documents enter the gate one after the other, are counted, and leave it once they are over. Service workers are
bypassed, since what they answer would never come to the gate.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.http.header_values import content_type_of
from swath.fetch.http.messages import Headers, Request, RequestGate, Response, is_redirect
from swath.fetch.url import canonical, redacted
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, CDPSession, Page

__all__ = [
    "AwaitedFile",
    "Document",
    "DocumentGate",
    "ServiceWorkerBypass",
    "WindowState",
    "is_file",
    "read_body",
    "request_from_event",
    "response_from_event",
    "too_large",
]

_PIECE_BYTES: Final = 1024 * 1024
_PIECE_SECONDS: Final = 30.0
_EMPTY: Final = frozenset({204, 205, 304})


def too_large(url: str, largest_bytes: int) -> Failed:
    """More came than was to come."""
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"{redacted(url)} has more than {largest_bytes:,} bytes"))


async def read_body(cdp: CDPSession, request_id: str, response: Response, largest_bytes: int) -> bytes:
    """The body of an answer that Chromium has stopped. Raises Failed too_large; what is beyond is not read."""
    length = response.header("content-length") or ""
    if length.isdecimal() and int(length) > largest_bytes:
        raise too_large(response.url, largest_bytes)
    if response.status in _EMPTY:
        return b""
    async with asyncio.timeout(_PIECE_SECONDS):
        stream = (await cdp.send("Fetch.takeResponseBodyAsStream", {"requestId": request_id}))["stream"]
    body = bytearray()
    while True:
        async with asyncio.timeout(_PIECE_SECONDS):
            piece = await cdp.send("IO.read", {"handle": stream, "size": _PIECE_BYTES})
        body += base64.b64decode(piece["data"]) if piece.get("base64Encoded") else piece["data"].encode("utf-8")
        if len(body) > largest_bytes:
            raise too_large(response.url, largest_bytes)
        if piece["eof"]:
            return bytes(body)


_DISPLAYED_TYPES: Final = ("html", "xml", "json", "text/", "image/svg")


class Document:
    """`request` is as the gate let it out; `response` has no body. `left`: the gate knows that it is over.

    `is_empty`: it had no body, and what is shown in its place is not the site's. `judged`: it was looked at. `parsed`:
    all of it has come, though pictures and the like may still be on their way; `loaded`: those too."""

    __slots__ = ("is_empty", "judged", "left", "loaded", "loader_id", "parsed", "request", "response")

    def __init__(self, loader_id: str, request: Request) -> None:
        self.loader_id = loader_id
        self.request = request
        self.response: Response | None = None
        self.is_empty = False
        self.judged = False
        self.left = False
        self.parsed = False
        self.loaded = False


class AwaitedFile:
    """Somebody waits for a file: whatever document is asked for next is taken for it, and not shown."""

    __slots__ = ("came", "largest_bytes")

    def __init__(self, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self.came: asyncio.Future[tuple[Request, Response]] = asyncio.get_running_loop().create_future()


def request_from_event(event: Mapping[str, Any], url: str) -> Request:
    """What Chromium is about to ask for. Cookies are Chromium's own, and not told here."""
    told = event["request"]
    return Request(url=url, method=told["method"], headers=tuple(told["headers"].items()))


def response_from_event(event: Mapping[str, Any], url: str) -> Response:
    """What came, without the body."""
    headers: Sequence[Mapping[str, str]] = event.get("responseHeaders") or ()
    told: Headers = tuple((header["name"].lower(), header["value"]) for header in headers)
    return Response(url=url, status=event["responseStatusCode"], headers=told)


def is_file(response: Response, *, asked_as_file: bool) -> bool:
    """Whether Chromium would save the answer, or show it in a viewer of its own, or do nothing at all with it."""
    if asked_as_file or response.status in _EMPTY:
        return not is_redirect(response.status, response.headers)
    if (response.header("content-disposition") or "").strip().lower().startswith("attachment"):
        return True
    kind = content_type_of(response.header("content-type"))
    return not any(shown in kind for shown in _DISPLAYED_TYPES)


class WindowState:
    """`shown` is what the page shows, if it came this way. `asked` is the loader whose document is on its way, from the
    first word of it; `coming` is that document, once the gate has let it out."""

    __slots__ = (
        *("announced_at", "asked", "cdp", "coming", "entering", "error_comes", "error_url", "failed", "main_frame"),
        *("page", "shown"),
    )

    def __init__(self, page: Page, cdp: CDPSession, main_frame: str) -> None:
        self.page = page
        self.cdp = cdp
        self.main_frame = main_frame
        self.asked: str | None = None
        self.coming: Document | None = None
        self.shown: Document | None = None
        self.entering: asyncio.Task[None] | None = None
        self.announced_at: float | None = None
        self.error_comes = False
        self.error_url: str | None = None
        self.failed: Callable[[Any], None] | None = None  # what listens for requests that came to nothing

    @property
    def awaits_site(self) -> bool:
        """Whether a document was asked for, and nothing has come of it yet."""
        return self.asked is not None and (self.coming is None or self.coming.response is None)

    def over(self, loader_id: str) -> None:
        """Nothing more comes of this document."""
        if self.asked == loader_id:
            self.asked = self.coming = None


_CONTEXTS_WITH_WORKERS: Final[WeakSet[BrowserContext]] = WeakSet()  # kept for another item: Chromium may tell too late


class DocumentGate:
    """That of one attempt. `entered` is how many documents the gate has let out."""

    def __init__(self, calls: DriverCalls, gate: RequestGate, clock: Clock, most: int) -> None:
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
            message = f"more than {self._most} pages, one after the other, the last of them {redacted(url)}"
            self._calls.alarm(Failed(Failure.of(FailureKind.NAVIGATION, message)), for_good=True)
            self._calls.check()
        if not self._waiting:
            self._idle_since = self._clock.boot()
        self._waiting += 1
        try:
            entered = await self._gate.enter(request_from_event(event, url))
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


class ServiceWorkerBypass:
    """Leads what one page loads past service workers, which live on and notice nothing. Only from the moment that there
    is one: Chromium then tells of everything that the page loads, which is work for nothing on all other pages."""

    def __init__(self, page: Page, cdp: CDPSession) -> None:
        self._context = page.context
        self._cdp = cdp
        self._leads = False

    async def begin(self) -> None:
        """With those that a context has from before; from now on `Documents` calls `seen`."""
        await self._cdp.send("ServiceWorker.enable")
        if self._context in _CONTEXTS_WITH_WORKERS:
            await self._lead()

    async def seen(self, event: Mapping[str, Any]) -> None:
        """Chromium tells which there are."""
        if any(not registration["isDeleted"] for registration in event["registrations"]):
            _CONTEXTS_WITH_WORKERS.add(self._context)
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
