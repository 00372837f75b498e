"""One rule over one page: finds what it names, takes the part that its kind says, and reads it as its type.

Before: sight.py finds. After: read.py puts the values of all rules into a record. What is not there raises Failed
layout_changed, so that a strange page never passes for an empty record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swath.actions.language.rules import Rule
from swath.actions.language.selector import shown as shown_selector
from swath.actions.reading.controls import value_of
from swath.actions.reading.shadow import closed
from swath.actions.reading.sight import Sight
from swath.actions.reading.values import filtered, typed
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.pattern import TookTooLong
from swath.web.address import shown
from swath.web.reading.tables import read_table
from swath.web.reading.text import collapsed, text_in
from swath.web.reading.unreadable import Unreadable

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["read_rule"]


def read_rule(sight: Sight, rule: Rule, name: str, within: LexborNode | None = None) -> Any:
    """The value of the field `name`; None when it is optional and missing. Raises Failed."""
    found = sight.find(rule.on, within)
    if rule.kind == "count":
        return len(found)
    if not found:
        return _missing(sight, rule, name, f"has no {shown_selector(rule.on)}", len(rule.on))
    match rule.kind:
        case "list":
            return [_item(sight, rule, f"{name}[{number}]", one) for number, one in enumerate(found, 1)]
        case "table":
            return _table(sight, rule, name, found[0])
        case "html":
            return _read(sight, rule, name, _html(found[0]))
        case "value":
            return _read(sight, rule, name, found[0] if isinstance(found[0], str) else value_of(found[0]))
        case "attribute":
            return _attribute(sight, rule, name, found[0])
        case "text":
            return _read(sight, rule, name, _text(found[0]))


def _item(sight: Sight, rule: Rule, name: str, one: LexborNode | str) -> Any:
    if rule.fields is not None and not isinstance(one, str):
        return {field: read_rule(sight, inner, f"{name}.{field}", one) for field, inner in rule.fields.items()}
    if rule.attribute is not None:
        return _attribute(sight, rule, name, one)
    text = _text(one)
    return _read(sight, rule, name, text) if text or rule.type is not None else text  # an empty one has its place


def _attribute(sight: Sight, rule: Rule, name: str, one: LexborNode | str) -> Any:
    asked = (rule.attribute or "").lower()
    attributes = {} if isinstance(one, str) else {key.lower(): value for key, value in one.attributes.items()}
    if asked not in attributes:
        return _missing(sight, rule, name, f"has no attribute {asked} at {shown_selector(rule.on)}")
    return _read(sight, rule, name, attributes[asked] or "", allow_empty=True)


def _table(sight: Sight, rule: Rule, name: str, one: LexborNode | str) -> Any:
    table = None if isinstance(one, str) else one if one.tag == "table" else one.css_first("table")
    if table is None:
        return _missing(sight, rule, name, f"has no table at {shown_selector(rule.on)}")
    rows = read_table(table)
    if rule.columns is None or not rows:
        return [{heading: _cell(rule, name, text) for heading, text in row.items()} for row in rows]
    headings = {collapsed(heading).casefold(): heading for heading in reversed(rows[0])}
    lacking = [wanted for wanted in rule.columns.values() if collapsed(wanted).casefold() not in headings]
    if lacking:
        there = ", ".join(map(repr, rows[0]))
        what = f"has no column {', '.join(map(repr, lacking))} at {shown_selector(rule.on)}; there is {there}"
        return _missing(sight, rule, name, what)
    places = {field: headings[collapsed(wanted).casefold()] for field, wanted in rule.columns.items()}
    return [{field: _cell(rule, f"{name}.{field}", row[heading]) for field, heading in places.items()} for row in rows]


def _cell(rule: Rule, name: str, text: str) -> str:
    if not rule.transform:
        return text
    try:
        return filtered(text, rule.calls)
    except TookTooLong as error:
        raise _unreadable(name, error) from None
    except ValueError as error:
        raise _changed(f"{name}: {error}") from None


def _read(sight: Sight, rule: Rule, name: str, text: str, *, allow_empty: bool = False) -> Any:
    """The text through its filters, as its type."""
    try:
        text = filtered(text, rule.calls)
    except TookTooLong as error:
        raise _unreadable(name, error) from None  # even if it is optional: the next one would take as long
    except ValueError as error:
        return _missing(sight, rule, name, f"has {shown_selector(rule.on)}, but {error}")
    try:
        value = typed(text, rule.type)
    except Unreadable as error:
        raise _unreadable(name, error) from None
    if value is None:
        if allow_empty and not text and rule.type in (None, "text"):
            return ""
        said = f" but {text!r}" if text else ""
        return _missing(sight, rule, name, f"has nothing{said} at {shown_selector(rule.on)}")
    return value


def _text(one: LexborNode | str) -> str:
    return collapsed(one) if isinstance(one, str) else text_in(one)


def _html(one: LexborNode | str) -> str:
    return one if isinstance(one, str) else closed(one.html or "")


def _missing(sight: Sight, rule: Rule, name: str, what: str, alternatives: int = 1) -> Any:
    if rule.optional:
        return None
    others = f", nor what {alternatives - 1} other selectors name" if alternatives > 1 else ""
    raise _changed(f"{name}: {_page(sight)} {what}{others}")


def _changed(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))


def _unreadable(name: str, error: Exception) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_OUTPUT, f"{name}: {error}"))


def _page(sight: Sight) -> str:
    return f"the page {sight.page.name} ({shown(sight.page.url)})"
