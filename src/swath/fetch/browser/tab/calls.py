"""Bounds every call to the browser's driver, and translates the driver's errors into failures.

A call ends early on an `alarm`: the lease is lost, a document was blocked, the renderer died. Time that a document
waits at the request gate does not count.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.net_errors import IGNORED_ERRORS, net_error_failure, net_error_in
from swath.fetch.egress.forward_proxy.browser_egress import BROWSER_PROXY_HEADER
from swath.fetch.http.messages import Response
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, Page

    from swath.fetch.browser.providers.protocol import BrowserTab

__all__ = ["DriverCalls", "DriverTimeout"]

T = TypeVar("T")

_PROBE_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.05  # how soon a call is looked at again whose time stands still
_OVERRUN_SECONDS: Final = 1.0  # how soon it is noticed that more has come than may
_BROWSER_GONE: Final = re.compile(
    r"has been closed|Connection closed|browser has disconnected|Target closed|Target crashed|Page crashed|"
    r"Session closed|session has been detached|No target with given id",
    re.IGNORECASE,
)
_NAVIGATED_AWAY: Final = re.compile(
    r"Execution context was destroyed|frame was detached|frame got detached|page is navigating|"
    r"Cannot find context|interrupted by another navigation|not attached to the DOM",
    re.IGNORECASE,
)
_NO_PICTURE: Final = re.compile(r"Unable to capture screenshot", re.IGNORECASE)


class DriverTimeout(Exception):
    """The driver's own time for an action is over; the caller knows what that means."""


