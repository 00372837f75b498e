"""check_recording: a whole recording looked through before anything of it runs (A4), whoever made it.

Before: a document that is valid by itself (document.py), or what an importer made. After: the player.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from swath.actions.checking.addresses import address_problems
from swath.actions.checking.names import name_problems
from swath.actions.checking.problem import Problem, of_step, told
from swath.actions.checking.references import reference_problems
from swath.actions.checking.selectors import selector_problems
from swath.actions.language.keys import KEYS, is_pressable
from swath.actions.language.recording import Recording
from swath.actions.language.steps import AnyStep, JavaScript, Press
from swath.actions.language.walk import walk
from swath.domain.errors import BadInput
from swath.domain.explain import near
from swath.domain.pattern import objection_to

__all__ = ["DEEPEST_STEPS", "MOST_STEPS", "check_recording", "problems_of_one"]

MOST_STEPS: Final = 200
DEEPEST_STEPS: Final = 8


def check_recording(recording: Recording, name: str, *, javascript: bool) -> None:
    """Raises BadInput, in one line that begins with `name`. `javascript`: the operator allows it."""
    too_large = list(_size_problems(recording))
    problems = too_large or [
        *_input_problems(recording),
        *_step_problems(recording, javascript=javascript),
        *reference_problems(recording),
        *selector_problems(recording),
        *address_problems(recording),
        *name_problems(recording),
    ]
    if problems:
        raise BadInput(f"{name}: {told(problems)}")


def problems_of_one(step: AnyStep, base_url: str | None = None) -> list[Problem]:
    """What is wrong with a step by itself, whatever comes before it; `where` begins inside it. For importers, which
    know how the recorder has counted it."""
    alone = Recording(swath_recording=1, id="one", base_url=base_url, steps=(step,))
    problems = [*_step_problems(alone, javascript=True), *selector_problems(alone), *address_problems(alone)]
    here = f"step 1 ({step.do})"
    return [
        Problem(problem.where.removeprefix(here).removeprefix("step 1.").removeprefix(": "), problem.what)
        for problem in problems
    ]


def _size_problems(recording: Recording) -> Iterator[Problem]:
    places = [placed.place for placed in walk(recording)]
    if len(places) > MOST_STEPS:
        yield Problem("", f"has {len(places):,} steps, with those inside others; at most {MOST_STEPS}")
    deepest = max(places, key=_depth)
    if _depth(deepest) > DEEPEST_STEPS:
        yield Problem(f"step {deepest}", f"stands {_depth(deepest)} steps deep; at most {DEEPEST_STEPS}")


def _depth(place: str) -> int:
    return sum(part.isdecimal() for part in place.removeprefix("recover.").split(".")) - place.startswith("recover.")


def _input_problems(recording: Recording) -> Iterator[Problem]:
    for name, field in recording.inputs.items():
        objection = None if field.pattern is None else objection_to(field.pattern)
        if objection is not None:
            yield Problem(f"inputs.{name}.pattern", f"{field.pattern!r} {objection}")


def _step_problems(recording: Recording, *, javascript: bool) -> Iterator[Problem]:
    for placed in walk(recording):
        match placed.step:
            case JavaScript() if not javascript:
                what = "JavaScript runs only if the operator allows it: set SWATH_ALLOW_JAVASCRIPT=true"
                yield of_step(placed, "", f"{what} (allow_javascript), or remove the step")
            case Press(key=key, how=how) if not is_pressable(key, held=how != "press"):
                hint = (
                    near(key, KEYS) or "; keys have the names that Chrome gives them, such as Enter; text is for type"
                )
                yield of_step(placed, "key", f"there is no key {key!r}{hint}")
