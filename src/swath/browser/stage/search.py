"""Search: looks for elements in a frame, once. Alternatives have parts of a kind and a value; aria.py knows those that
only Chrome's accessibility tree can answer.

stage.py asks again and again until something is there, or the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from swath.browser.session.calls import Calls
from swath.browser.stage.aria import LOOK, Aria, Parts
from swath.browser.stage.place import Place

if TYPE_CHECKING:
    from patchright.async_api import ElementHandle, Frame

__all__ = ["Chains", "Found", "Looked", "Needed", "Search"]

Chains = Sequence[Parts]
Needed = Literal["visible", "attached"]

_FOUND: Final = "found"


class Found(NamedTuple):
    """An element, and which of the alternatives has led to it."""

    handle: ElementHandle
    alternative: int


class Looked(NamedTuple):
    """What one look came to. `there`: something matches, but is not shown."""

    found: Found | None = None
    there: bool = False


class Search:
    """For one attempt. What goes elsewhere while it is looked at shows nothing."""

    def __init__(self, calls: Calls, aria: Aria) -> None:
        self._calls = calls
        self._aria = aria

    async def first(self, place: Place, chains: Chains, needed: Needed, tired: Sequence[int] = ()) -> Looked:
        """The first alternative of which an element is there; those in `tired` come last."""
        frame = place.frame
        if frame is None:
            return Looked()
        asked = {"alternatives": await self._asked(frame, chains), "needed": needed, "tired": list(tired)}
        try:
            told = await frame.evaluate_handle(_script("first"), asked)
            named = await told.get_properties()
            await told.dispose()
        except self._calls.driver_error as error:
            if self._calls.has_moved(error):
                return Looked()
            raise
        for name, value in named.items():
            handle = value.as_element()
            if handle is not None:
                return Looked(Found(handle, int(name.removeprefix(_FOUND))), there=True)
        return Looked(there="there" in named)

    async def count(
        self,
        place: Place,
        chains: Chains,
        *,
        seen: bool,
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> int:
        """How many match, of the first alternative that matches at all; only those in sight if `seen`."""
        asked = {"seen": seen, "attributes": attributes, "properties": properties}
        return int(await self._ask(place, "tally", chains, asked) or 0)

    async def shows(self, place: Place, chains: Chains | None, text: str | None) -> bool:
        """Whether an element is in sight, or a text in any case, or an element with that text."""
        return bool(await self._ask(place, "shows", chains, {"text": text}))

    async def texts(self, place: Place, chains: Chains, most: int) -> list[str]:
        """What stands in each that matches."""
        told: list[str] = await self._ask(place, "readings", chains, {"most": most}) or []
        return told

    async def _ask(self, place: Place, entry: str, chains: Chains | None, asked: dict[str, Any]) -> Any:
        frame = place.frame
        if frame is None:
            return None
        alternatives = None if chains is None else await self._asked(frame, chains)
        try:
            return await frame.evaluate(_script(entry), {"alternatives": alternatives, **asked})
        except self._calls.driver_error as error:
            if self._calls.has_moved(error):
                return None
            raise

    async def _asked(self, frame: Frame, chains: Chains) -> list[dict[str, Any]]:
        names = {at: token_hex(8) for at, parts in enumerate(chains) if any(kind == "aria" for kind, _ in parts)}
        if names and await self._hears(frame, list(names.values())):
            await asyncio.gather(*(self._aria.point(frame, chains[at], name) for at, name in names.items()))
        return [
            {"pointed": names[at]} if at in names else {"parts": [list(part) for part in parts]}
            for at, parts in enumerate(chains)
        ]

    async def _hears(self, frame: Frame, names: list[str]) -> bool:
        """Whether the frame stays where it is, and heeds what is pointed at from now on."""
        try:
            await frame.evaluate(f"names => {{ {LOOK}; forget([...heard.keys()]); hear(names); }}", names)
        except self._calls.driver_error as error:
            if self._calls.has_moved(error):
                return False
            raise
        return True


def _script(entry: str) -> str:
    return f"asked => {{ {LOOK}; return {entry}(asked); }}"