class DriverCalls:
    """Those of one attempt. `idle_seconds` is how long documents have waited at the gate so far, on the boot clock."""

    def __init__(self, opened: BrowserTab, clock: Clock) -> None:
        from patchright.async_api import Error, TimeoutError  # noqa: A004, PLC0415 an extra: named only where it is used

        self._opened = opened
        self._clock = clock
        self.driver_error = Error
        self.driver_timeout = TimeoutError
        self._alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._for_good: BaseException | None = None
        self._told: tuple[str, str, Failure] | None = None
        self.idle_seconds: Callable[[], float] = lambda: 0.0
        self.awaits_site: Callable[[], bool] = lambda: False
        self.page: Page = opened.page
        self.cdp: CDPSession | None = None

    def admit(self, window: str) -> None:
        """See Opened."""
        self._opened.admit(window)

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be done here."""
        return self._for_good is not None

    def alarm(self, error: BaseException, *, for_good: bool = False) -> None:
        """The present call, or else the next one, raises this; with `for_good` every later one, too."""
        if for_good and self._for_good is None:
            self._for_good = error
        if not self._alarm.done():
            self._alarm.set_exception(error)
            self._alarm.exception()  # nobody need be there to hear it

    def check(self) -> None:
        """Raises what has happened since the last call, once; what is for good, each time."""
        if self._alarm.done():
            error = self._alarm.exception()
            self._alarm = asyncio.get_running_loop().create_future()
            if error is not None:
                raise error
        if self._for_good is not None:
            raise self._for_good

    async def run(self, what: str, begin: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """What the work comes to. Raises Failed, TookTooLong, or what the alarm was about."""
        self.check()
        task = asyncio.ensure_future(begin())
        task.add_done_callback(_retrieve_exception)
        try:
            in_time = await self._wait(task, seconds)
            self.check()
            if not in_time:
                raise Failed(await self._given_up(what, seconds))
            return task.result()
        except self.driver_error as error:
            raise self._meaning(error) from error
        finally:
            task.cancel()

    async def bounded(self, work: Coroutine[Any, Any, T], seconds: float = _PROBE_SECONDS) -> T | None:
        """For what is said on the side, when nobody waits for it: None when it does not come back, or is refused."""
        with suppress(TimeoutError, self.driver_error):
            async with asyncio.timeout(seconds):
                return await work
        return None

    async def _wait(self, task: asyncio.Task[T], seconds: float) -> bool:
        started, idle = self._clock.boot(), self.idle_seconds()
        while not task.done() and not self._alarm.done():
            left = seconds - (self._clock.boot() - started) + (self.idle_seconds() - idle)
            if left <= 0 or self._overrun() is not None:
                return False
            slice_seconds = min(max(left, _POLL_SECONDS), _OVERRUN_SECONDS)
            await asyncio.wait((task, self._alarm), timeout=slice_seconds, return_when=asyncio.FIRST_COMPLETED)
        return True

    def _meaning(self, error: Exception) -> Exception:
        """What an error of the driver's is to an author. What it does not know is the author's own mistake."""
        text = str(error).partition("\n")[0]
        if isinstance(error, self.driver_timeout):
            return DriverTimeout(text)
        if _BROWSER_GONE.search(text):
            return self.gone("the browser is gone, or the page's process died")
        name = net_error_in(text)
        if name is not None and name not in IGNORED_ERRORS:
            return Failed(self.network_failure(name, self._tried_url(str(error))))
        if _NAVIGATED_AWAY.search(text):
            return Failed(Failure.of(FailureKind.NAVIGATION, "the page went elsewhere while something was done on it"))
        if _NO_PICTURE.search(text):
            message = "the browser could not take a picture: the page is too large for it, or it was too busy"
            return Failed(Failure.of(FailureKind.BROWSER_CRASH, message))
        return error

    def has_moved(self, error: Exception) -> bool:
        """Whether it only means that the page has gone elsewhere meanwhile."""
        return _NAVIGATED_AWAY.search(str(error)) is not None

    def gone(self, message: str) -> Failed:
        """The browser or the page has died, which is not the item's doing; nothing more can be done here."""
        failed = Failed(Failure.of(FailureKind.BROWSER_CRASH, message))
        if self._for_good is None:
            self._for_good = failed
        return failed

    def network_failure(self, name: str, url: str) -> Failure:
        """Whose fault it was that an address was not reached: the exit knows, or else Chromium's word has to do."""
        if self._told is None or self._told[:2] != (name, url):  # the exit tells it once, and several ask
            way_out = self._opened.exit
            known = None if way_out is None else way_out.overrun or way_out.trouble(url)
            self._told = (name, url, known or net_error_failure(name, url))
        return self._told[2]

    def exits_own(self, response: Response) -> Failure | None:
        """What went wrong on the way, when an answer is not the site's but the exit's word that there is none."""
        way_out = self._opened.exit
        if way_out is None or response.header(BROWSER_PROXY_HEADER) != way_out.token:
            return None
        return self.network_failure("ERR_CONNECTION_FAILED", response.url)

    def forget(self) -> None:
        """Something new begins; what went wrong before, and was for nobody, is of the past."""
        self._told = None
        if self._alarm.done():
            self._alarm = asyncio.get_running_loop().create_future()

    def _overrun(self) -> Failure | None:
        return None if self._opened.exit is None else self._opened.exit.overrun

    def _tried_url(self, text: str) -> str:
        found = re.search(r" at (https?://\S+)", text)
        return self.page.url if found is None else found[1]

    async def _given_up(self, what: str, seconds: float) -> Failure:
        """A call has not come back: because the site is slow, the page's scripts never end, or the browser hangs."""
        # Before there is a way to speak to the page, nothing of a site's is there that could hold it up.
        if self.cdp is None or await self.bounded(self.cdp.send("Browser.getVersion")) is None:
            await self._opened.kill()
            message = f"the browser did not come back from: {what}; it was killed"
            return self.gone(message).failure
        # While Chromium waits for a site to answer, it lets nobody speak to the page that is to be replaced.
        if self.awaits_site() or await self._page_answers():
            return self._overrun() or Failure.of(FailureKind.TIMEOUT, f"{what}: took longer than {seconds:g} s")
        message = f"{what}: the page does not answer, for its scripts never end; it was ended after {seconds:g} s"
        failure = Failure.of(FailureKind.TIMEOUT, message)
        self._for_good = self._for_good or Failed(failure)
        await self.end_renderer()
        return failure

    async def _page_answers(self) -> bool:
        return self.cdp is not None and bool(await self.bounded(self.cdp.send("Runtime.evaluate", {"expression": "1"})))

    async def end_renderer(self) -> None:
        """Ends the process of the page, which no script can prevent; the browser and its other pages live on."""
        if self.cdp is not None:
            await self.bounded(self.cdp.send("Page.crash"), 0.5)  # never answered when it works


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
