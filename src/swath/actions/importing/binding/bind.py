"""Binds inputs: wherever a recording holds a value that was recorded, it holds the input from then on.

Before: an importer has read the recording. After: document.py checks the whole, and a job gives each item's own values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

import msgspec
from pydantic import ValidationError

from swath.actions.checking.names import objection_to_name
from swath.actions.importing.binding.forms import Needle
from swath.actions.importing.binding.places import moved, renumbered
from swath.actions.importing.binding.replacing import Place, Replacing
from swath.actions.importing.binding.typings import typed_in
from swath.actions.importing.imported import Remark
from swath.actions.importing.passwords import still_told
from swath.actions.language.recording import InputField, Recording
from swath.actions.language.walk import walk
from swath.domain.errors import BadInput
from swath.domain.explain import describe_validation

__all__ = ["MOST_CHARS", "Bound", "bind", "bind_one"]

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")
MOST_CHARS: Final = 1_000


class Bound(msgspec.Struct, frozen=True):
    """The recording with its inputs, where they were found, and what was dropped or could not be replaced. `gone` are
    steps that were left out for one value; `rounds` those for each of several values, one after the other."""

    recording: Recording
    remarks: tuple[Remark, ...] = ()
    places: tuple[Place, ...] = ()
    gone: tuple[str, ...] = ()
    rounds: tuple[tuple[str, ...], ...] = ()

    def renumbered(self, remark: Remark) -> Remark:
        """A remark on the recording as it was, with the numbers that its steps have now."""
        for gone in (*self.rounds, self.gone):
            remark = renumbered(remark, gone)
        return remark


def bind(
    recording: Recording, literals: Mapping[str, str], parts: Mapping[str, AbstractSet[str]] | None = None
) -> Bound:
    """`literals`: what was recorded, by the name of the input that takes its place. `parts`: texts that were typed and
    are a part of it, by the same names. Raises BadInput, in one line, also for what the recording does not hold."""
    _check_that_they_differ(literals)
    said = {name: frozenset(texts) for name, texts in (parts or {}).items()}
    _check_parts(recording, literals, said)
    remarks: tuple[Remark, ...] = ()
    places: tuple[Place, ...] = ()
    rounds: list[tuple[str, ...]] = []
    made = recording
    for name, literal in sorted(literals.items(), key=lambda pair: -len(pair[1])):  # a longer one may hold a shorter
        bound = bind_one(made, name, literal, frozenset(literals.values()) - {literal}, said.get(name, frozenset()))
        told = tuple(renumbered(remark, bound.gone) for remark in remarks)
        there = tuple(msgspec.structs.replace(place, step=moved(place.step, bound.gone)) for place in places)
        made, remarks, places = bound.recording, told + bound.remarks, there + bound.places
        rounds.append(bound.gone)
    known = {**recording.inputs, **{name: made.inputs[name] for name in literals}}
    notes = still_told(made.notes, made)
    return Bound(made.model_copy(update={"inputs": known, "notes": notes}), remarks, places, rounds=tuple(rounds))


def bind_one(
    recording: Recording,
    name: str,
    literal: str,
    others: frozenset[str] = frozenset(),
    parts: frozenset[str] = frozenset(),
) -> Bound:
    """One of them; texts that are one of the `others` are not pieces of it. Where all of it is found, a text that may
    be a part of it or something else is left alone, unless it is one of the `parts`."""
    _check(name, literal)
    needle = Needle(name, literal, others, strict=True, parts=parts)
    replacing, made = Replacing(needle), None
    with suppress(BadInput):  # which is raised again
        made = replacing.recording(recording)
    if made is None or not replacing.found_all_of_it:
        replacing = Replacing(needle.loose)
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
    return Bound(checked, tuple(replacing.remarks), tuple(replacing.places), tuple(replacing.gone))


def _check_parts(recording: Recording, literals: Mapping[str, str], parts: Mapping[str, frozenset[str]]) -> None:
    """Raises BadInput for a part of nothing."""
    typed = {typed_in(placed.step) for placed in walk(recording)}
    for name, texts in parts.items():
        for text in sorted(texts):
            if name not in literals:
                raise BadInput(
                    f"--bind-part {name}={text}: {name} is not bound; say what was typed with --bind {name}=…"
                )
            if text not in typed or Needle(name, literals[name]).part_of_it(text) is None:
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
    if objection := objection_to_name(name):
        raise BadInput(objection)
    if not literal or len(literal) > MOST_CHARS:
        raise BadInput(f"{name}: give it what was typed when it was recorded, 1 to {MOST_CHARS:,} characters")
    if not literal.isprintable() and any("\ud800" <= character <= "\udfff" for character in literal):
        raise BadInput(f"{name}: is not UTF-8 text")


def _why_not(replacing: Replacing) -> str:
    if replacing.remarks:
        return f"nothing would depend on it: {replacing.remarks[0]}"
    return (
        "the recording does not hold it, nor a form of it; `swath recording show` tells what was typed, and "
        "`swath recording suggest` finds what a row has"
    )
