"""Keeping: the steps that store something: pages and what is read from them, pictures, files. Asked by acts.py."""

from __future__ import annotations

from swath.actions.language.steps import Download, Extract, SavePage, Screenshot
from swath.actions.language.stored import page_name, page_names
from swath.actions.player.ground import MAYBE_SECONDS, Ground
from swath.actions.player.timing import called
from swath.actions.reading.read import read_value
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.gestures import Touch, touch
from swath.browser.stage.place import Place
from swath.browser.stage.search import Found
from swath.browser.stage.stage import TRIAL_MS, frame_of
from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.web.page import WebPage

__all__ = ["Keeping"]


class Keeping:
    """That of one play."""

    def __init__(self, ground: Ground) -> None:
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
        came = await self._ground.in_place(called(step), step, lambda at, left: self._until_there(step, at, left))
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

        async def click(found: Found, deadline: Deadline) -> None:
            await touch(ground.stage.calls, found.handle, Touch(), min(deadline.left_ms, TRIAL_MS))

        async def begin() -> None:
            won.append(await ground.on_element(called(step), step, step.on or (), click))

        await ground.session.file_of(file, begin, step.content_type)
        return won[0]

    async def _until_there(self, step: Extract, place: Place, deadline: Deadline) -> bool:
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
        return step.timeout_seconds or max(0.0, MAYBE_SECONDS - self._waited_seconds)

    async def _stored(self, step: Extract | SavePage, name: str) -> WebPage:
        return await self._ground.session.still(name, frame_of(await self._place(step)))

    async def _place(self, step: Extract | SavePage | Screenshot | Download) -> Place:
        async def here(place: Place, deadline: Deadline) -> Place:
            del deadline
            return place

        return await self._ground.in_place(called(step), step, here)


def _may_be_missing(step: Extract) -> bool:
    return step.optional or step.kind == "count"
