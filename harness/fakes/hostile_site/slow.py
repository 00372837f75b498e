"""Servers that take for ever: dripping, silent, endless. Each ends when our patience or our cap does."""

from __future__ import annotations

import asyncio
from typing import Final

from harness.fakes.hostile_site.behaviour import TICK_SECONDS, Behaviour, SiteExchange, head, html
from swath.domain.failure import FailureKind

__all__ = ["SLOW"]

_K = FailureKind
_CHUNK: Final = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


async def _drip_body(exchange: SiteExchange) -> None:
    body = html("slowly") * 1000
    await exchange.send(head(b"Content-Length: %d" % len(body)))
    await exchange.drip(body)


async def _drip_head(exchange: SiteExchange) -> None:
    await exchange.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 1000)


async def _silent(exchange: SiteExchange) -> None:
    await exchange.hold()


async def _stall_body(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Content-Length: 100000") + html("half"))
    await exchange.hold()


async def _endless_chunks(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Transfer-Encoding: chunked"))
    await exchange.repeat(_CHUNK)


async def _endless_body(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Connection: close"))
    await exchange.repeat(b"x" * 0x10000)


async def _endless_events(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked"))
    while True:
        await exchange.send(b"9\r\ndata: x\n\n\r\n")
        await asyncio.sleep(TICK_SECONDS)


async def _endless_interim(exchange: SiteExchange) -> None:
    await exchange.repeat(head(status=b"103 Early Hints") * 5_000)


async def _endless_blank_lines(exchange: SiteExchange) -> None:
    await exchange.repeat(b"\r\n" * 100_000)


async def _endless_trailers(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n")
    await exchange.repeat(b"X-Trailer: " + b"x" * 1000 + b"\r\n")


async def _endless_chunk_extension(exchange: SiteExchange) -> None:
    await exchange.send(head(b"Transfer-Encoding: chunked") + b"3;")
    await exchange.repeat(b"x" * 0x10000)


SLOW: Final = (
    Behaviour("drip-body", "sends the body at one byte a second", (_K.TIMEOUT,), _drip_body),
    Behaviour("drip-head", "sends the head at one byte a second", (_K.TIMEOUT,), _drip_head),
    Behaviour("silent", "accepts and never answers", (_K.TIMEOUT,), _silent),
    Behaviour("stall-body", "sends half of the body, then nothing", (_K.TIMEOUT,), _stall_body),
    Behaviour("endless-chunks", "never stops sending chunks", (_K.TOO_LARGE,), _endless_chunks),
    Behaviour("endless-body", "announces no length and never stops", (_K.TOO_LARGE,), _endless_body),
    Behaviour("endless-events", "is an event stream with an event a second", (_K.TIMEOUT,), _endless_events),
    Behaviour("endless-interim", "sends 103 answers for ever", (_K.TOO_LARGE, _K.TIMEOUT), _endless_interim),
    Behaviour(
        "endless-blank-lines", "sends empty lines for ever in place of an answer", (_K.TOO_LARGE,), _endless_blank_lines
    ),
    Behaviour(
        "endless-trailers", "sends trailers for ever after the last chunk", (_K.SERVER_ERROR,), _endless_trailers
    ),
    Behaviour(
        "endless-chunk-extension", "never ends the line of a chunk size", (_K.SERVER_ERROR,), _endless_chunk_extension
    ),
)
