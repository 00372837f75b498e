"""Whether a page can be parsed at a bounded price. Parsers of HTML take quadratic time for elements inside each other,
options of one list and attributes of one element, and quadratic memory for fonts that are opened and never closed: a
page of 70 KB can cost 2 GB.

Asked by WebPage before it parses. Counting tags settles it for nearly all pages; the others are read tag by tag.
"""

from __future__ import annotations

import re
from typing import Final

from swath.web.nesting import FORMATS, RAW, Nesting

__all__ = ["too_heavy"]

_FEW_TAGS: Final = 1_200  # nothing that can be made of so few tags, in so few bytes, is worth a second look
_SMALL_BYTES: Final = 64 * 1024
_MOST_STEPS: Final = 400_000_000  # the parser takes 3 to 5 ns for each
_MOST_COPIES: Final = 300_000  # elements that it makes anew, of some 300 bytes
_MOST_TAGS: Final = 1_000_000  # each takes some 150 bytes, and its text as many
_STEPS_PER_OPTION: Final = 3

_FORMAT: Final = re.compile(rb"<(?:" + b"|".join(sorted(FORMATS)) + rb")[\s/]")
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


def too_heavy(html: bytes) -> str | None:
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
            steps += 0 if found["data"] is None else _doubt(nesting, found["data"])
        elif found["end"]:
            nesting.close(name)
        else:
            if len(rest) > 1_024:
                many, position = _attributes(lower, found.start("rest"))
                steps += many**2
            options = 0 if name == b"select" else options + (name == b"option")
            steps += _STEPS_PER_OPTION * options * (name == b"option")
            sure = nesting.is_sure if name in RAW else True
            nesting.open(name, rest)
            if name in RAW:
                end = lower.find(b"</" + name, position)
                end = len(lower) if end < 0 else end
                steps += 0 if sure else _doubt(nesting, lower[position:end])
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


def _doubt(nesting: Nesting, text: bytes) -> int:
    """What is text to us and may be tags to the parser; the steps that these would take it."""
    tags = len(_TAG.findall(text))
    steps = (nesting.depth + tags // 2) * tags
    nesting.doubt(tags, len(_FORMAT.findall(text)))
    return steps
