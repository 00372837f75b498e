"""Imports recordings of Chrome's DevTools Recorder.

Names and defaults are those of `@puppeteer/replay`; where its schema and its runner differ, the runner's. What
cannot
be used is kept in notes. As tolerant as Chrome's own output needs (clicks without offsets, fields of newer
versions),
and otherwise as strict as its replay.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from swath.domain.errors import BadInput, UnknownName
from swath.recordings.importers.conversion import (
    build_recording,
    build_step,
    check_length,
    escape_recorded_braces,
    is_flow_word,
    shorten,
    usable_selectors,
)
from swath.recordings.importers.json_reader import RecorderFields
from swath.recordings.importers.remarks import Imported, Remark, StepNumbering, cautions_on
from swath.recordings.schema.models import MAIN, PageStep
from swath.recordings.schema.recording import DEFAULT_STEP_SECONDS
from swath.recordings.schema.steps import AnyStep, Goto, Press
from swath.recordings.validation.problems import ACTIONS

__all__ = ["CHROME_FIELD_NAMES", "STEP_TRANSLATORS", "ChromeImporter", "asserts_navigation", "seconds_of"]

_BUTTONS: Final = ("primary", "auxiliary", "secondary", "back", "forward")
_DEVICES: Final = ("mouse", "pen", "touch")
_OPERATORS: Final = (">=", "==", "<=")
_CHOSEN_FILE: Final = re.compile(r"[A-Za-z]:\\fakepath\\(?P<name>[^\\/]+)")
_OF_EVENTS: Final = ("type", "url", "title")
_LEAST_MS: Final = 1
_MOST_MS: Final = 30_000

StepFields = dict[str, Any]


def seconds_of(fields: RecorderFields) -> float | None:
    """Chrome takes 1 to 30,000 milliseconds."""
    given = fields.number("timeout")
    if given is None:
        return None
    if not _LEAST_MS <= given <= _MOST_MS:
        raise fields.wrong("timeout", f"is {given:g}; it must be {_LEAST_MS} to {_MOST_MS} milliseconds")
    return given / 1_000


def asserts_navigation(fields: RecorderFields) -> bool:
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


def _selectors(fields: RecorderFields) -> list[list[str]] | None:
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


def _needed_selectors(fields: RecorderFields) -> list[list[str]]:
    found = _selectors(fields)
    if found is None:
        raise fields.wrong("selectors", "is missing")
    return found


def _viewport(fields: RecorderFields) -> StepFields:
    return {
        "do": "set_viewport",
        "width": round(fields.needed_number("width")),
        "height": round(fields.needed_number("height")),
        "scale": fields.needed_number("deviceScaleFactor"),
        "mobile": fields.needed_flag("isMobile"),
        "touch": fields.needed_flag("hasTouch"),
        "landscape": fields.needed_flag("isLandscape"),
    }


def _navigate(fields: RecorderFields) -> StepFields:
    return {"do": "goto", "url": fields.needed_text("url")}


def _clicked(fields: RecorderFields) -> StepFields:
    return {
        "on": _needed_selectors(fields),
        "offset_x": fields.number("offsetX"),
        "offset_y": fields.number("offsetY"),
        "button": fields.choice("button", _BUTTONS),
        "device": fields.choice("deviceType", _DEVICES),
        "hold_ms": fields.number("duration"),
    }


def _click(fields: RecorderFields) -> StepFields:
    return {"do": "click", **_clicked(fields)}


def _double_click(fields: RecorderFields) -> StepFields:
    return {"do": "double_click", **_clicked(fields)}


def _hover(fields: RecorderFields) -> StepFields:
    return {"do": "hover", "on": _needed_selectors(fields)}


def _change(fields: RecorderFields) -> StepFields:
    """Of a field for files Chrome tells a path that it has made up."""
    on, value = _needed_selectors(fields), fields.needed_text("value")
    chosen = _CHOSEN_FILE.fullmatch(value)
    if chosen is not None:
        return {"do": "upload", "on": on, "file": chosen["name"]}
    return {"do": "type", "on": on, "text": value}


def _key_down(fields: RecorderFields) -> StepFields:
    return {"do": "press", "key": _key(fields), "how": "down"}


def _key_up(fields: RecorderFields) -> StepFields:
    return {"do": "press", "key": _key(fields), "how": "up"}


def _key(fields: RecorderFields) -> str:
    """The one key with a character that Puppeteer knows and the browser's driver does not."""
    key = fields.needed_text("key")
    return "=" if key == "NumpadEqual" else key


def _scroll(fields: RecorderFields) -> StepFields:
    return {
        "do": "scroll",
        "on": _selectors(fields),
        "x": fields.number("x") or 0,
        "y": fields.number("y") or 0,
    }


def _network(fields: RecorderFields) -> StepFields:
    return {
        "do": "network_conditions",
        "download": fields.needed_number("download"),
        "upload": fields.needed_number("upload"),
        "latency_ms": fields.needed_number("latency"),
    }


