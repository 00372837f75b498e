"""Recordings of Chrome's DevTools Recorder, read whole: what cannot be used is kept in notes and told, never lost.

Before: door.py has read the JSON. After: binding/ replaces what was typed by inputs. As tolerant as Chrome's own output
needs (clicks without offsets, fields of newer versions), and else as strict as its replay.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from swath.actions.explaining import ACTIONS
from swath.actions.importing.alternatives import usable
from swath.actions.importing.assembling import assembled, check_length, made_step, shortened
from swath.actions.importing.branching import is_flow_word
from swath.actions.importing.cautions import cautions_on
from swath.actions.importing.chrome_steps import NAMES, STEPS, events_of, seconds_of
from swath.actions.importing.fields import Fields
from swath.actions.importing.imported import Imported, Remark
from swath.actions.importing.numbering import Numbering
from swath.actions.importing.recorded import as_recorded
from swath.actions.language.recording import DEFAULT_STEP_SECONDS
from swath.actions.language.step import MAIN, Acting
from swath.actions.language.steps import AnyStep, Goto, Press
from swath.domain.errors import BadInput, UnknownName

__all__ = ["ChromeImporter"]

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
_LOOKS: Final = re.compile(
    r"wait|assert|expect|verify|comment|note|log|print|screenshot|pause|sleep|delay", re.IGNORECASE
)
_ACTS: Final = (
    *("assertedEvents", "selectors", "selector", "value", "key", "url", "x", "y", "steps"),
    *("text", "file", "files", "option", "source", "destination"),
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ACTING: Final = (
    "accept back check choose clear click close confirm dismiss drag drop enter fill focus forward go goto input login"
    " navigate open paste pick press refresh reload reset select send sign submit swipe switch tap tick toggle type"
    " uncheck upload"
)
_VERBS: Final = frozenset(_ACTING.split())
_LOWER: Final = tuple(name.lower() for name in STEPS)
_ALIKE: Final = 0.8


class ChromeImporter:
    """The built-in importer."""

    name = "chrome"

    def recognises(self, document: Any) -> bool:
        """Also when something of it is missing, which `read` then says."""
        return isinstance(document, dict) and ("steps" in document or "title" in document)

    def read(self, document: Any) -> Imported:
        """Raises BadInput, which names the step by its number and type."""
        whole = Fields(document, "")
        title, seconds = whole.needed_text("title"), seconds_of(whole)
        attribute, given = whole.text("selectorAttribute"), whole.anything("steps")
        if not isinstance(given, list) or not given:
            raise whole.wrong("steps", "is not a list of at least one step")
        check_length(given)
        remarks = [_unknown(name, value, "") for name, value in whole.rest().items()]
        if attribute is not None:
            remarks.append(Remark(f"selectors were made of the attribute {attribute} where it was there"))
        steps: list[AnyStep] = []
        numbering = Numbering()
        for number, one in enumerate(given, 1):
            step = _step(_fields(number, one), remarks)
            numbering.add(step is not None)
            if step is not None:
                steps.append(step)
        told = map(numbering.told, remarks)
        return assembled(title, _sure_of_keys(steps), told, seconds or DEFAULT_STEP_SECONDS)


def _fields(number: int, given: Any) -> tuple[str, Fields]:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(kind, str):
        raise BadInput(f"step {number}: is no step: it has no type")
    if kind not in STEPS and kind != _CUSTOM:
        _check_left_out(number, kind, given)
    fields = Fields(given, f"step {number} ({kind})")
    fields.anything("type")
    return kind, fields


def _check_left_out(number: int, kind: str, given: dict[str, Any]) -> None:
    """Whether a step of a type that nobody knows can be left out: nothing that comes after it may depend on it. Raises
    BadInput for one that acts, leads elsewhere or parts branches, and for a misspelt type."""
    if _LOOKS.match(kind) and not given.get("assertedEvents"):
        return
    told = shortened(kind, 50)
    hint = f"Chrome has {', '.join(STEPS)} and {_CUSTOM}"
    error = UnknownName.of("type of step", told, STEPS, hint)
    field = next((name for name in _ACTS if given.get(name)), None)
    is_misspelt = difflib.get_close_matches(kind.lower(), _LOWER, 1, _ALIKE)
    if field is not None:
        why = f"; it has {field}, so what comes after may depend on it, and it cannot be left out"
    elif is_misspelt or is_flow_word(kind):
        why = ""
    elif not _VERBS.isdisjoint(word.lower() for word in _WORD.findall(kind)):
        why = "; by its name it acts on the page, so what comes after may depend on it, and it cannot be left out"
    else:
        return
    raise BadInput(f"step {number}: {error}{why}")


def _step(read: tuple[str, Fields], remarks: list[Remark]) -> AnyStep | None:
    kind, fields = read
    place = fields.place
    if kind not in STEPS and kind != _CUSTOM:
        kept = shortened(json.dumps(fields.rest(), ensure_ascii=False), _MOST_KEPT_CHARS)
        remarks.append(Remark(f"the type of step {kind!r} is not known, and it is left out: {kept}", place))
        return None
    common = {
        "timeout_seconds": seconds_of(fields),
        "target": fields.text("target"),
        "frame": _frame(fields),
        "navigates": events_of(fields) or None,
    }
    own = _custom(fields, remarks) if kind == _CUSTOM else STEPS[kind](fields)
    remarks += [_unknown(name, value, place) for name, value in fields.rest().items()]
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
        made_step(given, place) if kind == _CUSTOM else made_step(_readable(given, place, remarks), place, theirs=NAMES)
    )
    remarks += _remarks_on(step, common, place)
    return step


def _readable(given: dict[str, Any], place: str, remarks: list[Remark]) -> dict[str, Any]:
    made = as_recorded(given, place, remarks)
    return {**made, "on": usable(made["on"], place, remarks)} if "on" in made else made


def _custom(fields: Fields, remarks: list[Remark]) -> dict[str, Any] | None:
    """One of our own steps that somebody has added: named `swath` with all its fields as parameters, or by what it
    does."""
    name, parameters = fields.needed_text("name"), fields.anything("parameters")
    if isinstance(parameters, dict) and (name in ACTIONS or (name == _OURS and "do" in parameters)):
        return parameters if name == _OURS else {**parameters, "do": name}
    if is_flow_word(name):
        told = "parts branches, and without it all of them would be done; write an if step in their place"
        raise BadInput(f"{fields.place}: the custom step {name!r} {told}")
    kept = shortened(json.dumps(parameters, ensure_ascii=False), _MOST_KEPT_CHARS)
    remarks.append(
        Remark(f"the custom step {name!r} is not one of ours and is left out; its parameters: {kept}", fields.place)
    )
    return None


def _frame(fields: Fields) -> list[int] | None:
    given = fields.anything("frame")
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in given):
        raise fields.wrong("frame", "is not a list of whole numbers")
    if any(one < 0 for one in given):
        raise fields.wrong("frame", "has a number below 0")
    return given or None


def _unknown(name: str, value: Any, place: str) -> Remark:
    kept = shortened(json.dumps(value, ensure_ascii=False), _MOST_KEPT_CHARS)
    return Remark(f"the field {name} is not known, and has no effect: {kept}", place)


def _remarks_on(step: AnyStep, common: dict[str, Any], place: str) -> list[Remark]:
    """What a person has to know of a step, or to do for it."""
    remarks = list(cautions_on(step, place))
    if isinstance(step, Goto) and common["target"] not in (None, MAIN):
        remarks.append(Remark(f"opens its address in the main window; recorded in {common['target']}", place))
    if common["navigates"] and not isinstance(step, (Acting, Goto)):
        remarks.append(Remark("asserts a navigation, which nothing here waits for", place))
    return remarks


def _sure_of_keys(steps: Sequence[AnyStep]) -> list[AnyStep]:
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
