"""Bodies that are small on the wire and huge once decoded, or that do not decode; made piece by piece, never held."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import brotli  # type: ignore[import-untyped]

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, SiteExchange, always, head, html, whole
from swath.domain.failure import FailureKind

__all__ = ["BOMBS"]

_K = FailureKind
_MIB: Final = 1 << 20
_BOMB_MIB: Final = 10 * 1024
_PAGE: Final = html("encoded") * 50
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK: Final = 1 << 17


def _gzip_pieces() -> tuple[bytes, bytes]:
    """The start of a stream of zeros, and the bytes that make each further MiB of it."""
    compressor = zlib.compressobj(9, wbits=31)
    pieces = [compressor.compress(bytes(_MIB)) + compressor.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    return pieces[0], pieces[1]


def _brotli_pieces() -> tuple[bytes, bytes]:
    compressor = brotli.Compressor(quality=5)
    pieces = [compressor.process(bytes(_MIB)) + compressor.flush() for _ in range(3)]
    return pieces[0] + pieces[1], pieces[2]


def _zstd_pieces() -> tuple[bytes, bytes]:
    """A frame of blocks that each say: one zero, so many times."""
    block = (_ZSTD_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return _ZSTD_MAGIC + b"\0" + bytes([(23 - 10) << 3]), block * (_MIB // _ZSTD_BLOCK)


def _bomb(encoding: bytes, pieces: tuple[bytes, bytes]) -> Respond:
    start, more = pieces

    async def respond(exchange: SiteExchange) -> None:
        await exchange.send(head(b"Content-Encoding: " + encoding, b"Connection: close") + start)
        await exchange.repeat(more * 16, _BOMB_MIB // 16)

    return respond


def _chain(times: int) -> bytes:
    body = _PAGE
    for _ in range(times):
        body = gzip.compress(body)
    return whole(body, b"Content-Encoding: " + b", ".join([b"gzip"] * times))


def _chained_bomb() -> bytes:
    return whole(gzip.compress(gzip.compress(bytes(64 * _MIB), 9), 9), b"Content-Encoding: gzip, gzip")


# A frame that wants a window of 128 GiB, and one block.
_ZSTD_WINDOW: Final = (
    _ZSTD_MAGIC + b"\0" + bytes([(37 - 10) << 3]) + (8 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
)

BOMBS: Final = (
    Behaviour("gzip-bomb", "sends 10 MB of gzip that make 10 GB", (_K.TOO_LARGE,), _bomb(b"gzip", _gzip_pieces())),
    Behaviour("brotli-bomb", "sends 130 KB of brotli that make 10 GB", (_K.TOO_LARGE,), _bomb(b"br", _brotli_pieces())),
    Behaviour("zstd-bomb", "sends 320 KB of zstd that make 10 GB", (_K.TOO_LARGE,), _bomb(b"zstd", _zstd_pieces())),
    Behaviour(
        "zstd-window",
        "asks for 128 GiB of memory to decode 8 bytes",
        (_K.SERVER_ERROR,),
        always(whole(_ZSTD_WINDOW, b"Content-Encoding: zstd")),
    ),
    Behaviour("gzip-twice-bomb", "packs 64 MB into gzip twice", (_K.TOO_LARGE,), always(_chained_bomb())),
    Behaviour("gzip-chain", "packs a page into gzip 20 times", (_K.SERVER_ERROR,), always(_chain(20))),
    Behaviour(
        "gzip-plain", "calls a plain body gzip", (_K.SERVER_ERROR,), always(whole(_PAGE, b"Content-Encoding: gzip"))
    ),
    Behaviour(
        "gzip-cut",
        "ends in the middle of the gzip",
        (_K.CONNECT,),
        always(whole(gzip.compress(_PAGE)[:-30], b"Content-Encoding: gzip")),
    ),
    Behaviour(
        "gzip-padded",
        "has zeros behind the gzip",
        (),
        always(whole(gzip.compress(_PAGE) + bytes(600), b"Content-Encoding: gzip")),
    ),
    Behaviour(
        "encoding-unknown",
        "names an encoding that nobody knows",
        (_K.SERVER_ERROR,),
        always(whole(_PAGE, b"Content-Encoding: x-secret")),
    ),
)
