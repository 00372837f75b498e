"""Scope: what the templates of a recording can name while one item is played: its input, what was read, the loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from swath.actions.language.quoting import in_selector
from swath.actions.language.selector import Selectors, part_of
from swath.actions.language.template import Literal, Reference, parse, render, value_of
from swath.browser.stage.search import Chains
from swath.browser.stage.target import Target
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["Scope"]

_MARK: Final = "\0"  # in the place of a value


class Scope:
    """`values` are what extract steps have read so far; `turns` the turns of the loops around the present step."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._loop: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.turns: tuple[int, ...] = ()

    def text(self, template: str) -> str:
        """Rendered. Raises Failed: invalid_input for what the item has not, or not in this form."""
        with _told(template):
            return render(template, self._names)

    def chains(self, selectors: Selectors) -> Chains:
        """Rendered, as the stage takes them. What they mean is told by what is written, never by an item's data."""
        return [tuple(self._part(text) for text in chain) for chain in selectors]

    def target(self, template: str) -> Target:
        """Rendered, with what in it must be as it is, since it is the item's."""
        parts, address = parse(template).parts, self.text(template)
        values = [self._value(part) for part in parts if isinstance(part, Reference)]
        if not values:
            return Target(address)
        marked = "".join(part.text if isinstance(part, Literal) else _MARK for part in parts)
        before, _, fragment = marked.partition("#")
        path, _, query = before.partition("?")
        if any(set("?#") & set(value) for value in values[: path.count(_MARK)]):  # its query is the item's as well
            split = address.partition("#")[0].partition("?")
            return Target(address, sure=True, query=tuple(split[2].split("&")), fragment=True)
        in_query = iter(values[path.count(_MARK) :])
        pieces = tuple(re.sub(_MARK, lambda _: next(in_query), piece) for piece in query.split("&") if _MARK in piece)
        return Target(address, sure=True, query=pieces, fragment=_MARK in fragment)

    @contextmanager
    def turn(self, number: int, value: str | None = None) -> Iterator[None]:
        """One turn of a loop, counted from 1."""
        outer_loop, outer_turns = self._loop, self.turns
        self._loop = {"index": number} if value is None else {"index": number, "value": value}
        self.turns = (*outer_turns, number)
        try:
            yield
        finally:
            self._loop, self.turns = outer_loop, outer_turns

    def _part(self, text: str) -> tuple[str, str]:
        part = part_of(text)
        with _told(text):
            return part.kind, in_selector(part, self._value)

    @property
    def _names(self) -> Mapping[str, Any]:
        return {"input": self._given, "value": self.values, "loop": self._loop}

    def _value(self, reference: Reference) -> str:
        return value_of(reference, self._names)


@contextmanager
def _told(template: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        message = f"{template!r} names {error.args[0]!r}, which has no value here"
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, message)) from None
    except ValueError as error:
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, f"{template!r}: {error}")) from None
