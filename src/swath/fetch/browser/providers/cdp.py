"""Sessions in remote browsers, reached over CDP, and the provider for any endpoint that speaks it.

The existing context is used, never a new one, which would lose what the remote side has configured (its proxy above
all); each item gets a new page. The endpoint comes from the operator, so no egress guard is asked; it may contain a
key, so it is never shown. All sessions of a provider share one driver process.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.driver import Driver
from swath.fetch.browser.chromium.environment import driver_environment
from swath.fetch.browser.chromium.orphans import remove_folder
from swath.fetch.browser.chromium.process_tag import ProcessTag, browser_folder
from swath.fetch.browser.pool.instance import BrowserProcess
from swath.fetch.browser.providers.protocol import ProviderSession, TabRequest
from swath.fetch.egress.forward_proxy.browser_egress import ContextProxy
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import Browser, BrowserContext, BrowserType, Frame, Page

__all__ = ["CdpProvider", "RemoteLimits", "RemoteSession", "SharedDriver"]

_START_SECONDS: Final = 60.0


class SharedDriver:
    """At most one process at a time. `family` is whose it is, so that one whose owner died is found: orphans.py."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._turn = asyncio.Lock()
        self._driver: Driver | None = None
        self._chromium: BrowserType | None = None
        self._mark = ProcessTag.new(family)

    async def chromium(self) -> BrowserType:
        """Raises Failed (browser_crash) when it does not start."""
        async with self._turn:
            if self._chromium is None or self._driver is None or self._driver.ended.is_set():
                await self._stop()
                self._chromium = await self._start()
            return self._chromium

    async def _start(self) -> BrowserType:
        self._mark = ProcessTag.new(self._family)
        folder = browser_folder(self._mark)
        try:
            folder.mkdir(mode=0o700)
            async with asyncio.timeout(_START_SECONDS):
                self._driver, playwright = await Driver.start(driver_environment(self._mark, folder), ())
        except (Exception, asyncio.CancelledError) as error:
            await self._stop()
            if isinstance(error, asyncio.CancelledError):
                raise
            message = f"the browser driver does not start: {type(error).__name__}"
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message)) from None
        return playwright.chromium

    async def close(self) -> None:
        """Bounded; never raises. Calls that wait for it fail at once. It may be started again."""
        async with self._turn:
            await self._stop()

    async def _stop(self) -> None:
        driver, self._driver, self._chromium = self._driver, None, None
        if driver is not None:
            await driver.stop()
        await asyncio.to_thread(remove_folder, browser_folder(self._mark))


_STATUS: Final = re.compile(r"(?:^|\s)([45][0-9]{2})(?:\s|$)")
_KINDS_BY_STATUS: Final = {
    "401": FailureKind.CREDENTIAL,
    "403": FailureKind.CREDENTIAL,
    "402": FailureKind.ACCESS_POLICY,
    "429": FailureKind.RATE_LIMITED,
}
_PERMANENT: Final = frozenset({FailureKind.CREDENTIAL, FailureKind.ACCESS_POLICY})
_LAST_CALL_SECONDS: Final = 1.0


class RemoteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of everything that is asked of a browser elsewhere. The waits between tries double from the first."""

    connect_seconds: float = 15.0
    call_seconds: float = 10.0
    connect_tries: int = 3
    first_wait_seconds: float = 0.5


class RemoteSession:
    """Implements ProviderSession. `where` is what people are told of the endpoint, whose address may hold a key.

    `left_origins` are those that items have left something of; it is the provider's where its browser outlives the
    session."""

    def __init__(
        self,
        session_id: str,
        endpoint: Secret,
        where: str,
        driver: SharedDriver,
        clock: Clock,
        limits: RemoteLimits,
        left_origins: set[str] | None = None,
    ) -> None:
        self.session_id = session_id
        self.expires_at: float | None = None
        self.limits = limits
        self._endpoint = endpoint
        self._where = where
        self._driver = driver
        self._clock = clock
        self._browser: Browser | None = None
        self.gone = False
        self._was_there = False
        self._owner: str | None = None  # of what is kept here
        self.left_origins: set[str] = set() if left_origins is None else left_origins

    @property
    def connected(self) -> bool:
        """As far as is known: a line that was cut is noticed when something is sent."""
        return self._browser is not None and self._browser.is_connected()

    async def open(self, wish: TabRequest) -> RemoteTab:
        """See ProviderSession."""
        await self.connect()
        try:
            async with asyncio.timeout(self.limits.call_seconds):
                return await self._opened(wish)
        except (Failed, asyncio.CancelledError):
            await self.disconnect()  # whatever was begun there, nobody waits for it any more
            raise
        except Exception as error:  # noqa: BLE001 the driver raises anything when it or the browser is gone
            await self.disconnect()
            raise _browser_gone(self._where, error) from None

    async def connect(self) -> None:
        """Connects, where that has not been done or the line was cut. Raises Failed, after some tries with waits."""
        wait_seconds = self.limits.first_wait_seconds
        tries = 0
        while not self.connected:
            tries += 1
            try:
                self._browser = await self._connected()
            except Failed as failed:
                if tries >= self.limits.connect_tries or failed.failure.kind in _PERMANENT:
                    raise
                await self._clock.sleep(wait_seconds)
                wait_seconds *= 2
            else:
                return

    async def disconnect(self) -> None:
        """Bounded; never raises. The browser lives on, as far as its provider lets it."""
        browser, self._browser = self._browser, None
        if browser is None:
            return
        try:
            async with asyncio.timeout(self.limits.call_seconds):
                await browser.close()
        except TimeoutError:
            await self._driver.close()  # it does not answer any more; the others that use it connect anew
        except Exception:  # noqa: BLE001, S110 what cannot be closed is closed already
            pass

    async def _connected(self) -> Browser:
        chromium = await self._driver.chromium()
        try:
            async with asyncio.timeout(self.limits.connect_seconds):
                browser = await chromium.connect_over_cdp(
                    self._endpoint.reveal(), timeout=self.limits.connect_seconds * 1_000
                )
        except Exception as error:  # noqa: BLE001 its text holds the address, so nothing of it may go on
            raise _connection_refused(self._where, error, _KINDS_BY_STATUS if not self._was_there else {}) from None
        self._was_there = True
        return browser

    async def _opened(self, wish: TabRequest) -> RemoteTab:
        assert self._browser is not None  # noqa: S101 `connect` raises otherwise
        if not self._browser.contexts:
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, f"the browser at {self._where} has no context to use"))
        context = self._browser.contexts[0]
        page = await context.new_page()
        owner = wish.owner if wish.keeps else None
        # There is one context for all: what one job keeps goes before an item of another comes. Who keeps something may
        # find what the browser's owner has put there.
        if owner is None or (self.left_origins and owner != self._owner):
            await self._wipe_what_is_left(context, page)
        self._owner = owner
        return RemoteTab(self, context, page, keeps=wish.keeps)

    async def _wipe_what_is_left(self, context: BrowserContext, page: Page) -> None:
        """The browser outlives us, and must not fill up with pages of those who ran out of time here."""
        try:
            await _clear_site_data(context, page, self.left_origins)
        except BaseException:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LAST_CALL_SECONDS):
                    await page.close()
            raise


class RemoteTab:
    """Implements Opened. `keeps`: what it leaves behind is for the next item of its job."""

    def __init__(self, session: RemoteSession, context: BrowserContext, page: Page, *, keeps: bool) -> None:
        self.context = context
        self.page = page
        self.running: BrowserProcess | None = None
        self.exit: ContextProxy | None = None
        self.keeps_page = False
        self.loads = 0
        self._session = session
        self._keeps = keeps
        self._origins: set[str] = set()
        self._pages: list[Page] = []
        self._watch(page)

    def _watch(self, page: Page) -> None:
        """What it opens is this item's too; other pages of the context are not ours to close."""
        self._pages.append(page)
        page.on("popup", self._watch)
        page.on("framenavigated", self._visited)

    def _visited(self, frame: Frame) -> None:
        parts = urlsplit(frame.url)
        if parts.scheme in {"http", "https"}:
            origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            self._origins.add(origin)
            self._session.left_origins.add(origin)  # until it is wiped, which a page may prevent

    def admit(self, window: str) -> None:
        """See Opened. Nobody stops them there."""

    async def close(self) -> None:
        """See Opened."""
        try:
            async with asyncio.timeout(self._session.limits.call_seconds):
                await self._forget()
                await asyncio.gather(*(page.close() for page in self._pages))
        except Exception:  # noqa: BLE001 whatever is left of it goes with the line
            await self._session.disconnect()

    async def _forget(self) -> None:
        """Nothing of this item is for the next one, unless it is to be kept."""
        if not self._keeps:
            # Its pages are still there and may write again: whoever comes next wipes it, too.
            await _clear_site_data(self.context, self.page, set(self._origins))

    async def kill(self) -> None:
        """See Opened. The browser is not ours to end: its page is closed, the line cut, and the session given up."""
        self._session.gone = True
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._session.limits.call_seconds):
                await asyncio.gather(*(page.close() for page in self._pages))
        await self._session.disconnect()


