"""Names that a recording gives to what it brings back: fields, lists, pages and files. None takes another's place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from swath.actions.checking.problem import Problem, of_step
from swath.actions.language.parts import joined, parts_of
from swath.actions.language.recording import Recording
from swath.actions.language.rules import Rule
from swath.actions.language.step import Step
from swath.actions.language.steps import Download, Extract, ForEach, RepeatUntil, SavePage, Screenshot
from swath.actions.language.stored import page_names
from swath.actions.language.template import Literal, parse
from swath.actions.language.walk import Placed, walk
from swath.domain.keys import REFUSED_PAGE

__all__ = ["name_problems", "objection_to_name"]

_LIKE_A_TURN: Final = re.compile(r".*-t[0-9]+")
_RECOVER: Final = "recover."
_STAND_IN: Final = "1"  # for what an item brings
_SEPARATOR: Final = re.compile(r"[/\\]")


class _Stored(NamedTuple):
    """A page or a file that is stored under a name, by one step or by several that follow each other."""

    name: str
    placed: Placed
    last: Placed


def name_problems(recording: Recording) -> Iterator[Problem]:
    """Of inputs, of fields and lists, then of pages, then of files."""
    placed = list(walk(recording))
    for name in recording.inputs:
        if objection := objection_to_name(name):
            yield Problem("inputs", objection)
    for one in placed:
        for path, name in _given_names(one.step):
            if objection := objection_to_name(name):
                yield of_step(one, path, objection)
    yield from _field_problems(placed)
    yield from _flatten_problems(placed)
    yield from _page_problems(placed, page_names(recording))
    yield from _file_problems(placed)


def objection_to_name(name: str) -> str | None:
    """Why no input and no field of a record can be called so; None when they can. Records are models of pydantic, which
    keeps a few names for itself."""
    if name.startswith("_") or (name.startswith("model_") and hasattr(BaseModel, name)):
        return f"{name!r} cannot be the name of an input or a field; choose another"
    return None


def _given_names(step: Step) -> Iterator[tuple[str, str]]:
    """Of the fields that a step brings back, with those inside them, and the paths to them."""
    match step:
        case Extract():
            yield "field", step.field
        case ForEach() | RepeatUntil() if step.collect is not None:
            yield "collect", step.collect
    for part in parts_of(step):
        if isinstance(part.model, Rule):
            for kind, names in (("fields", part.model.fields), ("columns", part.model.columns)):
                for name in names or ():
                    yield joined(part.path, kind), name


# -- fields ------------------------------------------------------------------------------------------------------------


def _field_problems(steps: list[Placed]) -> Iterator[Problem]:
    known: dict[tuple[str | None, ...], tuple[Any, Placed]] = {}
    for placed in steps:
        match placed.step:
            case Extract(field=field) as step:
                path, shape = "field", _shape(step)
                if placed.place.startswith(_RECOVER):
                    yield of_step(placed, "", "nothing can be extracted while a step is recovered; do it in the steps")
                elif any(loop.collect is None for loop in placed.loops):
                    yield of_step(
                        placed, "", "what is extracted in a loop needs the loop's collect: a name for the list"
                    )
            case (ForEach() | RepeatUntil()) as step if step.collect is not None:
                path, field, shape = "collect", step.collect, ("loop", placed.place, step.flatten)
                if not any(step is loop for other in steps if isinstance(other.step, Extract) for loop in other.loops):
                    yield of_step(placed, "collect", "nothing is extracted in this loop; remove it")
            case _:
                continue
        shape_there, first = known.setdefault((*(loop.collect for loop in placed.loops), field), (shape, placed))
        if shape_there != shape and not _both_collect(shape_there, shape, first, placed):
            what = f"{field!r} is read by step {first.place} as something else; give both the same kind and type"
            yield of_step(placed, path, what)


def _flatten_problems(steps: list[Placed]) -> Iterator[Problem]:
    for placed in steps:
        loop = placed.step
        if not isinstance(loop, (ForEach, RepeatUntil)) or loop.flatten is None:
            continue
        own = [one.step for one in steps if one.loops and one.loops[-1] is loop and isinstance(one.step, Extract)]
        named = [step for step in own if step.field == loop.flatten]
        if loop.collect is None:
            yield of_step(placed, "flatten", "needs collect, the name of the list that gets the rows")
        elif not named:
            yield of_step(placed, "flatten", f"nothing in this loop extracts {loop.flatten!r}")
        elif not all(step.kind == "table" or step.fields for step in named):
            what = f"{loop.flatten!r} has no rows: it must be a table, or a list with fields"
            yield of_step(placed, "flatten", what)


def _shape(rule: Rule) -> tuple[Any, ...]:
    fields = {name: _shape(inner) for name, inner in (rule.fields or {}).items()}
    kind = rule.kind if rule.kind in ("list", "table", "count") else "text"
    return kind, rule.type or "text", fields, sorted(rule.columns or ())


def _both_collect(one: tuple[Any, ...], other: tuple[Any, ...], first: Placed, second: Placed) -> bool:
    """Two loops may fill one list when only one of them is ever gone through."""
    return one[0] == other[0] == "loop" and one[2] == other[2] and _exclude_each_other(first.place, second.place)


# -- pages -------------------------------------------------------------------------------------------------------------


def _page_problems(steps: list[Placed], names: dict[str, str]) -> Iterator[Problem]:
    stored: list[_Stored] = []
    for placed in steps:
        if not isinstance(placed.step, (Extract, SavePage)):
            continue
        name = names.get(placed.place) or placed.step.page or ""
        if placed.step.page is not None and (objection := _objection_to_page(name)):
            yield of_step(placed, "page", objection)
        elif stored and stored[-1].name == name and _shows_the_same(stored[-1].last, placed):
            stored[-1] = stored[-1]._replace(last=placed)
        else:
            stored.append(_Stored(name, placed, placed))
    for one, other in combinations(stored, 2):
        if one.name.casefold() == other.name.casefold() and len(one.placed.loops) == len(other.placed.loops):
            yield from _clash(one, other, "page")


def _objection_to_page(name: str) -> str | None:
    if name.casefold() == REFUSED_PAGE:
        return f"{name!r} is the name of what made an item fail; choose another"
    if _LIKE_A_TURN.fullmatch(name):
        return f"{name!r} ends as pages of loops do; choose another"
    return None


def _shows_the_same(before: Placed, placed: Placed) -> bool:
    """Whether nothing happens between two steps that store a page."""
    one, other = before.step, placed.step
    assert isinstance(one, (Extract, SavePage))  # noqa: S101 for the reader of types: only these are given
    assert isinstance(other, (Extract, SavePage))  # noqa: S101 the same
    head, _, number = before.place.rpartition(".")
    follower = f"{head}.{int(number) + 1}".lstrip(".")
    return placed.place == follower and (one.target, one.frame) == (other.target, other.frame)


# -- files -------------------------------------------------------------------------------------------------------------


def _file_problems(steps: list[Placed]) -> Iterator[Problem]:
    stored: list[_Stored] = []
    for placed in steps:
        if not isinstance(placed.step, (Download, Screenshot)):
            continue
        if objection := _objection_to_file(placed.step.file):
            yield of_step(placed, "file", objection)
            continue
        references = parse(placed.step.file).references
        if placed.loops and not any(reference.root in ("loop", "value") for reference in references):
            yield of_step(placed, "file", "each turn of the loop would replace it; add {{ loop.index }} to its name")
        elif not references:
            stored.append(_Stored(placed.step.file, placed, placed))
    for one, other in combinations(stored, 2):
        if one.name == other.name:
            yield from _clash(one, other, "file")


def _objection_to_file(text: str) -> str | None:
    """What is stored has a name and no folder. What an item brings is encoded when it is stored."""
    parts = parse(text).parts
    literal = "".join(part.text if isinstance(part, Literal) else _STAND_IN for part in parts)
    if _SEPARATOR.search(literal) or literal.strip() in ("", ".", ".."):
        return f"{text[:80]!r} is no plain file name; files are stored with the item, without folders"
    return None


def _clash(one: _Stored, other: _Stored, path: str) -> Iterator[Problem]:
    # What is read off a page tells that its step was played; so not even those that exclude each other share one.
    reads = isinstance(one.placed.step, Extract) or isinstance(other.placed.step, Extract)
    if reads or not _exclude_each_other(one.placed.place, other.placed.place):
        what = f"{other.name!r} is stored by step {one.placed.place}, too; give one of them another {path}"
        yield of_step(other.placed, path, what)


def _exclude_each_other(one: str, other: str) -> bool:
    """Whether the places are in the two branches of one condition: whatever happens, only one of them is reached."""
    for here, there in zip(one.split("."), other.split("."), strict=False):
        if here != there:
            return {here, there} == {"then", "else"}
    return False
