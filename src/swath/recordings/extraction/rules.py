"""Applies one extraction rule to a page: finds the element, takes the part that the rule names, filters and converts
it.

What is missing raises Failed layout_changed, so that an unknown page never passes for an empty record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.safe_regex import SearchTimeout
from swath.fetch.http.page.parsing.tables_and_pairs import read_table
from swath.fetch.http.page.parsing.text_and_links import collapsed, text_in
from swath.fetch.http.page.parsing.values import UnreadableValue, clean_value, parse_date, parse_money
from swath.fetch.url import redacted
from swath.recordings.extraction.stored_page import SelectablePage, close_shadow_roots
from swath.recordings.schema.models import Rule, ValueType
from swath.recordings.schema.selectors import selector_label as shown_selector
from swath.recordings.schema.template import FilterCall, apply_filter

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["NO", "YES", "apply_filters", "control_value", "convert_value", "parse_yes_no", "read_rule"]


def control_value(node: LexborNode) -> str:
    """What a form would send of it; for a box to tick `yes` or `no`, for anything else its `value` or its text."""
    attributes = node.attributes
    if node.tag == "select":
        return _chosen(node)
    if node.tag == "input" and (attributes.get("type") or "").lower() in {"checkbox", "radio"}:
        return "yes" if "checked" in attributes else "no"
    if "value" in attributes or node.tag == "input":
        return attributes.get("value") or ""
    return node.text() or ""


def _chosen(select: LexborNode) -> str:
    """Of several marked options the last counts; without any, a drop-down has its first."""
    options = select.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    attributes = select.attributes
    is_list = "multiple" in attributes or (attributes.get("size") or "1").strip() not in {"0", "1"}
    if not chosen and not is_list:
        chosen = options[:1]
    if not chosen:
        return ""
    own = chosen[-1].attributes
    return (own["value"] or "") if "value" in own else " ".join((chosen[-1].text() or "").split())


YES: Final = frozenset({"yes", "y", "true", "t", "1", "on", "x", "checked"})
NO: Final = frozenset({"no", "n", "false", "f", "0", "off"})
_NUMBER: Final = re.compile(r"[+\-\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?")


def apply_filters(text: str, calls: Iterable[FilterCall]) -> str:
    """Raises ValueError when a filter does not fit the text."""
    for call in calls:
        text = apply_filter(call.name, text, call.arguments)
    return text


def convert_value(text: str, kind: ValueType | None) -> Any:
    """The value; None when the text says that there is none. Raises Unreadable when it is something else."""
    return (text or None) if kind is None else _READERS[kind](text)


def parse_yes_no(text: str) -> bool | None:
    """None when it says neither. Raises Unreadable."""
    word = (clean_value(text, "yes or no") or "").lower()
    if not word:
        return None
    if word in YES or word in NO:
        return word in YES
    raise UnreadableValue(text, "yes or no")


def _parse_integer(text: str) -> int | None:
    number = _parse_decimal(text, "whole number")
    if number is None:
        return None
    if number != number.to_integral_value():
        raise UnreadableValue(text, "whole number")
    return int(number)


def _parse_number(text: str) -> Decimal | None:
    return _parse_decimal(text, "number")


def _parse_decimal(text: str, wanted: str) -> Decimal | None:
    bare = clean_value(text, wanted)
    if bare is None:
        return None
    if not _NUMBER.fullmatch(bare) or not any(char.isdigit() for char in bare):
        raise UnreadableValue(text, wanted)
    return Decimal(bare.replace(",", "").replace("\u2212", "-"))


def _parse_text(text: str) -> str | None:
    return text or None


_READERS: Final[dict[ValueType, Callable[[str], Any]]] = {
    "text": _parse_text,
    "integer": _parse_integer,
    "number": _parse_number,
    "money": parse_money,
    "date": parse_date,
    "yes_no": parse_yes_no,
}


def read_rule(sight: SelectablePage, rule: Rule, name: str, within: LexborNode | None = None) -> Any:
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
            return _read(sight, rule, name, _html_of(found[0]))
        case "value":
            return _read(sight, rule, name, found[0] if isinstance(found[0], str) else control_value(found[0]))
        case "attribute":
            return _attribute(sight, rule, name, found[0])
        case "text":
            return _read(sight, rule, name, _text_of(found[0]))


def _item(sight: SelectablePage, rule: Rule, name: str, one: LexborNode | str) -> Any:
    if rule.fields is not None and not isinstance(one, str):
        return {field: read_rule(sight, inner, f"{name}.{field}", one) for field, inner in rule.fields.items()}
    if rule.attribute is not None:
        return _attribute(sight, rule, name, one)
    text = _text_of(one)
    return _read(sight, rule, name, text) if text or rule.type is not None else text  # an empty one has its place


def _attribute(sight: SelectablePage, rule: Rule, name: str, one: LexborNode | str) -> Any:
    asked = (rule.attribute or "").lower()
    attributes = {} if isinstance(one, str) else {key.lower(): value for key, value in one.attributes.items()}
    if asked not in attributes:
        return _missing(sight, rule, name, f"has no attribute {asked} at {shown_selector(rule.on)}")
    return _read(sight, rule, name, attributes[asked] or "", allow_empty=True)


def _table(sight: SelectablePage, rule: Rule, name: str, one: LexborNode | str) -> Any:
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
        return apply_filters(text, rule.calls)
    except SearchTimeout as error:
        raise _unreadable(name, error) from None
    except ValueError as error:
        raise _layout_changed(f"{name}: {error}") from None


def _read(sight: SelectablePage, rule: Rule, name: str, text: str, *, allow_empty: bool = False) -> Any:
    """The text through its filters, as its type."""
    try:
        text = apply_filters(text, rule.calls)
    except SearchTimeout as error:
        raise _unreadable(name, error) from None  # even if it is optional: the next one would take as long
    except ValueError as error:
        return _missing(sight, rule, name, f"has {shown_selector(rule.on)}, but {error}")
    try:
        value = convert_value(text, rule.type)
    except UnreadableValue as error:
        raise _unreadable(name, error) from None
    if value is None:
        if allow_empty and not text and rule.type in (None, "text"):
            return ""
        said = f" but {text!r}" if text else ""
        return _missing(sight, rule, name, f"has nothing{said} at {shown_selector(rule.on)}")
    return value


def _text_of(one: LexborNode | str) -> str:
    return collapsed(one) if isinstance(one, str) else text_in(one)


def _html_of(one: LexborNode | str) -> str:
    return one if isinstance(one, str) else close_shadow_roots(one.html or "")


def _missing(sight: SelectablePage, rule: Rule, name: str, what: str, alternatives: int = 1) -> Any:
    if rule.optional:
        return None
    others = f", nor what {alternatives - 1} other selectors name" if alternatives > 1 else ""
    raise _layout_changed(f"{name}: {_page_label(sight)} {what}{others}")


def _layout_changed(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))


def _unreadable(name: str, error: Exception) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_OUTPUT, f"{name}: {error}"))


def _page_label(sight: SelectablePage) -> str:
    return f"the page {sight.page.name} ({redacted(sight.page.url)})"
