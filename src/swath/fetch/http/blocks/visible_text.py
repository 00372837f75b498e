"""The visible text of an HTML page, and whether a phrase in it addresses the visitor.

Read in one bounded pass over the tags. No tree is built, because a hostile page can make that take seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["VisibleText", "addresses_visitor", "normalized"]

_MOST_TAGS: Final = 8_000
_MOST_ATTRIBUTES: Final = 600  # characters of one tag
_MOST_HEADINGS: Final = 8
_CELL_CHARACTERS: Final = 160
_OWN_WORDS: Final = 60  # with which a page can speak for itself

_TAG: Final = re.compile(r"<!--|<(/?)([a-z][a-z0-9]*+)([^<>]*+)>")
_TYPE: Final = re.compile(r"""\stype\s*=\s*["']?([a-z-]+)""")
_FRAME: Final = re.compile(
    r"""(?:^|[\s"'=])(?:site-?|page-?|main-?|top-?|global-?|sub-?)?"""
    r"""(?:foot(?:er)?|menu|nav(?:bar|igation)?|contentinfo)(?=[\s"'>]|$)"""
)
_HIDDEN: Final = re.compile(
    r"""(?:^|\s)hidden(?:[\s/=]|$)|aria-hidden\s*=\s*["']?true|display\s*:\s*none"""
    r"""|[\s"'=-](?:modal|dialog|popup|hide|hidden|d-none|sr-only)(?=[\s"'>]|$)"""
)
# Most tags have none of these, and are told at a tenth of the cost.
_FRAME_WORDS: Final = ("foot", "menu", "nav", "contentinfo")
_HIDDEN_WORDS: Final = ("hid", "none", "modal", "dialog", "popup", "sr-only")
_WIDGET_WORDS: Final = ("captcha", "turnstile", "geetest", "arkose")
_WIDGET: Final = re.compile(
    r"g-recaptcha|h-captcha|cf-turnstile|recaptcha/|hcaptcha\.com|geetest|turnstile/v0|funcaptcha|arkoselabs"
)
_CAPTCHA_FIELD: Final = re.compile(r"captcha|verif|security.?code|robot|challenge|answer")
_NO_FIELDS: Final = frozenset({"hidden", "submit", "button", "image", "reset"})

_QUOTATION: Final = re.compile("\u201c[^\u201c\u201d]{0,200}\u201d")

