"""Binds inputs to recorded values, and suggests bindings from a sample row."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

import msgspec
from pydantic import ValidationError

from swath.domain.errors import BadInput
from swath.domain.validation_messages import describe_validation
from swath.recordings.importers.binding.forms import RecordedValue
from swath.recordings.importers.binding.replacement import BoundPlace, ValueReplacement, moved_place, renumber_remark
from swath.recordings.importers.binding.typed_values import typed_in
from swath.recordings.importers.remarks import Remark, without_bound_passwords
from swath.recordings.schema.recording import InputField, Recording, walk
from swath.recordings.validation.names import field_name_error

__all__ = ["MOST_CHARS", "BoundRecording", "Suggestion", "bind", "bind_value", "suggest"]

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")
MOST_CHARS: Final = 1_000


class BoundRecording(msgspec.Struct, frozen=True):
    """The recording with its inputs, where they were found, and what was dropped or could not be replaced. `gone` are
    steps that were left out for one value; `rounds` those for each of several values, one after the other."""

    recording: Recording
    remarks: tuple[Remark, ...] = ()
    places: tuple[BoundPlace, ...] = ()
    gone: tuple[str, ...] = ()
    rounds: tuple[tuple[str, ...], ...] = ()

    def renumbered(self, remark: Remark) -> Remark:
        """A remark on the recording as it was, with the numbers that its steps have now."""
        for gone in (*self.rounds, self.gone):
            remark = renumber_remark(remark, gone)
        return remark


def bind(
    recording: Recording, literals: Mapping[str, str], parts: Mapping[str, AbstractSet[str]] | None = None
) -> BoundRecording:
    """`literals`: what was recorded, by the name of the input that takes its place. `parts`: texts that were typed and
    are a part of it, by the same names. Raises BadInput, in one line, also for what the recording does not hold."""
    _check_that_they_differ(literals)
    said = {name: frozenset(texts) for name, texts in (parts or {}).items()}
    _check_parts(recording, literals, said)
    remarks: tuple[Remark, ...] = ()
    places: tuple[BoundPlace, ...] = ()
    rounds: list[tuple[str, ...]] = []
    made = recording
    for name, literal in sorted(literals.items(), key=lambda pair: -len(pair[1])):  # a longer one may hold a shorter
        bound = bind_value(made, name, literal, frozenset(literals.values()) - {literal}, said.get(name, frozenset()))
        told = tuple(renumber_remark(remark, bound.gone) for remark in remarks)
        there = tuple(msgspec.structs.replace(place, step=moved_place(place.step, bound.gone)) for place in places)
        made, remarks, places = bound.recording, told + bound.remarks, there + bound.places
        rounds.append(bound.gone)
    known = {**recording.inputs, **{name: made.inputs[name] for name in literals}}
    notes = without_bound_passwords(made.notes, made)
    return BoundRecording(
        made.model_copy(update={"inputs": known, "notes": notes}), remarks, places, rounds=tuple(rounds)
    )


def bind_value(
    recording: Recording,
    name: str,
    literal: str,
    others: frozenset[str] = frozenset(),
    parts: frozenset[str] = frozenset(),
) -> BoundRecording:
    """One of them; texts that are one of the `others` are not pieces of it. Where all of it is found, a text that may
    be a part of it or something else is left alone, unless it is one of the `parts`."""
    _check(name, literal)
    needle = RecordedValue(name, literal, others, strict=True, parts=parts)
    replacing, made = ValueReplacement(needle), None
    with suppress(BadInput):  # which is raised again
        made = replacing.recording(recording)
    if made is None or not replacing.found_all_of_it:
        replacing = ValueReplacement(needle.loose)
        made = replacing.recording(recording)
    if not replacing.places:
        raise BadInput(f"{name}={literal}: {_why_not(replacing)}")
    field = recording.inputs.get(name, InputField())
    if field.example is None and not replacing.is_password:
        field = field.model_copy(update={"example": literal})
    made = made.model_copy(update={"inputs": {**recording.inputs, name: field}})
    try:
        checked = Recording.model_validate_json(made.model_dump_json(by_alias=True, exclude_unset=True))
    except ValidationError as error:
        raise BadInput(f"{name}={literal}: cannot be bound: {describe_validation(error)}") from None
    return BoundRecording(checked, tuple(replacing.remarks), tuple(replacing.places), tuple(replacing.gone))


def _check_parts(recording: Recording, literals: Mapping[str, str], parts: Mapping[str, frozenset[str]]) -> None:
    """Raises BadInput for a part of nothing."""
    typed = {typed_in(placed.step) for placed in walk(recording)}
    for name, texts in parts.items():
        for text in sorted(texts):
            if name not in literals:
                raise BadInput(
                    f"--bind-part {name}={text}: {name} is not bound; say what was typed with --bind {name}=…"
                )
            if text not in typed or RecordedValue(name, literals[name]).part_of_it(text) is None:
                raise BadInput(f"--bind-part {name}={text}: no step types this as a part of {literals[name]!r}")


def _check_that_they_differ(literals: Mapping[str, str]) -> None:
    names: dict[str, str] = {}
    for name, literal in literals.items():
        first = names.setdefault(literal, name)
        if first != name:
            raise BadInput(
                f"{first} and {name} are both bound to {literal!r}, and nothing tells which is meant where: bind "
                f"{first} alone, and write {{{{ input.{name} }}}} by hand where that belongs"
            )


def _check(name: str, literal: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} cannot name an input: take small letters, digits and _, as in parcel_id")
    if objection := field_name_error(name):
        raise BadInput(objection)
    if not literal or len(literal) > MOST_CHARS:
        raise BadInput(f"{name}: give it what was typed when it was recorded, 1 to {MOST_CHARS:,} characters")
    if not literal.isprintable() and any("\ud800" <= character <= "\udfff" for character in literal):
        raise BadInput(f"{name}: is not UTF-8 text")


def _why_not(replacing: ValueReplacement) -> str:
    if replacing.remarks:
        return f"nothing would depend on it: {replacing.remarks[0]}"
    return (
        "the recording does not hold it, nor a form of it; `swath recording show` tells what was typed, and "
        "`swath recording suggest` finds what a row has"
    )


_WEIGHTS: Final = {"exact": 50, "form": 40, "split": 40, "beginning": 20, "part": 10}
_TYPED: Final = frozenset({"option", "text"})


class Suggestion(msgspec.Struct, frozen=True):
    """A column that was recorded. `also` are other columns with the same value in this row."""

    name: str
    column: str
    literal: str
    places: tuple[BoundPlace, ...]
    also: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return f"--bind {shlex.quote(f'{self.name}={self.literal}')}"

    @property
    def score(self) -> int:
        """How sure it is: the best place counts most, then how many there are and how long the value is."""
        best = max(_WEIGHTS[place.how] + (5 if place.field in _TYPED else 0) for place in self.places)
        return best * 100 + min(len(self.places), 20) * 4 + min(len(self.literal), 20)


def suggest(recording: Recording, row: Mapping[str, str]) -> list[Suggestion]:
    """The best first. All of them can be bound together."""
    made = recording
    found: list[Suggestion] = []
    values = _by_value(row)
    for literal, columns in sorted(values.items(), key=lambda pair: -len(pair[0])):
        best, *others = sorted(columns, key=lambda column: not _is_told_of(made, column, literal))
        try:
            bound = bind_value(made, _name(best), literal, _others(literal, values.keys()))
        except BadInput:  # it is not in there, or there is no way
            continue
        made = bound.recording
        found = [msgspec.structs.replace(one, places=_moved(one.places, bound.gone)) for one in found]
        found.append(Suggestion(_name(best), best, literal, bound.places, tuple(others)))
    return sorted(found, key=lambda one: (-one.score, one.name))


def _moved(places: Sequence[BoundPlace], gone: Sequence[str]) -> tuple[BoundPlace, ...]:
    return tuple(msgspec.structs.replace(place, step=moved_place(place.step, gone)) for place in places)


def _by_value(row: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns by what they hold; of those that would have the same name the first counts."""
    columns: dict[str, list[str]] = {}
    names: set[str] = set()
    for column, value in row.items():
        literal = value.strip()
        if 0 < len(literal) <= MOST_CHARS and _name(column) not in names:
            names.add(_name(column))
            columns.setdefault(literal, []).append(column)
    return columns


def _others(literal: str, values: AbstractSet[str]) -> frozenset[str]:
    """Values that stand for themselves. Pieces of this one do if all of them are columns, as in first, last and full
    names; else it is this one that was typed in pieces."""
    pieces = set(re.findall(r"[^\W_]+", literal))
    return frozenset(values if pieces <= values else values - pieces) - {literal}


def _name(column: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_")[:60] or "value"
    return name if name[0].isalpha() and field_name_error(name) is None else f"n_{name}"


def _is_told_of(recording: Recording, column: str, literal: str) -> bool:
    """Whether the box in which it was typed is named like the column."""
    wanted = re.sub(r"[^a-z0-9]", "", column.lower())
    boxes = (placed.step for placed in walk(recording) if getattr(placed.step, "text", None) == literal)
    named = ("".join(" ".join(chain) for chain in getattr(step, "on", ()) or ()) for step in boxes)
    return any(wanted in re.sub(r"[^a-z0-9]", "", text.lower()) for text in named)
