import encodings
import pkgutil
from encodings.aliases import aliases

import pytest

from swath.fetch.http.header_values import charset_of, content_type_of

META = b'<html><head><meta charset="iso-8859-1"><title>x</title>'


@pytest.mark.parametrize(
    ("header", "body", "charset"),
    [
        (None, b"<p>", "utf-8"),
        ("text/html", b"<p>", "utf-8"),
        ("text/html; charset=UTF-8", META, "utf-8"),
        ('text/html;charset="windows-1251"', b"", "cp1251"),
        ("text/html; charset=ISO-8859-1", b"", "cp1252"),
        ("text/html; charset=us-ascii", b"", "cp1252"),
        ("text/html", META, "cp1252"),
        ("text/html", b'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">', "shift_jis"),
        ("text/html", b'<meta charset="utf-16">', "utf-8"),
        ("text/html", b" " * 2_000 + META, "utf-8"),
        ("application/json", META, "utf-8"),
        ("text/html; charset=nonsense", b"", "utf-8"),
        ("text/html; charset=base64", b"", "utf-8"),
        ("text/html; charset=rot13", b"", "utf-8"),
        ("text/html; charset=undefined", b"", "utf-8"),
        ("text/html; charset=punycode", b"", "utf-8"),
        ("text/html; charset=idna", b"", "utf-8"),
        ("text/html; charset=unicode_escape", b"", "utf-8"),
        ("text/html; charset=raw-unicode-escape", b"", "utf-8"),
        ("text/html; charset=utf-7", b"", "utf-8"),
        ("text/html; charset=cp037", b"", "utf-8"),
        ("text/html; charset=iso-8859-1", b"\xef\xbb\xbf<p>", "utf-8-sig"),
        (None, "<p>ü".encode("utf-16"), "utf-16"),
    ],
)
def test_the_charset_is_found_where_sites_put_it(header: str | None, body: bytes, charset: str) -> None:
    assert charset_of(header, body) == charset
    assert isinstance(b"\xff\x00".decode(charset, "replace"), str)


@pytest.mark.req("Z6")
def test_whatever_is_named_decoding_raises_nothing_and_markup_stays_markup() -> None:
    every = [module.name for module in pkgutil.iter_modules(encodings.__path__)]
    bodies = [bytes(range(256)), b"\x80", b"\xff" * 3, b"\x1b$B\x1b", b"\\N{", b"xn--a-ecp.ru" * 10]
    for name in [*every, *aliases]:
        charset = charset_of(f"text/html; charset={name}", b"")
        for body in bodies:
            body.decode(charset, "replace")
        if not charset.startswith("utf-16"):
            assert b"<script>".decode(charset, "replace") == "<script>", name


@pytest.mark.req("Z6")
def test_names_that_nobody_knows_are_not_remembered() -> None:
    kept = len(encodings._cache)
    for number in range(100):
        charset_of(f"text/html; charset=klingon-{number}", b"")
    assert len(encodings._cache) == kept


def test_the_content_type_is_bare_and_small() -> None:
    assert content_type_of("Application/PDF; name=x") == "application/pdf"
    assert content_type_of(None) == "text/html"
