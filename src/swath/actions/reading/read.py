"""Reads a record off the stored pages of one item, by the `extract` steps of its recording.

The player calls `read_value` when a step has stored its page; the scraper calls `read_record` for the item, a moment
later or years later. Which page belongs to which step is told by language/stored.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from swath.actions.language.recording import Recording
from swath.actions.language.rules import Rule
from swath.actions.language.steps import AnyStep, Extract, ForEach, If, RepeatUntil, Try
from swath.actions.language.stored import page_name, page_names
from swath.actions.language.walk import branches_of
from swath.actions.reading.marks import shown_mark
from swath.actions.reading.rules import read_rule
from swath.actions.reading.sight import Sight
from swath.domain.errors import Failed, NotFound
from swath.domain.failure import FailureKind
from swath.domain.pattern import searches_together
from swath.web.page import WebPage

__all__ = ["read_record", "read_value"]

_TURN: Final = re.compile(r"-t[0-9]+$")


def read_value(rule: Rule, page: WebPage) -> Any:
    """What a rule makes of a page; None when it is optional and missing. Raises Failed: layout_changed when something
    is not there, invalid_output when it is not of its type or takes too long to read."""
    with searches_together():
        return read_rule(Sight(page), rule, rule.field if isinstance(rule, Extract) else "value")


def read_record(recording: Recording, pages: Mapping[str, WebPage]) -> dict[str, Any]:
    """All fields by name. Those of steps that were not played, whose pages are not there, are left out.

    Raises NotFound when there is no record and a page shows a mark that says so, Failed as `read_value` does.
    """
    reading = _Reading(recording, pages)
    try:
        with searches_together():
            record = reading.steps("", recording.steps, ())
    except Failed as failed:
        if failed.failure.kind is FailureKind.LAYOUT_CHANGED:
            _tell_not_found(recording, reading)
        raise
    if not any(_says_something(value) for value in record.values()):
        _tell_not_found(recording, reading)
    return record


class _Reading:
    """One item: each of its pages is parsed once."""

    def __init__(self, recording: Recording, pages: Mapping[str, WebPage]) -> None:
        self._names = page_names(recording)
        self._pages = pages
        self._sights: dict[str, Sight] = {}
        self._begun = {begun for name in pages for begun in _beginnings(name)}

    def sight(self, name: str) -> Sight:
        if name not in self._sights:
            self._sights[name] = Sight(self._pages[name])
        return self._sights[name]

    def all_sights(self) -> Iterator[Sight]:
        for name in self._pages:
            yield self.sight(name)

    def steps(self, before: str, steps: Sequence[AnyStep], turns: tuple[int, ...]) -> dict[str, Any]:
        """What the steps of one list give. A later step wins over an earlier one, as it did in the browser."""
        record: dict[str, Any] = {}
        for number, step in enumerate(steps, 1):
            place = f"{before}{number}"
            if isinstance(step, Extract):
                name = page_name(self._names[place], turns)
                if name in self._pages:
                    record[step.field] = read_rule(self.sight(name), step, step.field)
            elif isinstance(step, (ForEach, RepeatUntil)):
                record |= self._loop(place, step, turns)
            elif isinstance(step, (If, Try)):
                record |= self._branches(place, step, turns)
        return record

    def _branches(self, place: str, step: If | Try, turns: tuple[int, ...]) -> dict[str, Any]:
        """Of a condition one branch was played, and its pages are there. What may fail in `try` gives what it can, and
        then the others are read as well."""
        (first, steps), (other, otherwise) = branches_of(step)
        try:
            record = self.steps(f"{place}.{first}.", steps, turns)
        except Failed as failed:
            if isinstance(step, If) or failed.failure.kind is not FailureKind.LAYOUT_CHANGED:
                raise
            record = {}
        return record | self.steps(f"{place}.{other}.", otherwise, turns)

    def _loop(self, place: str, step: ForEach | RepeatUntil, turns: tuple[int, ...]) -> dict[str, Any]:
        """A record for each turn that has stored a page; nothing at all when none has."""
        inside = f"{place}.steps."
        names = {name for at, name in self._names.items() if at.startswith(inside)}
        found: list[dict[str, Any]] = []
        for turn in range(1, step.most + 1) if names else ():
            here = (*turns, turn)
            if any(page_name(name, here) in self._begun for name in names):
                found.append(self.steps(inside, step.steps, here))
        if step.collect is None or not found:
            return {}
        return {step.collect: found if step.flatten is None else _flattened(found, step.flatten)}


def _flattened(turns: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows of all turns, each with what else its turn has; of a turn without rows nothing is left."""
    return [
        {**{other: value for other, value in turn.items() if other != name}, **row}
        for turn in turns
        for row in turn.get(name) or ()
    ]


def _beginnings(name: str) -> Iterator[str]:
    """A page of an inner loop belongs to a turn of the outer one: `html-t2-t1`, `html-t2`."""
    yield name
    while found := _TURN.search(name):
        name = name[: found.start()]
        yield name


def _tell_not_found(recording: Recording, reading: _Reading) -> None:
    if not recording.not_found:
        return
    for sight in reading.all_sights():
        said = shown_mark(recording.not_found, sight)
        if said is not None:
            raise NotFound(said or "the page says that there is no such record")


def _says_something(value: Any) -> bool:
    """Zero matches and empty lists say nothing."""
    return value is not None and value not in ("", 0, [])
