"""Finds a value in what the steps type, pick and press: all of it, a piece, a beginning, or key by key.

Chrome reports a box whenever a key other than a letter is pressed, so `200-14-0` may come before `200-14-030`; and a
value may be split over several boxes or parts of an address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from swath.recordings.importers.binding.forms import RecordedValue, TemplateParts, template_text, unescaped_text
from swath.recordings.schema.steps import AnyStep, Click, Press, Select, Type
from swath.recordings.schema.template import FilterCall, has_references

__all__ = [
    "TypedText",
    "TypedTexts",
    "beginning_of",
    "drafts_in",
    "find_typed_texts",
    "pressed_in",
    "splits_in",
    "typed_in",
]

_LEAST_CHARACTERS: Final = 4
_MOST_PIECES: Final = 12


def splits_in(texts: Sequence[str], needle: RecordedValue) -> dict[int, TemplateParts]:
    """What stands for which text: for each run of two or more whose letters and digits make up the value. What is the
    value of another input is left to that one, whether it stands in the run or only between its pieces."""
    others = {at for at, text in enumerate(texts) if needle.is_other(text)}
    found = {at: parts for at, parts in _all_in(texts, needle).items() if at not in others}
    if found or not others:
        return found
    apart = [at for at in range(len(texts)) if at not in others]
    return {apart[number]: parts for number, parts in _all_in([texts[at] for at in apart], needle).items()}


def _all_in(texts: Sequence[str], needle: RecordedValue) -> dict[int, TemplateParts]:
    found: dict[int, TemplateParts] = {}
    if len(needle.stripped) < _LEAST_CHARACTERS or not needle.can_be_cut:
        return found
    at = 0
    while at < len(texts):
        run = next(_runs(texts, at, needle), ())
        for number, text in enumerate(run):
            found[at + number] = needle.pieced(text, sum(map(_length, run[:number])))
        at += len(run) or 1
    return found


def _runs(texts: Sequence[str], start: int, needle: RecordedValue) -> Iterator[Sequence[str]]:
    """Those that begin at `start`; each text as recorded, or all of it in capitals or in small letters."""
    for wanted in dict.fromkeys((needle.stripped, needle.stripped.upper(), needle.stripped.lower())):
        if len(wanted) != len(needle.stripped):
            continue
        at = 0
        for end in range(start, min(len(texts), start + _MOST_PIECES)):
            piece = _stripped(texts[end])
            if not piece or not wanted.startswith(piece, at):
                break
            at += len(piece)
            if at == len(wanted) and end > start:
                yield texts[start : end + 1]


def _stripped(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _length(text: str) -> int:
    return len(_stripped(text))


_MODIFIER_KEYS: Final = frozenset({"Alt", "AltGraph", "CapsLock", "Control", "Meta", "Shift"})


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


def beginning_of(text: str, needle: RecordedValue) -> TemplateParts | None:
    """What stands for a text that begins the value and is most of it: somebody chose the rest from a list. Not of a
    form that has only the digits: `1002` does not begin `AB-1002-2024`."""
    for form in needle.forms:
        if not needle.has_all_of_it(form.text):
            continue
        enough = max(_LEAST_CHARACTERS, len(form.text) // 2)
        if enough <= len(text) < len(form.text) and form.text.startswith(text):
            return (needle.reference(*form.calls, FilterCall("slice", (0, len(text)))),)
    return None


def _is_harmless(step: AnyStep, box: Type) -> bool:
    if isinstance(step, Press):
        return step.key in _MODIFIER_KEYS and not step.navigates
    return isinstance(step, Click) and _same_box(step, box) and not step.navigates


def _same_box(one: Type | Click, other: Type) -> bool:
    return (one.on, one.target, one.frame) == (other.on, other.target, other.frame)


_CHORD_KEYS: Final = frozenset(
    {"Alt", "AltLeft", "AltRight", "Control", "ControlLeft", "ControlRight", "Meta", "MetaLeft"}
)
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


def pressed_in(steps: Sequence[AnyStep], needle: RecordedValue) -> list[tuple[int, int]]:
    """The first and the last step of each time that the value is pressed; of one list of steps."""
    strokes = list(_strokes(steps))
    text = "".join(stroke.character for stroke in strokes)
    spans = [(found.start, found.end) for found in needle.find(text)] or list(_whole(text, needle))
    return [(strokes[start].at, _let_go(steps, strokes[end - 1].at)) for start, end in spans if end - start >= _LEAST]


def _let_go(steps: Sequence[AnyStep], at: int) -> int:
    """The step in which the last key comes up, if it was held."""
    after = steps[at + 1] if at + 1 < len(steps) else None
    return at + 1 if isinstance(after, Press) and after.how == "up" else at


def _whole(text: str, needle: RecordedValue) -> Iterator[tuple[int, int]]:
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
        elif step.key in _CHORD_KEYS:
            held = held | {step.key} if step.how == "down" else held - {step.key}
        elif step.how == "up" or held or step.key in _NO_CHARACTER:
            continue
        elif step.key == "Backspace":
            strokes = strokes[:-1]
        else:
            character = step.key if len(step.key) == 1 and step.key.isprintable() else _CHARACTERS.get(step.key, _END)
            strokes.append(_Stroke(at, character))
    return strokes


_LEAST_PART: Final = 4  # letters and digits that are worth a note


class TypedText(NamedTuple):
    """What a step types from now on, and as what it was found: `exact`, `form`, `split`, `beginning`, or
    `piece`, which somebody has said it is."""

    text: str
    how: str


class TypedTexts(NamedTuple):
    """By the numbers of steps: those that type the value, those that need not be, because they only begin it, and those
    that may type a part of it, or something else."""

    bound: dict[int, TypedText]
    needless: frozenset[int]
    doubtful: frozenset[int] = frozenset()


def typed_in(step: AnyStep) -> str | None:
    """What the step types or picks."""
    return step.text if isinstance(step, Type) else step.option if isinstance(step, Select) else None


def find_typed_texts(steps: Sequence[AnyStep], needle: RecordedValue) -> TypedTexts:
    """Of one list of steps, not of those inside them."""
    drafts = drafts_in(steps)
    typed = {
        at: unescaped_text(text)
        for at, step in enumerate(steps)
        if at not in drafts and (text := typed_in(step)) is not None and not has_references(text)
    }
    bound: dict[int, TypedText] = {}
    for at, text in typed.items():
        whole = needle.whole(text)
        if whole is not None:
            bound[at] = TypedText(template_text(whole), "exact" if text == needle.literal else "form")
    boxes = {_box(steps[at]) for at in bound}
    apart = [at for at in typed if at not in bound]
    doubtful: set[int] = set()
    for number, parts in splits_in([typed[at] for at in apart], needle).items():
        at = apart[number]
        if needle.is_sure_of_splits or typed[at] in needle.parts:
            bound[at] = TypedText(template_text(parts), "split")
        else:
            doubtful.add(at)
    for at in apart:
        if at in bound or needle.is_other(typed[at]):
            continue
        begun = beginning_of(typed[at], needle)
        if begun is not None and (not needle.strict or _box(steps[at]) in boxes):
            bound[at] = TypedText(template_text(begun), "beginning")
        elif (part := needle.part_of_it(typed[at])) is not None and typed[at] in needle.parts:
            bound[at] = TypedText(template_text(part), "piece")
        elif begun is not None or (part is not None and _may_be_meant(typed[at])):
            doubtful.add(at)
    needless = frozenset(at for at in drafts if _end(at, drafts) in bound)
    return TypedTexts(bound, needless, frozenset(doubtful))


def _box(step: AnyStep) -> tuple[object, ...]:
    """Where it types: the beginning of a value in the box of the value is no other one's."""
    return tuple(getattr(step, name, None) for name in ("on", "target", "frame"))


def _may_be_meant(text: str) -> bool:
    return sum(map(str.isalnum, text)) >= _LEAST_PART and any(map(str.isdigit, text))


def _end(at: int, drafts: dict[int, int]) -> int:
    while at in drafts:
        at = drafts[at]
    return at
