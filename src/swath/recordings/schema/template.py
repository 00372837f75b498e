"""Templates in the texts of a recording: `{{ input.parcel_id | digits | slice(0, 3) }}`. Names and filters, never code.

Parsed when a recording is validated, rendered for each item. Braces that are no reference (`{{7*7}}`), and variables
of
other tools (`${x}`), are plain text. Double quotes escape: `{{ "{{name}}" }}` is {{name}}. Filters are a closed
table
of pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final
from urllib.parse import quote, quote_plus

import msgspec
from pydantic import AfterValidator

from swath.domain.safe_regex import SearchTimeout, pattern_error, search

__all__ = [
    "FILTERS",
    "ROOTS",
    "TEMPLATE",
    "Argument",
    "Filter",
    "FilterCall",
    "LiteralText",
    "Reference",
    "Template",
    "Text",
    "apply_filter",
    "escape_braces",
    "filter_call_error",
    "has_references",
    "parse_call",
    "parse_template",
    "reference_value",
    "render_template",
]

Argument = str | int

_MOST_CHARS: Final = 10_000
_MOST_MADE: Final = 1_000_000
_MOST_PAD: Final = 1_000


class Filter(msgspec.Struct, frozen=True):
    """`kinds`: of its arguments; those from `least` on may be left out. `about` is for people."""

    do: Callable[..., str]
    kinds: tuple[type[Any], ...] = ()
    least: int = 0
    about: str = ""


def _slice(text: str, start: int, end: int | None = None) -> str:
    return text[start:end]


def _split(text: str, separator: str, index: int) -> str:
    pieces = text.split(separator) if separator else text.split()
    if not -len(pieces) <= index < len(pieces):
        raise ValueError(f"has {len(pieces)} parts between {separator!r}, and number {index} is asked for")
    return pieces[index]


def _regex(text: str, pattern: str, group: int = 0) -> str:
    found = search(pattern, text[:_MOST_CHARS])
    if found is None:
        raise ValueError(f"does not match {pattern!r}")
    return found[group] or ""


def _replace(text: str, old: str, new: str) -> str:
    if len(text) + text.count(old) * (len(new) - len(old)) > _MOST_MADE:
        raise ValueError(f"would have more than {_MOST_MADE:,} characters")  # a few in a row could make any number
    return text.replace(old, new)


def _pad(text: str, width: int, fill: str = "0") -> str:
    return text.rjust(width, fill[:1] or "0")


def _url(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _url_plus(text: str) -> str:
    return quote_plus(text, errors="replace")


def _default(text: str, other: str) -> str:
    return text or other


FILTERS: Final[dict[str, Filter]] = {
    "digits": Filter(lambda text: re.sub(r"[^0-9]", "", text), about="only the digits"),
    "letters": Filter(lambda text: re.sub(r"[^A-Za-z]", "", text), about="only the letters A to Z"),
    "upper": Filter(str.upper, about="in capital letters"),
    "lower": Filter(str.lower, about="in small letters"),
    "trim": Filter(str.strip, about="without white space at its ends"),
    "slice": Filter(_slice, (int, int), 1, "from one position up to another, counted from 0; negative from the end"),
    "split": Filter(_split, (str, int), 2, "one of the parts between a separator, counted from 0"),
    "regex": Filter(_regex, (str, int), 1, "what a regular expression finds, or one of its groups"),
    "replace": Filter(_replace, (str, str), 2, "with every occurrence of a text replaced by another"),
    "pad": Filter(_pad, (int, str), 1, "filled up at its beginning to a width, with zeros unless said otherwise"),
    "default": Filter(_default, (str,), 1, "another text in the place of an empty one"),
    "url": Filter(_url, about="percent-encoded, for a part of an address"),
    "url_plus": Filter(_url_plus, about="the same, with + for a space, as forms send it"),
}


def filter_call_error(name: str, arguments: Sequence[Argument]) -> str | None:
    """Why a filter cannot be called so; None when it can."""
    known = FILTERS.get(name)
    if known is None:
        return f"there is no filter {name!r}; there is {', '.join(FILTERS)}"
    if not known.least <= len(arguments) <= len(known.kinds):
        most = len(known.kinds)
        wanted = str(most) if known.least == most else f"{known.least} to {most}"
        return f"{name} takes {wanted} arguments, not {len(arguments)}"
    for argument, kind in zip(arguments, known.kinds, strict=False):
        if not isinstance(argument, kind):
            return f"{name} takes a {'number' if kind is int else 'text in double quotes'} in the place of {argument!r}"
    if name == "regex":
        return _regex_error(arguments)
    if name == "pad" and not 0 <= int(arguments[0]) <= _MOST_PAD:
        return f"pad fills up to {_MOST_PAD:,} characters, not {arguments[0]}"
    return None


def apply_filter(name: str, text: str, arguments: Sequence[Argument]) -> str:
    """Raises ValueError when the value does not fit (TookTooLong is one), KeyError when there is no such filter."""
    try:
        return FILTERS[name].do(text, *arguments)
    except SearchTimeout as error:
        raise SearchTimeout(f"{name}: the value {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: the value {error}") from None


def _regex_error(arguments: Sequence[Argument]) -> str | None:
    pattern = str(arguments[0])
    objection = pattern_error(pattern)
    if objection is not None:
        return f"the pattern {pattern!r} {objection}"
    groups = re.compile(pattern).groups
    if len(arguments) > 1 and not 0 <= int(arguments[1]) <= groups:
        return f"the pattern {pattern!r} has {groups} groups, and number {arguments[1]} is asked for"
    return None


# Quoted arguments may hold braces, as patterns do.
_BRACES: Final = re.compile(r"\{\{(?P<inside>(?:\"(?:\\.|[^\"\\])*\"|[^{}\"])*)\}\}", re.DOTALL)
_BROKEN: Final = re.compile(r"\{\{\s*(?:input|value|loop)\s*[.|}]")  # nobody writes this and means text
_QUOTED: Final = re.compile(r"\s*(?P<text>\"(?:\\.|[^\"\\])*\")\s*", re.DOTALL)
_OPENING: Final = '{{ "{{" }}'  # how two braces are written that open nothing
_REFERENCE: Final = re.compile(r"\s*[A-Za-z_][\w-]*\s*(?:\.|\||$)")
_PATH: Final = re.compile(r"\s*(?P<path>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)?)\s*")
_CALL: Final = re.compile(
    r"\|\s*(?P<name>[a-z_]+)\s*(?:\((?P<arguments>(?:\"(?:\\.|[^\"\\])*\"|[^()\"])*)\))?\s*", re.DOTALL
)
_ARGUMENT: Final = re.compile(r"\s*(?:(?P<number>-?[0-9]{1,9})|(?P<text>\"(?:\\.|[^\"\\])*\"))\s*(?:,|$)", re.DOTALL)
ROOTS: Final = ("input", "value", "loop")


class LiteralText(msgspec.Struct, frozen=True):
    """Text that stays as it is. `text` is what it means; how it is written, only the whole template knows."""

    text: str


class FilterCall(msgspec.Struct, frozen=True):
    """A filter with its arguments."""

    name: str
    arguments: tuple[Argument, ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(_spelt(argument) for argument in self.arguments)})"


class Reference(msgspec.Struct, frozen=True):
    """A value by its path, and what is done to it on the way."""

    root: str
    name: str | None
    calls: tuple[FilterCall, ...] = ()

    @property
    def path(self) -> str:
        """As it is written."""
        return self.root if self.name is None else f"{self.root}.{self.name}"

    def __str__(self) -> str:
        return "{{ " + " | ".join([self.path, *map(str, self.calls)]) + " }}"


class Template(msgspec.Struct, frozen=True):
    """A text in parts. `str` of it is the text again, in the one spelling."""

    parts: tuple[LiteralText | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """In the order in which they stand there."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    def __str__(self) -> str:
        parts = _merged(self.parts)
        text = "".join(part.text if isinstance(part, LiteralText) else str(part) for part in parts)
        if _says(text, parts):
            return text
        return "".join(
            part.text.replace("{{", _OPENING) if isinstance(part, LiteralText) else str(part) for part in parts
        )


