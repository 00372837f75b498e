"""A turn of `repeat_until`: its steps up to the last one that reads, then the condition, then the steps that lead on to
the next turn. So the natural form, "read the table, click Next, until there is no Next", reads the last page too.

Used by the player; a loop that reads nothing looks at its condition before each turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.actions.language.conditions import Condition
from swath.actions.language.steps import AnyStep, Download, Extract, SavePage, Screenshot
from swath.actions.language.walk import branches_of

__all__ = ["rests_on_absence", "steps_before_condition"]

_READ: Final = (Extract, SavePage, Download)


def steps_before_condition(steps: Sequence[AnyStep]) -> int:
    """How many of the steps come before the condition. Pictures count as read only where nothing else is."""
    for kinds in (_READ, (Screenshot,)):
        last = max((number for number, step in enumerate(steps, 1) if _has(step, kinds)), default=0)
        if last:
            return last
    return 0


def rests_on_absence(condition: Condition) -> bool:
    """Whether it holds because something is not shown, as is every element of a page that is still being drawn."""
    looks = condition.on is not None or condition.text is not None
    return looks and (condition.state == "hidden") is not condition.negate


def _has(step: AnyStep, kinds: tuple[type, ...]) -> bool:
    return isinstance(step, kinds) or any(_has(inner, kinds) for _, branch in branches_of(step) for inner in branch)
