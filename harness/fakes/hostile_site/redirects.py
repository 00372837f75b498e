"""Redirects that lead nowhere, in circles, or where nobody must go."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, SiteExchange, head, html, whole
from swath.domain.failure import FailureKind

__all__ = ["MOVES"]

_K = FailureKind


def _to(location: bytes) -> Respond:
    """Redirects there; CANARY in it becomes the address of a port that is not to be reached, SITE our own."""

    async def respond(exchange: SiteExchange) -> None:
        places = exchange.places
        filled = location.replace(b"CANARY", places.canary.encode()).replace(b"SITE", places.site.encode())
        await exchange.send(whole(b"", b"Location: " + filled, status=b"302 Found"))

    return respond


def _once_to(path: bytes) -> Respond:
    """Redirects to an odd address below itself, and answers there with a page."""
    first = _to(path)

    async def respond(exchange: SiteExchange) -> None:
        if "odd" in exchange.target:
            await exchange.send(whole(html("moved")))
        else:
            await first(exchange)

    return respond


async def _chain(exchange: SiteExchange) -> None:
    number = exchange.number
    if number >= 1000:
        await exchange.send(whole(html("the end")))
    else:
        await exchange.send(whole(b"", b"Location: ?n=%d" % (number + 1), status=b"302 Found"))


async def _endless_redirect_body(exchange: SiteExchange) -> None:
    """Only who stops reading at the head comes to the page."""
    if exchange.number:
        await exchange.send(whole(html("moved")))
    else:
        await exchange.send(head(b"Location: ?n=1", status=b"302 Found"))
        await exchange.repeat(b"x" * 0x10000)


_DENIED: Final = (_K.EGRESS_DENIED,)
_NOWHERE: Final = (_K.NAVIGATION,)

MOVES: Final = (
    Behaviour("redirect-loop", "redirects to itself", _NOWHERE, _to(b"/redirect-loop")),
    Behaviour("redirect-chain", "redirects a thousand times, always elsewhere", _NOWHERE, _chain),
    Behaviour("redirect-file", "redirects to a file", _NOWHERE, _to(b"file:///etc/hostname")),
    Behaviour("redirect-app", "redirects to an app", _NOWHERE, _to(b"app://open")),
    Behaviour("redirect-script", "redirects to a script", _NOWHERE, _to(b"javascript:alert(1)")),
    Behaviour("redirect-loopback", "redirects to a private port of this host", _DENIED, _to(b"http://CANARY/")),
    Behaviour("redirect-metadata", "redirects to 169.254.169.254", _DENIED, _to(b"http://169.254.169.254/latest/")),
    Behaviour(
        "redirect-decimal", "redirects to 169.254.169.254 as a number", _DENIED, _to(b"http://2852039166/latest/")
    ),
    Behaviour(
        "redirect-backslash",
        "redirects to two hosts, by a backslash before an @",
        _NOWHERE,
        _to(b"http://CANARY\\@SITE/"),
    ),
    Behaviour(
        "redirect-credentials", "redirects with a user and a password", _NOWHERE, _to(b"http://user:word@SITE/fine")
    ),
    Behaviour("redirect-bad-port", "redirects to port 99999", _NOWHERE, _to(b"http://127.0.0.1:99999/")),
    Behaviour("redirect-empty", "redirects to an empty address, which is its own", _NOWHERE, _to(b"")),
    Behaviour(
        "redirect-bytes",
        "redirects to an address with bytes that are no ASCII",
        (),
        _once_to(b"/redirect-bytes?odd=caf\xe9\xff"),
    ),
    Behaviour("redirect-long", "redirects to an address of 64 KB", _NOWHERE, _to(b"/redirect-long?" + b"x" * 65_000)),
    Behaviour("redirect-body", "has an endless body behind its redirect", (), _endless_redirect_body),
)
