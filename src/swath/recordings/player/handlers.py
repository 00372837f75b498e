"""What each kind of step does: navigation, input, uploads, and the steps that store pages, values, pictures and files.

Uploads come from the folder `files` beside the recording, by plain name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab import element_input, page_controls
from swath.fetch.browser.tab.calls import DriverTimeout
from swath.fetch.browser.tab.element_input import ClickOptions, click_element
from swath.fetch.browser.tab.element_search import FoundElement
from swath.fetch.browser.tab.recording_tab import ELEMENT_TRIAL_MS, inner_frame
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation
from swath.fetch.http.page.page import WebPage
from swath.recordings.extraction.record import read_value
from swath.recordings.player.context import OPTIONAL_WAIT_SECONDS, PlayContext
from swath.recordings.player.step_times import step_label
from swath.recordings.player.waits import WaitSteps
from swath.recordings.schema import steps as kinds
from swath.recordings.schema.recording import page_name, page_names
from swath.recordings.schema.steps import MOST_NAME_BYTES, Download, Extract, SavePage, Screenshot

__all__ = ["StepHandlers", "StoringSteps", "read_upload"]


async def read_upload(files: Path | None, name: str, most_bytes: int) -> tuple[str, bytes]:
    """Its name and what is in it. Raises Failed: invalid_input for what is no name of a file there."""
    if files is None:
        raise _invalid_upload(f"{name!r} cannot be uploaded: the recording has no folder `files` beside it")
    return name, await asyncio.to_thread(_read_file, files, name, most_bytes)


def _read_file(files: Path, name: str, most_bytes: int) -> bytes:
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise _invalid_upload(f"{name!r} is no plain name of a file, and only such can be uploaded")
    if len(name.encode("utf-8", "replace")) > MOST_NAME_BYTES:
        raise _invalid_upload(
            f"{name[:40] + '…'!r} has more than {MOST_NAME_BYTES} bytes, and no file has so long a name"
        )
    try:
        folder, path = files.resolve(), (files / name).resolve()
        if path.parent != folder or not path.is_file():
            raise _invalid_upload(f"there is no file {name!r} in the folder of the recording's files")
        with path.open("rb") as file:
            body = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is no text"  # their own words have the path
        raise _invalid_upload(f"the file {name!r} cannot be read: {why}") from None
    if len(body) > most_bytes:
        raise _invalid_upload(f"the file {name!r} has more than {most_bytes:,} bytes")
    return body


def _invalid_upload(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_INPUT, message))


class StoringSteps:
    """That of one play."""

    def __init__(self, ground: PlayContext) -> None:
        self._ground = ground
        self._names = page_names(ground.recording)
        self._fresh: tuple[str, WebPage] | None = None  # what the step before has stored, and nothing has changed since
        self._waited_seconds = 0.0  # on this page for what need not be there

    def page_may_change(self) -> None:
        """A step that does something comes between."""
        self._fresh = None
        self._waited_seconds = 0.0

    async def extract(self, place: str, step: Extract) -> str | None:
        """Stores the page and reads the value. Steps that follow each other share a page, as long as it has what each
        of them reads."""
        name, read = page_name(self._names[place], self._ground.scope.turns), False
        if self._fresh is not None and self._fresh[0] == name:
            try:
                value = self._ground.scope.values[step.field] = read_value(step, self._fresh[1])
            except Failed as failed:
                if failed.failure.kind is not FailureKind.LAYOUT_CHANGED:
                    raise
            else:
                read = True
                if value or not _may_be_missing(step):
                    return None
        came = await self._ground.in_place(step_label(step), step, lambda at, left: self._until_there(step, at, left))
        if read and not came:
            return None
        page = await self._stored(step, name)
        self._ground.scope.values[step.field] = read_value(step, page)
        self._fresh = (name, page)
        return None

    async def save_page(self, step: SavePage) -> None:
        """As it stands there."""
        await self._stored(step, page_name(step.page, self._ground.scope.turns))

    async def screenshot(self, step: Screenshot) -> None:
        """Of the window that the step is in."""
        await self._place(step)
        await self._ground.session.screenshot(self._ground.scope.text(step.file), full_page=step.full_page)

    async def download(self, step: Download) -> str | None:
        """By a click, or from an address."""
        ground, file = self._ground, self._ground.scope.text(step.file)
        if step.url is not None:
            await self._place(step)
            url = ground.scope.text(step.url)
            await ground.session.download(file, url=url, content_type=step.content_type)
            return None
        won: list[str | None] = []

        async def click(found: FoundElement, deadline: Deadline) -> None:
            await click_element(
                ground.stage.calls, found.handle, ClickOptions(), min(deadline.left_ms, ELEMENT_TRIAL_MS)
            )

        async def begin() -> None:
            won.append(await ground.on_element(step_label(step), step, step.on or (), click))

        await ground.session.file_of(file, begin, step.content_type)
        return won[0]

    async def _until_there(self, step: Extract, place: FrameLocation, deadline: Deadline) -> bool:
        """Pages put together what they show after they have loaded. What does not come is missing, as reading says.
        Whether it came only now."""
        stage, chains = self._ground.stage, self._ground.scope.chains(step.on)
        if _may_be_missing(step):
            deadline = deadline.at_most(self._patience_seconds(step))

        async def is_there() -> bool:
            return await stage.search.count(place, chains, seen=False) > 0

        if await is_there():
            return False
        came = await stage.until(place, deadline, is_there, self._ground.between)
        if _may_be_missing(step):
            self._waited_seconds += deadline.spent_seconds
        return came

    def _patience_seconds(self, step: Extract) -> float:
        """For what need not be there: what the step says, or else some seconds for all of them on a page."""
        return step.timeout_seconds or max(0.0, OPTIONAL_WAIT_SECONDS - self._waited_seconds)

    async def _stored(self, step: Extract | SavePage, name: str) -> WebPage:
        return await self._ground.session.still(name, inner_frame(await self._place(step)))

    async def _place(self, step: Extract | SavePage | Screenshot | Download) -> FrameLocation:
        async def here(place: FrameLocation, deadline: Deadline) -> FrameLocation:
            del deadline
            return place

        return await self._ground.in_place(step_label(step), step, here)


def _may_be_missing(step: Extract) -> bool:
    return step.optional or step.kind == "count"


_log = logging.getLogger("swath.actions.player.acts")

_RUNS_SCRIPT: Final = "runs a script of the recording %s"


class StepHandlers:
    """Those of one play. Every one raises Failed or NotFound, and nothing else that is the page's doing."""

    def __init__(self, ground: PlayContext) -> None:
        self._ground = ground
        self._keeping = StoringSteps(ground)
        self._waits = WaitSteps(ground)
        self._by_kind: dict[type[Any], Callable[[Any], Awaitable[str | None]]] = {
            kinds.Goto: self._goto,
            kinds.Back: self._travel,
            kinds.Forward: self._travel,
            kinds.Reload: self._travel,
            kinds.Click: self._click,
            kinds.DoubleClick: self._click,
            kinds.Hover: self._hover,
            kinds.Type: self._type,
            kinds.Press: self._press,
            kinds.Select: self._select,
            kinds.Check: self._check,
            kinds.Upload: self._upload,
            kinds.Scroll: self._scroll,
            kinds.WaitFor: self._waits.wait_for,
            kinds.Screenshot: self._keeping.screenshot,
            kinds.SavePage: self._keeping.save_page,
            kinds.Download: self._keeping.download,
            kinds.Viewport: self._viewport,
            kinds.NetworkConditions: self._network,
            kinds.CloseWindow: self._close,
            kinds.JavaScript: self._javascript,
        }

    async def do(self, place: str, step: kinds.AnyStep) -> str | None:
        """Which of the alternatives of its selector has won, if it has one."""
        calls = self._ground.stage.calls
        try:
            if isinstance(step, kinds.Extract):
                return await self._keeping.extract(place, step)
            self._keeping.page_may_change()
            return await self._by_kind[type(step)](step)
        except DriverTimeout as error:
            raise Failed(Failure.of(FailureKind.TIMEOUT, str(error))) from None
        except calls.driver_error as error:
            message = str(error).partition("\n")[0]
            raise Failed(Failure.of(FailureKind.ACTION_FAILED, message)) from None

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def _goto(self, step: kinds.Goto) -> None:
        ground = self._ground
        url, base = ground.scope.text(step.url), ground.recording.base_url
        windows, seconds = ground.stage.inside.windows, ground.seconds(step)
        await ground.stage.run("going to the main window", seconds, lambda _: windows.bring(windows.main))
        address = url if base is None else urljoin(base, url)
        await ground.session.goto(address, "domcontentloaded", seconds=step.timeout_seconds)
        await ground.stage.run("loading", seconds, lambda deadline: ground.stage.loaded(windows.main, deadline))

    async def _travel(self, step: kinds.Back | kinds.Forward | kinds.Reload) -> None:
        async def do(place: FrameLocation, deadline: Deadline) -> None:
            del deadline
            await page_controls.go_in_history(self._ground.stage.calls, place.page, step.do)

        await self._ground.act(step_label(step), step, do)

    # -- elements ------------------------------------------------------------------------------------------------------

    async def _click(self, step: kinds.Click | kinds.DoubleClick) -> str | None:
        how = element_input.ClickOptions(
            times=2 if isinstance(step, kinds.DoubleClick) else 1,
            button=step.button,
            device=step.device,
            offset_x=step.offset_x,
            offset_y=step.offset_y,
            hold_ms=step.hold_ms,
        )
        calls = self._ground.stage.calls

        async def do(found: FoundElement, deadline: Deadline) -> None:
            await self._ground.login.clicks(found)
            ms = min(deadline.left_ms, ELEMENT_TRIAL_MS + (how.hold_ms or 0))
            await element_input.click_element(calls, found.handle, how, ms)

        return await self._ground.on_element(step_label(step), step, step.on, do)

    async def _hover(self, step: kinds.Hover) -> str | None:
        async def do(found: FoundElement, deadline: Deadline) -> None:
            await element_input.hover_element(found.handle, min(deadline.left_ms, ELEMENT_TRIAL_MS))

        return await self._ground.on_element(step_label(step), step, step.on, do)

    async def _type(self, step: kinds.Type) -> str | None:
        ground, text = self._ground, self._ground.scope.text(step.text)

        async def do(found: FoundElement, deadline: Deadline) -> None:
            place = ground.stage.place_now(ground.scope.target(step.target), step.frame)
            await ground.login.types(place, found, text)
            if await element_input.fill_field(found.handle, text, ground.stage.inside.hands.key_ms, deadline):
                ground.login.typed(place, text)

        return await self._ground.on_element(step_label(step), step, step.on, do)

    async def _select(self, step: kinds.Select) -> str | None:
        option = self._ground.scope.text(step.option)

        async def do(found: FoundElement, deadline: Deadline) -> None:
            await element_input.choose_option(found.handle, option, deadline)

        return await self._ground.on_element(step_label(step), step, step.on, do)

    async def _check(self, step: kinds.Check) -> str | None:
        async def do(found: FoundElement, deadline: Deadline) -> None:
            await element_input.set_checked(found.handle, step.checked, min(deadline.left_ms, ELEMENT_TRIAL_MS))

        return await self._ground.on_element(step_label(step), step, step.on, do)

    async def _upload(self, step: kinds.Upload) -> str | None:
        most = self._ground.stage.inside.hands.options.most_file_bytes
        name, body = await read_upload(self._ground.files, self._ground.scope.text(step.file), most)

        async def do(found: FoundElement, deadline: Deadline) -> None:
            await element_input.upload_file(found.handle, name, body, deadline)

        return await self._ground.on_element(step_label(step), step, step.on, do, "attached")

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def _press(self, step: kinds.Press) -> None:
        async def do(place: FrameLocation, deadline: Deadline) -> None:
            del deadline
            self._ground.login.presses(step.key)
            await page_controls.press_key(place.page, step.key, step.how)

        await self._ground.act(step_label(step), step, do)

    async def _scroll(self, step: kinds.Scroll) -> str | None:
        if step.on is not None:

            async def do(found: FoundElement, deadline: Deadline) -> None:
                await page_controls.scroll_element(found.handle, step.x, step.y, deadline.left_ms)

            return await self._ground.on_element(step_label(step), step, step.on, do, "attached")

        async def scroll(place: FrameLocation, deadline: Deadline) -> None:
            await page_controls.scroll_window(place, step.x, step.y, deadline)

        await self._ground.act(step_label(step), step, scroll)
        return None

    async def _viewport(self, step: kinds.Viewport) -> None:
        screen = page_controls.EmulatedScreen(
            width=step.width,
            height=step.height,
            scale=step.scale,
            mobile=step.mobile,
            touch=step.touch,
            landscape=step.landscape,
        )
        stage = self._ground.stage
        target = self._ground.scope.target(step.target)

        async def work(deadline: Deadline) -> None:
            page = (await stage.place(target, None, deadline)).page
            if page is stage.inside.windows.main:  # a popup does not outlive the item
                self._undo_emulation(size_alone=screen.is_size_alone)
            await page_controls.set_screen(stage.calls.page, stage.calls.cdp, screen)

        await stage.run(step_label(step), self._ground.seconds(step), work)

    async def _network(self, step: kinds.NetworkConditions) -> None:
        stage = self._ground.stage
        self._undo_emulation(size_alone=False)

        async def work(deadline: Deadline) -> None:
            del deadline
            await stage.inside.windows.bring(stage.inside.windows.main)
            await page_controls.set_network(stage.calls.cdp, step.download, step.upload, step.latency_ms)

        await stage.run(step_label(step), self._ground.seconds(step), work)

    def _undo_emulation(self, *, size_alone: bool) -> None:
        """The size of the main window can be set back for the next item. Anything else stays with the page."""
        inside = self._ground.stage.inside
        main, before = inside.windows.main, inside.windows.main.viewport_size
        if size_alone and before is not None:
            inside.undo.insert(0, lambda: main.set_viewport_size(before))
        else:
            inside.opened.keeps_page = False

    async def _close(self, step: kinds.CloseWindow) -> None:
        """The main window stays until the session ends: what it shows is still to be kept."""
        windows = self._ground.stage.inside.windows

        async def work(place: FrameLocation, deadline: Deadline) -> None:
            del deadline
            if place.page is not windows.main:
                await windows.shut(place.page)

        await self._ground.in_place(step_label(step), step, work)

    async def _javascript(self, step: kinds.JavaScript) -> None:
        _log.info(_RUNS_SCRIPT, self._ground.recording.id)
        await self._ground.act(
            step_label(step), step, lambda place, left: self._waits.script(step, place, left), leads_on=step.navigates
        )
