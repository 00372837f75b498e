"""Extracts a record from the stored pages of one item, by the `extract` steps of its recording.

When there is no record, tells `not_found` from a changed layout by the marks of the recording. What a style sheet
hides
is not known here, so marks never count against a record that is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import Failed, NotFound
from swath.domain.failure import FailureKind
from swath.domain.safe_regex import shared_search_time
from swath.fetch.http.page.page import WebPage
from swath.fetch.http.page.parsing.text_and_links import UNSEEN, collapsed, text_in
from swath.recordings.extraction.rules import read_rule
from swath.recordings.extraction.stored_page import SelectablePage
from swath.recordings.schema.models import Mark, Rule
from swath.recordings.schema.recording import Recording, branches_of, page_name, page_names
from swath.recordings.schema.selectors import Selectors, part_of
from swath.recordings.schema.steps import AnyStep, Extract, ForEach, If, RepeatUntil, Try
from swath.recordings.schema.template import LiteralText, has_references, parse_template

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["read_record", "read_value", "shown_mark_text"]

_HIDING: Final = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)


def shown_mark_text(marks: Iterable[Mark], sight: SelectablePage) -> str | None:
    """What the page says where the first mark is that it shows; None when it shows none."""
    for mark in marks:
        for node in _elements_of_mark(mark, sight):
            if not _is_hidden(node):
                return text_in(node)
    return None


def _elements_of_mark(mark: Mark, sight: SelectablePage) -> list[LexborNode]:
    """References to an item's input may stand for anything: a stored page knows of none."""
    pieces = [] if mark.text is None else _pieces(mark.text)
    if mark.on is None:
        return [node for node in sight.containing(max(pieces, key=len, default="")) if _has_all(node, pieces)]
    on = _without_browser(mark.on)
    found = sight.find(on) if on else []
    return [node for node in found if not isinstance(node, str) and _has_all(node, pieces)]


def _pieces(text: str) -> list[str]:
    parts = [collapsed(part.text) for part in parse_template(text).parts if isinstance(part, LiteralText)]
    return [part for part in parts if part]


def _has_all(node: LexborNode, pieces: list[str]) -> bool:
    """Whether the text has them all, in their order."""
    text, at = text_in(node), 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _without_browser(selectors: Selectors) -> Selectors:
    """Those alternatives that mean something here."""
    return tuple(
        chain for chain in selectors if not any(part_of(text).kind == "aria" or has_references(text) for text in chain)
    )


def _is_hidden(node: LexborNode) -> bool:
    at: LexborNode | None = node
    while at is not None:
        attributes = at.attributes
        if "hidden" in attributes or _HIDING.search(attributes.get("style") or ""):
            return True
        if at.tag in UNSEEN or (at.tag == "dialog" and "open" not in attributes):
            return True
        at = at.parent
    return False


_TURN: Final = re.compile(r"-t[0-9]+$")


def read_value(rule: Rule, page: WebPage) -> Any:
    """What a rule makes of a page; None when it is optional and missing. Raises Failed: layout_changed when something
    is not there, invalid_output when it is not of its type or takes too long to read."""
    with shared_search_time():
        return read_rule(SelectablePage(page), rule, rule.field if isinstance(rule, Extract) else "value")


def read_record(recording: Recording, pages: Mapping[str, WebPage]) -> dict[str, Any]:
    """All fields by name. Those of steps that were not played, whose pages are not there, are left out.

    Raises NotFound when there is no record and a page shows a mark that says so, Failed as `read_value` does.
    """
    reading = _RecordReader(recording, pages)
    try:
        with shared_search_time():
            record = reading.steps("", recording.steps, ())
    except Failed as failed:
        if failed.failure.kind is FailureKind.LAYOUT_CHANGED:
            _raise_if_not_found(recording, reading)
        raise
    if not any(_has_content(value) for value in record.values()):
        _raise_if_not_found(recording, reading)
    return record


class _RecordReader:
    """One item: each of its pages is parsed once."""

    def __init__(self, recording: Recording, pages: Mapping[str, WebPage]) -> None:
        self._names = page_names(recording)
        self._pages = pages
        self._sights: dict[str, SelectablePage] = {}
        self._begun = {begun for name in pages for begun in _enclosing_page_names(name)}

    def sight(self, name: str) -> SelectablePage:
        if name not in self._sights:
            self._sights[name] = SelectablePage(self._pages[name])
        return self._sights[name]

    def all_sights(self) -> Iterator[SelectablePage]:
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


def _enclosing_page_names(name: str) -> Iterator[str]:
    """A page of an inner loop belongs to a turn of the outer one: `html-t2-t1`, `html-t2`."""
    yield name
    while found := _TURN.search(name):
        name = name[: found.start()]
        yield name


def _raise_if_not_found(recording: Recording, reading: _RecordReader) -> None:
    if not recording.not_found:
        return
    for sight in reading.all_sights():
        said = shown_mark_text(recording.not_found, sight)
        if said is not None:
            raise NotFound(said or "the page says that there is no such record")


def _has_content(value: Any) -> bool:
    """Zero matches and empty lists say nothing."""
    return value is not None and value not in ("", 0, [])
