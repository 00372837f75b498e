"""HTTP/2 gone wrong: frames that break the rules, refuse the request, or never end."""

from __future__ import annotations

import asyncio
from typing import Final

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from harness.fakes.hostile_site.behaviour import TICK_SECONDS, Behaviour, Listening, Respond, SiteExchange, html
from swath.domain.failure import FailureKind

__all__ = ["FRAMES", "answer_fine"]

_K = FailureKind
_STREAM: Final = 1  # stands for the stream of the request, whichever that is
_REFUSED: Final = 7
_CANCEL: Final = 8


def _headers(*fields: tuple[str, str], status: str = "200", end: bool = False) -> HeadersFrame:
    """The head of an answer."""
    frame = HeadersFrame(_STREAM, Encoder().encode([(":status", status), *fields]), flags=["END_HEADERS"])
    if end:
        frame.flags.add("END_STREAM")
    return frame


def _data(body: bytes, *, end: bool = True) -> DataFrame:
    """A piece of the body."""
    return DataFrame(_STREAM, body, flags=["END_STREAM"] if end else [])


def _raw(exchange: SiteExchange, *frames: Frame) -> bytes:
    """The frames as bytes, on the stream of the request; those of the whole connection stay what they are."""
    stream = exchange.stream.to_bytes(4, "big")
    raws = [(frame.serialize(), frame.stream_id) for frame in frames]
    return b"".join(raw[:5] + (stream if stream_id else raw[5:9]) + raw[9:] for raw, stream_id in raws)


def _sends(*frames: Frame) -> Respond:
    async def respond(exchange: SiteExchange) -> None:
        await exchange.send(_raw(exchange, *frames))
        await exchange.hold()

    return respond


def _then_for_ever(*first: Frame, again: Frame, at_once: int = 100) -> Respond:
    async def respond(exchange: SiteExchange) -> None:
        await exchange.send(_raw(exchange, *first))
        await exchange.repeat(_raw(exchange, again) * at_once)

    return respond


async def answer_fine(exchange: SiteExchange) -> None:
    """The good page, by frames."""
    body = html("fine")
    fields = (("content-type", "text/html"), ("content-length", str(len(body))))
    await exchange.send(_raw(exchange, _headers(*fields), _data(body)))


async def _garbage(exchange: SiteExchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * 10)
    await exchange.hold()


async def _close(exchange: SiteExchange) -> None:
    await exchange.send(_raw(exchange, _headers(), _data(b"half", end=False)))
    exchange.close()


async def _drip(exchange: SiteExchange) -> None:
    await exchange.send(_raw(exchange, _headers()))
    for _ in range(5000):
        await exchange.send(_raw(exchange, _data(b"x", end=False)))
        await asyncio.sleep(TICK_SECONDS)


async def _silent(exchange: SiteExchange) -> None:
    await exchange.hold()


def _head_that_explodes() -> HeadersFrame:
    encoder = Encoder()
    block = encoder.encode([(":status", "200")])
    block += b"\x40\x01a" + b"\x7f\xa1\x1e" + b"x" * 4000  # literal, to be indexed: name "a", 4,000 bytes
    block += b"\xbe" * 12_000  # the newest entry of the table, again and again
    return HeadersFrame(_STREAM, block, flags=["END_HEADERS"])


def _promise() -> PushPromiseFrame:
    block = Encoder().encode([(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")])
    return PushPromiseFrame(_STREAM, 2, block, flags=["END_HEADERS"])


def _h2(name: str, does: str, respond: Respond, *kinds: FailureKind) -> Behaviour:
    return Behaviour("h2-" + name, does, kinds, respond, Listening.HTTP2)


_BODY: Final = html("frames")
_START: Final = HeadersFrame(_STREAM, Encoder().encode([(":status", "200")]))

FRAMES: Final = (
    _h2("goaway", "says goodbye in place of an answer", _sends(GoAwayFrame(0, 0, 0)), _K.SERVER_ERROR),
    _h2("goaway-error", "ends the connection with an error", _sends(GoAwayFrame(0, 0, 2)), _K.SERVER_ERROR),
    _h2("reset", "resets the stream", _sends(RstStreamFrame(_STREAM, _CANCEL)), _K.SERVER_ERROR),
    _h2("refused", "refuses every stream", _sends(RstStreamFrame(_STREAM, _REFUSED)), _K.SERVER_ERROR),
    _h2(
        "reset-body",
        "resets the stream in the body",
        _sends(_headers(), _data(_BODY, end=False), RstStreamFrame(_STREAM, _CANCEL)),
        _K.CONNECT,
    ),
    _h2(
        "reset-flood",
        "resets streams that nobody opened",
        _then_for_ever(again=RstStreamFrame(_STREAM, _CANCEL)),
        _K.SERVER_ERROR,
    ),
    _h2("close", "closes the connection in the body", _close, _K.CONNECT),
    _h2(
        "length-lies",
        "announces more than it sends",
        _sends(_headers(("content-length", "9999")), _data(_BODY)),
        _K.CONNECT,
    ),
    _h2("garbage", "speaks HTTP/1.1 after agreeing on HTTP/2", _garbage, _K.SERVER_ERROR),
    _h2("data-first", "sends a body without a head", _sends(_data(_BODY)), _K.SERVER_ERROR),
    _h2(
        "no-status",
        "sends a head without a status",
        _sends(HeadersFrame(_STREAM, Encoder().encode([("a", "b")]), flags=["END_HEADERS"])),
        _K.TIMEOUT,
    ),
    _h2(
        "bad-hpack",
        "sends a head that cannot be unpacked",
        _sends(HeadersFrame(_STREAM, b"\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"])),
        _K.SERVER_ERROR,
    ),
    _h2(
        "head-explodes",
        "packs 48 MB of head into 16 KB",
        _sends(_head_that_explodes(), _data(_BODY)),
        _K.SERVER_ERROR,
    ),
    _h2(
        "continuation-flood",
        "never ends the head",
        _then_for_ever(_START, again=ContinuationFrame(_STREAM, Encoder().encode([("x-more", "y" * 1000)]))),
        _K.SERVER_ERROR,
    ),
    _h2("ping-flood", "sends pings for ever", _then_for_ever(again=PingFrame(0, b"12345678")), _K.TIMEOUT),
    _h2(
        "settings-flood",
        "changes its settings for ever",
        _then_for_ever(again=SettingsFrame(0, {SettingsFrame.MAX_CONCURRENT_STREAMS: 100})),
        _K.TIMEOUT,
    ),
    _h2(
        "empty-flood",
        "sends empty frames of the body for ever",
        _then_for_ever(_headers(), again=_data(b"", end=False)),
        _K.SERVER_ERROR,
    ),
    _h2(
        "tiny-flood",
        "sends the body in frames of one byte, for ever",
        _then_for_ever(_headers(), again=_data(b"x", end=False)),
        _K.SERVER_ERROR,
    ),
    _h2("push", "pushes what nobody asked for", _sends(_promise(), _headers(), _data(_BODY))),
    _h2(
        "window-overflow",
        "opens the window beyond its limit",
        _sends(WindowUpdateFrame(0, 2**31 - 1), WindowUpdateFrame(0, 2**31 - 1)),
        _K.SERVER_ERROR,
    ),
    _h2(
        "no-room",
        "allows no streams at all, and never answers",
        _sends(SettingsFrame(0, {SettingsFrame.MAX_CONCURRENT_STREAMS: 0})),
        _K.TIMEOUT,
    ),
    _h2("silent", "never answers", _silent, _K.TIMEOUT),
    _h2("drip", "sends the body at one byte a second", _drip, _K.TIMEOUT),
)
