"""Marks and conditions: whether a page shows something now. Asked by `if` and `repeat_until`, and between two looks for
an element: by the marks of a record that does not exist, and of what stands in the way (recover).
"""

from __future__ import annotations

from swath.actions.language.conditions import Condition, Mark
from swath.actions.player.scope import Scope
from swath.browser.stage.place import Place
from swath.browser.stage.stage import Stage

__all__ = ["Marks", "address_like"]


class Marks:
    """Looks once, and does not wait."""

    def __init__(self, stage: Stage, scope: Scope) -> None:
        self._stage = stage
        self._scope = scope

    async def shown(self, mark: Mark, place: Place) -> bool:
        """In the frame of a place."""
        chains = None if mark.on is None else self._scope.chains(mark.on)
        text = None if mark.text is None else self._scope.text(mark.text)
        return await self._stage.search.shows(place, chains, text)

    async def shown_on(self, mark: Mark, place: Place) -> bool:
        """In the frame of a place, or in its window."""
        window = Place(place.page)
        if await self.shown(mark, window):
            return True
        return place != window and await self.shown(mark, place)

    async def holds(self, condition: Condition) -> bool:
        """All that it names. What is looked for in a window or a frame that is not there is not shown."""
        return await self._holds(condition) is not condition.negate

    async def _holds(self, condition: Condition) -> bool:
        if condition.value is not None:
            value = self._scope.text(condition.value)
            if not (value if condition.equals is None else value == self._scope.text(condition.equals)):
                return False
        if condition.url is None and condition.on is None and condition.text is None:
            return True
        place = self._stage.place_now(self._scope.target(condition.target), condition.frame)
        if condition.url is not None:
            frame = None if place is None else place.frame
            if frame is None or not address_like(self._scope.text(condition.url), frame.url):
                return False
        if condition.on is None and condition.text is None:
            return True
        seen = place is not None and await self.shown(condition, place)
        return seen is (condition.state == "visible")


def address_like(pattern: str, url: str) -> bool:
    """Whether a part of the address is like the pattern, in which * stands for anything."""
    at = 0
    for piece in pattern.split("*"):
        found = url.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
