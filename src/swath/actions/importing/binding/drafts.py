"""What was typed on the way to a value: Chrome tells of a box whenever another key than a letter is pressed, so that
`200-14-0` may come before `200-14-030`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.actions.importing.binding.forms import Needle, Parts
from swath.actions.language.steps import AnyStep, Click, Press, Type
from swath.actions.language.template import Call

__all__ = ["beginning_of", "drafts_in"]

_HELD: Final = frozenset({"Alt", "AltGraph", "CapsLock", "Control", "Meta", "Shift"})
_LEAST_CHARACTERS: Final = 4


def drafts_in(steps: Sequence[AnyStep]) -> dict[int, int]:
    """Which typing begins which other one, in the same box, with nothing between that the page would heed."""
    found: dict[int, int] = {}
    for at, step in enumerate(steps):
        if not isinstance(step, Type) or step.navigates:
            continue
        after = next((number for number in range(at + 1, len(steps)) if not _is_harmless(steps[number], step)), None)
        if after is None:
            continue
        other = steps[after]
        if isinstance(other, Type) and _same_box(other, step) and other.text.startswith(step.text):
            found[at] = after
    return found


def beginning_of(text: str, needle: Needle) -> Parts | None:
    """What stands for a text that begins the value and is most of it: somebody chose the rest from a list. Not of a
    form that has only the digits: `1002` does not begin `AB-1002-2024`."""
    for form in needle.forms:
        if not needle.has_all_of_it(form.text):
            continue
        enough = max(_LEAST_CHARACTERS, len(form.text) // 2)
        if enough <= len(text) < len(form.text) and form.text.startswith(text):
            return (needle.reference(*form.calls, Call("slice", (0, len(text)))),)
    return None


def _is_harmless(step: AnyStep, box: Type) -> bool:
    if isinstance(step, Press):
        return step.key in _HELD and not step.navigates
    return isinstance(step, Click) and _same_box(step, box) and not step.navigates


def _same_box(one: Type | Click, other: Type) -> bool:
    return (one.on, one.target, one.frame) == (other.on, other.target, other.frame)
