"""Checks selectors without a page: whether they can be parsed, and how long they may take on a large stored page.

No search of a stored page can be interrupted, so expressions that could search the page once for each of its
elements
are refused, and the cost of the others is estimated before they run. CSS is shown to the parser that reads stored
pages, XPath to lxml; a template's value is replaced by a plain word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from swath.recordings.schema.models import ModelPart, Rule, join_path, parts_of
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.selectors import part_of, reference_position_error
from swath.recordings.schema.template import LiteralText, Reference, parse_template
from swath.recordings.validation.problems import Problem, step_problem

__all__ = ["CssCost", "XPathCost", "css_cost_of", "selector_error", "selector_problems", "xpath_cost_of", "xpath_error"]

_CSS_TEXTS: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_PLAIN: Final = re.compile(r"\\.|\[[^\]]*\]", re.DOTALL)  # an escaped character, an attribute
_SEARCHING: Final = re.compile(r":(has|is|where|not|matches|-webkit-any|any)$", re.IGNORECASE)
_TIGHT: Final = re.compile(r"\s*([>+~,])\s*")


class CssCost(NamedTuple):
    """How many elements of a chain may be chosen freely among those `around` the next one, and among those `beside`."""

    around: int = 0
    beside: int = 0

    def steps(self, elements: int, widest: int, deepest: int) -> int:
        """At most so many on a page of so many elements, of which so many stand beside and inside each other."""
        return elements * _combinations(self.around, deepest) * _combinations(self.beside, widest)


def _combinations(chosen: int, among: int) -> int:
    """To choose so many, or fewer, since a chain that leads nowhere is followed as far as it goes."""
    return math.comb(among, min(chosen, among // 2))


@lru_cache(maxsize=1_024)
def css_cost_of(selector: str) -> CssCost:
    """Of the dearest of its alternatives."""
    return _css_cost(_PLAIN.sub("x", _CSS_TEXTS.sub("", selector)))


def _css_cost(bare: str) -> CssCost:
    own, inner = _split_css_brackets(bare)
    costs = [_of_chain(chain) for chain in own.split(",")]
    around, beside = max(cost.around for cost in costs), max(cost.beside for cost in costs)
    for searches, text in inner:
        cost = _css_cost(text)
        around, beside = around + cost.around + searches, beside + cost.beside
    return CssCost(around, beside)


def _of_chain(chain: str) -> CssCost:
    tight = _TIGHT.sub(r"\1", chain.strip())
    return CssCost(len(tight.split()) - 1 if tight else 0, tight.count("~"))


def _split_css_brackets(bare: str) -> tuple[str, list[tuple[bool, str]]]:
    """What stands outside of brackets, and in those that hold selectors: whether they are searched for inside."""
    own: list[str] = []
    inner: list[tuple[bool, str]] = []
    depth = begun = 0
    for at, character in enumerate(bare):
        if character == "(":
            depth += 1
            begun = at + 1 if depth == 1 else begun
        elif character == ")" and depth:
            depth -= 1
            named = _SEARCHING.search(bare[: begun - 1]) if depth == 0 else None
            if named is not None:
                inner.append((named[1].lower() == "has", bare[begun:at]))
        elif depth == 0:
            own.append(character)
    return "".join(own), inner


_MOST_SEARCHES: Final = 20  # in all
_MOST_SEARCHES_INSIDE: Final = 3  # in conditions, where they are done for each element
_DEEPEST: Final = 4

_XPATH_TEXTS: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_SEARCH: Final = re.compile(
    r"//|\b(?:descendant|descendant-or-self|following|preceding|ancestor|ancestor-or-self)\s*::"
)
_TOKEN: Final = re.compile(r"''|//|::|\.\.|[^\W\d][\w.-]*|[0-9][0-9.]*|\S")
_ENDS: Final = frozenset({")", "]", "''", ".", ".."})  # of something that an operator or a path can follow
_FAR: Final = re.compile(r"\b(?:following|preceding)\s*::")
_BESIDE: Final = re.compile(r"\b(?:following|preceding)-sibling\s*::")
_UP: Final = re.compile(r"\.\.|\b(?:parent|ancestor|ancestor-or-self)\s*::")
_CALLED: Final = re.compile(r"([A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)\s*\(")
_KNOWN_FUNCTIONS: Final = (
    "and or div mod boolean ceiling comment concat contains count false floor id lang last local-name name"
    " namespace-uri node normalize-space not number position processing-instruction round starts-with string"
    " string-length substring substring-after substring-before sum text translate true"
)


class XPathCost(NamedTuple):
    """How often each element that is looked at makes others be looked at: all of the page (`far`), those `beside` it,
    those `inside` or around it."""

    far: int = 0
    beside: int = 0
    inside: int = 0

    def steps(self, elements: int, widest: int, deepest: int) -> int:
        """At most so many on a page of so many elements, of which so many stand beside and inside each other."""
        return math.prod([elements] * (1 + self.far) + [widest] * self.beside + [deepest] * self.inside)


@lru_cache(maxsize=1_024)
def xpath_cost_of(expression: str) -> XPathCost:
    """Of its conditions, and of the conditions in them: each is asked for every element that the one around it sees."""
    return _xpath_cost(_XPATH_TEXTS.sub("''", expression), 0)


def _xpath_cost(bare: str, depth: int) -> XPathCost:
    own, conditions = _split_xpath_brackets(bare)
    dearest = max((_xpath_cost(inner, depth + 1) for inner in conditions), default=XPathCost())
    far = len(_FAR.findall(own))
    if depth == 0:
        return dearest._replace(far=dearest.far + far)
    searches = bool(_SEARCH.search(own))
    far += _from_the_top(own) or (searches and bool(_UP.search(own)) and not _only_up(own))
    return XPathCost(
        dearest.far + far, dearest.beside + bool(_BESIDE.search(own)), dearest.inside + (searches and not far)
    )


def _only_up(own: str) -> bool:
    """Whether what it searches are the elements around: `ancestor::div`."""
    return "//" not in own and "descendant" not in own


def _split_xpath_brackets(bare: str) -> tuple[str, list[str]]:
    """What stands outside of brackets, and in each of the outermost ones."""
    own: list[str] = []
    conditions: list[str] = []
    depth = begun = 0
    for at, character in enumerate(bare):
        if character == "[":
            begun = at + 1 if depth == 0 else begun
            depth += 1
        elif character == "]":
            depth -= 1
            if depth == 0:
                own.append("[]")
                conditions.append(bare[begun:at])
        elif depth == 0:
            own.append(character)
    return "".join(own), conditions


def xpath_error(expression: str) -> str | None:
    """Why it cannot be used; None when it can."""
    bare = _XPATH_TEXTS.sub("''", expression)
    return _cost_error(bare) or _unknown_function_error(bare) or _syntax_error(expression)


def _cost_error(bare: str) -> str | None:
    searches = len(_SEARCH.findall(bare))
    if searches > _MOST_SEARCHES:
        return f"searches the page {searches} times (//); at most {_MOST_SEARCHES}"
    inside, depth = _conditions(bare)
    if depth > _DEEPEST:
        return f"has conditions [] nested {depth} deep; at most {_DEEPEST}"
    if len(_SEARCH.findall(inside)) > _MOST_SEARCHES_INSIDE:
        return f"searches the page inside conditions [] more than {_MOST_SEARCHES_INSIDE} times"
    if _from_the_top(inside):
        return "begins at the top of the page for each element (/ in a condition); write .// to search inside it"
    return None


def _from_the_top(bare: str) -> int:
    """How many paths in it begin with a slash. After something whole a name is an operator, as `div` is, and so is *;
    elsewhere both are elements (XPath 1.0, 3.7)."""
    count, whole = 0, False
    for word in _TOKEN.findall(bare):
        if word in ("/", "//"):
            count += not whole
            whole = False
        elif word == "*" or word[0].isalpha() or word[0] == "_":
            whole = not whole
        else:
            whole = word in _ENDS or word[0].isdigit()
    return count


def _conditions(bare: str) -> tuple[str, int]:
    """What stands in brackets, and how deep they nest."""
    depth = deepest = 0
    inside: list[str] = []
    for character in bare:
        depth += character == "["
        if depth > 0:
            inside.append(character)
        depth -= character == "]"
        deepest = max(deepest, depth)
    return "".join(inside), deepest


def _unknown_function_error(bare: str) -> str | None:
    if "$" in bare:
        return "has a variable ($), of which browsers know none; use a template: {{ input.name }}"
    for name in _CALLED.findall(bare):
        if name not in _KNOWN_FUNCTIONS.split():
            return f"calls {name}(), which browsers' XPath does not know"
    return None


def _syntax_error(expression: str) -> str | None:
    from lxml import etree  # noqa: PLC0415 most recordings have no XPath

    try:
        etree.XPath(expression)
    except (etree.XPathError, ValueError) as error:
        return f"is no XPath: {' '.join(str(error).split())}"
    return None


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
            for path, what in _selector_errors(part):
                yield step_problem(placed, path, what)
    for number, mark in enumerate(recording.not_found, 1):
        for path, what in _selector_errors(ModelPart(f"not_found.{number}", mark)):
            yield Problem(path, what)
    for number, rule in enumerate(recording.recover, 1):
        for path, what in _selector_errors(ModelPart(f"recover.{number}.when", rule.when)):
            yield Problem(path, what)


def _selector_errors(part: ModelPart) -> Iterator[tuple[str, str]]:
    selectors: tuple[tuple[str, ...], ...] | None = getattr(part.model, "on", None)
    for number, chain in enumerate(selectors or (), 1):
        for text in chain:
            objection = selector_error(text, stored=isinstance(part.model, Rule))
            if objection is not None:
                path = join_path(part.path, "on")
                yield (f"{path}.{number}" if len(selectors or ()) > 1 else path), objection


def selector_error(text: str, *, stored: bool = False) -> str | None:
    """Why a part of a chain cannot be used; None when it can, as far as can be seen. `stored`: on stored pages."""
    if _CONTROL.search(text):
        return f"{_short(text)} has a line break or another control character; take it out"
    kind, value = part = part_of(text)
    if not value.strip():
        return f"{_short(text)} is empty; say what is to be found"
    misplaced = reference_position_error(part)
    if misplaced is not None:
        return f"{_short(text)} {misplaced}"
    parts = parse_template(value).parts
    if kind in ("aria", "text") or all(isinstance(part, Reference) for part in parts):
        return None
    objections = [
        _part_error(
            kind, "".join(part.text if isinstance(part, LiteralText) else name for part in parts), stored=stored
        )
        for name in _STAND_INS
    ]
    return None if None in objections else f"{_short(text)} {objections[0]}"


def _part_error(kind: str, value: str, *, stored: bool) -> str | None:
    return xpath_error(value) if kind == "xpath" else _css_error(value, stored=stored)


def _css_error(value: str, *, stored: bool) -> str | None:
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