def _close(fields: RecorderFields) -> StepFields:
    del fields
    return {"do": "close"}


def _wait_for_element(fields: RecorderFields) -> StepFields:
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


def _object(fields: RecorderFields, name: str) -> dict[str, Any] | None:
    given = fields.anything(name)
    if given is not None and not isinstance(given, dict):
        raise fields.wrong(name, "is not an object")
    return given or None


def _wait_for_expression(fields: RecorderFields) -> StepFields:
    """Chrome asks the page's own scripts: `window.ready`."""
    return {"do": "javascript", "code": fields.needed_text("expression"), "until_true": True, "world": "page"}


STEP_TRANSLATORS: Final[dict[str, Callable[[RecorderFields], StepFields]]] = {
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

CHROME_FIELD_NAMES: Final = {
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


_CUSTOM: Final = "customStep"
_OURS: Final = "swath"
_EMPTY_PAGES: Final = frozenset({"about:blank", "chrome://newtab/", "chrome://new-tab-page/"})
# What Chrome says of a key that an input method has swallowed, that begins an accent, or that the browser's driver does
# not have, although Puppeteer documents it: those of telephones and of keyboards with more than ours.
_NAMES_OF_NONE: Final = (
    "Unidentified Process Dead Compose Power Eject Abort Help Convert NonConvert Select Open MediaStop Props Cancel"
    " Clear Accept ModeChange Print Execute Attn CrSel ExSel EraseEof Play ZoomOut SoftLeft SoftRight Camera Call"
    " EndCall VolumeDown VolumeUp"
)
_NO_KEYS: Final = frozenset({*_NAMES_OF_NONE.split(), "\0", *(f"F{number}" for number in range(13, 25))})
_MOST_KEPT_CHARS: Final = 3_000
_PASSIVE_TYPE: Final = re.compile(
    r"wait|assert|expect|verify|comment|note|log|print|screenshot|pause|sleep|delay", re.IGNORECASE
)
_ACTION_FIELDS: Final = (
    *("assertedEvents", "selectors", "selector", "value", "key", "url", "x", "y", "steps"),
    *("text", "file", "files", "option", "source", "destination"),
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ACTION_VERBS: Final = (
    "accept back check choose clear click close confirm dismiss drag drop enter fill focus forward go goto input login"
    " navigate open paste pick press refresh reload reset select send sign submit swipe switch tap tick toggle type"
    " uncheck upload"
)
_VERBS: Final = frozenset(_ACTION_VERBS.split())
_LOWER: Final = tuple(name.lower() for name in STEP_TRANSLATORS)
_SIMILARITY: Final = 0.8


class ChromeImporter:
    """The built-in importer."""

    name = "chrome"

    def recognises(self, document: Any) -> bool:
        """Also when something of it is missing, which `read` then says."""
        return isinstance(document, dict) and ("steps" in document or "title" in document)

    def read(self, document: Any) -> Imported:
        """Raises BadInput, which names the step by its number and type."""
        whole = RecorderFields(document, "")
        title, seconds = whole.needed_text("title"), seconds_of(whole)
        attribute, given = whole.text("selectorAttribute"), whole.anything("steps")
        if not isinstance(given, list) or not given:
            raise whole.wrong("steps", "is not a list of at least one step")
        check_length(given)
        remarks = [_unknown_field(name, value, "") for name, value in whole.rest().items()]
        if attribute is not None:
            remarks.append(Remark(f"selectors were made of the attribute {attribute} where it was there"))
        steps: list[AnyStep] = []
        numbering = StepNumbering()
        for number, one in enumerate(given, 1):
            step = _step(_fields(number, one), remarks)
            numbering.add(step is not None)
            if step is not None:
                steps.append(step)
        told = map(numbering.told, remarks)
        return build_recording(title, _with_optional_key_ups(steps), told, seconds or DEFAULT_STEP_SECONDS)


def _fields(number: int, given: Any) -> tuple[str, RecorderFields]:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(kind, str):
        raise BadInput(f"step {number}: is no step: it has no type")
    if kind not in STEP_TRANSLATORS and kind != _CUSTOM:
        _check_left_out(number, kind, given)
    fields = RecorderFields(given, f"step {number} ({kind})")
    fields.anything("type")
    return kind, fields


def _check_left_out(number: int, kind: str, given: dict[str, Any]) -> None:
    """Whether a step of a type that nobody knows can be left out: nothing that comes after it may depend on it. Raises
    BadInput for one that acts, leads elsewhere or parts branches, and for a misspelt type."""
    if _PASSIVE_TYPE.match(kind) and not given.get("assertedEvents"):
        return
    told = shorten(kind, 50)
    hint = f"Chrome has {', '.join(STEP_TRANSLATORS)} and {_CUSTOM}"
    error = UnknownName.of("type of step", told, STEP_TRANSLATORS, hint)
    field = next((name for name in _ACTION_FIELDS if given.get(name)), None)
    is_misspelt = difflib.get_close_matches(kind.lower(), _LOWER, 1, _SIMILARITY)
    if field is not None:
        why = f"; it has {field}, so what comes after may depend on it, and it cannot be left out"
    elif is_misspelt or is_flow_word(kind):
        why = ""
    elif not _VERBS.isdisjoint(word.lower() for word in _WORD.findall(kind)):
        why = "; by its name it acts on the page, so what comes after may depend on it, and it cannot be left out"
    else:
        return
    raise BadInput(f"step {number}: {error}{why}")


def _step(read: tuple[str, RecorderFields], remarks: list[Remark]) -> AnyStep | None:
    kind, fields = read
    place = fields.place
    if kind not in STEP_TRANSLATORS and kind != _CUSTOM:
        kept = shorten(json.dumps(fields.rest(), ensure_ascii=False), _MOST_KEPT_CHARS)
        remarks.append(Remark(f"the type of step {kind!r} is not known, and it is left out: {kept}", place))
        return None
    common = {
        "timeout_seconds": seconds_of(fields),
        "target": fields.text("target"),
        "frame": _frame(fields),
        "navigates": asserts_navigation(fields) or None,
    }
    own = _custom(fields, remarks) if kind == _CUSTOM else STEP_TRANSLATORS[kind](fields)
    remarks += [_unknown_field(name, value, place) for name, value in fields.rest().items()]
    if own is None:
        return None
    if own.get("do") == "goto" and own["url"] in _EMPTY_PAGES:
        remarks.append(Remark(f"opens {own['url']}, an empty page, and is left out", place))
        return None
    if own.get("do") == "press" and own.get("key") in _NO_KEYS:
        remarks.append(Remark(f"the key {own['key']} is none that can be pressed, and is left out", place))
        return None
    model = ACTIONS.get(str(own.get("do")))
    known = () if model is None else model.model_fields
    also = {name: value for name, value in common.items() if name in known and name not in own}
    given = {**own, **also}
    step = (
        build_step(given, place)
        if kind == _CUSTOM
        else build_step(_usable_fields(given, place, remarks), place, theirs=CHROME_FIELD_NAMES)
    )
    remarks += _remarks_on(step, common, place)
    return step


def _usable_fields(given: dict[str, Any], place: str, remarks: list[Remark]) -> dict[str, Any]:
    made = escape_recorded_braces(given, place, remarks)
    return {**made, "on": usable_selectors(made["on"], place, remarks)} if "on" in made else made


def _custom(fields: RecorderFields, remarks: list[Remark]) -> dict[str, Any] | None:
    """One of our own steps that somebody has added: named `swath` with all its fields as parameters, or by what it
    does."""
    name, parameters = fields.needed_text("name"), fields.anything("parameters")
    if isinstance(parameters, dict) and (name in ACTIONS or (name == _OURS and "do" in parameters)):
        return parameters if name == _OURS else {**parameters, "do": name}
    if is_flow_word(name):
        told = "parts branches, and without it all of them would be done; write an if step in their place"
        raise BadInput(f"{fields.place}: the custom step {name!r} {told}")
    kept = shorten(json.dumps(parameters, ensure_ascii=False), _MOST_KEPT_CHARS)
    remarks.append(
        Remark(f"the custom step {name!r} is not one of ours and is left out; its parameters: {kept}", fields.place)
    )
    return None


def _frame(fields: RecorderFields) -> list[int] | None:
    given = fields.anything("frame")
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in given):
        raise fields.wrong("frame", "is not a list of whole numbers")
    if any(one < 0 for one in given):
        raise fields.wrong("frame", "has a number below 0")
    return given or None


def _unknown_field(name: str, value: Any, place: str) -> Remark:
    kept = shorten(json.dumps(value, ensure_ascii=False), _MOST_KEPT_CHARS)
    return Remark(f"the field {name} is not known, and has no effect: {kept}", place)


def _remarks_on(step: AnyStep, common: dict[str, Any], place: str) -> list[Remark]:
    """What a person has to know of a step, or to do for it."""
    remarks = list(cautions_on(step, place))
    if isinstance(step, Goto) and common["target"] not in (None, MAIN):
        remarks.append(Remark(f"opens its address in the main window; recorded in {common['target']}", place))
    if common["navigates"] and not isinstance(step, (PageStep, Goto)):
        remarks.append(Remark("asserts a navigation, which nothing here waits for", place))
    return remarks


def _with_optional_key_ups(steps: Sequence[AnyStep]) -> list[AnyStep]:
    """When a key leads to another page as it goes down, it comes up where nobody may be listening any more."""
    made = list(steps)
    for at, (down, up) in enumerate(itertools.pairwise(steps), 1):
        if (
            isinstance(down, Press)
            and isinstance(up, Press)
            and down.navigates
            and up.how == "up"
            and up.key == down.key
        ):
            made[at] = up.model_copy(update={"optional": True})
    return made
