"""Bodies that are not what they are called, too large, too deep, or meant to land somewhere on the disk."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, SiteExchange, always, head, html, whole
from swath.domain.failure import FailureKind

__all__ = ["CONTENTS"]

_K = FailureKind
_MIB: Final = 1 << 20
_PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(200)
_FORMATTED: Final = b"".join(b"<p><font a%d>" % number for number in range(100_000))
_ATTRIBUTES: Final = b" ".join(b"a%d" % number for number in range(300_000))


def _large(*fields: bytes) -> Respond:
    async def respond(exchange: SiteExchange) -> None:
        await exchange.send(head(b"Content-Type: text/html", b"Connection: close", *fields) + html("large"))
        await exchange.repeat(b"<p>large</p>" * 5000, 200 * _MIB // 60_000)

    return respond


def _page(body: bytes) -> Respond:
    return always(whole(html("odd") + body, b"Content-Type: text/html"))


def _attachment(name: bytes) -> Respond:
    return always(
        whole(b"%PDF-1.4", b"Content-Type: application/pdf", b"Content-Disposition: attachment; filename=" + name)
    )


CONTENTS: Final = (
    Behaviour("html-as-image", "calls a page an image", (), always(whole(html("image"), b"Content-Type: image/png"))),
    Behaviour("image-as-html", "calls an image a page", (), always(whole(_PNG, b"Content-Type: text/html"))),
    Behaviour("no-type", "does not say what the body is", (), always(whole(html("untyped")))),
    Behaviour(
        "bad-type", "says it in no sensible way", (), always(whole(html("untyped"), b"Content-Type: ;;/,\xff=;"))
    ),
    Behaviour(
        "large-announced", "announces 200 MB of HTML", (_K.TOO_LARGE,), _large(b"Content-Length: %d" % (200 * _MIB))
    ),
    Behaviour("large", "sends 200 MB of HTML without announcing them", (_K.TOO_LARGE,), _large()),
    Behaviour("deep", "nests a million elements", (_K.TOO_LARGE,), _page(b"<div>" * 1_000_000)),
    Behaviour("deep-lists", "nests lists 200,000 deep", (_K.TOO_LARGE,), _page(b"<ul><li>" * 200_000)),
    Behaviour(
        "deep-hidden",
        "nests them and pretends in comments to close them",
        (_K.TOO_LARGE,),
        _page(b"<div><!--</div>-->" * 200_000),
    ),
    Behaviour("formatting", "opens 100,000 fonts that each paragraph opens anew", (_K.TOO_LARGE,), _page(_FORMATTED)),
    Behaviour(
        "attributes", "gives an element 300,000 attributes", (_K.TOO_LARGE,), _page(b"<div " + _ATTRIBUTES + b">")
    ),
    Behaviour(
        "flat",
        "has 200,000 elements side by side, in good order",
        (),
        _page(b"<tr><td>1<td>2" * 50_000 + b"<p>x</p>" * 100_000),
    ),
    Behaviour(
        "download-huge",
        "forces a download of 10 GB",
        (_K.TOO_LARGE,),
        always(head(b"Content-Length: 10737418240", b"Content-Disposition: attachment"), b"x" * 1000),
    ),
    Behaviour("download-above", "names the download `../../x`", (), _attachment(b'"../../x"')),
    Behaviour("download-absolute", "names the download `/etc/cron.d/x`", (), _attachment(b'"/etc/cron.d/x"')),
    Behaviour(
        "download-device",
        "names the download `NUL`, with a NUL byte coded in it",
        (),
        _attachment(b"\"NUL\"; filename*=UTF-8''a%00b%0d%0ax"),
    ),
)
