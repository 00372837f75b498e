"""What an importer returns: a recording, and remarks on what could not be carried over or has to be known.

Remarks count the steps of the resulting recording. Recordings are passed on as files, so typed passwords are
remarked
on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from swath.recordings.schema.recording import Recording, branches_of, walk
from swath.recordings.schema.steps import AnyStep, JavaScript, Type, Upload
from swath.recordings.schema.template import has_references

__all__ = [
    "TYPED_IN_CLEAR",
    "Imported",
    "Importer",
    "Remark",
    "StepNumbering",
    "asks_for_password",
    "cautions_of",
    "cautions_on",
    "types_a_password",
    "without_bound_passwords",
]

_MOST_STEPS: Final = 10


class Remark(msgspec.Struct, frozen=True):
    """Something to know. `place` says of which step: `step 3 (click)`; `steps` are the numbers of several. An importer
    gives the steps of the recording that people get, not those of the recorder's file."""

    text: str
    place: str = ""
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = f"{self.place}: {self.text}" if self.place else self.text
        return f"{told}: {self._counted()}" if self.steps else told

    def _counted(self) -> str:
        shown = ", ".join(self.steps[:_MOST_STEPS]) + (", …" if len(self.steps) > _MOST_STEPS else "")
        return f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'} ({shown})"


class Imported(msgspec.Struct, frozen=True):
    """A recording of ours, with what there is to say about how it came to be."""

    recording: Recording
    remarks: tuple[Remark, ...] = ()


@runtime_checkable
class Importer(Protocol):
    """Knows the recordings of one recorder. Packages offer theirs as entry points of the group `swath.importers`."""

    name: str

    def recognises(self, document: Any) -> bool:
        """Whether a JSON document is a recording of that recorder, whole or not."""
        ...

    def read(self, document: Any) -> Imported:
        """Raises BadInput, in one line that names the step."""
        ...


TYPED_IN_CLEAR: Final = (
    "types a password, which stands in the recording as it was typed; bind it to an input (--bind password=…), and "
    "give the recording to nobody before"
)
_PASSWORD_WORDS: Final = re.compile(
    r"passw(?:or)?d|passwort|kennwort|passphrase|passcode|(?<![a-z])pwd(?![a-z])|contrase(?:ñ|n)a|mot de passe|senha",
    re.IGNORECASE,
)
RemarkOrNote = TypeVar("RemarkOrNote", Remark, str)


def asks_for_password(step: AnyStep) -> bool:
    """Whether the box in which it types is called so, by any of its selectors."""
    return isinstance(step, Type) and any(_PASSWORD_WORDS.search(part) for chain in step.on for part in chain)


def types_a_password(step: AnyStep) -> bool:
    """The same, if what it types is the same for each item."""
    return isinstance(step, Type) and asks_for_password(step) and bool(step.text) and not has_references(step.text)


def without_bound_passwords(told: Iterable[RemarkOrNote], recording: Recording) -> tuple[RemarkOrNote, ...]:
    """Remarks or notes, without those on passwords when inputs have taken the places of all."""
    if any(types_a_password(placed.step) for placed in walk(recording)):
        return tuple(told)
    return tuple(one for one in told if not str(one).endswith(TYPED_IN_CLEAR))


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


_PLACE: Final = re.compile(r"step (?P<number>[0-9]+) \((?P<what>.*)\)", re.DOTALL)


class StepNumbering:
    """Of one recording. `add` is called for each step of the recorder's, in order."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # the last step of ours, once each of theirs is done
        self._made: list[int] = []

    def add(self, made: int) -> None:
        """How many steps of ours it has become; 0: it is left out."""
        self._ends.append((self._ends[-1] if self._ends else 0) + made)
        self._made.append(made)

    def told(self, remark: Remark) -> Remark:
        """The same remark, with the numbers of ours."""
        found = _PLACE.fullmatch(remark.place)
        place = remark.place if found is None else self._place(int(found["number"]), found["what"])
        steps = tuple(self._short(int(number)) for number in remark.steps)
        return msgspec.structs.replace(remark, place=place, steps=steps)

    def _place(self, number: int, what: str) -> str:
        end, made = self._ends[number - 1], self._made[number - 1]
        if not made:
            return f"after step {end}, {what}" if end else f"before step 1, {what}"
        return f"step {end} ({what})" if made == 1 else f"steps {end - made + 1} to {end} ({what})"

    def _short(self, number: int) -> str:
        end, made = self._ends[number - 1], self._made[number - 1]
        if not made:
            return f"after {end}" if end else "before 1"
        return str(end) if made == 1 else f"{end - made + 1} to {end}"
