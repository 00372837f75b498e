"""Pages whose text is in no charset, in two, or in one that is none. All but the empty one are pages to read."""

from __future__ import annotations

import codecs
from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, always, html, whole
from swath.domain.failure import FailureKind

__all__ = ["TEXTS"]

_PAGE: Final = html("text")


def _said(charset: bytes, body: bytes = _PAGE) -> Respond:
    return always(whole(body, b"Content-Type: text/html; charset=" + charset))


def _meta(charset: bytes) -> Respond:
    return always(whole(b"<meta charset=" + charset + b">" + _PAGE, b"Content-Type: text/html"))


TEXTS: Final = (
    Behaviour("charset-unknown", "names a charset that nobody knows", (), _said(b"klingon-8")),
    Behaviour("charset-twice", "names two charsets", (), _said(b"utf-8; charset=utf-16")),
    Behaviour("charset-empty", "names an empty charset", (), _said(b"")),
    Behaviour("charset-long", "names a charset of 20 KB", (), _said(b"x" * 20_000)),
    Behaviour("charset-codec", "names a codec that unpacks instead of decoding", (), _said(b"zlib")),
    Behaviour("charset-escape", "names a codec that evaluates escapes", (), _said(b"unicode_escape", _PAGE + rb"\N{")),
    Behaviour("charset-idna", "names a codec for host names", (), _said(b"idna")),
    Behaviour("charset-undefined", "names a codec that refuses everything", (), _said(b"undefined")),
    Behaviour(
        "charset-utf-7",
        "hides a script in UTF-7",
        (),
        _said(b"utf-7", _PAGE + b"+ADw-script+AD4-alert(1)+ADw-/script+AD4-"),
    ),
    Behaviour("charset-meta-codec", "names a codec that unpacks in its own head", (), _meta(b"bz2")),
    Behaviour("charset-meta-utf-16", "claims UTF-16 in words of ASCII", (), _meta(b"utf-16")),
    Behaviour(
        "bom-conflict",
        "begins with a mark of UTF-16 and claims UTF-8",
        (),
        _said(b"utf-8", codecs.BOM_UTF16_LE + _PAGE.decode().encode("utf-16-le")),
    ),
    Behaviour("bom-odd", "claims UTF-16 for an odd number of bytes", (), _said(b"utf-16", _PAGE + b"x")),
    Behaviour(
        "utf-8-invalid",
        "is no UTF-8 though it says so",
        (),
        _said(b"utf-8", _PAGE + b"\xff\xfe\xc0\x80\xf8\x88\x80\x80\x80"),
    ),
    Behaviour(
        "surrogates",
        "contains halves of surrogate pairs",
        (),
        _said(b"utf-8", _PAGE + b"\xed\xa0\x80\xed\xbf\xbf &#xD800;"),
    ),
    Behaviour(
        "nuls", "is sprinkled with NUL bytes", (), _said(b"utf-8", _PAGE.replace(b"<h1>", b"<h1>\0\0") + bytes(100))
    ),
    Behaviour("empty", "has no body at all", (FailureKind.SERVER_ERROR,), always(whole(b""))),
)
