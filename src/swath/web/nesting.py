"""What a parser of HTML will have open after each tag: what tags open, close, close without saying so, and open again.

A part of the rules of the HTML standard ("tree construction"), simplified so that it never says too little: where it is
not sure that something is closed, it stays open. weight.py asks, for pages that are suspiciously large.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["FORMATS", "RAW", "Nesting"]


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


# Opened again in the next paragraph when they were not closed, in any number.
FORMATS: Final = _names("b big code em font i s small strike strong tt u")
_SINGLE: Final = _names("a nobr")  # the same, but each closes the one before
_KEPT: Final = FORMATS | _SINGLE
RAW: Final = _names("script style textarea title xmp iframe noembed noframes")
_VOID: Final = _names("area base br col embed hr img input link meta param source track wbr keygen frame")
_UNSEEN: Final = _names("html head body")  # there is one of each, whatever the page says
_FOREIGN: Final = _names("svg math")
# Only among these is a slash at the end of a tag sure to close it.
_DRAWN: Final = _FOREIGN | _names(
    "g path circle rect line polyline polygon ellipse use defs stop lineargradient radialgradient clippath mask image"
    " text tspan symbol pattern"
)
_ODD: Final = _names("template frameset")  # inside them everything is different
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
        self._sure = self._sure and name not in _ODD and (not self._selects or name in _OF_SELECTS)
        if self._foreign:
            self._drawing = self._drawing and name in _DRAWN
            self._sure = self._sure and self._drawing
            if self._drawing and rest.endswith(b"/"):
                return
        elif (name in _FOREIGN and rest.endswith(b"/")) or (self._sure and not self._close_before(name)):
            return
        if name not in _STAND_ALONE:
            self.text()
        if name in _VOID and not self._foreign:
            return
        form = self._format(name, rest.strip()) if name in _KEPT else None
        if name in _MARKERS and self._sure:
            self._formats.append(_Format())
        self._push(name, form)

    def close(self, name: bytes) -> None:
        """An end tag."""
        self._sure = self._sure and (not self._selects or name == b"select" or name in _OF_SELECTS)
        if name in _KEPT:
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
        if name in _UNSEEN or (name in _OF_TABLES and not self._tables):
            return False
        if name in _KEPT and self._open and self._open[-1][0] in _BETWEEN:
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
