"""SharedDriver: the process through which browsers elsewhere are spoken to, for all sessions of a provider.

Started when first needed, and anew when it has died. Browsers of our own have one each: browser/chromium/launch.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from swath.browser.chromium.driver import Driver
from swath.browser.chromium.mark import Mark, folder_of
from swath.browser.chromium.orphans import remove_folder
from swath.browser.chromium.surroundings import driver_environment
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import BrowserType

__all__ = ["SharedDriver"]

_START_SECONDS: Final = 60.0


class SharedDriver:
    """At most one process at a time. `family` is whose it is, so that one whose owner died is found: orphans.py."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._turn = asyncio.Lock()
        self._driver: Driver | None = None
        self._chromium: BrowserType | None = None
        self._mark = Mark.new(family)

    async def chromium(self) -> BrowserType:
        """Raises Failed (browser_crash) when it does not start."""
        async with self._turn:
            if self._chromium is None or self._driver is None or self._driver.ended.is_set():
                await self._stop()
                self._chromium = await self._start()
            return self._chromium

    async def _start(self) -> BrowserType:
        self._mark = Mark.new(self._family)
        folder = folder_of(self._mark)
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
        await asyncio.to_thread(remove_folder, folder_of(self._mark))
