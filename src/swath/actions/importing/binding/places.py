"""Where steps stand when others have been left out: remarks, notes and places count them as people see them, in the
recording they get.

Used by replacing.py for what one value has led to, and by bind.py when the next value leaves out more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from swath.actions.importing.imported import Remark

__all__ = ["moved", "renumbered", "renumbered_note"]

_STEP: Final = r"(?:\w+\.)*[0-9]+"
_PLACE: Final = re.compile(_STEP)
_AFTER: Final = re.compile(rf"after step ({_STEP})(.*)", re.DOTALL)
_SEVERAL: Final = re.compile(r"(?P<first>[0-9]+)(?: to (?P<last>[0-9]+))?")
_NOTE: Final = re.compile(
    rf"(?P<place>(?:after |before )?steps? {_STEP}(?: to {_STEP})?(?: \([^()]*\)|, \w+)?): (?P<text>.*)", re.DOTALL
)
_COUNTED: Final = re.compile(r"(?P<text>.*: [0-9]+ steps? \()(?P<steps>[^()]*)\)", re.DOTALL)


def renumbered(remark: Remark, gone: Sequence[str]) -> Remark:
    """The same remark when the steps at these places are left out. Of one of these it says what it came after."""
    if not gone:
        return remark
    steps = tuple(_listed(step, gone) for step in remark.steps)
    return msgspec.structs.replace(remark, place=_placed(remark.place, gone), steps=steps)


def renumbered_note(note: str, gone: Sequence[str]) -> str:
    """The same for a remark that has been written down."""
    if not gone:
        return note
    if placed := _NOTE.fullmatch(note):
        return f"{_placed(placed['place'], gone)}: {placed['text']}"
    if counted := _COUNTED.fullmatch(note):
        return f"{counted['text']}{', '.join(_listed(one, gone) for one in counted['steps'].split(', '))})"
    return note


def moved(place: str, gone: Sequence[str]) -> str:
    """The place of a step that stays. Each number in it is less by those that stood before it in the same list."""
    left_out = [one.rpartition(".") for one in gone]
    parts = place.split(".")
    made: list[str] = []
    for at, part in enumerate(parts):
        less = sum(
            list_ == ".".join(parts[:at]) and int(number) < int(part)
            for list_, _, number in left_out
            if part.isdecimal()
        )
        made.append(str(int(part) - less) if less else part)
    return ".".join(made)


def _placed(place: str, gone: Sequence[str]) -> str:
    if after := _AFTER.fullmatch(place):
        return _after(after[1], gone) + after[2]
    head, mark, what = place.partition(" (")
    number = head.removeprefix("step ")
    if number in gone:
        return _after(number, gone) + (f", {what.removesuffix(')')}" if what else "")
    return _PLACE.sub(lambda found: moved(found[0], gone), head) + mark + what


def _after(place: str, gone: Sequence[str]) -> str:
    """The last step that stays, up to this one."""
    list_, dot, number = moved(place, gone).rpartition(".")
    last = int(number) - (place in gone)
    return f"after step {list_}{dot}{last}" if last else f"before step {list_}{dot}1"


def _listed(step: str, gone: Sequence[str]) -> str:
    """One of several: `2`, `3 to 4`, or `after 4` of one that is left out."""
    if step.startswith("after "):
        return _after(step.removeprefix("after "), gone).replace(" step", "")
    found = _SEVERAL.fullmatch(step)
    if found is None:
        return step
    if found["last"] is None and step in gone:
        return _after(step, gone).replace(" step", "")
    return _PLACE.sub(lambda one: moved(one[0], gone), step)