_UNSHOWN: Final = frozenset({"script", "style", "template", "svg", "select", "iframe", "object", "noscript", "title"})
_ALWAYS_SHOWN: Final = frozenset({"input", "meta", "img", "br", "hr", "link", "area", "base", "col", "body", "html"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3"})
_CELLS: Final = frozenset({"td", "th", "dd", "dt"})
_QUOTES: Final = frozenset({"pre", "code", "blockquote", "q", "cite", "em", "i"})
_BLOCKS: Final = frozenset({"table", "div", "form", "p", "ul", "a"})

_ENTITIES: Final = (
    *(("&#39;", "'"), ("&#x27;", "'"), ("&apos;", "'"), ("&rsquo;", "'"), ("&#8217;", "'"), ("&quot;", '"')),
    *(("&nbsp;", " "), ("&#32;", " "), ("&#35;", "#"), ("&#46;", "."), ("&hellip;", "..."), ("&mdash;", "-")),
    *(("&ndash;", "-"), ("&amp;", "&")),
)
_PLAIN: Final = str.maketrans({0x2019: "'", 0x2018: "'", 0x2026: "...", 0x00A0: " ", 0x2013: "-", 0x2014: "-"})


def normalized(text: str) -> str:
    """White space collapsed, quotes and dashes made plain."""
    if "&" in text:
        for entity, plain in _ENTITIES:
            text = text.replace(entity, plain)
    return " ".join(text.translate(_PLAIN).split())


class VisibleText:
    """`source` is in small letters. Menus and footers are left out; hidden parts too, if not asked for."""

    def __init__(self, source: str, *, with_hidden: bool = False) -> None:
        self.title = ""
        self.headings: list[str] = []
        self.words = 0
        self.cells = 0
        self._source = source
        self._with_hidden = with_hidden
        self._has_widget = any(map(source.__contains__, _WIDGET_WORDS))
        self._pieces: list[str] = []
        self._quoted: set[int] = set()  # of the pieces, those that somebody else said
        self._quotes = 0
        self._skipped = ("", 0)  # the element that is left out, and how deep we are in its like
        self._in_link = False
        self._heading: int | None = None  # the piece with which it begins
        self._cell: int | None = None
        self._forms: list[dict[str, int]] = [{}]

    @property
    def text(self) -> str:
        """All of it, links included; without what is quoted, where there is enough beside it."""
        own = [piece for number, piece in enumerate(self._pieces) if number not in self._quoted]
        text = _QUOTATION.sub(" ", normalized(" ".join(own)))
        return text if len(text.split()) >= _OWN_WORDS else normalized(" ".join(self._pieces))

    @property
    def fields(self) -> int:
        """To be filled in by a visitor, in forms that ask for no password."""
        return sum(form.get("field", 0) for form in self._forms if "password" not in form)

    @property
    def password(self) -> bool:
        """Whether one is asked for."""
        return any("password" in form for form in self._forms)

    @property
    def captcha(self) -> str | None:
        """Where a widget stands: "alone", or "in_form" beside fields."""
        holding = [form for form in self._forms if "widget" in form]
        if not holding:
            return None
        return "in_form" if any("field" in form for form in holding) else "alone"

    def read(self) -> VisibleText:
        """Goes from tag to tag, once."""
        at = 0
        for _ in range(_MOST_TAGS):
            found = _TAG.search(self._source, at)
            if found is None:
                self._say(self._source[at:])
                break
            self._say(self._source[at : found.start()])
            at = self._take(found)
        return self

    def _say(self, text: str) -> None:
        if text and not self._skipped[1] and not text.isspace():
            if self._quotes:
                self._quoted.add(len(self._pieces))
            self._pieces.append(text)
            if not self._in_link:
                self.words += len(text.split())

    def _take(self, found: re.Match[str]) -> int:
        """Takes one tag in, and says where to go on."""
        closing, tag, attributes = found.groups()
        if tag is None:  # a comment
            end = self._source.find("-->", found.end())
            return len(self._source) if end < 0 else end + 3
        skipped, depth = self._skipped
        if depth:
            if tag == skipped:
                self._skipped = skipped, depth + (-1 if closing else 1)
        elif closing:
            self._close(tag)
        elif tag in _UNSHOWN:
            return self._jump(tag, attributes[:_MOST_ATTRIBUTES], found.end())
        else:
            self._open(tag, attributes[:_MOST_ATTRIBUTES])
        return found.end()

    def _jump(self, tag: str, attributes: str, end: int) -> int:
        """Over what holds no text of the page; yet a select is a field, and a script or frame may load a widget."""
        close = self._source.find(f"</{tag}", end)
        close = len(self._source) if close < 0 else close
        if tag == "title":
            self.title = self.title or self._source[end : min(close, end + 300)]
        elif tag == "select":
            self._field(attributes)
        elif tag == "iframe":
            self._look_for_widget(attributes)
        return close

    def _open(self, tag: str, attributes: str) -> None:
        if tag in _HEADINGS:
            self._heading = len(self._pieces)
        elif tag in _CELLS:
            self._cell = len(self._pieces)
        elif tag in _BLOCKS:
            self._cell = None  # a cell that holds blocks or links is there for the layout
            self._in_link = self._in_link or tag == "a"
            if tag == "form":
                self._forms.append({})
        elif tag in {"input", "textarea"}:
            self._field(attributes)
        elif tag in _QUOTES:
            self._quotes += 1
        self._look_for_widget(attributes)
        if tag in {"nav", "footer"} or (attributes and tag not in _ALWAYS_SHOWN and self._is_left_out(attributes)):
            self._skipped = tag, 1

    def _close(self, tag: str) -> None:
        if tag == "a":
            self._in_link = False
        elif tag == "form":
            self._forms.append({})
        elif tag in _QUOTES:
            self._quotes = max(0, self._quotes - 1)
        elif tag in _HEADINGS and self._heading is not None:
            heading = normalized(" ".join(self._pieces[self._heading :]))[:300]
            if heading and len(self.headings) < _MOST_HEADINGS:
                self.headings.append(heading)
            self._heading = None
        elif tag in _CELLS and self._cell is not None:
            length = sum(map(len, self._pieces[self._cell :]))
            self.cells += 0 < length <= _CELL_CHARACTERS
            self._cell = None

    def _field(self, attributes: str) -> None:
        named = _TYPE.search(f" {attributes}")
        kind = named[1] if named else "text"
        form = self._forms[-1]
        if kind == "password":
            form["password"] = 1
        elif kind not in _NO_FIELDS and not _CAPTCHA_FIELD.search(attributes):
            form["field"] = form.get("field", 0) + 1

    def _look_for_widget(self, attributes: str) -> None:
        if self._has_widget and attributes and _WIDGET.search(attributes):
            self._forms[-1]["widget"] = 1

    def _is_left_out(self, attributes: str) -> bool:
        if any(map(attributes.__contains__, _FRAME_WORDS)) and _FRAME.search(attributes):
            return True
        if self._with_hidden or not any(map(attributes.__contains__, _HIDDEN_WORDS)):
            return False
        return _HIDDEN.search(attributes) is not None


_AROUND: Final = 600  # characters in which the passage must begin and end
_MOST_PLACES: Final = 3

_BLOCK: Final = re.compile(
    r"<(/?)(title|h[1-6]|p|div|t[dhr]|d[dlt]|li|ul|ol|table|form|body|html|br|hr|section|article|main|center)\b[^<>]*>"
)
_ANY_TAG: Final = re.compile(r"<[^<>]*>")
_RECORD_TAGS: Final = frozenset({"td", "th", "dd", "dt", "li"})
_LABEL: Final = r"\s*[^<>]{1,40}"
# What a value stands after: the cell, term or span with its label.
_LABELLED: Final = re.compile(
    rf"(?:<t[hd]\b[^<>]*>{_LABEL}(?:</t[hd]>)?\s*<td\b[^<>]*>"
    rf"|<dt\b[^<>]*>{_LABEL}(?:</dt>)?\s*<dd\b[^<>]*>"
    rf"|<(?:span|b|strong|label)\b[^<>]*>{_LABEL}</\w{{1,9}}>[\s:-]*"
    rf"|<div\b[^<>]*\b(?:label|name|key|term|field)\b[^<>]*>{_LABEL}</div>\s*<div\b[^<>]*>)"
    r"\s*(?:<(?:span|b|strong|a|font|em|i)\b[^<>]*>\s*){0,3}[^<>]{0,100}$"
)
_WARNING: Final = re.compile(r"error|warning|alert|notice|message|sorry|attention|important|oops|reason|note")
_VISITOR: Final = re.compile(r"\b(?:you|your|you're|you've|we|we're|we've|our|please|sorry)\b")
_SITE: Final = re.compile(
    r"\b(?:error|firewall|administrator|webmaster|ip)\b|\bthis request\b"
    r"|\b(?:this|the) (?:\w{1,12} )?(?:web ?site|site|web ?page|page|server|system|service|portal|app|application"
    r"|resource|url|connection|content|database)\b"
)
_SENTENCE_END: Final = re.compile(r"\s*(?:[.,!?:;(-]|for\b|due\b|until\b|to\b|while\b|$)(?! ?inc\b)")


def addresses_visitor(words: str, markup: str) -> bool:
    """Words that cannot be found as they are, for tags or entities between them, are taken to be."""
    places = list(_places(words, markup))
    return not places or any(_passage_addresses_visitor(markup, at, words) for at in places)


def _places(words: str, markup: str) -> Iterator[int]:
    at = markup.find(words)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield at
        at = markup.find(words, at + len(words))


def _passage_addresses_visitor(markup: str, at: int, words: str) -> bool:
    before = markup[max(at - _AROUND, 0) : at]
    after = markup[at + len(words) : at + len(words) + _AROUND]
    block, begin = "", 0
    for block_tag in _BLOCK.finditer(before):
        block, begin = "" if block_tag[1] else block_tag[2], block_tag.end()
    next_block = _BLOCK.search(after)
    lead = normalized(_ANY_TAG.sub(" ", before[begin:]))
    rest = normalized(_ANY_TAG.sub(" ", after[: next_block.start() if next_block else len(after)]))
    passage = f"{lead} {words} {rest}"
    if _VISITOR.search(passage):
        return True
    labelled = _LABELLED.search(before)
    if labelled is not None and not _WARNING.search(_ANY_TAG.sub(" ", labelled[0])):
        return False
    if _SITE.search(passage):
        return True
    return not lead and block not in _RECORD_TAGS and _SENTENCE_END.match(rest) is not None
