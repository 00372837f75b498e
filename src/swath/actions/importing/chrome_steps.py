"""Steps of Chrome's recorder, each translated into the fields of one of ours. The table STEPS has all of its types.

Chrome's names and defaults are those of `@puppeteer/replay`, and where its schema and its runner differ, the runner's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from swath.actions.importing.fields import Fields

__all__ = ["NAMES", "STEPS", "events_of", "seconds_of"]

_BUTTONS: Final = ("primary", "auxiliary", "secondary", "back", "forward")
_DEVICES: Final = ("mouse", "pen", "touch")
_OPERATORS: Final = (">=", "==", "<=")
_CHOSEN_FILE: Final = re.compile(r"[A-Za-z]:\\fakepath\\(?P<name>[^\\/]+)")
_OF_EVENTS: Final = ("type", "url", "title")
_LEAST_MS: Final = 1
_MOST_MS: Final = 30_000

Ours = dict[str, Any]


def seconds_of(fields: Fields) -> float | None:
    """Chrome takes 1 to 30,000 milliseconds."""
    given = fields.number("timeout")
    if given is None:
        return None
    if not _LEAST_MS <= given <= _MOST_MS:
        raise fields.wrong("timeout", f"is {given:g}; it must be {_LEAST_MS} to {_MOST_MS} milliseconds")
    return given / 1_000


def events_of(fields: Fields) -> bool:
    """Whether a navigation is to come of the step; nothing else can be asserted. Its address and title are those of
    the day of the recording, which Chrome does not compare either. What else an event has is left with the fields that
    nobody knows."""
    events = fields.anything("assertedEvents")
    if events is None:
        return False
    if not isinstance(events, list):
        raise fields.wrong("assertedEvents", "is not a list")
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        if kind != "navigation":
            raise fields.wrong("assertedEvents", f"has an event of the type {kind!r}; only navigation can be asserted")
        fields.leave({f"assertedEvents.{name}": value for name, value in event.items() if name not in _OF_EVENTS})
    return bool(events)


def _selectors(fields: Fields) -> list[list[str]] | None:
    given = fields.anything("selectors")
    if given is None:
        return None
    if not isinstance(given, list) or not given:
        raise fields.wrong("selectors", "is not a list with at least one selector")
    chains = [[one] if isinstance(one, str) else one for one in given]
    for chain in chains:
        if not isinstance(chain, list) or not chain or not all(isinstance(part, str) and part for part in chain):
            raise fields.wrong("selectors", "has one that is neither a text nor a list of texts")
    return chains


def _needed_selectors(fields: Fields) -> list[list[str]]:
    found = _selectors(fields)
    if found is None:
        raise fields.wrong("selectors", "is missing")
    return found


def _viewport(fields: Fields) -> Ours:
    return {
        "do": "set_viewport",
        "width": round(fields.needed_number("width")),
        "height": round(fields.needed_number("height")),
        "scale": fields.needed_number("deviceScaleFactor"),
        "mobile": fields.needed_flag("isMobile"),
        "touch": fields.needed_flag("hasTouch"),
        "landscape": fields.needed_flag("isLandscape"),
    }


def _navigate(fields: Fields) -> Ours:
    return {"do": "goto", "url": fields.needed_text("url")}


def _clicked(fields: Fields) -> Ours:
    return {
        "on": _needed_selectors(fields),
        "offset_x": fields.number("offsetX"),
        "offset_y": fields.number("offsetY"),
        "button": fields.choice("button", _BUTTONS),
        "device": fields.choice("deviceType", _DEVICES),
        "hold_ms": fields.number("duration"),
    }


def _click(fields: Fields) -> Ours:
    return {"do": "click", **_clicked(fields)}


def _double_click(fields: Fields) -> Ours:
    return {"do": "double_click", **_clicked(fields)}


def _hover(fields: Fields) -> Ours:
    return {"do": "hover", "on": _needed_selectors(fields)}


def _change(fields: Fields) -> Ours:
    """Of a field for files Chrome tells a path that it has made up."""
    on, value = _needed_selectors(fields), fields.needed_text("value")
    chosen = _CHOSEN_FILE.fullmatch(value)
    if chosen is not None:
        return {"do": "upload", "on": on, "file": chosen["name"]}
    return {"do": "type", "on": on, "text": value}


def _key_down(fields: Fields) -> Ours:
    return {"do": "press", "key": _key(fields), "how": "down"}


def _key_up(fields: Fields) -> Ours:
    return {"do": "press", "key": _key(fields), "how": "up"}


def _key(fields: Fields) -> str:
    """The one key with a character that Puppeteer knows and the browser's driver does not."""
    key = fields.needed_text("key")
    return "=" if key == "NumpadEqual" else key


def _scroll(fields: Fields) -> Ours:
    return {
        "do": "scroll",
        "on": _selectors(fields),
        "x": fields.number("x") or 0,
        "y": fields.number("y") or 0,
    }


def _network(fields: Fields) -> Ours:
    return {
        "do": "network_conditions",
        "download": fields.needed_number("download"),
        "upload": fields.needed_number("upload"),
        "latency_ms": fields.needed_number("latency"),
    }


def _close(fields: Fields) -> Ours:
    del fields
    return {"do": "close"}


def _wait_for_element(fields: Fields) -> Ours:
    on, operator, count = _needed_selectors(fields), fields.choice("operator", _OPERATORS), fields.number("count")
    if count is not None and (count != int(count) or count < 0):
        raise fields.wrong("count", f"is {count:g}, which no elements can be")
    visible = fields.flag("visible")
    return {
        "do": "wait_for",
        "on": on,
        "state": "hidden" if visible is False else "visible",
        "count": int(count) if count is not None else None if operator in (None, ">=") else 1,
        "compare": operator or ">=",
        "attributes": _object(fields, "attributes"),
        "properties": _object(fields, "properties"),
    }


def _object(fields: Fields, name: str) -> dict[str, Any] | None:
    given = fields.anything(name)
    if given is not None and not isinstance(given, dict):
        raise fields.wrong(name, "is not an object")
    return given or None


def _wait_for_expression(fields: Fields) -> Ours:
    """Chrome asks the page's own scripts: `window.ready`."""
    return {"do": "javascript", "code": fields.needed_text("expression"), "until_true": True, "world": "page"}


STEPS: Final[dict[str, Callable[[Fields], Ours]]] = {
    "setViewport": _viewport,
    "navigate": _navigate,
    "click": _click,
    "doubleClick": _double_click,
    "hover": _hover,
    "change": _change,
    "keyDown": _key_down,
    "keyUp": _key_up,
    "scroll": _scroll,
    "emulateNetworkConditions": _network,
    "close": _close,
    "waitForElement": _wait_for_element,
    "waitForExpression": _wait_for_expression,
}
"""`customStep` is not among them: chrome.py asks whether it is one of ours."""

NAMES: Final = {
    "code": "expression",
    "compare": "operator",
    "file": "value",
    "hold_ms": "duration",
    "landscape": "isLandscape",
    "latency_ms": "latency",
    "mobile": "isMobile",
    "offset_x": "offsetX",
    "offset_y": "offsetY",
    "on": "selectors",
    "scale": "deviceScaleFactor",
    "text": "value",
    "timeout_seconds": "timeout",
    "touch": "hasTouch",
}
"""Fields of ours as Chrome calls them, where it has another word."""
