"""Selectors, as far as they can be judged without a page: whether they can be read, and whether they end.

CSS is shown to the parser that reads stored pages, XPath to that of lxml. What a template brings is not known yet, so
something plain stands in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from swath.actions.checking.problem import Problem, of_step
from swath.actions.checking.xpath import objection_to_xpath
from swath.actions.language.parts import PartOf, joined, parts_of
from swath.actions.language.quoting import objection_to_references
from swath.actions.language.recording import Recording
from swath.actions.language.rules import Rule
from swath.actions.language.selector import part_of
from swath.actions.language.template import Literal, Reference, parse
from swath.actions.language.walk import walk

__all__ = ["objection_to_selector", "selector_problems"]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_STAND_INS: Final = ("x", "1")  # a name, and a number; one of them fits wherever a reference can stand
_TEXTS: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_DIGIT_FIRST: Final = re.compile(r"(?<!\\)[#.][0-9]")
_NOT_OF_BROWSERS: Final = re.compile(r":-?lexbor-|\|\|")
# What Chrome knows and the parser of stored pages does not.
_OF_BROWSERS: Final = re.compile(
    r":(?:(?:lang|dir|state|host|host-context)\([^()]*\)|(?:-webkit-autofill|autofill|default|defined|focus-visible"
    r"|focus-within|fullscreen|host|in-range|indeterminate|invalid|modal|open|out-of-range|popover-open|scope|target"
    r"|user-invalid|user-valid|valid|visited)(?![\w(-]))"
)


def selector_problems(recording: Recording) -> Iterator[Problem]:
    """Of all selectors: those of steps, of conditions, of rules and of the marks of the recording."""
    for placed in walk(recording):
        for part in parts_of(placed.step):
            for path, what in _objections(part):
                yield of_step(placed, path, what)
    for number, mark in enumerate(recording.not_found, 1):
        for path, what in _objections(PartOf(f"not_found.{number}", mark)):
            yield Problem(path, what)
    for number, rule in enumerate(recording.recover, 1):
        for path, what in _objections(PartOf(f"recover.{number}.when", rule.when)):
            yield Problem(path, what)


def _objections(part: PartOf) -> Iterator[tuple[str, str]]:
    selectors: tuple[tuple[str, ...], ...] | None = getattr(part.model, "on", None)
    for number, chain in enumerate(selectors or (), 1):
        for text in chain:
            objection = objection_to_selector(text, stored=isinstance(part.model, Rule))
            if objection is not None:
                path = joined(part.path, "on")
                yield (f"{path}.{number}" if len(selectors or ()) > 1 else path), objection


def objection_to_selector(text: str, *, stored: bool = False) -> str | None:
    """Why a part of a chain cannot be used; None when it can, as far as can be seen. `stored`: on stored pages."""
    if _CONTROL.search(text):
        return f"{_short(text)} has a line break or another control character; take it out"
    kind, value = part = part_of(text)
    if not value.strip():
        return f"{_short(text)} is empty; say what is to be found"
    misplaced = objection_to_references(part)
    if misplaced is not None:
        return f"{_short(text)} {misplaced}"
    parts = parse(value).parts
    if kind in ("aria", "text") or all(isinstance(part, Reference) for part in parts):
        return None
    objections = [
        _objection(kind, "".join(part.text if isinstance(part, Literal) else name for part in parts), stored=stored)
        for name in _STAND_INS
    ]
    return None if None in objections else f"{_short(text)} {objections[0]}"


def _objection(kind: str, value: str, *, stored: bool) -> str | None:
    return objection_to_xpath(value) if kind == "xpath" else _objection_to_css(value, stored=stored)


def _objection_to_css(value: str, *, stored: bool) -> str | None:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 only where there is something to ask

    bare = _TEXTS.sub("''", value)
    if _DIGIT_FIRST.search(bare):
        return "has a name that begins with a digit, which CSS does not know; write [id='1'] for #1"
    if _NOT_OF_BROWSERS.search(bare):
        return "is no CSS selector that browsers know"
    try:
        LexborHTMLParser("<p>").css_first(value if stored else _OF_BROWSERS.sub(":hover", value))
    except Exception:  # noqa: BLE001 whatever it raises, it cannot use the selector
        return f"is no CSS selector{' that can be used on stored pages' if stored else ''}{_hint(value)}"
    return None


def _hint(value: str) -> str:
    if value.startswith(("/", "(")):
        return "; XPath begins with xpath/"
    if re.match(r"(?:text|xpath|css|id|role)=", value):
        return "; kinds of selectors are told by a prefix with a slash, such as text/ and xpath/"
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")