@lru_cache(maxsize=4_096)
def parse_template(text: str) -> Template:
    """Raises ValueError for what looks like a reference and is none."""
    parts: list[LiteralText | Reference] = []
    at = 0
    for found in _BRACES.finditer(text):
        quoted = _QUOTED.fullmatch(found["inside"])
        if quoted is None and not _REFERENCE.match(found["inside"]):
            continue
        parts.append(_as_written(text[at : found.start()]))
        parts.append(_reference(found["inside"]) if quoted is None else LiteralText(_unquoted(quoted["text"])))
        at = found.end()
    parts.append(_as_written(text[at:]))
    return Template(_merged(parts))


def escape_braces(text: str) -> str:
    """How a text is written that is to stay as it is, whatever braces it has."""
    return str(Template((LiteralText(text),)))


def parse_call(text: str) -> FilterCall:
    """One filter: `slice(0, 3)`. Raises ValueError when it is none, or more than one."""
    found = _CALL.fullmatch(f"| {text}")
    if found is None:
        raise ValueError(f"{text!r} is not one filter")
    return _call(found)


def has_references(text: str) -> bool:
    """Whether the text differs from item to item."""
    return bool(parse_template(text).references)


def render_template(text: str, scope: Mapping[str, Any]) -> str:
    """The text for one item. `scope` has the roots: `input` and `value` by name, and what loops have bound.

    Raises KeyError for a name that has no value yet, ValueError for a filter that does not fit its value.
    """
    return "".join(
        part.text if isinstance(part, LiteralText) else reference_value(part, scope)
        for part in parse_template(text).parts
    )


