"""Templates of a recording: each reference is to something that is there when the step runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from swath.actions.checking.problem import Problem, of_step
from swath.actions.language.parts import PartOf, parts_of, texts_of
from swath.actions.language.recording import Recording
from swath.actions.language.rules import Rule
from swath.actions.language.steps import AnyStep, Extract, ForEach, If, RepeatUntil, Try
from swath.actions.language.template import ROOTS, Reference, parse
from swath.actions.language.walk import Placed, branches_of
from swath.domain.explain import listed, near

__all__ = ["reference_problems"]

_LISTS: Final = ("list", "table")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


class _Scope(NamedTuple):
    """What a template may name. `lists` are values that are there, but are no text. `anytime`: done whenever needed."""

    inputs: frozenset[str]
    values: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    loop: frozenset[str] = frozenset()
    anytime: bool = False

    def after(self, others: Sequence[_Scope]) -> _Scope:
        """What is there after some branches: what any of them has read."""
        values = self.values.union(*(other.values for other in others))
        return self._replace(values=values, lists=self.lists.union(*(other.lists for other in others)))


def reference_problems(recording: Recording) -> Iterator[Problem]:
    """Of all templates."""
    inputs = frozenset(recording.inputs)
    problems: list[Problem] = []
    _follow("", recording.steps, _Scope(inputs), problems)
    anytime = _Scope(inputs, anytime=True)
    for number, rule in enumerate(recording.recover, 1):
        problems += _of_part(PartOf(f"recover.{number}.when", rule.when), anytime)
        _follow(f"recover.{number}.steps.", rule.steps, anytime, problems)
    for number, mark in enumerate(recording.not_found, 1):
        problems += _of_part(PartOf(f"not_found.{number}", mark), anytime)
    yield from problems


def _follow(before: str, steps: Sequence[AnyStep], scope: _Scope, problems: list[Problem]) -> _Scope:
    """Goes through the steps as the player does; the scope after the last of them."""
    for number, step in enumerate(steps, 1):
        placed = Placed(f"{before}{number}", step, ())
        around = _inside(step, scope) if isinstance(step, RepeatUntil) else scope  # its condition comes after a turn
        for part in parts_of(step):
            problems += [of_step(placed, path, what) for path, what in _objections(part, around)]
        scope = _after(placed, scope, problems)
    return scope


def _after(placed: Placed, scope: _Scope, problems: list[Problem]) -> _Scope:
    step = placed.step
    branches = [(f"{placed.place}.{name}.", branch) for name, branch in branches_of(step)]
    match step:
        case Extract():
            if step.kind in _LISTS:
                return scope._replace(lists=scope.lists | {step.field})
            return scope._replace(values=scope.values | {step.field})
        case If():
            return scope.after([_follow(before, branch, scope, problems) for before, branch in branches])
        case Try():
            for before, branch in branches:  # the second begins where the first came to grief
                scope = _follow(before, branch, scope, problems)
            return scope
        case ForEach() | RepeatUntil():
            for before, branch in branches:
                _follow(before, branch, _inside(step, scope), problems)
            return scope._replace(lists=scope.lists | ({step.collect} if step.collect else set()))
    return scope


def _inside(loop: ForEach | RepeatUntil, scope: _Scope) -> _Scope:
    """In a turn, with all that earlier turns may have read."""
    names = {"index", "value"} if isinstance(loop, ForEach) else {"index"}
    seen = _follow("", loop.steps, scope, [])
    return scope._replace(values=seen.values, lists=seen.lists, loop=frozenset(names))


def _of_part(part: PartOf, scope: _Scope) -> list[Problem]:
    return [Problem(path, what) for path, what in _objections(part, scope)]


def _objections(part: PartOf, scope: _Scope) -> Iterator[tuple[str, str]]:
    for path, text in texts_of(part):
        for reference in parse(text).references:
            objection = _objection(reference, scope)
            if isinstance(part.model, Rule) and path.rpartition(".")[2] == "on":
                objection = "an extract is read from stored pages, where nothing is known of the item"
            if objection is not None:
                yield path, f"{{{{ {reference.path} }}}}: {objection}"


def _objection(reference: Reference, scope: _Scope) -> str | None:
    root, name = reference.root, reference.name
    if root not in ROOTS:
        return f"templates know {listed(ROOTS)}, not {root!r}{near(root, ROOTS)}"
    if name is None:
        return f"of {root} a name is needed: {{{{ {root}.{'index' if root == 'loop' else 'name'} }}}}"
    match root:
        case "input":
            return None if name in scope.inputs else f"there is no such input{_which(name, scope.inputs)}"
        case "loop":
            return _objection_in_loop(name, scope)
    if scope.anytime:
        return "this is done at any time, so that only inputs are known"
    if name in scope.lists:
        return "is a list, which is no text"
    return None if name in scope.values else f"nothing extracts it before{near(name, scope.values)}"


def _objection_in_loop(name: str, scope: _Scope) -> str | None:
    if not scope.loop:
        return "there is no loop around this"
    return None if name in scope.loop else f"a loop of this kind has {listed(sorted(scope.loop))}"


def _which(name: str, inputs: frozenset[str]) -> str:
    if not _NAME.fullmatch(name):
        return near(name, inputs) or "; names of inputs have small letters, digits and _, as parcel_id has"
    return near(name, inputs) or (f"; there is {listed(sorted(inputs))}" if inputs else "; declare it under inputs")
