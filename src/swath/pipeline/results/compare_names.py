"""Which fields the records of two jobs have, so that a mistyped one is told instead of finding nothing.

Before: compare.py shows it every record. After: it asks whether all that a person named was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from swath.domain.errors import UnknownName
from swath.pipeline.results.compare_report import INPUT, Question, is_below
from swath.pipeline.results.compare_table import Side

__all__ = ["NamesSeen"]

_REMEMBERED: Final = 2_000  # of each job, to say which fields there are
_TOLD: Final = 20


class NamesSeen:
    """Of the records that it was shown."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: tuple[dict[str, None], dict[str, None]] = ({}, {})
        self._not_met = dict.fromkeys((*question.fields, *question.ignore))

    def see(self, side: Side, fields: Iterable[str], given: Iterable[str]) -> None:
        """Those of a record, and what its item was given."""
        if self._not_met:
            met = [asked for asked in self._not_met if any(is_below(name, (asked,)) for name in fields)]
            for asked in met:
                del self._not_met[asked]
        if len(self._known[side]) < _REMEMBERED:
            self._known[side].update(dict.fromkeys((*fields, *given)))

    def check_key(self, side: Side, job_id: str) -> None:
        """For a job none of whose records has the key. Raises UnknownName when they lack a part of it as a field."""
        known = self._known[side]
        missing = next((name for name in self._question.key if name not in known), None)
        if missing is not None:
            raise _unknown(f"field in the records of job {job_id!r}, called", missing, known)

    def check_fields(self) -> None:
        """Raises UnknownName when one that is to count, or not to count, is in no record of either job."""
        known = [name for name in {**self._known[Side.A], **self._known[Side.B]} if not is_below(name, (INPUT,))]
        missing = next(iter(self._not_met), None)
        if known and missing is not None:
            raise _unknown("field in the records of either job, called", missing, known)


def _unknown(what: str, name: str, known: Iterable[str]) -> UnknownName:
    return UnknownName.of(what, name, known, f"the fields are {', '.join(list(known)[:_TOLD])}")
