"""Acts: what each step does on the stage. Waiting is in waits.py, what is kept in keeping.py, and which step comes next
in run.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urljoin

from swath.actions.language import steps as kinds
from swath.actions.player.ground import Ground
from swath.actions.player.keeping import Keeping
from swath.actions.player.timing import called
from swath.actions.player.uploads import asset
from swath.actions.player.waits import Waits
from swath.browser.session.calls import TookTooLong
from swath.browser.stage import emulation, fields, gestures, travel
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.browser.stage.search import Found
from swath.browser.stage.stage import TRIAL_MS
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["Acts"]

_log = logging.getLogger(__name__)

_RUN: Final = "runs a script of the recording %s"


class Acts:
    """Those of one play. Every one raises Failed or NotFound, and nothing else that is the page's doing."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._keeping = Keeping(ground)
        self._waits = Waits(ground)
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
        except TookTooLong as error:
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
        async def do(place: Place, deadline: Deadline) -> None:
            del deadline
            await travel.go(self._ground.stage.calls, place.page, step.do)

        await self._ground.act(called(step), step, do)

    # -- elements ------------------------------------------------------------------------------------------------------

    async def _click(self, step: kinds.Click | kinds.DoubleClick) -> str | None:
        how = gestures.Touch(
            times=2 if isinstance(step, kinds.DoubleClick) else 1,
            button=step.button,
            device=step.device,
            offset_x=step.offset_x,
            offset_y=step.offset_y,
            hold_ms=step.hold_ms,
        )
        calls = self._ground.stage.calls

        async def do(found: Found, deadline: Deadline) -> None:
            await self._ground.login.clicks(found)
            ms = min(deadline.left_ms, TRIAL_MS + (how.hold_ms or 0))
            await gestures.touch(calls, found.handle, how, ms)

        return await self._ground.on_element(called(step), step, step.on, do)

    async def _hover(self, step: kinds.Hover) -> str | None:
        async def do(found: Found, deadline: Deadline) -> None:
            await gestures.hover(found.handle, min(deadline.left_ms, TRIAL_MS))

        return await self._ground.on_element(called(step), step, step.on, do)

    async def _type(self, step: kinds.Type) -> str | None:
        ground, text = self._ground, self._ground.scope.text(step.text)

        async def do(found: Found, deadline: Deadline) -> None:
            place = ground.stage.place_now(ground.scope.target(step.target), step.frame)
            await ground.login.types(place, found, text)
            if await fields.fill(found.handle, text, ground.stage.inside.hands.key_ms, deadline):
                ground.login.typed(place, text)

        return await self._ground.on_element(called(step), step, step.on, do)

    async def _select(self, step: kinds.Select) -> str | None:
        option = self._ground.scope.text(step.option)

        async def do(found: Found, deadline: Deadline) -> None:
            await fields.choose(found.handle, option, deadline)

        return await self._ground.on_element(called(step), step, step.on, do)

    async def _check(self, step: kinds.Check) -> str | None:
        async def do(found: Found, deadline: Deadline) -> None:
            await fields.clear_or_tick(found.handle, step.checked, min(deadline.left_ms, TRIAL_MS))

        return await self._ground.on_element(called(step), step, step.on, do)

    async def _upload(self, step: kinds.Upload) -> str | None:
        most = self._ground.stage.inside.hands.options.most_file_bytes
        name, body = await asset(self._ground.files, self._ground.scope.text(step.file), most)

        async def do(found: Found, deadline: Deadline) -> None:
            await fields.give_file(found.handle, name, body, deadline)

        return await self._ground.on_element(called(step), step, step.on, do, "attached")

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def _press(self, step: kinds.Press) -> None:
        async def do(place: Place, deadline: Deadline) -> None:
            del deadline
            self._ground.login.presses(step.key)
            await travel.press(place.page, step.key, step.how)

        await self._ground.act(called(step), step, do)

    async def _scroll(self, step: kinds.Scroll) -> str | None:
        if step.on is not None:

            async def do(found: Found, deadline: Deadline) -> None:
                await travel.scroll_element(found.handle, step.x, step.y, deadline.left_ms)

            return await self._ground.on_element(called(step), step, step.on, do, "attached")

        async def scroll(place: Place, deadline: Deadline) -> None:
            await travel.scroll_window(place, step.x, step.y, deadline)

        await self._ground.act(called(step), step, scroll)
        return None

    async def _viewport(self, step: kinds.Viewport) -> None:
        screen = emulation.Screen(
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
            await emulation.set_screen(stage.calls.page, stage.calls.cdp, screen)

        await stage.run(called(step), self._ground.seconds(step), work)

    async def _network(self, step: kinds.NetworkConditions) -> None:
        stage = self._ground.stage
        self._undo_emulation(size_alone=False)

        async def work(deadline: Deadline) -> None:
            del deadline
            await stage.inside.windows.bring(stage.inside.windows.main)
            await emulation.set_network(stage.calls.cdp, step.download, step.upload, step.latency_ms)

        await stage.run(called(step), self._ground.seconds(step), work)

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

        async def work(place: Place, deadline: Deadline) -> None:
            del deadline
            if place.page is not windows.main:
                await windows.shut(place.page)

        await self._ground.in_place(called(step), step, work)

    async def _javascript(self, step: kinds.JavaScript) -> None:
        _log.info(_RUN, self._ground.recording.id)
        await self._ground.act(
            called(step), step, lambda place, left: self._waits.script(step, place, left), leads_on=step.navigates
        )
