"""Plays one recording for one item in a browser session.

Leaves the item's pages, files and pictures with the session; after a failure also the page as it stood, and the
times
of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from swath.domain.errors import Failed, NotFound
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.recording_tab import inner_frame
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.http.page.page import DEFAULT_NAME
from swath.recordings.player.context import PlayContext, TemplateScope
from swath.recordings.player.step_runner import RecordingStopped, StepRunner
from swath.recordings.player.step_times import STEPS_FILE, StepTime, StepTimes
from swath.recordings.schema.models import MAIN
from swath.recordings.schema.recording import Recording, page_names, walk

__all__ = ["play"]

_LOGIN_PAGE_FAILURES: Final = frozenset({FailureKind.ACTION_FAILED, FailureKind.LAYOUT_CHANGED, FailureKind.TIMEOUT})
_LAST_PAGE: Final = "last"  # where the names of pages are those of extract steps


async def play(
    recording: Recording,
    given: Mapping[str, Any],
    browser: BrowserSession,
    *,
    files: Path | None = None,
    watch: Callable[[StepTime], None] | None = None,
    pictures: bool = False,
) -> None:
    """`given` is the item's input by name, `files` the folder of what may be uploaded. With `pictures` there is one of
    each step. Raises Failed, whose message names the step, or NotFound."""
    ground = PlayContext(recording, browser, TemplateScope(given), files)
    times = StepTimes(watch)

    async def picture(place: str) -> None:
        with suppress(Failed, NotFound):
            await browser.screenshot(f"step-{place}.png")

    browser.fill_in_logins()
    if recording.dialogs == "dismiss":
        browser.answer_no()
    run = StepRunner(ground, times, picture if pictures else None)
    try:
        async with ground.stage.opened(wants_windows=_wants_windows(recording)):
            await _run_steps(run, recording, ground)
            if not browser.pages:
                await browser.still(_page_name(recording))
            await ground.stage.leave()
    except NotFound:
        if not browser.pages:
            with suppress(Failed, NotFound):
                await browser.still(_page_name(recording))  # the site's word is worth keeping
        if watch is not None:
            browser.keep_file(STEPS_FILE, times.as_json(), "application/json")
        raise
    except Failed as failed:
        failure = await _keep_failed_page(browser, run, failed.failure)
        browser.keep_file(STEPS_FILE, times.as_json(), "application/json")
        raise Failed(failure) from None
    if watch is not None:
        browser.keep_file(STEPS_FILE, times.as_json(), "application/json")


async def _keep_failed_page(browser: BrowserSession, run: StepRunner, failure: Failure) -> Failure:
    """Keeps the page and the frame of a failure. What it is, now that the page was seen."""
    login = await browser.refuse()
    place = run.failed_place
    if place is not None and (frame := inner_frame(place)) is not None:
        await browser.refuse_frame(frame)
    if login is None or failure.kind not in _LOGIN_PAGE_FAILURES:
        return failure
    return Failure.of(login.kind, f"{failure.message}; {login.message}")


async def _run_steps(run: StepRunner, recording: Recording, ground: PlayContext) -> None:
    """Raises Failed also when all steps could be done, and the site says that the password is wrong."""
    try:
        with suppress(RecordingStopped):
            await run.steps("", recording.steps)
    except Failed as failed:
        refusal = await ground.login.refusal(failed.failure)
        if refusal is not None:
            raise Failed(refusal) from None
        raise
    refusal = await ground.login.refusal(None)
    if refusal is not None:
        raise Failed(refusal)


def _wants_windows(recording: Recording) -> bool:
    """Whether a step, or what one looks at, names a window. Others are shut as soon as they open."""
    for _, step, _ in walk(recording):
        for part in (step, getattr(step, "condition", None)):
            if getattr(part, "target", MAIN) != MAIN:
                return True
    return False


def _page_name(recording: Recording) -> str:
    return _LAST_PAGE if page_names(recording) else DEFAULT_NAME
