"""Walks the steps of a recording in the order in which they are written, nested ones too, and gives each its place.

A place is what people and failures name a step by: `4`, or `4.then.1` for the first of those that a condition guards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swath.actions.language.recording import Recording
from swath.actions.language.steps import AnyStep, ForEach, If, RepeatUntil, Try

__all__ = ["Placed", "branches_of", "walk"]


class Placed(NamedTuple):
    """A step, where it stands, and the loops around it, the outermost first."""

    place: str
    step: AnyStep
    loops: tuple[ForEach | RepeatUntil, ...]


def branches_of(step: AnyStep) -> tuple[tuple[str, tuple[AnyStep, ...]], ...]:
    """The lists of steps inside a step, by the names they have in its place."""
    match step:
        case If():
            return (("then", step.then), ("else", step.otherwise))
        case ForEach() | RepeatUntil():
            return (("steps", step.steps),)
        case Try():
            return (("steps", step.steps), ("else", step.otherwise))
    return ()


def walk(recording: Recording) -> Iterator[Placed]:
    """All steps, then those of the recovery rules: `recover.1.steps.2`."""
    yield from _walk("", recording.steps, ())
    for number, rule in enumerate(recording.recover, 1):
        yield from _walk(f"recover.{number}.steps.", rule.steps, ())


def _walk(before: str, steps: Sequence[AnyStep], loops: tuple[ForEach | RepeatUntil, ...]) -> Iterator[Placed]:
    for number, step in enumerate(steps, 1):
        place = f"{before}{number}"
        yield Placed(place, step, loops)
        inside = (*loops, step) if isinstance(step, (ForEach, RepeatUntil)) else loops
        for name, branch in branches_of(step):
            yield from _walk(f"{place}.{name}.", branch, inside)
