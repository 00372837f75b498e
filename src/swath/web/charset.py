"""Which charset a body is in: byte-order mark, then the header, then what an HTML page says of itself, then UTF-8."""

from __future__ import annotations

import codecs
import re
from typing import Final

__all__ = ["charset_of", "content_type_of"]

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_IN_HEADER: Final = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_IN_META: Final = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_META_BYTES: Final = 1024  # how far the HTML standard looks
# What sites call Latin-1 or ASCII is read as Windows-1252 by every browser, and mostly is.
_WINDOWS: Final = frozenset({"iso8859-1", "ascii"})


def content_type_of(header: str | None) -> str:
    """The bare type; an answer that names none is taken for HTML."""
    return (header or "").partition(";")[0].strip().lower() or "text/html"


def charset_of(header: str | None, body: bytes) -> str:
    """A name that Python knows."""
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return charset
    named = _IN_HEADER.search(header) if header else None
    if named is not None:
        return _python_name(named[1])
    if content_type_of(header).endswith("html"):
        declared = _IN_META.search(body, 0, _META_BYTES)
        if declared is not None:
            name = _python_name(declared[1].decode("ascii"))
            return "utf-8" if name.startswith("utf-16") else name  # it could not have been read if it were true
    return "utf-8"


def _python_name(label: str) -> str:
    lower = label.lower()
    if lower in {"utf-8", "utf8"}:
        return "utf-8"
    try:
        name = codecs.lookup(lower).name
        b"a".decode(name, "replace")  # some codecs are no charsets
    except (LookupError, UnicodeError):
        return "utf-8"
    return "cp1252" if name in _WINDOWS else name
