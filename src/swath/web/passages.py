"""Passages: whether words that were found stand where a page speaks to its visitor, or in what it tells of others.

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
_LABELLED: Final = re.compile(
    r"<(?:th|td|dt|span|b|strong|label|div)\b[^<>]*>\s*([^<>]{1,60}?)\s*(?:</\w+>)?\s*:?\s*"
    r"(?:<(?:td|dd|span|div)\b[^<>]*>)?[^<>]{0,100}$"
)
_ALARM: Final = re.compile(r"error|warning|alert|notice|message|sorry|attention|important|oops|reason|note")
_ADDRESS: Final = re.compile(
    r"\b(?:you|your|you're|you've|we|we're|we've|our|please|sorry|error|firewall|administrator|webmaster|ip)\b"
    r"|\b(?:this|the|our) (?:\w{1,12} )?(?:web ?site|site|web ?page|page|server|system|service|portal|app|application"
    r"|resource|url|connection|content|database)\b|\b(?:this|your) request\b"
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
    label = _LABELLED.search(before)
    if label is not None and not _ALARM.search(label[1]) and not _ADDRESS.search(label[1]):
        return False
    if _ADDRESS.search(f"{lead} {words} {rest}"):
        return True
    return not lead and block not in _OF_RECORDS and _ENDS.match(rest) is not None
