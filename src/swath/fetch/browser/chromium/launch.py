"""Starts one Chromium with its driver, watches and measures it, and ends it.

Every await is bounded, and what does not answer is killed by process group.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import psutil

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.chromium.display import DisplayAddress
from swath.fetch.browser.chromium.driver import Driver, driver_files
from swath.fetch.browser.chromium.environment import (
    chromium_environment,
    downloads_of,
    driver_environment,
    make_folders,
    memory_flags,
    scratch_of,
    write_authority,
)
from swath.fetch.browser.chromium.find import Chromium
from swath.fetch.browser.chromium.orphans import kill_group, kill_tagged, remove_folder, wait_until_gone
from swath.fetch.browser.chromium.popup_guard import PopupGuard
from swath.fetch.browser.chromium.process_tag import TAG_SWITCH, ProcessTag, browser_folder, family_of
from swath.fetch.browser.chromium.sandbox import BrowserUser, Sandbox, command_as_user, kill_processes_of, may_use
from swath.fetch.browser.fingerprint.apply import REVEALING_FLAGS
from swath.fetch.egress.forward_proxy.browser_proxy import EGRESS_FLAGS

if TYPE_CHECKING:
    from patchright.async_api import Browser, CDPSession, Playwright

__all__ = ["ChromiumProcess", "LaunchOptions", "launch", "tree_bytes"]


def tree_bytes(root: int) -> int:
    try:
        processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(_bytes_of(process) for process in processes)


def _bytes_of(process: psutil.Process) -> int:
    """What it has for itself and its share of the rest; where that is not told, all that it has."""
    with suppress(psutil.Error, AttributeError, OSError):
        return int(process.memory_full_info().pss)
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


_log = logging.getLogger("swath.browser.chromium.launch")

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
REAP_SECONDS: Final = 1.0


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is whose browsers these are. At `deny_port` of loopback everything is refused: what Chromium wants for
    itself ends there, and contexts have ports of their own. `display` is the screen of a browser with windows."""

    chromium: Chromium
    data: Path
    deny_port: int
    display: DisplayAddress | None = None
    start_seconds: float = 30.0
    close_seconds: float = 5.0
    answer_seconds: float = 15.0


async def launch(options: LaunchOptions) -> ChromiumProcess:
    """Raises Failed (browser_crash) when it does not start in time, and leaves nothing behind then."""
    sandbox = options.chromium.sandbox
    if not sandbox.on:
        _warn_once(sandbox.words)
    user = await _take_user() if sandbox.own_users else None
    if user is not None:
        sandbox = msgspec.structs.replace(sandbox, uid=user.uid, gid=user.uid)
    traces = _LaunchCleanup(ProcessTag.new(family_of(options.data)), sandbox, user)
    folder = browser_folder(traces.mark)
    try:
        make_folders(folder, sandbox.uid, sandbox.gid)
        if options.display is not None:
            write_authority(folder, options.display.authority, sandbox.uid, sandbox.gid)
        async with asyncio.timeout(options.start_seconds):
            environment, leash, sandbox = _driver_command(traces.mark, folder, sandbox)
            traces.driver, playwright = await Driver.start(environment, leash)
            browser = await _start_chromium(playwright, options, traces.mark, sandbox)
            pulse = await browser.new_browser_cdp_session()
            porter = PopupGuard(pulse)
            await porter.begin()
    except BaseException as error:
        await asyncio.shield(traces.clear())
        if not isinstance(error, Exception):
            raise
        message = f"Chromium does not start: {_failure_reason(error, options.chromium.binary)}"
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message)) from None
    return ChromiumProcess(options, traces, browser, pulse, porter)


