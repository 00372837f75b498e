"""Launch: one driver and one Chromium, started, watched, measured and ended, whatever either of them does.

Before: chromium.py found it. After: pool.py holds several. Every await on it is bounded, and what does not come back is
killed by process group.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import psutil

from swath.browser.chromium.driver import Driver
from swath.browser.chromium.find import Chromium
from swath.browser.chromium.mark import SWITCH, Mark, family_of, folder_of
from swath.browser.chromium.memory import tree_bytes
from swath.browser.chromium.orphans import kill_group, kill_marked, remove_folder, wait_until_gone
from swath.browser.chromium.porter import Porter
from swath.browser.chromium.surroundings import (
    chromium_environment,
    downloads_of,
    driver_environment,
    make_folders,
    memory_flags,
)
from swath.browser.exits.flags import EGRESS_FLAGS
from swath.browser.faces.dressing import HIDING_FLAGS
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import Browser, CDPSession, Playwright

__all__ = ["LaunchOptions", "Launched", "launch"]

_log = logging.getLogger(__name__)

QUIET_FLAGS: Final = (
    "--no-default-browser-check",
    "--noerrdialogs",
    "--disable-print-preview",
    # Each context is a profile, and would load what a profile has: a tenth of what opening one costs.
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    # Of the window's own frame, which nobody sees; pages have theirs.
    "--wm-window-animations-disabled",
    "--animation-duration-scale=0",
)
WRAPPER: Final = Path(__file__).with_name("run_chromium.sh")
BURY_SECONDS: Final = 1.0


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is whose browsers these are. At `deny_port` of loopback everything is refused: what Chromium wants for
    itself ends there, and contexts have ports of their own. `display` is an X server for a browser with windows."""

    chromium: Chromium
    data: Path
    deny_port: int
    display: str | None = None
    start_seconds: float = 30.0
    close_seconds: float = 5.0
    answer_seconds: float = 15.0


async def launch(options: LaunchOptions) -> Launched:
    """Raises Failed (browser_crash) when it does not start in time, and leaves nothing behind then."""
    mark = Mark.new(family_of(options.data))
    folder = folder_of(mark)
    sandbox = options.chromium.sandbox
    if not sandbox.on:
        _warn_once(sandbox.words)
    driver: Driver | None = None
    try:
        make_folders(folder, sandbox.uid, sandbox.gid)
        async with asyncio.timeout(options.start_seconds):
            driver, playwright = await Driver.start(driver_environment(mark, folder), sandbox.leash)
            browser = await _start(playwright, options, mark)
            pulse = await browser.new_browser_cdp_session()
            porter = Porter(pulse)
            await porter.begin()
    except BaseException as error:
        await asyncio.shield(_clear(mark, driver))
        if not isinstance(error, Exception):
            raise
        message = f"Chromium does not start: {_reason(error, options.chromium.binary)}"
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message)) from None
    return Launched(options, mark, driver, browser, pulse, porter)


class Launched:
    """One Chromium with its driver: the real Running of the pool."""

    def __init__(
        self,
        options: LaunchOptions,
        mark: Mark,
        driver: Driver,
        browser: Browser,
        pulse: CDPSession,
        porter: Porter,
    ) -> None:
        self._options = options
        self._driver = driver
        self._pulse = pulse
        self._porter = porter
        self._ending: asyncio.Task[None] | None = None
        self.mark = mark
        self.browser = browser
        self.version = browser.version
        self.gone = asyncio.Event()
        self.pid = _browser_pid(driver.pid, mark)
        browser.on("disconnected", lambda _: self.gone.set())
        self._watch = asyncio.get_running_loop().create_task(self._see_driver_end())

    @property
    def driver_pid(self) -> int:
        """Leads a group of its own too."""
        return self._driver.pid

    @property
    def downloads(self) -> Path:
        """Where Chromium puts what it downloads."""
        return downloads_of(folder_of(self.mark))

    def admit(self, window: str) -> None:
        """See Running."""
        self._porter.admit(window)

    async def answers(self) -> bool:
        """Whether the browser process comes back to us; one that is frozen does not."""
        try:
            async with asyncio.timeout(self._options.answer_seconds):
                await self._pulse.send("Browser.getVersion")
        except Exception:  # noqa: BLE001 whatever is said, it is no answer
            return False
        return True

    async def memory_bytes(self) -> int:
        """Of driver and browser with all its processes, pages that they share counted once."""
        return await asyncio.to_thread(tree_bytes, self._driver.pid)

    async def close(self) -> None:
        """As a person would, and by force what is left after that."""
        if self._ending is None:
            with suppress(Exception):  # what is left is killed
                async with asyncio.timeout(self._options.close_seconds):
                    await self.browser.close(reason="the browser is closed")
        await self.kill()

    async def kill(self) -> None:
        """Several may ask; all return when it is over."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self.pid is not None:
            kill_group(self.pid)
            await self._bury(self.pid)
        self.gone.set()
        await _clear(self.mark, self._driver, () if self.pid is None else (self.pid,))
        self._watch.cancel()

    async def _bury(self, pid: int) -> None:
        """Lets the driver see that its child is dead: after it nobody might, and the entry would stay in the table."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BURY_SECONDS):
                while psutil.pid_exists(pid):  # noqa: ASYNC110 the system sets no event
                    await asyncio.sleep(0.01)

    async def _see_driver_end(self) -> None:
        await self._driver.ended.wait()
        self.gone.set()


async def _start(playwright: Playwright, options: LaunchOptions, mark: Mark) -> Browser:
    chromium, sandbox = options.chromium, options.chromium.sandbox
    return await playwright.chromium.launch(
        executable_path=WRAPPER if sandbox.leash is not None else chromium.binary,
        chromium_sandbox=sandbox.on,
        headless=options.display is None,
        proxy={"server": f"http://127.0.0.1:{options.deny_port}"},
        args=[*EGRESS_FLAGS, *QUIET_FLAGS, f"{SWITCH}{mark}"],
        ignore_default_args=[*HIDING_FLAGS, *memory_flags()],
        env={**chromium_environment(chromium.binary, sandbox, folder_of(mark), options.display)},
        downloads_path=downloads_of(folder_of(mark)),
        timeout=options.start_seconds * 1_000,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


async def _clear(mark: Mark, driver: Driver | None, groups: tuple[int, ...] = ()) -> None:
    if driver is not None:
        await driver.stop()
    await asyncio.to_thread(_sweep, mark, groups)


@functools.cache
def _warn_once(words: str) -> None:
    _log.warning("Chromium runs %s", words)


def _sweep(mark: Mark, groups: tuple[int, ...]) -> None:
    """Looks at all processes only where the groups are not known, or do not go."""
    if not groups or not wait_until_gone(groups):
        kill_marked(mark)
    remove_folder(folder_of(mark))


def _browser_pid(driver_pid: int, mark: Mark) -> int | None:
    """The driver's only child; None when it is gone again."""
    with suppress(psutil.Error):
        for child in psutil.Process(driver_pid).children():
            if f"{SWITCH}{mark}" in child.cmdline():
                return int(child.pid)
    return None


def _reason(error: Exception, binary: Path) -> str:
    if isinstance(error, TimeoutError):
        return f"{binary} took too long"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line.partition("[err]")[2].strip() for line in lines if "[err]" in line]  # Chromium's own words
    if not told and lines and "has been closed" in lines[0]:  # the driver's word for it names no program
        return f"{binary} ended without a word; is it one?"
    return next(iter([*(line for line in told if "FATAL" in line), *told, *lines]), type(error).__name__)
