"""Which stored page each `extract` of a recording reads: known before anything runs, so that the same rules find it
again years later.

Extracts that follow each other in one place read one page. In a loop each turn has its own: `html-t1`, `html-t2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.actions.language.recording import Recording
from swath.actions.language.steps import AnyStep, Extract
from swath.actions.language.walk import branches_of

__all__ = ["page_name", "page_names"]

_FIRST: Final = "html"


def page_names(recording: Recording) -> dict[str, str]:
    """By the place of each `extract` (see walk.py), the name of its page; `page_name` adds the turns of loops."""
    names: dict[str, str] = {}
    _name("", recording.steps, names, [0])
    return names


def page_name(name: str, turns: Sequence[int]) -> str:
    """`turns` counts from 1 in each loop around the step, the outermost first."""
    return "-".join([name, *(f"t{turn}" for turn in turns)])


def _name(before: str, steps: Sequence[AnyStep], names: dict[str, str], made: list[int]) -> None:
    last: Extract | None = None
    for number, step in enumerate(steps, 1):
        place = f"{before}{number}"
        if isinstance(step, Extract):
            if step.page is not None:
                names[place] = step.page
            elif last is not None and last.page is None and (last.target, last.frame) == (step.target, step.frame):
                names[place] = names[f"{before}{number - 1}"]
            else:
                made[0] += 1
                names[place] = _FIRST if made[0] == 1 else f"{_FIRST}-{made[0]}"
            last = step
            continue
        last = None
        for name, branch in branches_of(step):
            _name(f"{place}.{name}.", branch, names, made)
