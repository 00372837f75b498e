"""A session in a browser that somebody else runs: reached over CDP, and worked in as it is found.

The existing context is used, never a new one, which would lose what the provider has put on it (its proxy above all);
each item gets a page of its own there. Made by cdp.py and browserbase.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from swath.browser.chromium.running import Running
from swath.browser.exits.exit import Exit
from swath.browser.opened import Wish
from swath.browser.providers.shared_driver import SharedDriver
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.secret import Secret
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import Browser, BrowserContext, Frame, Page

__all__ = ["AttachLimits", "AttachedSession"]

_STATUS: Final = re.compile(r"(?:^|\s)([45][0-9]{2})(?:\s|$)")
_KINDS: Final = {
    "401": FailureKind.CREDENTIAL,
    "403": FailureKind.CREDENTIAL,
    "402": FailureKind.ACCESS_POLICY,
    "429": FailureKind.RATE_LIMITED,
}
_FINAL: Final = frozenset({FailureKind.CREDENTIAL, FailureKind.ACCESS_POLICY})
_LAST_CALL_SECONDS: Final = 1.0


class AttachLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of everything that is asked of a browser elsewhere. The waits between tries double from the first."""

    connect_seconds: float = 15.0
    call_seconds: float = 10.0
    connect_tries: int = 3
    first_wait_seconds: float = 0.5


class AttachedSession:
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
        limits: AttachLimits,
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

    async def open(self, wish: Wish) -> AttachedOpened:
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
            raise _gone(self._where, error) from None

    async def connect(self) -> None:
        """Connects, where that has not been done or the line was cut. Raises Failed, after some tries with waits."""
        wait_seconds = self.limits.first_wait_seconds
        tries = 0
        while not self.connected:
            tries += 1
            try:
                self._browser = await self._connected()
            except Failed as failed:
                if tries >= self.limits.connect_tries or failed.failure.kind in _FINAL:
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
            raise _refused(self._where, error, _KINDS if not self._was_there else {}) from None
        self._was_there = True
        return browser

    async def _opened(self, wish: Wish) -> AttachedOpened:
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
        return AttachedOpened(self, context, page, keeps=wish.keeps)

    async def _wipe_what_is_left(self, context: BrowserContext, page: Page) -> None:
        """The browser outlives us, and must not fill up with pages of those who ran out of time here."""
        try:
            await _wipe(context, page, self.left_origins)
        except BaseException:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LAST_CALL_SECONDS):
                    await page.close()
            raise


class AttachedOpened:
    """Implements Opened. `keeps`: what it leaves behind is for the next item of its job."""

    def __init__(self, session: AttachedSession, context: BrowserContext, page: Page, *, keeps: bool) -> None:
        self.context = context
        self.page = page
        self.running: Running | None = None
        self.exit: Exit | None = None
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
            await _wipe(self.context, self.page, set(self._origins))

    async def kill(self) -> None:
        """See Opened. The browser is not ours to end: its page is closed, the line cut, and the session given up."""
        self._session.gone = True
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._session.limits.call_seconds):
                await asyncio.gather(*(page.close() for page in self._pages))
        await self._session.disconnect()


async def _wipe(context: BrowserContext, page: Page, origins: set[str]) -> None:
    """Nothing of these origins is left, nor any cookie. Each is taken out of the set, so that whoever runs out of time
    has got somewhere."""
    if origins:
        line = await context.new_cdp_session(page)
        for origin in tuple(origins):
            await line.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
            origins.discard(origin)
    await context.clear_cookies()


def _gone(where: str, error: Exception) -> Failed:
    told = "does not answer" if isinstance(error, TimeoutError) else "has gone"
    return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"the browser at {where} {told}"))


def _refused(where: str, error: Exception, kinds: Mapping[str, FailureKind]) -> Failed:
    """Who was let in once has the right key: the browser is what has gone then, whatever is answered in its place."""
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"no browser answers at {where}"))
    first_line = str(error).partition("\n")[0]
    status = _STATUS.search(first_line)
    if status is None:
        return Failed(Failure.of(FailureKind.BROWSER_CRASH, f"cannot connect to the browser at {where}"))
    kind = kinds.get(status[1], FailureKind.BROWSER_CRASH)
    return Failed(Failure.of(kind, f"the browser at {where} refuses the connection with {status[1]}"))
