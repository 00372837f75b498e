"""Evidence: what an answer says and what it holds, read from its first part without building a tree.

Comes after the quick look in web/classify.py, which most good pages pass; web/findings.py decides on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from swath.web.charset import charset_of, content_type_of
from swath.web.shown_text import ShownText, folded
from swath.web.transport import Response

__all__ = ["Evidence", "read_evidence", "source_of"]

_MOST_BYTES: Final = 1 << 20  # looked at for long values
_READ_BYTES: Final = 64 * 1024  # read, once those are out
_MOST_TEXT: Final = 8_000  # characters that are searched for phrases
_HIDDEN_WORDS: Final = 5  # a page that shows less, and no field, is about what it hides

# View states and images in the page: long values without a break, of which nothing is to be learnt.
_LONG_VALUE: Final = re.compile(rb"(?<![A-Za-z0-9+/=_%-])[A-Za-z0-9+/=_%-]{512,}")
_TOLD_IN_JSON: Final = re.compile("error|message|msg|detail|reason|title|description", re.IGNORECASE)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All text is in small letters. `words` are those outside links, menus, footers and hidden parts.

    `cells` hold data and not layout; `fields` are those that a visitor fills in, but for passwords and captchas.
    `captcha` is where a widget stands: "alone", or "in_form" beside fields.
    """

    url: str
    markup: str
    text: str
    title: str = ""
    headings: tuple[str, ...] = ()
    words: int = 0
    cells: int = 0
    fields: int = 0
    password: bool = False
    captcha: str | None = None


def source_of(response: Response) -> str:
    """The beginning of the body as text; of a large one, without values that are long and unbroken."""
    body = response.body
    if len(body) > _READ_BYTES:
        body = _LONG_VALUE.sub(b"", body[:_MOST_BYTES])[:_READ_BYTES]
    charset = charset_of(response.header("content-type"), response.body)
    return body.decode(charset, "replace")


def read_evidence(response: Response) -> Evidence:
    """Reads HTML as HTML, JSON as JSON, and everything else as the text that it is."""
    source = source_of(response)
    low = source.lower()
    url = response.url.lower()
    kind = content_type_of(response.header("content-type"))
    if kind.endswith(("html", "xml")) or "<html" in low[:1_000]:
        return _of_html(url, low)
    text = folded(_told_in_json(response.body) if kind.endswith("json") else low)
    return Evidence(url=url, markup=low, text=text[:_MOST_TEXT], words=len(text.split()))


def _of_html(url: str, source: str) -> Evidence:
    shown = ShownText(source).read()
    if shown.words < _HIDDEN_WORDS and not shown.fields:
        shown = ShownText(source, with_hidden=True).read()
    return Evidence(
        url=url,
        markup=source,
        text=shown.text[:_MOST_TEXT],
        title=folded(shown.title),
        headings=tuple(shown.headings),
        words=shown.words,
        cells=shown.cells,
        fields=shown.fields,
        password=shown.password,
        captcha=shown.captcha,
    )


def _told_in_json(body: bytes) -> str:
    """What an answer says is wrong: its errors and messages, and none of its data."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return ". ".join(_told(document, 2)).lower()


def _told(document: Any, depth: int) -> Iterator[str]:
    if not isinstance(document, dict) or not depth:
        return
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _told(value, depth - 1)
        elif isinstance(value, str) and _TOLD_IN_JSON.search(name):
            yield value