def _as_written(text: str) -> LiteralText:
    broken = _BROKEN.search(text)
    if broken:
        raise ValueError(f"{text[broken.start() :][:60]!r} is no reference: write {{{{ input.name }}}}")
    return LiteralText(text)


def _merged(parts: Sequence[LiteralText | Reference]) -> tuple[LiteralText | Reference, ...]:
    """Texts that meet are one, and empty ones none."""
    merged: list[LiteralText | Reference] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, LiteralText) and isinstance(last, LiteralText):
            merged[-1] = LiteralText(last.text + part.text)
        elif not isinstance(part, LiteralText) or part.text:
            merged.append(part)
    return tuple(merged)


def _says(text: str, parts: tuple[LiteralText | Reference, ...]) -> bool:
    try:
        return parse_template(text).parts == parts
    except ValueError:
        return False


def reference_value(reference: Reference, scope: Mapping[str, Any]) -> str:
    """Of one reference; raises as `render` does."""
    value = scope[reference.root]
    if reference.name is not None:
        value = value[reference.name]
    text = "" if value is None else str(value)
    for call in reference.calls:
        text = apply_filter(call.name, text, call.arguments)
    return text


def _reference(inside: str) -> Reference:
    path = _PATH.match(inside)
    if path is None:
        raise ValueError(f"{{{{{inside}}}}} is no reference: write {{{{ input.name }}}}")
    root, _, name = path["path"].partition(".")
    calls: list[FilterCall] = []
    at = path.end()
    while at < len(inside):
        found = _CALL.match(inside, at)
        if found is None:
            raise ValueError(f"{{{{{inside}}}}} cannot be read from {inside[at:].strip()!r} on: filters come after a |")
        try:
            calls.append(_call(found))
        except ValueError as error:
            raise ValueError(f"{{{{{inside}}}}}: {error}") from None
        at = found.end()
    return Reference(root, name or None, tuple(calls))


def _call(found: re.Match[str]) -> FilterCall:
    call = FilterCall(found["name"], _arguments(found["arguments"]))
    objection = filter_call_error(call.name, call.arguments)
    if objection is not None:
        raise ValueError(objection)
    return call


def _arguments(text: str | None) -> tuple[Argument, ...]:
    found: list[Argument] = []
    at = 0
    text = text or ""
    while at < len(text):
        one = _ARGUMENT.match(text, at)
        if one is None:
            raise ValueError(f"the arguments ({text}) are numbers and texts in double quotes, with commas between")
        found.append(int(one["number"]) if one["number"] is not None else _unquoted(one["text"]))
        at = one.end()
    return tuple(found)


def _unquoted(text: str) -> str:
    return re.sub(r"\\([\"\\])", r"\1", text[1:-1])  # before others a backslash is one: patterns are full of them


def _spelt(argument: Argument) -> str:
    if isinstance(argument, int):
        return str(argument)
    return '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(text: str) -> str:
    parse_template(text)
    return text


TEMPLATE: Final = AfterValidator(_checked)
Text = Annotated[str, TEMPLATE]
"""A text that may hold references."""
