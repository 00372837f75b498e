"""Templates: `{{ input.parcel_id | slice(0, 3) }}` inside the texts of a recording. Names and filters, never code.

Parsed when a recording is validated, rendered by the player for each item. What stands in braces but is no reference
(`{{7*7}}`), and the variables of other tools (`${x}`), are text like any other. A text in double quotes stands for
itself, so that any text can be written: `{{ "{{name}}" }}` is {{name}}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from pydantic import AfterValidator

from swath.actions.language.filters import Argument, apply, objection_to_call

__all__ = [
    "ROOTS",
    "TEMPLATE",
    "Call",
    "Literal",
    "Reference",
    "Template",
    "Text",
    "has_references",
    "literally",
    "parse",
    "parse_call",
    "render",
    "value_of",
]

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


class Literal(msgspec.Struct, frozen=True):
    """Text that stays as it is. `text` is what it means; how it is written, only the whole template knows."""

    text: str


class Call(msgspec.Struct, frozen=True):
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
    calls: tuple[Call, ...] = ()

    @property
    def path(self) -> str:
        """As it is written."""
        return self.root if self.name is None else f"{self.root}.{self.name}"

    def __str__(self) -> str:
        return "{{ " + " | ".join([self.path, *map(str, self.calls)]) + " }}"


class Template(msgspec.Struct, frozen=True):
    """A text in parts. `str` of it is the text again, in the one spelling."""

    parts: tuple[Literal | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """In the order in which they stand there."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    def __str__(self) -> str:
        parts = _merged(self.parts)
        text = "".join(part.text if isinstance(part, Literal) else str(part) for part in parts)
        if _says(text, parts):
            return text
        return "".join(part.text.replace("{{", _OPENING) if isinstance(part, Literal) else str(part) for part in parts)


@lru_cache(maxsize=4_096)
def parse(text: str) -> Template:
    """Raises ValueError for what looks like a reference and is none."""
    parts: list[Literal | Reference] = []
    at = 0
    for found in _BRACES.finditer(text):
        quoted = _QUOTED.fullmatch(found["inside"])
        if quoted is None and not _REFERENCE.match(found["inside"]):
            continue
        parts.append(_as_written(text[at : found.start()]))
        parts.append(_reference(found["inside"]) if quoted is None else Literal(_unquoted(quoted["text"])))
        at = found.end()
    parts.append(_as_written(text[at:]))
    return Template(_merged(parts))


def literally(text: str) -> str:
    """How a text is written that is to stay as it is, whatever braces it has."""
    return str(Template((Literal(text),)))


def parse_call(text: str) -> Call:
    """One filter: `slice(0, 3)`. Raises ValueError when it is none, or more than one."""
    found = _CALL.fullmatch(f"| {text}")
    if found is None:
        raise ValueError(f"{text!r} is not one filter")
    return _call(found)


def has_references(text: str) -> bool:
    """Whether the text differs from item to item."""
    return bool(parse(text).references)


def render(text: str, scope: Mapping[str, Any]) -> str:
    """The text for one item. `scope` has the roots: `input` and `value` by name, and what loops have bound.

    Raises KeyError for a name that has no value yet, ValueError for a filter that does not fit its value.
    """
    return "".join(part.text if isinstance(part, Literal) else value_of(part, scope) for part in parse(text).parts)


def _as_written(text: str) -> Literal:
    broken = _BROKEN.search(text)
    if broken:
        raise ValueError(f"{text[broken.start() :][:60]!r} is no reference: write {{{{ input.name }}}}")
    return Literal(text)


def _merged(parts: Sequence[Literal | Reference]) -> tuple[Literal | Reference, ...]:
    """Texts that meet are one, and empty ones none."""
    merged: list[Literal | Reference] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Literal) and isinstance(last, Literal):
            merged[-1] = Literal(last.text + part.text)
        elif not isinstance(part, Literal) or part.text:
            merged.append(part)
    return tuple(merged)


def _says(text: str, parts: tuple[Literal | Reference, ...]) -> bool:
    try:
        return parse(text).parts == parts
    except ValueError:
        return False


def value_of(reference: Reference, scope: Mapping[str, Any]) -> str:
    """Of one reference; raises as `render` does."""
    value = scope[reference.root]
    if reference.name is not None:
        value = value[reference.name]
    text = "" if value is None else str(value)
    for call in reference.calls:
        text = apply(call.name, text, call.arguments)
    return text


def _reference(inside: str) -> Reference:
    path = _PATH.match(inside)
    if path is None:
        raise ValueError(f"{{{{{inside}}}}} is no reference: write {{{{ input.name }}}}")
    root, _, name = path["path"].partition(".")
    calls: list[Call] = []
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


def _call(found: re.Match[str]) -> Call:
    call = Call(found["name"], _arguments(found["arguments"]))
    objection = objection_to_call(call.name, call.arguments)
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
    parse(text)
    return text


TEMPLATE: Final = AfterValidator(_checked)
Text = Annotated[str, TEMPLATE]
"""A text that may hold references."""
