"""What a person has to know of a step that was imported, or to do for it, whoever has read it.

Used by chrome.py and mapped.py for each step, and by door.py for what the importers of packages give.
"""

from __future__ import annotations

from collections.abc import Iterator

from swath.actions.importing.imported import Remark
from swath.actions.importing.passwords import TYPED_IN_CLEAR, types_a_password
from swath.actions.language.recording import Recording
from swath.actions.language.steps import AnyStep, JavaScript, Upload
from swath.actions.language.walk import branches_of, walk

__all__ = ["cautions_of", "cautions_on"]


def cautions_on(step: AnyStep, place: str) -> Iterator[Remark]:
    """Of one step and of those inside it. `place`: as the recorder counts them."""
    yield from _own(step, place)
    for _, branch in branches_of(step):
        for inner in branch:
            yield from cautions_on(inner, place)


def cautions_of(recording: Recording) -> Iterator[Remark]:
    """Of all its steps, by their places in it."""
    for placed in walk(recording):
        yield from _own(placed.step, f"step {placed.place} ({placed.step.do})")


def _own(step: AnyStep, place: str) -> Iterator[Remark]:
    if isinstance(step, JavaScript):
        yield Remark("is a script, which runs only where the operator has set SWATH_ALLOW_JAVASCRIPT=true", place)
    if isinstance(step, Upload):
        yield Remark(f"put the file {step.file} into the folder files beside the recording", place)
    if types_a_password(step):
        yield Remark(TYPED_IN_CLEAR, place)
