"""Binds inputs: wherever a recording holds a value that was recorded, it holds the input from then on.

Before: an importer has read the recording. After: document.py checks the whole, and a job gives each item's own values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from pydantic import ValidationError

from swath.actions.checking.names import objection_to_name
from swath.actions.importing.binding.forms import Needle
from swath.actions.importing.binding.places import renumbered
from swath.actions.importing.binding.replacing import Place, Replacing
from swath.actions.importing.imported import Remark
from swath.actions.importing.passwords import still_told
from swath.actions.language.recording import InputField, Recording
from swath.domain.errors import BadInput
from swath.domain.explain import describe_validation

__all__ = ["MOST_CHARS", "Bound", "bind", "bind_one"]

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")
MOST_CHARS: Final = 1_000


class Bound(msgspec.Struct, frozen=True):
    """The recording with its inputs, where they were found, and what was dropped or could not be replaced. `gone` are
    steps that were left out."""

    recording: Recording
    remarks: tuple[Remark, ...] = ()
    places: tuple[Place, ...] = ()
    gone: tuple[str, ...] = ()


def bind(recording: Recording, literals: Mapping[str, str]) -> Bound:
    """`literals`: what was recorded, by the name of the input that takes its place. Raises BadInput, in one line, also
    for one that the recording does not hold."""
    _check_that_they_differ(literals)
    remarks: tuple[Remark, ...] = ()
    places: tuple[Place, ...] = ()
    made = recording
    for name, literal in sorted(literals.items(), key=lambda pair: -len(pair[1])):  # a longer one may hold a shorter
        bound = bind_one(made, name, literal, frozenset(literals.values()) - {literal})
        told = tuple(renumbered(remark, bound.gone) for remark in remarks)
        made, remarks, places = bound.recording, told + bound.remarks, places + bound.places
    known = {**recording.inputs, **{name: made.inputs[name] for name in literals}}
    notes = still_told(made.notes, made)
    return Bound(made.model_copy(update={"inputs": known, "notes": notes}), remarks, places)


def bind_one(recording: Recording, name: str, literal: str, others: frozenset[str] = frozenset()) -> Bound:
    """One of them; texts that are one of the `others` are not pieces of it."""
    _check(name, literal)
    replacing = Replacing(Needle(name, literal, others))
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
