"""Estimates what a page would cost to parse, without parsing it, and refuses pages that are too expensive.

HTML parsers take quadratic time for deep nesting, long option lists and many attributes, and quadratic memory for
unclosed formatting: a page of 70 KB can take 2 GB. An element counts as open unless it is certainly closed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["FORMATTING", "RAW_TEXT", "Nesting", "parse_refusal"]


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


# Opened again in the next paragraph when they were not closed, in any number.
FORMATTING: Final = _names("b big code em font i s small strike strong tt u")
_SINGLE: Final = _names("a nobr")  # the same, but each closes the one before
_REOPENED: Final = FORMATTING | _SINGLE
RAW_TEXT: Final = _names("script style textarea title xmp iframe noembed noframes")
_VOID: Final = _names("area base br col embed hr img input link meta param source track wbr keygen frame")
_ONCE_PER_PAGE: Final = _names("html head body")  # there is one of each, whatever the page says
_FOREIGN: Final = _names("svg math")
# Only among these is a slash at the end of a tag sure to close it.
_SVG_TAGS: Final = _FOREIGN | _names(
    "g path circle rect line polyline polygon ellipse use defs stop lineargradient radialgradient clippath mask image"
    " text tspan symbol pattern"
)
_OTHER_RULES: Final = _names("template frameset")  # inside them everything is different
_MARKERS: Final = _names("applet caption td th marquee object")  # formats end with them
_SCOPES: Final = _MARKERS | _FOREIGN | _names("table template")
_CELLS: Final = _names("td th")
_SECTIONS: Final = _names("tbody thead tfoot")
_OF_TABLES: Final = _CELLS | _SECTIONS | _names("tr caption colgroup col")
_BETWEEN: Final = _SECTIONS | _names("table tr")
_ITEMS: Final = {b"li": _names("li"), b"dd": _names("dd dt"), b"dt": _names("dd dt")}
_CLOSE_P: Final = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header hgroup"
    " main menu nav ol p search section summary ul h1 h2 h3 h4 h5 h6 pre listing form li dd dt plaintext hr xmp"
)
_SPECIAL: Final = _CLOSE_P | _SCOPES | _OF_TABLES | _names("select button iframe noscript")
_OF_SELECTS: Final = _names("option optgroup script hr")
_PLAIN_ENDS: Final = _names("select iframe noscript")
_NOT_IN_THE_WAY: Final = _names("address div p")
# Tags before which nothing is opened again.
_STAND_ALONE: Final = _CLOSE_P | _OF_TABLES | _names("table script style title meta link base template frameset")
_FAR: Final = 40  # levels to look up; what stands further away counts as not there, and so stays open


def _implied(name: bytes) -> list[tuple[frozenset[bytes], frozenset[bytes]]]:
    """What a start tag closes: each time, which elements, and which stand in the way."""
    rules: list[tuple[frozenset[bytes], frozenset[bytes]]] = []
    table = _names("table template")
    if name in _ITEMS:
        rules.append((_ITEMS[name], _SPECIAL - _NOT_IN_THE_WAY))
    if name in _CLOSE_P:
        rules.append((_names("p"), _SCOPES | {b"button"}))
    if name in _CELLS:
        rules.append((_CELLS, table | {b"tr"}))
    if name == b"tr":
        rules.append((_names("tr"), table | _SECTIONS))
    if name in _SECTIONS:
        rules.append((_SECTIONS, table))
    return rules


def _barriers(name: bytes) -> frozenset[bytes]:
    """What keeps an end tag from closing its element."""
    if name in {b"p", b"li"}:
        return _SCOPES | (_names("button") if name == b"p" else _names("ul ol"))
    if name in _OF_TABLES or name == b"table":
        return _names("table template")
    return _SPECIAL if name in _PLAIN_ENDS or name not in _SPECIAL else _SCOPES


_IMPLIED: Final = {name: rules for name in _SPECIAL if (rules := _implied(name))}
_BARRIERS: Final = {name: _barriers(name) for name in _SPECIAL}


class _Format:
    """A format that holds until it is closed, in elements after its own, too. A marker has no name."""

    __slots__ = ("is_open", "name", "rest")

    def __init__(self, name: bytes = b"", rest: bytes = b"") -> None:
        self.name = name
        self.rest = rest
        self.is_open = True


class Nesting:
    """`depth`: how many elements are open. `copies`: how many were opened again, over the whole page.

    `depth` may be raised from outside, for what was not read as tags.
    """

    def __init__(self) -> None:
        self._open: list[tuple[bytes, _Format | None]] = []
        self._formats: list[_Format] = []
        self._foreign = 0
        self._drawing = False
        self._tables = 0
        self._selects = 0
        self._sure = True  # that what closes here closes for the parser, too; if not, only the innermost is closed
        self.depth = 0
        self.copies = 0

    @property
    def is_sure(self) -> bool:
        """Whether text is text here: in drawings, lists and templates the parser may see tags in it."""
        return self._sure and not self._foreign and not self._selects

    def open(self, name: bytes, rest: bytes) -> None:
        """A start tag; `rest` is what follows the name."""
        self._sure = self._sure and name not in _OTHER_RULES and (not self._selects or name in _OF_SELECTS)
        if self._foreign:
            self._drawing = self._drawing and name in _SVG_TAGS
            self._sure = self._sure and self._drawing
            if self._drawing and rest.endswith(b"/"):
                return
        elif (name in _FOREIGN and rest.endswith(b"/")) or (self._sure and not self._close_before(name)):
            return
        if name not in _STAND_ALONE:
            self.text()
        if name in _VOID and not self._foreign:
            return
        form = self._format(name, rest.strip()) if name in _REOPENED else None
        if name in _MARKERS and self._sure:
            self._formats.append(_Format())
        self._push(name, form)

    def close(self, name: bytes) -> None:
        """An end tag."""
        self._sure = self._sure and (not self._selects or name == b"select" or name in _OF_SELECTS)
        if name in _REOPENED:
            for number in range(len(self._formats) - 1, -1, -1):
                if self._formats[number].name in {name, b""}:
                    if self._formats[number].name:
                        del self._formats[number]
                    break
        if self._open and self._open[-1][0] == name:
            self._pop(1)
        elif self._sure and not self._foreign and name != b"form":  # a form ends without what is open in it
            self._pop_through((name,), _BARRIERS.get(name, _SPECIAL))

    def text(self, *, blank: bool = False) -> None:
        """Text, or a tag that counts as such: what was not closed is opened again around it."""
        if not self._formats:
            return
        if self._open and self._open[-1][0] in _BETWEEN:
            if blank:
                return
            self._sure = False  # what has no place in a table is put before it
        if not self._sure:
            self.copies += len(self._formats)
            return
        if self._foreign:
            return
        lost = 0  # those at the end of the list that are not open
        while lost < len(self._formats) and self._formats[-1 - lost].name and not self._formats[-1 - lost].is_open:
            lost += 1
        for form in self._formats[len(self._formats) - lost :]:
            form.is_open = True
            self._push(form.name, form)
        self.copies += lost

    def doubt(self, tags: int, formats: int) -> None:
        """So many tags may or may not stand here: all that opens counts."""
        self._sure = False
        self._formats.extend(_Format(b"font") for _ in range(formats))
        self.copies += len(self._formats) * tags // 2
        self.depth += tags

    def _close_before(self, name: bytes) -> bool:
        """Closes what a start tag closes. False when the tag itself is nothing where it stands."""
        if name in _ONCE_PER_PAGE or (name in _OF_TABLES and not self._tables):
            return False
        if name in _REOPENED and self._open and self._open[-1][0] in _BETWEEN:
            self._sure = False
        for wanted, barriers in _IMPLIED.get(name, ()):
            self._pop_through(wanted, barriers)
        if name == b"option" and self._open and self._open[-1][0] == name:
            self._pop(1)
        if name in _SINGLE and any(form.name == name for form in self._formats):
            self.close(name)
        return True

    def _format(self, name: bytes, rest: bytes) -> _Format:
        alike: list[int] = []
        for number in range(len(self._formats) - 1, max(len(self._formats) - _FAR, 0) - 1, -1):
            other = self._formats[number]
            if not other.name:
                break
            if other.name == name and other.rest == rest:
                alike.append(number)
        if len(alike) >= 3:
            del self._formats[alike[-1]]  # of those that are alike, the last three are kept
        self._formats.append(_Format(name, rest))
        return self._formats[-1]

    def _pop_through(self, wanted: Collection[bytes], barriers: Collection[bytes]) -> None:
        """Closes the nearest of the wanted and all that is inside it, unless a barrier stands before it."""
        opened = self._open
        for count in range(1, min(len(opened), _FAR) + 1):
            name = opened[-count][0]
            if name in wanted:
                self._pop(count)
                return
            if name in barriers:
                return
        self._sure = self._sure and len(opened) <= _FAR

    def _push(self, name: bytes, form: _Format | None) -> None:
        self._open.append((name, form))
        self.depth += 1
        self._tables += name == b"table"
        self._selects += name == b"select"
        if name in _FOREIGN:
            self._drawing = not self._foreign
            self._foreign += 1

    def _pop(self, count: int) -> None:
        for name, form in self._open[-count:]:
            if form is not None:
                form.is_open = False
            elif name in _MARKERS and self._sure:
                while self._formats and self._formats.pop().name:
                    pass
            self._foreign -= name in _FOREIGN
            self._tables -= name == b"table"
            self._selects -= name == b"select"
        del self._open[-count:]
        self.depth -= count


_FEW_TAGS: Final = 1_200  # nothing that can be made of so few tags, in so few bytes, is worth a second look
_SMALL_BYTES: Final = 64 * 1024
_MOST_STEPS: Final = 400_000_000  # the parser takes 3 to 5 ns for each
_MOST_COPIES: Final = 300_000  # elements that it makes anew, of some 300 bytes
_MOST_TAGS: Final = 1_000_000  # each takes some 150 bytes, and its text as many
_STEPS_PER_OPTION: Final = 3

_FORMAT: Final = re.compile(rb"<(?:" + b"|".join(sorted(FORMATTING)) + rb")[\s/]")
_TAG: Final = re.compile(rb"<[a-z/]")
_ATTRIBUTE: Final = rb"""[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?"""
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_MORE: Final = re.compile(rb"(?:[\s/]+|" + _ATTRIBUTE + rb"){1,2000}")  # a few at a time: the matcher remembers each
_TOKEN: Final = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rb"|<!\[cdata\[(?P<data>.*?)(?:\]\]>|\Z)"
    rb"|<[!?][^>]*|</[^a-z>][^>]*"
    rb"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*)(?P<rest>(?:[\s/]+|" + _ATTRIBUTE + rb"){0,2000})",
    re.DOTALL,
)
_SEPARATORS: Final = (b" ", b"\n", b"\t", b"/", b'"', b"'")


def parse_refusal(html: bytes) -> str | None:
    """Why the page must not be parsed; None when it may be. `html` is UTF-8."""
    tags = html.count(b"<")
    if tags <= _FEW_TAGS and len(html) <= _SMALL_BYTES:
        return None
    if tags > _MOST_TAGS:
        return f"has more than {_MOST_TAGS:,} tags"
    lower = html.lower()
    return None if _is_light(lower, tags) else _weighed(lower)


def _is_light(lower: bytes, tags: int) -> bool:
    """Whether even the worst that could be made of these tags is bearable."""
    if tags * tags > 2 * _MOST_STEPS or lower.count(b"<option") > 10_000:
        return False
    if len(_FORMAT.findall(lower)) * tags > _MOST_COPIES:
        return False
    if len(lower) <= _SMALL_BYTES:
        return True
    long = [piece for piece in lower.split(b"<") if len(piece) > 2_048]
    return sum(sum(map(piece.count, _SEPARATORS)) ** 2 for piece in long) <= _MOST_STEPS


def _weighed(lower: bytes) -> str | None:
    """Reads the tags one by one and adds up what each will cost the parser."""
    nesting, steps, options, position = Nesting(), 0, 0, 0
    while (found := _TOKEN.search(lower, position)) is not None:
        if found.start() > position:
            nesting.text(blank=lower[position : found.start()].isspace())
        position, name, rest = found.end(), found["name"], found["rest"]
        steps += nesting.depth
        if name is None:
            steps += 0 if found["data"] is None else _doubtful_cost(nesting, found["data"])
        elif found["end"]:
            nesting.close(name)
        else:
            if len(rest) > 1_024:
                many, position = _attributes(lower, found.start("rest"))
                steps += many**2
            options = 0 if name == b"select" else options + (name == b"option")
            steps += _STEPS_PER_OPTION * options * (name == b"option")
            sure = nesting.is_sure if name in RAW_TEXT else True
            nesting.open(name, rest)
            if name in RAW_TEXT:
                end = lower.find(b"</" + name, position)
                end = len(lower) if end < 0 else end
                steps += 0 if sure else _doubtful_cost(nesting, lower[position:end])
                position = end
        if steps > _MOST_STEPS:
            return "takes too long to parse: too many elements inside each other, or too much in one of them"
        if nesting.copies > _MOST_COPIES:
            return "opens fonts in every paragraph and closes none"
    return None


def _attributes(lower: bytes, position: int) -> tuple[int, int]:
    """How many there are from here on, and where they end."""
    many = 0
    while (found := _MORE.match(lower, position)) is not None:
        many += len(_ATTRIBUTES.findall(found[0]))
        position = found.end()
    return many, position


def _doubtful_cost(nesting: Nesting, text: bytes) -> int:
    """What is text to us and may be tags to the parser; the steps that these would take it."""
    tags = len(_TAG.findall(text))
    steps = (nesting.depth + tags // 2) * tags
    nesting.doubt(tags, len(_FORMAT.findall(text)))
    return steps