async def _take_user() -> BrowserUser:
    taking = asyncio.ensure_future(asyncio.to_thread(BrowserUser.take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(_release_taken_user)
        raise


def _release_taken_user(taken: asyncio.Future[BrowserUser]) -> None:
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


class _LaunchCleanup:
    """What a browser leaves on the machine: processes, a folder, and an id if it has one of its own."""

    def __init__(self, mark: ProcessTag, sandbox: Sandbox, user: BrowserUser | None) -> None:
        self.mark = mark
        self.driver: Driver | None = None
        self.uid = sandbox.uid
        self._leash = sandbox.leash
        self._user = user

    async def clear(self, groups: tuple[int, ...] = ()) -> None:
        """Bounded. Afterwards there is nothing."""
        if self.driver is not None:
            await self.driver.stop()
        await asyncio.to_thread(self._sweep, groups)

    def _sweep(self, groups: tuple[int, ...]) -> None:
        """Looks at all processes only where the groups are not known, or do not go."""
        if not groups or not wait_until_gone(groups):
            kill_tagged(self.mark)
        if self._user is not None and self._leash is not None:  # also what has left the group, before its folder goes
            kill_processes_of(self._user.uid, self._leash)
        remove_folder(browser_folder(self.mark))
        if self._user is not None:
            self._user.release()


class ChromiumProcess:
    """One Chromium with its driver: the real Running of the pool."""

    def __init__(
        self,
        options: LaunchOptions,
        traces: _LaunchCleanup,
        browser: Browser,
        pulse: CDPSession,
        porter: PopupGuard,
    ) -> None:
        assert traces.driver is not None  # noqa: S101 launch has started it
        self._options = options
        self._traces = traces
        self._driver = driver = traces.driver
        self._pulse = pulse
        self._porter = porter
        self._ending: asyncio.Task[None] | None = None
        self.mark = mark = traces.mark
        self.user = traces.uid
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
        return downloads_of(browser_folder(self.mark))

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
        await self._traces.clear(() if self.pid is None else (self.pid,))
        self._watch.cancel()

    async def _bury(self, pid: int) -> None:
        """Lets the driver see that its child is dead: after it nobody might, and the entry would stay in the table."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REAP_SECONDS):
                while psutil.pid_exists(pid):  # noqa: ASYNC110 the system sets no event
                    await asyncio.sleep(0.01)

    async def _see_driver_end(self) -> None:
        await self._driver.ended.wait()
        self.gone.set()


def _driver_command(
    mark: ProcessTag, folder: Path, sandbox: Sandbox
) -> tuple[dict[str, str], tuple[str, ...], Sandbox]:
    """Its environment, how its command begins, and what is left to do when it starts Chromium.

    It runs as the browser's user where that user can read its files: names of downloads come from the browser, and it
    deletes them at the end. Else it runs as we do.
    """
    ids = None if sandbox.uid is None or sandbox.gid is None else (sandbox.uid, sandbox.gid)
    if sandbox.leash is None:
        return driver_environment(mark, folder), (), sandbox
    program, script = driver_files()
    usable = (
        ids is not None and may_use(program, *ids) and may_use(script, *ids, stat.S_IROTH) and may_use(WRAPPER, *ids)
    )
    if not usable:
        return driver_environment(mark, folder), command_as_user(sandbox.leash, None, new_rights=True), sandbox
    leash = command_as_user(sandbox.leash, ids, new_rights=sandbox.helped)
    rest = msgspec.structs.replace(sandbox, uid=None, gid=None)
    return driver_environment(mark, scratch_of(folder)), leash, rest


async def _start_chromium(
    playwright: Playwright, options: LaunchOptions, mark: ProcessTag, sandbox: Sandbox
) -> Browser:
    chromium, screen = options.chromium, options.display
    return await playwright.chromium.launch(
        executable_path=WRAPPER if sandbox.leash is not None else chromium.binary,
        chromium_sandbox=sandbox.on,
        headless=screen is None,
        proxy={"server": f"http://127.0.0.1:{options.deny_port}"},
        args=[*EGRESS_FLAGS, *QUIET_FLAGS, f"{TAG_SWITCH}{mark}"],
        ignore_default_args=[*REVEALING_FLAGS, *memory_flags()],
        env={**chromium_environment(chromium.binary, sandbox, browser_folder(mark), screen.name if screen else None)},
        downloads_path=downloads_of(browser_folder(mark)),
        timeout=options.start_seconds * 1_000,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


@functools.cache
def _warn_once(words: str) -> None:
    _log.warning("Chromium runs %s", words)


def _browser_pid(driver_pid: int, mark: ProcessTag) -> int | None:
    """The driver's only child; None when it is gone again."""
    with suppress(psutil.Error):
        for child in psutil.Process(driver_pid).children():
            if f"{TAG_SWITCH}{mark}" in child.cmdline():
                return int(child.pid)
    return None


def _failure_reason(error: Exception, binary: Path) -> str:
    if isinstance(error, TimeoutError):
        return f"{binary} took too long"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line.partition("[err]")[2].strip() for line in lines if "[err]" in line]  # Chromium's own words
    if not told and lines and "has been closed" in lines[0]:  # the driver's word for it names no program
        return f"{binary} ended without a word; is it one?"
    return next(iter([*(line for line in told if "FATAL" in line), *told, *lines]), type(error).__name__)
