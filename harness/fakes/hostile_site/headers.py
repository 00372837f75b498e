"""Heads that are too long, too many, or no heads: status lines, header lines, cookies."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, SiteExchange, always, html, whole
from swath.domain.failure import FailureKind

__all__ = ["HEADS"]

_K = FailureKind
_PAGE: Final = html("head")
_TOO_LARGE: Final = (_K.TOO_LARGE,)
_NO_HTTP: Final = (_K.SERVER_ERROR,)


def _raw(line: bytes) -> Respond:
    """A page with one line of the head as it is given."""
    return always(
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n" % len(_PAGE) + line + b"\r\n\r\n" + _PAGE
    )


def _status(line: bytes) -> Respond:
    return always(line + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(_PAGE) + _PAGE)


async def _endless_head(exchange: SiteExchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    await exchange.repeat(b"X-More: " + b"x" * 1000 + b"\r\n")


async def _cookie_bomb(exchange: SiteExchange) -> None:
    """Sets large cookies and sends the client round; a server of the usual make refuses the head that may come back."""
    if len(exchange.fields) > 64 * 1024:
        await exchange.send(whole(html("too much"), status=b"431 Request Header Fields Too Large"))
        return
    number = exchange.number
    if number == _ROUNDS:
        await exchange.send(whole(_PAGE))
        return
    cookies = [b"Set-Cookie: c%d-%d=%s; Path=/" % (number, each, b"x" * 4000) for each in range(20)]
    await exchange.send(whole(b"", b"Location: ?n=%d" % (number + 1), *cookies, status=b"302 Found"))


_ROUNDS: Final = 5  # each sets 80 KB of them
_FLOOD: Final = [b"Set-Cookie: c%d=%d" % (number, number) for number in range(90)]
_ODD_COOKIES: Final = [
    b"Set-Cookie: ",
    b"Set-Cookie: =;=;=",
    b"Set-Cookie: a=\xff\xfe; Expires=Thu, 99 Foo 99999 99:99:99 GMT; Max-Age=--1",
    b"Set-Cookie: b=1; Max-Age=" + b"9" * 5000,
    b"Set-Cookie: d=1; Max-Age=\xb2\xb3",
    b"Set-Cookie: c=1; Domain=.com; Path=../..",
    b"Set-Cookie: e=1; Expires=Mon, 01 Jan 0001 00:00:00 +2359",
    b"Set-Cookie: f=1; Expires=Fri, 31 Dec 9999 23:59:59 -2359",
    b"Set-Cookie: " + b"x" * 9000,
]

HEADS: Final = (
    Behaviour("garbage", "sends bytes that are no HTTP", _NO_HTTP, always(b"\x00\x01\x02GARBAGE\r\n\r\n" * 20)),
    Behaviour("version-0.9", "sends a page without a head", _NO_HTTP, always(_PAGE)),
    Behaviour("version-unknown", "speaks HTTP/9.9", _NO_HTTP, _status(b"HTTP/9.9 200 OK")),
    Behaviour("status-missing", "leaves out the status", _NO_HTTP, _status(b"HTTP/1.1 OK")),
    Behaviour("status-huge", "has a status of 20 digits", _NO_HTTP, _status(b"HTTP/1.1 20000000000000000000 OK")),
    Behaviour("status-zero", "has the status 000", _NO_HTTP, _status(b"HTTP/1.1 000 None")),
    Behaviour(
        "many-headers",
        "sends 1,000 header lines",
        _TOO_LARGE,
        _raw(b"\r\n".join(b"X-%d: y" % number for number in range(1000))),
    ),
    Behaviour("long-header", "sends a header of 1 MB", _TOO_LARGE, _raw(b"X-Long: " + b"x" * 1_000_000)),
    Behaviour("endless-head", "never stops sending header lines", _TOO_LARGE, _endless_head),
    Behaviour("header-nul", "has a NUL in a header", _NO_HTTP, _raw(b"X-Odd: a\0b")),
    Behaviour("header-cr", "has a bare CR in a header", _NO_HTTP, _raw(b"X-Odd: a\rSet-Cookie: forged=1")),
    Behaviour("header-folded", "folds a header over two lines", (), _raw(b"X-Odd: a\r\n  b")),
    Behaviour("header-nameless", "has a header without a name", (), _raw(b": value")),
    Behaviour("header-colonless", "has a header without a colon", (), _raw(b"just words")),
    Behaviour("header-bytes", "has bytes in a header that are no ASCII", (), _raw(b"X-Odd: caf\xe9\xff")),
    Behaviour("cookie-flood", "sets 90 cookies", (), always(whole(_PAGE, *_FLOOD))),
    Behaviour("cookie-odd", "sets cookies that break every rule", (), always(whole(_PAGE, *_ODD_COOKIES))),
    Behaviour(
        "cookie-bomb",
        "sets more cookies than there is room for in a request",
        (),
        _cookie_bomb,
    ),
)
