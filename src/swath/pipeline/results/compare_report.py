"""What is asked of a comparison of two jobs, and what it says. Filled by compare.py, written by compare_text.py."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from swath.pipeline.results.flatten import Value

__all__ = [
    "BY_ITEM",
    "INPUT",
    "Because",
    "Change",
    "Compared",
    "Difference",
    "FieldChanges",
    "Question",
    "Summary",
    "is_below",
]

INPUT: Final = "input"  # what the names of an item's input lie below
BY_ITEM: Final = ("item_id", "record")  # the key when none is given: the item, and which of its records


class Change(StrEnum):
    """What became of a record."""

    NEW = "new"
    CHANGED = "changed"
    VANISHED = "vanished"
    UNKNOWN = "unknown"  # not in job B, which does not prove that it has vanished
    DUPLICATE_KEY = "duplicate_key"  # several records of one job share the key, so none of them is compared
    NO_KEY = "no_key"  # the record lacks a part of the key


class Because(StrEnum):
    """Why nobody knows what became of a record."""

    NOT_ASKED = "not_asked"  # job B has no item that asks for it
    INCOMPLETE = "incomplete"  # job B may have missed it


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared: by which fields records are the same, and which others count. A name stands for what lies
    below it, too; no `fields` are all fields."""

    key: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def key_of_input(self) -> tuple[str, ...]:
        """The parts of the key that are known of an item before anybody has asked the site for it."""
        return tuple(name for name in self.key if name.startswith(f"{INPUT}."))

    @property
    def key_is_input(self) -> bool:
        """Whether all of the key is, so that no other item can have the record."""
        return self.key_of_input == self.key

    def takes(self, field: str) -> bool:
        """Whether a difference in this field counts. Those of the key are the same, however they are written."""
        return (
            field not in self.key
            and (not self.fields or is_below(field, self.fields))
            and not is_below(field, self.ignore)
        )


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One key, or a record without. `fields`: before and after, in order of their names; null and missing are the same.
    `records` of A and of B have the key; `items` are those of the first of each. `because` is there for what is
    unknown."""

    change: Change
    key: tuple[str, ...] = ()
    records: tuple[int, int] = (0, 0)
    items: tuple[str | None, str | None] = (None, None)
    fields: dict[str, tuple[Value, Value]] = {}
    because: Because | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two jobs. `complete`: whatever it does not have was not there; otherwise `incomplete_because` says
    why that cannot be known."""

    job_id: str
    status: str
    version: int
    records: int
    complete: bool
    incomplete_because: str | None


class FieldChanges(msgspec.Struct, kw_only=True):
    """In how many records a field is other: `filled` where there was nothing, `lost` where there is nothing now."""

    changed: int = 0
    filled: int = 0
    lost: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many keys of each kind. `no_key` counts records. `unknown_because`: the unknown ones by the reason."""

    a: Compared
    b: Compared
    key: tuple[str, ...]
    same: int
    counts: dict[str, int]
    unknown_because: dict[str, int]
    fields: dict[str, FieldChanges]


def is_below(field: str, names: Sequence[str]) -> bool:
    """Whether it is one of these, or lies below one."""
    return any(field == name or field.startswith(f"{name}.") for name in names)
