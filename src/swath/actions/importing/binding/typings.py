"""What is typed and picked in a list of steps, and what of it is the value: all of it, a piece, or its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swath.actions.importing.binding.drafts import beginning_of, drafts_in
from swath.actions.importing.binding.forms import Needle, meant, spelt
from swath.actions.importing.binding.splits import splits_in
from swath.actions.language.steps import AnyStep, Select, Type
from swath.actions.language.template import has_references

__all__ = ["Typing", "Typings", "typed_in", "typings_in"]


class Typing(NamedTuple):
    """What a step types from now on, and as what it was found: `exact`, `form`, `split` or `beginning`."""

    text: str
    how: str


class Typings(NamedTuple):
    """By the numbers of steps: those that type the value, and those that need not be, because they only begin it."""

    bound: dict[int, Typing]
    needless: frozenset[int]


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
    apart = [at for at in typed if at not in bound]
    for number, parts in splits_in([typed[at] for at in apart], needle).items():
        bound[apart[number]] = Typing(spelt(parts), "split")
    for at in apart:
        begun = None if at in bound or needle.is_other(typed[at]) else beginning_of(typed[at], needle)
        if begun is not None:
            bound[at] = Typing(spelt(begun), "beginning")
    return Typings(bound, frozenset(at for at in drafts if _end(at, drafts) in bound))


def _end(at: int, drafts: dict[int, int]) -> int:
    while at in drafts:
        at = drafts[at]
    return at
