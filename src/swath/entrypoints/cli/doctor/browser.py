"""Checks that Chromium is installed, starts and runs in its sandbox, or that the remote browser answers."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from swath.backends.clock import SystemClock
from swath.bootstrap.browsers import require_browser
from swath.domain.errors import BadInput, Failed
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckResult, fail, ok, warn
from swath.entrypoints.cli.output import plural
from swath.settings import Settings

if TYPE_CHECKING:
    from swath.fetch.browser.chromium.display import Display
    from swath.fetch.browser.chromium.find import Chromium

__all__ = ["check_browser"]

START_SECONDS: Final = 10.0
EXTRA_PACKAGES: Final = ("patchright", "psutil")
OPTIONAL_NOTE: Final = "which only browser scrapers need"


def check_browser(subject: CheckContext) -> CheckResult:
    """Starts one, and ends it again."""
    settings = subject.settings
    if settings.browser_provider != "local":
        return _check_remote_browser(settings)
    named = settings.chromium is not None or settings.browser_user != Settings().browser_user
    if any(importlib.util.find_spec(package) is None for package in EXTRA_PACKAGES):
        hint = "pip install 'swath[browser]'"
        return fail("the extra is not installed", hint) if named else ok(f"no extra for it, {OPTIONAL_NOTE}: {hint}")
    from swath.fetch.browser.chromium.find import find, version_of

    try:
        chromium = find(settings.chromium, settings.browser_user)
    except BadInput as error:
        told, _, advice = str(error).partition("; ")
        return fail(told, advice or "correct it") if named else ok(f"{told}, {OPTIONAL_NOTE}: {advice}")
    orphans, trouble = asyncio.run(_try_local(chromium, settings))
    if trouble is not None:
        advice = f"run it by hand to see more: `{chromium.binary} --headless --dump-dom about:blank`"
        return (fail if named else warn)(trouble, f"{advice}; see also SWATH_CHROMIUM and SWATH_BROWSER_USER")
    told = (
        f"Chromium {version_of(chromium.binary)}, {chromium.binary}, {chromium.sandbox.words}, {_window_text(settings)}"
    )
    if not chromium.sandbox.on:
        return warn(
            told, "what a page does can reach this machine: allow user namespaces, or run Swath as another user"
        )
    if orphans:
        return warn(
            f"{told}; {plural(orphans, 'process')} of dead workers",
            "the next worker that runs an item in a browser kills them",
        )
    return ok(told)


def _window_text(settings: Settings) -> str:
    from swath.fetch.browser.chromium.display import find_display_program

    if settings.browser_headless:
        return "without windows, as SWATH_BROWSER_HEADLESS says"
    if find_display_program() is None:
        return "without windows, which sites can tell: there is no Xvfb (Debian: apt-get install xvfb)"
    return "with windows in Xvfb"


def _check_remote_browser(settings: Settings) -> CheckResult:
    """What is needed to reach them is set, and one that is there anyway answers; none is made that is paid for."""
    try:
        require_browser(settings)
    except BadInput as error:
        return fail(str(error), "set it, or unset SWATH_BROWSER_PROVIDER")
    if settings.browser_provider == "browserbase":
        return ok("those of browserbase are used; none was asked for, since each costs a minute")
    trouble = asyncio.run(_connect_to_remote(settings))
    if trouble is not None:
        return fail(trouble, "start it with --remote-debugging-port, or correct SWATH_BROWSER_CDP_URL")
    return ok("the one that SWATH_BROWSER_CDP_URL names is used, and answers")


async def _connect_to_remote(settings: Settings) -> str | None:
    """Why it cannot be had, if so."""
    from swath.fetch.browser.chromium.process_tag import family_of
    from swath.fetch.browser.providers.cdp import CdpProvider, RemoteLimits

    assert settings.browser_cdp_url is not None  # noqa: S101 require_browser has looked
    limits = RemoteLimits(connect_seconds=START_SECONDS, connect_tries=1)
    try:
        provider = CdpProvider(settings.browser_cdp_url, SystemClock(), family_of(settings.data), limits=limits)
    except BadInput as error:
        return str(error)
    try:
        await provider.create()
    except Failed as error:
        return error.failure.message
    finally:
        await provider.close()
    return None


async def _try_local(chromium: Chromium, settings: Settings) -> tuple[int, str | None]:
    """How many orphans there are, and why it does not start as a worker would start it, if so."""
    from swath.fetch.browser.chromium.display import Display, find_display_program
    from swath.fetch.browser.chromium.orphans import find_orphans
    from swath.fetch.browser.chromium.process_tag import family_of

    orphans = len(find_orphans(family_of(settings.data)))
    program = None if settings.browser_headless else find_display_program()
    display = None if program is None else Display(program, chromium.sandbox.leash)
    try:
        return orphans, await _start_local(chromium, settings.data, display)
    except Failed as error:
        return orphans, error.failure.message
    finally:
        if display is not None:
            await display.close()


async def _start_local(chromium: Chromium, data: Path, display: Display | None) -> str | None:
    """Why it does not answer, if so. Raises Failed when it does not even start."""
    from swath.fetch.browser.chromium.launch import LaunchOptions, launch

    with socket.socket() as refusing:  # bound and not listened at: it leads nowhere
        refusing.bind(("127.0.0.1", 0))
        options = LaunchOptions(
            chromium=chromium,
            data=data,
            deny_port=refusing.getsockname()[1],
            display=None if display is None else await display.screen(),
            start_seconds=START_SECONDS,
        )
        launched = await launch(options)
        answers = await launched.answers()
        await launched.close()
    return None if answers else "Chromium starts, and does not answer"