async def _clear_site_data(context: BrowserContext, page: Page, origins: set[str]) -> None:
    """Nothing of these origins is left, nor any cookie. Each is taken out of the set, so that whoever runs out of time
    has got somewhere."""
    if origins:
        line = await context.new_cdp_session(page)
        for origin in tuple(origins):
            await line.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
            origins.discard(origin)
    await context.clear_cookies()


def _browser_gone(where: str, error: Exception) -> Failed:
    told = "does not answer" if isinstance(error, TimeoutError) else "has gone"
    return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"the browser at {where} {told}"))


def _connection_refused(where: str, error: Exception, kinds: Mapping[str, FailureKind]) -> Failed:
    """Who was let in once has the right key: the browser is what has gone then, whatever is answered in its place."""
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"no browser answers at {where}"))
    first_line = str(error).partition("\n")[0]
    status = _STATUS.search(first_line)
    if status is None:
        return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"cannot connect to the browser at {where}"))
    kind = kinds.get(status[1], FailureKind.BROWSER_CRASH)
    return Failed(Failure.of(kind, f"the browser at {where} refuses the connection with {status[1]}"))


class CdpProvider:
    """Implements Provider. `most_sessions` above one is for endpoints where every line leads to a browser of its own:
    a single Chromium has one context for all of them, and their cookies would mix."""

    name = "cdp"

    def __init__(
        self, endpoint: Secret, clock: Clock, family: str, *, most_sessions: int = 1, limits: RemoteLimits | None = None
    ) -> None:
        """`family`: see browser/chromium/mark.py. Raises BadInput for an address that cannot be one."""
        self.most_sessions = most_sessions
        self._endpoint = endpoint
        self._where = _endpoint_name(endpoint)
        self._clock = clock
        self._limits = limits or RemoteLimits()
        self._driver = SharedDriver(family)
        self._numbers = itertools.count(1)
        self._sessions: dict[str, RemoteSession] = {}
        self._left_origins: set[str] = set()

    async def create(self) -> ProviderSession:
        """See Provider."""
        session_id = f"cdp-{next(self._numbers)}"
        # With several sessions each line has a browser of its own.
        left_origins = self._left_origins if self.most_sessions == 1 else None
        parts = (self._endpoint, self._where, self._driver, self._clock, self._limits, left_origins)
        session = RemoteSession(session_id, *parts)
        await session.connect()
        self._sessions[session_id] = session
        return session

    async def destroy(self, session: ProviderSession) -> None:
        """See Provider. The browser lives on; only our line to it ends."""
        ours = self._sessions.pop(session.session_id, None)
        if ours is not None:
            await ours.disconnect()

    async def close(self) -> None:
        """See Provider."""
        for session in tuple(self._sessions.values()):
            await self.destroy(session)
        await self._driver.close()


def _endpoint_name(endpoint: Secret) -> str:
    """Host and port: where it is can be told, not by which key."""
    try:
        parts = urlsplit(endpoint.reveal())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in {"ws", "wss", "http", "https"} or not host:
        raise BadInput("the CDP endpoint is no address; write it like ws://host:9222/… or http://host:9222")
    return host if port is None else f"{host}:{port}"
