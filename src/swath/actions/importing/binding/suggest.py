"""Proposes bindings: which column of a sample row is what was recorded, and where it stands.

Before: an importer has read a recording. After: a person takes the flags over into `swath recording import`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from swath.actions.checking.names import objection_to_name
from swath.actions.importing.binding.bind import MOST_CHARS, bind_one
from swath.actions.importing.binding.places import moved
from swath.actions.importing.binding.replacing import Place
from swath.actions.language.recording import Recording
from swath.actions.language.walk import walk
from swath.domain.errors import BadInput

__all__ = ["Suggestion", "suggest"]

_WEIGHTS: Final = {"exact": 50, "form": 40, "split": 40, "beginning": 20, "part": 10}
_TYPED: Final = frozenset({"option", "text"})


class Suggestion(msgspec.Struct, frozen=True):
    """A column that was recorded. `also` are other columns with the same value in this row."""

    name: str
    column: str
    literal: str
    places: tuple[Place, ...]
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
            bound = bind_one(made, _name(best), literal, _others(literal, values.keys()))
        except BadInput:  # it is not in there, or there is no way
            continue
        made = bound.recording
        found = [msgspec.structs.replace(one, places=_moved(one.places, bound.gone)) for one in found]
        found.append(Suggestion(_name(best), best, literal, bound.places, tuple(others)))
    return sorted(found, key=lambda one: (-one.score, one.name))


def _moved(places: Sequence[Place], gone: Sequence[str]) -> tuple[Place, ...]:
    return tuple(msgspec.structs.replace(place, step=moved(place.step, gone)) for place in places)


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
    return name if name[0].isalpha() and objection_to_name(name) is None else f"n_{name}"


def _is_told_of(recording: Recording, column: str, literal: str) -> bool:
    """Whether the box in which it was typed is named like the column."""
    wanted = re.sub(r"[^a-z0-9]", "", column.lower())
    boxes = (placed.step for placed in walk(recording) if getattr(placed.step, "text", None) == literal)
    named = ("".join(" ".join(chain) for chain in getattr(step, "on", ()) or ()) for step in boxes)
    return any(wanted in re.sub(r"[^a-z0-9]", "", text.lower()) for text in named)
