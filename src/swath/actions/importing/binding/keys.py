"""A recorded value that was pressed key by key: no input can stand in a key, so people are told which steps press it.

Used by replacing.py. What recorders tell of a box comes beside its keys, so typing does not end a run of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from swath.actions.importing.binding.forms import Needle
from swath.actions.language.steps import AnyStep, Press, Type

__all__ = ["pressed_in"]

_HELD: Final = frozenset({"Alt", "AltLeft", "AltRight", "Control", "ControlLeft", "ControlRight", "Meta", "MetaLeft"})
_NO_CHARACTER: Final = frozenset({"AltGraph", "CapsLock", "NumLock", "Shift", "ShiftLeft", "ShiftRight"})
_CHARACTERS: Final = {
    **{f"{pad}{digit}": digit for digit in "0123456789" for pad in ("Digit", "Numpad")},
    **{f"Key{letter.upper()}": letter for letter in "abcdefghijklmnopqrstuvwxyz"},
    **dict.fromkeys(("Minus", "NumpadSubtract"), "-"),
    **dict.fromkeys(("Period", "NumpadDecimal"), "."),
    **dict.fromkeys(("Slash", "NumpadDivide"), "/"),
    **dict.fromkeys(("Space", "Tab"), " "),  # Tab leads from box to box, as between the pieces of a value
    "Comma": ",",
    "Quote": "'",
}
_LEAST: Final = 2
_END: Final = "\n"


class _Stroke(NamedTuple):
    at: int
    character: str


def pressed_in(steps: Sequence[AnyStep], needle: Needle) -> list[tuple[int, int]]:
    """The first and the last step of each time that the value is pressed; of one list of steps."""
    strokes = list(_strokes(steps))
    text = "".join(stroke.character for stroke in strokes)
    spans = [(found.start, found.end) for found in needle.find(text)] or list(_whole(text, needle))
    return [(strokes[start].at, _let_go(steps, strokes[end - 1].at)) for start, end in spans if end - start >= _LEAST]


def _let_go(steps: Sequence[AnyStep], at: int) -> int:
    """The step in which the last key comes up, if it was held."""
    after = steps[at + 1] if at + 1 < len(steps) else None
    return at + 1 if isinstance(after, Press) and after.how == "up" else at


def _whole(text: str, needle: Needle) -> Iterator[tuple[int, int]]:
    """Of what is too short to be found elsewhere."""
    start = 0
    for run in text.split(_END):
        bare = run.strip()
        if needle.whole(bare) is not None:
            at = start + run.index(bare)
            yield at, at + len(bare)
        start += len(run) + 1


def _strokes(steps: Sequence[AnyStep]) -> list[_Stroke]:
    strokes: list[_Stroke] = []
    held: set[str] = set()
    for at, step in enumerate(steps):
        if not isinstance(step, Press):
            strokes += [] if isinstance(step, Type) else [_Stroke(at, _END)]
        elif step.key in _HELD:
            held = held | {step.key} if step.how == "down" else held - {step.key}
        elif step.how == "up" or held or step.key in _NO_CHARACTER:
            continue
        elif step.key == "Backspace":
            strokes = strokes[:-1]
        else:
            character = step.key if len(step.key) == 1 and step.key.isprintable() else _CHARACTERS.get(step.key, _END)
            strokes.append(_Stroke(at, character))
    return strokes
