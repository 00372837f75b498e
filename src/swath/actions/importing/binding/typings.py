"""What is typed and picked in a list of steps, and what of it is the value: all of it, a piece, or its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from swath.actions.importing.binding.drafts import beginning_of, drafts_in
from swath.actions.importing.binding.forms import Needle, meant, spelt
from swath.actions.importing.binding.splits import splits_in
from swath.actions.language.steps import AnyStep, Select, Type
from swath.actions.language.template import has_references

__all__ = ["Typing", "Typings", "typed_in", "typings_in"]

_LEAST_PART: Final = 4  # letters and digits that are worth a note


class Typing(NamedTuple):
    """What a step types from now on, and as what it was found: `exact`, `form`, `split`, `beginning`, or
    `piece`, which somebody has said it is."""

    text: str
    how: str


class Typings(NamedTuple):
    """By the numbers of steps: those that type the value, those that need not be, because they only begin it, and those
    that may type a part of it, or something else."""

    bound: dict[int, Typing]
    needless: frozenset[int]
    doubtful: frozenset[int] = frozenset()


def typed_in(step: AnyStep) -> str | None:
    """What the step types or picks."""
    return step.text if isinstance(step, Type) else step.option if isinstance(step, Select) else None


def typings_in(steps: Sequence[AnyStep], needle: Needle) -> Typings:
    """Of one list of steps, not of those inside them."""
    drafts = drafts_in(steps)
    typed = {
        at: meant(text)
        for at, step in enumerate(steps)
        if at not in drafts and (text := typed_in(step)) is not None and not has_references(text)
    }
    bound: dict[int, Typing] = {}
    for at, text in typed.items():
        whole = needle.whole(text)
        if whole is not None:
            bound[at] = Typing(spelt(whole), "exact" if text == needle.literal else "form")
    boxes = {_box(steps[at]) for at in bound}
    apart = [at for at in typed if at not in bound]
    doubtful: set[int] = set()
    for number, parts in splits_in([typed[at] for at in apart], needle).items():
        at = apart[number]
        if needle.is_sure_of_splits or typed[at] in needle.parts:
            bound[at] = Typing(spelt(parts), "split")
        else:
            doubtful.add(at)
    for at in apart:
        if at in bound or needle.is_other(typed[at]):
            continue
        begun = beginning_of(typed[at], needle)
        if begun is not None and (not needle.strict or _box(steps[at]) in boxes):
            bound[at] = Typing(spelt(begun), "beginning")
        elif (part := needle.part_of_it(typed[at])) is not None and typed[at] in needle.parts:
            bound[at] = Typing(spelt(part), "piece")
        elif begun is not None or (part is not None and _may_be_meant(typed[at])):
            doubtful.add(at)
    needless = frozenset(at for at in drafts if _end(at, drafts) in bound)
    return Typings(bound, needless, frozenset(doubtful))


def _box(step: AnyStep) -> tuple[object, ...]:
    """Where it types: the beginning of a value in the box of the value is no other one's."""
    return tuple(getattr(step, name, None) for name in ("on", "target", "frame"))


def _may_be_meant(text: str) -> bool:
    return sum(map(str.isalnum, text)) >= _LEAST_PART and any(map(str.isdigit, text))


def _end(at: int, drafts: dict[int, int]) -> int:
    while at in drafts:
        at = drafts[at]
    return at
