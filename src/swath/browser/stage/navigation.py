"""Navigation: listens whether a page, or a frame in it, goes elsewhere, from before an action on. Used by stage.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from swath.browser.session.windows import Windows
from swath.browser.stage.deadline import Deadline
from swath.browser.stage.place import Place
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import shown

if TYPE_CHECKING:
    from patchright.async_api import Frame

__all__ = ["Navigation"]

_LOOK_SECONDS: Final = 0.1


class Navigation:
    """Of the window's own frame, or of the frame that was acted in. A window that opens, or closes, is one too."""

    def __init__(self, place: Place, windows: Windows) -> None:
        self._place = place
        self._frame = place.frame
        self._windows = windows
        self._before = len(windows.above)
        self._went = asyncio.Event()

    def __enter__(self) -> Self:
        self._place.page.on("framenavigated", self._navigated)
        return self

    def __exit__(self, *_: object) -> None:
        self._place.page.remove_listener("framenavigated", self._navigated)

    @property
    def has_closed(self) -> bool:
        """Whether its window, which was not the first, is shut."""
        return self._place.page.is_closed() and self._place.page is not self._windows.main

    async def wait(self, deadline: Deadline) -> None:
        """Raises Failed navigation when none came in time."""
        while not self._went.is_set() and not self.has_closed and len(self._windows.above) == self._before:
            if deadline.is_over:
                where = shown(self._place.page.url)
                message = f"a navigation from {where} was to come of it, and none came in {deadline.seconds:g} s"
                raise Failed(Failure.of(FailureKind.NAVIGATION, message))
            try:
                async with asyncio.timeout(min(_LOOK_SECONDS, deadline.left_seconds)):
                    await self._went.wait()
            except TimeoutError:
                continue

    def _navigated(self, frame: Frame, *_: Any) -> None:
        if frame.parent_frame is None or frame is self._frame:
            self._went.set()
