"""Lengths that lie and connections that are cut: where an answer ends, and where it only seems to."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, SiteExchange, always, head, html, whole
from swath.domain.failure import FailureKind

__all__ = ["LENGTHS"]

_K = FailureKind
_BODY: Final = html("cut")
_CHUNKED: Final = head(b"Transfer-Encoding: chunked")


async def _reset_body(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Content-Length: 100000") + _BODY)
    exchange.reset()


async def _reset_at_once(exchange: SiteExchange) -> None:
    exchange.reset()


async def _surplus(exchange: SiteExchange) -> None:
    # Whoever reads on takes the rest for the answer to the next request on this connection.
    forged = whole(html("forged"))
    await exchange.send(head(b"Content-Length: %d" % len(_BODY)) + _BODY + forged)
    exchange.keep_open = True


async def _second_answer_first(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Content-Length: 0", status=b"204 No Content") + whole(html("forged")))
    exchange.keep_open = True


LENGTHS: Final = (
    Behaviour("reset-at-once", "resets the connection in place of an answer", (_K.CONNECT,), _reset_at_once),
    Behaviour("close-at-once", "closes the connection in place of an answer", (_K.CONNECT,), always()),
    Behaviour("reset-body", "resets the connection in the body", (_K.CONNECT,), _reset_body),
    Behaviour("close-head", "closes the connection in the head", (_K.CONNECT,), always(b"HTTP/1.1 200 OK\r\nContent-")),
    Behaviour("close-chunk", "closes the connection in a chunk", (_K.CONNECT,), always(_CHUNKED, b"400\r\n", _BODY)),
    Behaviour(
        "no-last-chunk", "closes after a chunk, without the last one", (_K.CONNECT,), always(_CHUNKED, b"3\r\nabc\r\n")
    ),
    Behaviour(
        "length-too-long", "announces more than it sends", (_K.CONNECT,), always(head(b"Content-Length: 9999"), _BODY)
    ),
    Behaviour("length-too-short", "sends a forged second answer behind the first", (), _surplus),
    Behaviour("answers-twice", "sends an empty answer and a second one", (), _second_answer_first),
    Behaviour(
        "two-lengths",
        "announces two lengths",
        (_K.SERVER_ERROR,),
        always(head(b"Content-Length: 5", b"Content-Length: 50"), _BODY),
    ),
    Behaviour(
        "negative-length", "announces a length of -1", (_K.SERVER_ERROR,), always(head(b"Content-Length: -1"), _BODY)
    ),
    Behaviour(
        "huge-length",
        "announces 2^64 bytes",
        (_K.SERVER_ERROR,),
        always(head(b"Content-Length: 18446744073709551616"), _BODY),
    ),
    Behaviour(
        "bad-chunk-size",
        "gives a chunk size that is no number",
        (_K.SERVER_ERROR,),
        always(_CHUNKED, b"xyz\r\nabc\r\n0\r\n\r\n"),
    ),
    Behaviour(
        "huge-chunk-size",
        "announces a chunk of 2^64 bytes",
        (_K.SERVER_ERROR,),
        always(_CHUNKED, b"10000000000000000\r\nabc"),
    ),
)
