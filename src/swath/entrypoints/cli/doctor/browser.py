"""The check of the browser: Chromium is there, starts within seconds, and in its sandbox. Nobody needs one for HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from swath.bootstrap import require_browser
from swath.domain.errors import BadInput, Failed
from swath.entrypoints.cli.doctor.finding import Finding, Subject, fail, ok, warn
from swath.entrypoints.cli.output import counted
from swath.settings import Settings

if TYPE_CHECKING:
    from swath.browser.chromium.find import Chromium

__all__ = ["check_browser"]

START_SECONDS: Final = 10.0
EXTRA: Final = ("patchright", "psutil")
NEEDED_FOR: Final = "which only browser scrapers need"


def check_browser(subject: Subject) -> Finding:
    """Starts one, and ends it again."""
    settings = subject.settings
    if settings.browser_provider != "local":
        return _elsewhere(settings)
    named = settings.chromium is not None or settings.browser_user != Settings().browser_user
    if any(importlib.util.find_spec(package) is None for package in EXTRA):
        hint = "pip install 'swath[browser]'"
        return fail("the extra is not installed", hint) if named else ok(f"no extra for it, {NEEDED_FOR}: {hint}")
    from swath.browser.chromium.find import find, version_of

    try:
        chromium = find(settings.chromium, settings.browser_user)
    except BadInput as error:
        told, _, advice = str(error).partition("; ")
        return fail(told, advice or "correct it") if named else ok(f"{told}, {NEEDED_FOR}: {advice}")
    orphans, trouble = asyncio.run(_try(chromium, settings.data))
    if trouble is not None:
        advice = "run it by hand to see more: `{} --version`; see also SWATH_CHROMIUM and SWATH_BROWSER_USER"
        return (fail if named else warn)(trouble, advice.format(chromium.binary))
    told = f"Chromium {version_of(chromium.binary)}, {chromium.binary}, {chromium.sandbox.words}"
    if not chromium.sandbox.on:
        return warn(
            told, "what a page does can reach this machine: allow user namespaces, or run Swath as another user"
        )
    if orphans:
        return warn(
            f"{told}; {counted(orphans, 'process')} of dead workers", "the next worker kills them: `swath worker`"
        )
    return ok(told)


def _elsewhere(settings: Settings) -> Finding:
    """What is needed to reach them is set; whether they answer is seen when the first item needs one."""
    try:
        require_browser(settings)
    except BadInput as error:
        return fail(str(error), "set it, or unset SWATH_BROWSER_PROVIDER")
    return ok(f"those of {settings.browser_provider} are used, not of this machine; they were not asked")


async def _try(chromium: Chromium, data: Path) -> tuple[int, str | None]:
    """How many orphans there are, and why it does not start, if so."""
    from swath.browser.chromium.launch import LaunchOptions, launch
    from swath.browser.chromium.mark import family_of
    from swath.browser.chromium.orphans import find_orphans

    orphans = len(find_orphans(family_of(data)))
    with socket.socket() as refusing:  # bound and not listened at: it leads nowhere
        refusing.bind(("127.0.0.1", 0))
        port = refusing.getsockname()[1]
        options = LaunchOptions(chromium=chromium, data=data, deny_port=port, start_seconds=START_SECONDS)
        try:
            launched = await launch(options)
        except Failed as error:
            return orphans, error.failure.message
        answers = await launched.answers()
        await launched.close()
    return orphans, None if answers else "Chromium starts, and does not answer"
