"""Reads header values: content type, charset and dates.

The charset of a body: a byte-order mark, then the header, then what the HTML declares, then UTF-8.
"""

from __future__ import annotations

import codecs
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from typing import Final

__all__ = ["charset_of", "content_type_of", "parse_http_date"]

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_IN_HEADER: Final = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_IN_META: Final = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_META_BYTES: Final = 1024  # how far the HTML standard looks
_LONGEST_LABEL: Final = 40
# The charsets of the web, by Python's names. Python has other codecs, which evaluate escapes, raise whatever they are
# told, or read as something else what a browser reads as markup; and it remembers each name that it was asked for.
_CHARSETS: Final = frozenset(
    {
        *("utf_8", "utf_8_sig", "utf_16", "utf_16_le", "utf_16_be", "ascii", "latin_1", "mac_roman", "mac_cyrillic"),
        *(f"iso8859_{part}" for part in range(1, 17) if part != 12),  # which was given up
        *("cp437", "cp850", "cp852", "cp866", "cp874", "cp932", "cp949", "cp950"),
        *(f"cp{page}" for page in range(1250, 1259)),
        *("koi8_r", "koi8_u", "tis_620", "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_jp", "euc_kr"),
        *("iso2022_jp", "shift_jis", "johab"),
    }
)
# What sites call Latin-1 or ASCII is read as Windows-1252 by every browser, and mostly is.
_WINDOWS: Final = frozenset({"iso8859-1", "ascii"})


@lru_cache(64)  # a site sends few
def content_type_of(header: str | None) -> str:
    """The bare type; an answer that names none is taken for HTML."""
    return (header or "").partition(";")[0].strip().lower() or "text/html"


def charset_of(header: str | None, body: bytes) -> str:
    """A name that Python knows, of a codec that raises nothing when it may replace."""
    for mark, charset in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return charset
    named = _named_in(header) if header else None
    if named is not None:
        return named
    if content_type_of(header).endswith("html"):
        declared = _IN_META.search(body, 0, _META_BYTES)
        if declared is not None:
            name = _python_name(declared[1].decode("ascii"))
            return "utf-8" if name.startswith("utf-16") else name  # it could not have been read if it were true
    return "utf-8"


@lru_cache(64)
def _named_in(header: str) -> str | None:
    named = _IN_HEADER.search(header)
    return None if named is None else _python_name(named[1])


def _python_name(label: str) -> str:
    lower = label.lower()
    if lower in {"utf-8", "utf8"} or len(lower) > _LONGEST_LABEL:
        return "utf-8"
    written = normalize_encoding(lower)
    module = aliases.get(written, written)
    if module not in _CHARSETS:
        return "utf-8"
    name = codecs.lookup(module).name
    return "cp1252" if name in _WINDOWS else name


_MOST_CHARACTERS: Final = 100


def parse_http_date(text: str) -> float | None:
    """The date in any of the forms that servers write, by UTC unless it says otherwise; None when it is none."""
    try:
        date = parsedate_to_datetime(text[:_MOST_CHARACTERS])
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, ArithmeticError, LookupError):  # the parser promises the first alone
        return None
