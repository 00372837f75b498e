"""Searches a frame once for the elements of a recorded selector, among them accessible names
(`aria/Search[role="button"]`).

Accessible names are resolved by Chromium's accessibility tree over CDP, in an isolated world of our own. What it
finds
is handed to the driver's world by an event on the elements themselves (look.js), so a page that changes meanwhile
cannot swap them; nothing is left on the page.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.step_target import FrameLocation

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, ElementHandle, Frame

    from swath.fetch.browser.tab.navigation import Navigation

__all__ = [
    "LOOK_SCRIPT",
    "AccessibilityTree",
    "ElementSearch",
    "FoundElement",
    "RequiredState",
    "SearchResult",
    "SelectorChains",
    "SelectorParts",
    "accessibility_query",
]

SelectorParts = Sequence[tuple[str, str]]

LOOK_SCRIPT: Final = Path(__file__).with_name("look.js").read_text("utf-8")
_WORLD_NAME: Final = "look"
_MOST_FOUND: Final = 20  # of what one part has found, that the next is looked for in
_MOST_NAMED: Final = 200  # that have a name, of which some are inside of what was found before
_IS_INSIDE: Final = """function(...roots) {
  for (let node = this.parentNode; node; node = node.parentNode || node.host) if (roots.includes(node)) return true;
  return false;
}"""
_ATTRIBUTE: Final = re.compile(
    r"""\[\s*(?P<name>\w+)\s*=\s*(?P<quote>["'])(?P<value>(?:\\.|[^\\])*?)(?P=quote)\s*\]""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\([\"'\\])")
_NO_ELEMENTS: Final = frozenset({"StaticText", "InlineTextBox"})


def accessibility_query(value: str) -> dict[str, str]:
    """What is asked of the tree, as Puppeteer reads it: `Name[role="x"]`, or attributes alone."""
    asked: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        if found["name"] not in ("name", "role"):
            return found[0]
        asked["accessibleName" if found["name"] == "name" else "role"] = _ESCAPED.sub(r"\1", found["value"])
        return ""

    name = _ATTRIBUTE.sub(take, value)
    if name and "accessibleName" not in asked:
        asked["accessibleName"] = name
    return asked


class _FrameGone(Exception):
    """The element that held a frame is not there any more."""


class AccessibilityTree:
    """For the frames of one attempt. Those in processes of their own have CDP sessions of their own, made on demand."""

    def __init__(self, documents: Navigation, driver_error: type[Exception]) -> None:
        self._documents = documents
        self._driver_error = driver_error
        self._own: dict[Frame, tuple[CDPSession, str]] = {}

    async def point(self, frame: Frame, parts: SelectorParts, name: str) -> None:
        """At the elements to which a chain leads, by an event of that name; at none when the frame is just going
        elsewhere."""
        try:
            cdp, frame_id = await self._line(frame)
            world = await _isolated_world(cdp, frame_id)
            found = [{"objectId": one} for one in await self._search(cdp, world, parts)]
            if found:
                script = f"function(name, ...nodes) {{ {LOOK_SCRIPT}; point(name, nodes); }}"
                await _call(cdp, world, script, [{"value": name}, *found])
        except (self._driver_error, _FrameGone):
            self._own.pop(frame, None)

    async def close(self) -> None:
        """Leaves the frames."""
        for cdp, _ in self._own.values():
            try:
                async with asyncio.timeout(1):
                    await cdp.detach()
            except (TimeoutError, self._driver_error):
                continue  # it is gone, or will be with its page

    async def _line(self, frame: Frame) -> tuple[CDPSession, str]:
        """The CDP session of a frame, and what Chromium calls it."""
        parent = frame.parent_frame
        if parent is None:
            line = await self._documents.open(frame.page)
            return line.cdp, line.main_frame
        if frame not in self._own:
            try:
                cdp = await frame.page.context.new_cdp_session(frame)
                tree = await cdp.send("Page.getFrameTree")
                self._own[frame] = (cdp, tree["frameTree"]["frame"]["id"])
            except self._driver_error:  # it is in the process of its parent
                return await self._inside(parent, frame)
        return self._own[frame]

    async def _inside(self, parent: Frame, frame: Frame) -> tuple[CDPSession, str]:
        """By the element that holds it, at which the driver's world points."""
        cdp, parent_id = await self._line(parent)
        owner, world, name = await frame.frame_element(), await _isolated_world(cdp, parent_id), token_hex(8)
        await _call(cdp, world, f"function(name) {{ {LOOK_SCRIPT}; hear([name]); }}", [{"value": name}])
        await owner.evaluate(f"(node, name) => {{ {LOOK_SCRIPT}; point(name, [node]); }}", name)
        take = "const [node] = pointedAt(name); forget([name]); return node;"
        element = await _call(cdp, world, f"function(name) {{ {LOOK_SCRIPT}; {take} }}", [{"value": name}])
        if "objectId" not in element:
            raise _FrameGone
        told = await cdp.send("DOM.describeNode", {"objectId": element["objectId"]})
        if "frameId" not in told["node"]:
            raise _FrameGone
        return cdp, told["node"]["frameId"]

    async def _search(self, cdp: CDPSession, world: int, parts: SelectorParts) -> list[str]:
        document = (await _call(cdp, world, "function() { return document; }"))["objectId"]
        roots = [document]
        for kind, value in parts:
            if kind == "aria":
                roots = await self._named(
                    cdp, world, document, value, () if roots == [document] else roots[:_MOST_FOUND]
                )
            else:
                work = [self._part(cdp, root, kind, value) for root in roots[:_MOST_FOUND]]
                roots = [found for one in await asyncio.gather(*work) for found in one]
        return roots[:_MOST_FOUND]

    async def _part(self, cdp: CDPSession, root: str, kind: str, value: str) -> list[str]:
        script = f"function(kind, value) {{ {LOOK_SCRIPT}; return part(this, [kind, value]); }}"
        found = await _call_on(cdp, root, script, [{"value": kind}, {"value": value}])
        return await _items(cdp, found["objectId"])

    async def _named(self, cdp: CDPSession, world: int, document: str, value: str, inside: Sequence[str]) -> list[str]:
        """Asked of the whole document: from an element that the tree leaves out, such as most hosts of shadow roots,
        Chromium finds nothing. What is not inside of one of these, if any are given, is left out afterwards."""
        told = await cdp.send("Accessibility.queryAXTree", {"objectId": document, **accessibility_query(value)})
        nodes = [node for node in told["nodes"] if node.get("role", {}).get("value") not in _NO_ELEMENTS]
        ids = [node["backendDOMNodeId"] for node in nodes if "backendDOMNodeId" in node]
        most = _MOST_NAMED if inside else _MOST_FOUND
        resolved = await asyncio.gather(*(self._resolved(cdp, world, node_id) for node_id in ids[:most]))
        found = [one for one in resolved if one is not None]
        if not inside:
            return found
        roots = [{"objectId": root} for root in inside]
        kept = await asyncio.gather(*(_call_on(cdp, one, _IS_INSIDE, roots, by_value=True) for one in found))
        return [one for one, told in zip(found, kept, strict=True) if told.get("value")]

    async def _resolved(self, cdp: CDPSession, world: int, node_id: int) -> str | None:
        try:
            asked = {"backendNodeId": node_id, "executionContextId": world}
            return str((await cdp.send("DOM.resolveNode", asked))["object"]["objectId"])
        except self._driver_error:  # it is in another frame, or has gone
            return None


async def _isolated_world(cdp: CDPSession, frame_id: str) -> int:
    """A world of our own in a frame: the same each time that it is asked for."""
    made = await cdp.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": _WORLD_NAME})
    return int(made["executionContextId"])


async def _call(
    cdp: CDPSession, world: int, script: str, arguments: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    asked = {"functionDeclaration": script, "executionContextId": world, "arguments": list(arguments)}
    told: dict[str, Any] = (await cdp.send("Runtime.callFunctionOn", asked))["result"]
    return told


async def _call_on(
    cdp: CDPSession, found: str, script: str, arguments: Sequence[Mapping[str, Any]] = (), *, by_value: bool = False
) -> dict[str, Any]:
    asked = {
        "functionDeclaration": script,
        "objectId": found,
        "arguments": list(arguments),
        "returnByValue": by_value,
    }
    told: dict[str, Any] = (await cdp.send("Runtime.callFunctionOn", asked))["result"]
    return told


async def _items(cdp: CDPSession, array: str) -> list[str]:
    told = await cdp.send("Runtime.getProperties", {"objectId": array, "ownProperties": True})
    found = [one["value"]["objectId"] for one in told["result"] if one["name"].isdecimal()]
    return found[:_MOST_FOUND]


SelectorChains = Sequence[SelectorParts]
RequiredState = Literal["visible", "attached"]

_FOUND_PREFIX: Final = "found"


class FoundElement(NamedTuple):
    """An element, and which of the alternatives has led to it."""

    handle: ElementHandle
    alternative: int


class SearchResult(NamedTuple):
    """What one look came to. `there`: something matches, but is not shown."""

    found: FoundElement | None = None
    there: bool = False


class ElementSearch:
    """For one attempt. What goes elsewhere while it is looked at shows nothing."""

    def __init__(self, calls: DriverCalls, aria: AccessibilityTree) -> None:
        self._calls = calls
        self._aria = aria

    async def first(
        self, place: FrameLocation, chains: SelectorChains, needed: RequiredState, tired: Sequence[int] = ()
    ) -> SearchResult:
        """The first alternative of which an element is there; those in `tired` come last."""
        frame = place.frame
        if frame is None:
            return SearchResult()
        asked = {"alternatives": await self._asked(frame, chains), "needed": needed, "tired": list(tired)}
        try:
            told = await frame.evaluate_handle(_script("first"), asked)
            named = await told.get_properties()
            await told.dispose()
        except self._calls.driver_error as error:
            if self._calls.has_moved(error):
                return SearchResult()
            raise
        for name, value in named.items():
            handle = value.as_element()
            if handle is not None:
                return SearchResult(FoundElement(handle, int(name.removeprefix(_FOUND_PREFIX))), there=True)
        return SearchResult(there="there" in named)

    async def count(
        self,
        place: FrameLocation,
        chains: SelectorChains,
        *,
        seen: bool,
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> int:
        """How many match, of the first alternative that matches at all; only those in sight if `seen`."""
        asked = {"seen": seen, "attributes": attributes, "properties": properties}
        return int(await self._ask(place, "tally", chains, asked) or 0)

    async def shows(self, place: FrameLocation, chains: SelectorChains | None, text: str | None) -> bool:
        """Whether an element is in sight, or a text in any case, or an element with that text."""
        return bool(await self._ask(place, "shows", chains, {"text": text}))

    async def texts(self, place: FrameLocation, chains: SelectorChains, most: int) -> list[str]:
        """What stands in each that matches."""
        told: list[str] = await self._ask(place, "readings", chains, {"most": most}) or []
        return told

    async def _ask(self, place: FrameLocation, entry: str, chains: SelectorChains | None, asked: dict[str, Any]) -> Any:
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

    async def _asked(self, frame: Frame, chains: SelectorChains) -> list[dict[str, Any]]:
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
            await frame.evaluate(f"names => {{ {LOOK_SCRIPT}; forget([...heard.keys()]); hear(names); }}", names)
        except self._calls.driver_error as error:
            if self._calls.has_moved(error):
                return False
            raise
        return True


def _script(entry: str) -> str:
    return f"asked => {{ {LOOK_SCRIPT}; return {entry}(asked); }}"
