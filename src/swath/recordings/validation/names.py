"""Checks the names in a recording: no two fields, lists, pages or files share one, and every reference in a template is
to something that has a value when the step runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from swath.domain.storage_keys import REFUSED_PAGE
from swath.domain.validation_messages import did_you_mean, quoted_list
from swath.recordings.schema.models import ModelPart, Rule, Step, join_path, parts_of, texts_of
from swath.recordings.schema.recording import PlacedStep, Recording, branches_of, page_names, walk
from swath.recordings.schema.steps import (
    AnyStep,
    Download,
    Extract,
    ForEach,
    If,
    RepeatUntil,
    SavePage,
    Screenshot,
    Try,
)
from swath.recordings.schema.template import ROOTS, LiteralText, Reference, parse_template
from swath.recordings.validation.problems import Problem, step_problem

__all__ = ["field_name_error", "name_problems", "reference_problems"]

_TURN_SUFFIX: Final = re.compile(r".*-t[0-9]+")
_RECOVER: Final = "recover."
_STAND_IN: Final = "1"  # for what an item brings
_SEPARATOR: Final = re.compile(r"[/\\]")


class _StoredName(NamedTuple):
    """A page or a file that is stored under a name, by one step or by several that follow each other."""

    name: str
    placed: PlacedStep
    last: PlacedStep


def name_problems(recording: Recording) -> Iterator[Problem]:
    """Of inputs, of fields and lists, then of pages, then of files."""
    placed = list(walk(recording))
    for name in recording.inputs:
        if objection := field_name_error(name):
            yield Problem("inputs", objection)
    for one in placed:
        for path, name in _given_names(one.step):
            if objection := field_name_error(name):
                yield step_problem(one, path, objection)
    yield from _field_problems(placed)
    yield from _flatten_problems(placed)
    yield from _page_problems(placed, page_names(recording))
    yield from _file_problems(placed)


def field_name_error(name: str) -> str | None:
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
                    yield join_path(part.path, kind), name


# -- fields ------------------------------------------------------------------------------------------------------------


def _field_problems(steps: list[PlacedStep]) -> Iterator[Problem]:
    known: dict[tuple[str | None, ...], tuple[Any, PlacedStep]] = {}
    for placed in steps:
        match placed.step:
            case Extract(field=field) as step:
                path, shape = "field", _shape(step)
                if placed.place.startswith(_RECOVER):
                    yield step_problem(
                        placed, "", "nothing can be extracted while a step is recovered; do it in the steps"
                    )
                elif any(loop.collect is None for loop in placed.loops):
                    yield step_problem(
                        placed, "", "what is extracted in a loop needs the loop's collect: a name for the list"
                    )
            case (ForEach() | RepeatUntil()) as step if step.collect is not None:
                path, field, shape = "collect", step.collect, ("loop", placed.place, step.flatten)
                if not any(step is loop for other in steps if isinstance(other.step, Extract) for loop in other.loops):
                    yield step_problem(placed, "collect", "nothing is extracted in this loop; remove it")
            case _:
                continue
        shape_there, first = known.setdefault((*(loop.collect for loop in placed.loops), field), (shape, placed))
        if shape_there != shape and not _both_collect(shape_there, shape, first, placed):
            what = f"{field!r} is read by step {first.place} as something else; give both the same kind and type"
            yield step_problem(placed, path, what)


def _flatten_problems(steps: list[PlacedStep]) -> Iterator[Problem]:
    for placed in steps:
        loop = placed.step
        if not isinstance(loop, (ForEach, RepeatUntil)) or loop.flatten is None:
            continue
        own = [one.step for one in steps if one.loops and one.loops[-1] is loop and isinstance(one.step, Extract)]
        named = [step for step in own if step.field == loop.flatten]
        if loop.collect is None:
            yield step_problem(placed, "flatten", "needs collect, the name of the list that gets the rows")
        elif not named:
            yield step_problem(placed, "flatten", f"nothing in this loop extracts {loop.flatten!r}")
        elif not all(step.kind == "table" or step.fields for step in named):
            what = f"{loop.flatten!r} has no rows: it must be a table, or a list with fields"
            yield step_problem(placed, "flatten", what)


def _shape(rule: Rule) -> tuple[Any, ...]:
    fields = {name: _shape(inner) for name, inner in (rule.fields or {}).items()}
    kind = rule.kind if rule.kind in ("list", "table", "count") else "text"
    return kind, rule.type or "text", fields, sorted(rule.columns or ())


def _both_collect(one: tuple[Any, ...], other: tuple[Any, ...], first: PlacedStep, second: PlacedStep) -> bool:
    """Two loops may fill one list when only one of them is ever gone through."""
    return one[0] == other[0] == "loop" and one[2] == other[2] and _exclude_each_other(first.place, second.place)


# -- pages -------------------------------------------------------------------------------------------------------------


def _page_problems(steps: list[PlacedStep], names: dict[str, str]) -> Iterator[Problem]:
    stored: list[_StoredName] = []
    for placed in steps:
        if not isinstance(placed.step, (Extract, SavePage)):
            continue
        name = names.get(placed.place) or placed.step.page or ""
        if placed.step.page is not None and (objection := _page_name_error(name)):
            yield step_problem(placed, "page", objection)
        elif stored and stored[-1].name == name and _shows_the_same(stored[-1].last, placed):
            stored[-1] = stored[-1]._replace(last=placed)
        else:
            stored.append(_StoredName(name, placed, placed))
    for one, other in combinations(stored, 2):
        if one.name.casefold() == other.name.casefold() and len(one.placed.loops) == len(other.placed.loops):
            yield from _clash(one, other, "page")


def _page_name_error(name: str) -> str | None:
    if name.casefold() == REFUSED_PAGE:
        return f"{name!r} is the name of what made an item fail; choose another"
    if _TURN_SUFFIX.fullmatch(name):
        return f"{name!r} ends as pages of loops do; choose another"
    return None


def _shows_the_same(before: PlacedStep, placed: PlacedStep) -> bool:
    """Whether nothing happens between two steps that store a page."""
    one, other = before.step, placed.step
    assert isinstance(one, (Extract, SavePage))  # noqa: S101 for the reader of types: only these are given
    assert isinstance(other, (Extract, SavePage))  # noqa: S101 the same
    head, _, number = before.place.rpartition(".")
    follower = f"{head}.{int(number) + 1}".lstrip(".")
    return placed.place == follower and (one.target, one.frame) == (other.target, other.frame)


# -- files -------------------------------------------------------------------------------------------------------------


def _file_problems(steps: list[PlacedStep]) -> Iterator[Problem]:
    stored: list[_StoredName] = []
    for placed in steps:
        if not isinstance(placed.step, (Download, Screenshot)):
            continue
        if objection := _file_name_error(placed.step.file):
            yield step_problem(placed, "file", objection)
            continue
        references = parse_template(placed.step.file).references
        if placed.loops and not any(reference.root in ("loop", "value") for reference in references):
            yield step_problem(
                placed, "file", "each turn of the loop would replace it; add {{ loop.index }} to its name"
            )
        elif not references:
            stored.append(_StoredName(placed.step.file, placed, placed))
    for one, other in combinations(stored, 2):
        if one.name == other.name:
            yield from _clash(one, other, "file")


def _file_name_error(text: str) -> str | None:
    """What is stored has a name and no folder. What an item brings is encoded when it is stored."""
    parts = parse_template(text).parts
    literal = "".join(part.text if isinstance(part, LiteralText) else _STAND_IN for part in parts)
    if _SEPARATOR.search(literal) or literal.strip() in ("", ".", ".."):
        return f"{text[:80]!r} is no plain file name; files are stored with the item, without folders"
    return None


def _clash(one: _StoredName, other: _StoredName, path: str) -> Iterator[Problem]:
    # What is read off a page tells that its step was played; so not even those that exclude each other share one.
    reads = isinstance(one.placed.step, Extract) or isinstance(other.placed.step, Extract)
    if reads or not _exclude_each_other(one.placed.place, other.placed.place):
        what = f"{other.name!r} is stored by step {one.placed.place}, too; give one of them another {path}"
        yield step_problem(other.placed, path, what)


def _exclude_each_other(one: str, other: str) -> bool:
    """Whether the places are in the two branches of one condition: whatever happens, only one of them is reached."""
    for here, there in zip(one.split("."), other.split("."), strict=False):
        if here != there:
            return {here, there} == {"then", "else"}
    return False


_LISTS: Final = ("list", "table")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


class _KnownNames(NamedTuple):
    """What a template may name. `lists` are values that are there, but are no text. `anytime`: done whenever needed."""

    inputs: frozenset[str]
    values: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    loop: frozenset[str] = frozenset()
    anytime: bool = False

    def after(self, others: Sequence[_KnownNames]) -> _KnownNames:
        """What is there after some branches: what any of them has read."""
        values = self.values.union(*(other.values for other in others))
        return self._replace(values=values, lists=self.lists.union(*(other.lists for other in others)))


def reference_problems(recording: Recording) -> Iterator[Problem]:
    """Of all templates."""
    inputs = frozenset(recording.inputs)
    problems: list[Problem] = []
    _check_steps("", recording.steps, _KnownNames(inputs), problems)
    anytime = _KnownNames(inputs, anytime=True)
    for number, rule in enumerate(recording.recover, 1):
        problems += _of_part(ModelPart(f"recover.{number}.when", rule.when), anytime)
        _check_steps(f"recover.{number}.steps.", rule.steps, anytime, problems)
    for number, mark in enumerate(recording.not_found, 1):
        problems += _of_part(ModelPart(f"not_found.{number}", mark), anytime)
    yield from problems


def _check_steps(before: str, steps: Sequence[AnyStep], scope: _KnownNames, problems: list[Problem]) -> _KnownNames:
    """Goes through the steps as the player does; the scope after the last of them."""
    for number, step in enumerate(steps, 1):
        placed = PlacedStep(f"{before}{number}", step, ())
        around = _inside(step, scope) if isinstance(step, RepeatUntil) else scope  # its condition comes after a turn
        for part in parts_of(step):
            problems += [step_problem(placed, path, what) for path, what in _reference_errors(part, around)]
        scope = _after(placed, scope, problems)
    return scope


def _after(placed: PlacedStep, scope: _KnownNames, problems: list[Problem]) -> _KnownNames:
    step = placed.step
    branches = [(f"{placed.place}.{name}.", branch) for name, branch in branches_of(step)]
    match step:
        case Extract():
            if step.kind in _LISTS:
                return scope._replace(lists=scope.lists | {step.field})
            return scope._replace(values=scope.values | {step.field})
        case If():
            return scope.after([_check_steps(before, branch, scope, problems) for before, branch in branches])
        case Try():
            for before, branch in branches:  # the second begins where the first came to grief
                scope = _check_steps(before, branch, scope, problems)
            return scope
        case ForEach() | RepeatUntil():
            for before, branch in branches:
                _check_steps(before, branch, _inside(step, scope), problems)
            return scope._replace(lists=scope.lists | ({step.collect} if step.collect else set()))
    return scope


def _inside(loop: ForEach | RepeatUntil, scope: _KnownNames) -> _KnownNames:
    """In a turn, with all that earlier turns may have read."""
    names = {"index", "value"} if isinstance(loop, ForEach) else {"index"}
    seen = _check_steps("", loop.steps, scope, [])
    return scope._replace(values=seen.values, lists=seen.lists, loop=frozenset(names))


def _of_part(part: ModelPart, scope: _KnownNames) -> list[Problem]:
    return [Problem(path, what) for path, what in _reference_errors(part, scope)]


def _reference_errors(part: ModelPart, scope: _KnownNames) -> Iterator[tuple[str, str]]:
    for path, text in texts_of(part):
        for reference in parse_template(text).references:
            objection = _reference_error(reference, scope)
            if isinstance(part.model, Rule) and path.rpartition(".")[2] == "on":
                objection = "an extract is read from stored pages, where nothing is known of the item"
            if objection is not None:
                yield path, f"{{{{ {reference.path} }}}}: {objection}"


def _reference_error(reference: Reference, scope: _KnownNames) -> str | None:
    root, name = reference.root, reference.name
    if root not in ROOTS:
        return f"templates know {quoted_list(ROOTS)}, not {root!r}{did_you_mean(root, ROOTS)}"
    if name is None:
        return f"of {root} a name is needed: {{{{ {root}.{'index' if root == 'loop' else 'name'} }}}}"
    match root:
        case "input":
            return None if name in scope.inputs else f"there is no such input{_which(name, scope.inputs)}"
        case "loop":
            return _loop_reference_error(name, scope)
    if scope.anytime:
        return "this is done at any time, so that only inputs are known"
    if name in scope.lists:
        return "is a list, which is no text"
    return None if name in scope.values else f"nothing extracts it before{did_you_mean(name, scope.values)}"


def _loop_reference_error(name: str, scope: _KnownNames) -> str | None:
    if not scope.loop:
        return "there is no loop around this"
    return None if name in scope.loop else f"a loop of this kind has {quoted_list(sorted(scope.loop))}"


def _which(name: str, inputs: frozenset[str]) -> str:
    if not _NAME.fullmatch(name):
        return did_you_mean(name, inputs) or "; names of inputs have small letters, digits and _, as parcel_id has"
    return did_you_mean(name, inputs) or (
        f"; there is {quoted_list(sorted(inputs))}" if inputs else "; declare it under inputs"
    )
