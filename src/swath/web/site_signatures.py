"""Signatures of one site: finds the first of a policy's signatures that fits an answer.

They come from YAML and are regular expressions of an operator's, so they only ever see a bounded part of what a site
sends. Asked by web/classify.py before anything general.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from selectolax.lexbor import LexborHTMLParser

from swath.domain.pattern import search, searches_together
from swath.domain.site import Signature
from swath.web.evidence import source_of
from swath.web.transport import Response
from swath.web.weight import too_heavy

__all__ = ["first_fitting"]

_MOST_URL: Final = 2_048
_MOST_HEADER: Final = 4_096
_MOST_TITLE: Final = 300
_MOST_UNCLOSED: Final = 6_000  # tags; as many inside each other take 40 ms, and four times that for each doubling
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)


def first_fitting(signatures: tuple[Signature, ...], response: Response) -> Signature | None:
    """The first that fits, in the order of the policy. Raises TookTooLong when a pattern is led astray."""
    answer = _Answer(response)
    with searches_together():
        return next((signature for signature in signatures if _fits(signature, answer)), None)


class _Answer:
    """An answer whose parts are made when a signature first asks for them."""

    def __init__(self, response: Response) -> None:
        self.response = response

    @functools.cached_property
    def source(self) -> str:
        return source_of(self.response)

    @functools.cached_property
    def title(self) -> str:
        found = _TITLE.search(self.source)
        return " ".join(found[1][:_MOST_TITLE].split()) if found else ""

    @functools.cached_property
    def tree(self) -> LexborHTMLParser | None:
        html = self.source.encode("utf-8", "replace")
        if html.count(b"<") - 2 * html.count(b"</") > _MOST_UNCLOSED or too_heavy(html) is not None:
            return None
        return LexborHTMLParser(html)


def _fits(signature: Signature, answer: _Answer) -> bool:
    """All that is given must fit; what costs least is asked first."""
    response = answer.response
    if signature.status and response.status not in signature.status:
        return False
    if signature.largest_bytes is not None and len(response.body) > signature.largest_bytes:
        return False
    if signature.url is not None and not _found(signature.url, response.url[:_MOST_URL]):
        return False
    if signature.header is not None and not _has_header(signature.header, response):
        return False
    if signature.title is not None and not _found(signature.title, answer.title):
        return False
    if signature.body is not None and not _found(signature.body, answer.source):
        return False
    return signature.css is None or _matches(signature.css, answer.tree)


def _has_header(wanted: str, response: Response) -> bool:
    name, _, pattern = wanted.partition(":")
    pattern, name = pattern.strip(), name.strip().lower()
    return any(known == name and _found(pattern, value[:_MOST_HEADER]) for known, value in response.headers)


def _matches(selector: str, tree: LexborHTMLParser | None) -> bool:
    return tree is not None and tree.css_first(selector) is not None


def _found(pattern: str, text: str) -> bool:
    return search(pattern, text, ignore_case=True) is not None
