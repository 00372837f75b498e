"""Said to the visitor: whether words stand where a page speaks to its visitor, or in what it tells of others.

A wall says "you", "this site", or nothing but the words; a record has them beside a label, or in a sentence about
somebody. Asked by web/findings.py for phrases that both may hold; pure, and looks at a bounded part of the markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from swath.web.shown_text import folded

__all__ = ["is_said_to_visitor"]

_AROUND: Final = 600  # characters in which the passage must begin and end
_MOST_PLACES: Final = 3

_BLOCK: Final = re.compile(
    r"<(/?)(title|h[1-6]|p|div|t[dhr]|d[dlt]|li|ul|ol|table|form|body|html|br|hr|section|article|main|center)\b[^<>]*>"
)
_TAG: Final = re.compile(r"<[^<>]*>")
_OF_RECORDS: Final = frozenset({"td", "th", "dd", "dt", "li"})
_LABEL: Final = r"\s*[^<>]{1,40}"
# What a value stands after: the cell, term or span with its label.
_LABELLED: Final = re.compile(
    rf"(?:<t[hd]\b[^<>]*>{_LABEL}(?:</t[hd]>)?\s*<td\b[^<>]*>"
    rf"|<dt\b[^<>]*>{_LABEL}(?:</dt>)?\s*<dd\b[^<>]*>"
    rf"|<(?:span|b|strong|label)\b[^<>]*>{_LABEL}</\w{{1,9}}>[\s:-]*"
    rf"|<div\b[^<>]*\b(?:label|name|key|term|field)\b[^<>]*>{_LABEL}</div>\s*<div\b[^<>]*>)"
    r"\s*(?:<(?:span|b|strong|a|font|em|i)\b[^<>]*>\s*){0,3}[^<>]{0,100}$"
)
_ALARM: Final = re.compile(r"error|warning|alert|notice|message|sorry|attention|important|oops|reason|note")
_VISITOR: Final = re.compile(r"\b(?:you|your|you're|you've|we|we're|we've|our|please|sorry)\b")
_SITE: Final = re.compile(
    r"\b(?:error|firewall|administrator|webmaster|ip)\b|\bthis request\b"
    r"|\b(?:this|the) (?:\w{1,12} )?(?:web ?site|site|web ?page|page|server|system|service|portal|app|application"
    r"|resource|url|connection|content|database)\b"
)
_ENDS: Final = re.compile(r"\s*(?:[.,!?:;(-]|for\b|due\b|until\b|to\b|while\b|$)(?! ?inc\b)")


def is_said_to_visitor(words: str, markup: str) -> bool:
    """Words that cannot be found as they are, for tags or entities between them, are taken to be."""
    places = list(_places(words, markup))
    return not places or any(_speaks(markup, at, words) for at in places)


def _places(words: str, markup: str) -> Iterator[int]:
    at = markup.find(words)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield at
        at = markup.find(words, at + len(words))


def _speaks(markup: str, at: int, words: str) -> bool:
    before = markup[max(at - _AROUND, 0) : at]
    after = markup[at + len(words) : at + len(words) + _AROUND]
    block, begin = "", 0
    for block_tag in _BLOCK.finditer(before):
        block, begin = "" if block_tag[1] else block_tag[2], block_tag.end()
    next_block = _BLOCK.search(after)
    lead = folded(_TAG.sub(" ", before[begin:]))
    rest = folded(_TAG.sub(" ", after[: next_block.start() if next_block else len(after)]))
    passage = f"{lead} {words} {rest}"
    if _VISITOR.search(passage):
        return True
    labelled = _LABELLED.search(before)
    if labelled is not None and not _ALARM.search(_TAG.sub(" ", labelled[0])):
        return False
    if _SITE.search(passage):
        return True
    return not lead and block not in _OF_RECORDS and _ENDS.match(rest) is not None
