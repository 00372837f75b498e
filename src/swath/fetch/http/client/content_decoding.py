"""Removes content encodings (gzip, deflate, br, zstd) from a body as it arrives, never producing more than the cap.

wreq's own decoding is off, so that wire bytes can be counted and decompression bombs stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

import brotli  # type: ignore[import-untyped]
import zstandard
from isal import igzip_lib, isal_zlib

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["ACCEPTED_ENCODINGS", "ResponseBody"]

ACCEPTED_ENCODINGS: Final = "gzip, deflate, br, zstd"
_MOST_CHAINED: Final = 2
# A chunk costs the client some hundred bytes, however little is in it. Empty ones are the worst, as no flow control
# counts them: while we wait for the next, the client piles up millions.
_MOST_EMPTY: Final = 16  # beyond one for each byte
_TINY_CHUNK_BYTES: Final = 4
_MOST_TINY_CHUNKS: Final = 500
_MOST_SMALL: Final = 1_024
_PIECE_BYTES: Final = 1024 * 1024  # so much is made at a time, before it is counted
# Each frame costs its set-up, and an empty one is 20 bytes of the wire, or fewer within another encoding.
_MOST_FRAMES: Final = 100  # beyond one for each KiB that they make
_FRAME_BYTES: Final = 1024
_INFLATE_SLICE_BYTES: Final = 16 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 31  # window bits of 15, with a gzip frame
_ZLIB: Final = 15
_RAW: Final = -15
# The decoder makes all it can of what it is given. Four bytes can stand for a block of 128 KiB, so this is at most
# 16 MiB at once.
_ZSTD_SLICE_BYTES: Final = 512
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024  # what RFC 9659 asks of clients
_ERRORS: Final = (cast("type[Exception]", igzip_lib.IsalError), brotli.error, zstandard.ZstdError)


class _Decoder(Protocol):
    """Takes one encoding off, a piece at a time. `ended` also before anything came: an empty body needs no frame."""

    @property
    def ended(self) -> bool: ...
    def decode(self, data: bytes) -> Iterator[bytes]: ...


class ResponseBody:
    """A body on its way in. `encodings` are the values of the Content-Encoding headers, in order.

    Raises Failed: too_large above the cap (on the wire, decoded, or between two encodings), server_error when it does
    not decode, is encoded in a way that nobody asked for or comes in crumbs or tiny frames, connect when it
    ends too early.
    """

    __slots__ = ("_cap_bytes", "_chunks", "_parts", "_small", "_stages", "wire_bytes")

    def __init__(self, encodings: Sequence[str], cap_bytes: int) -> None:
        self._stages = [_EncodingStage(name, cap_bytes) for name in _encoding_names(encodings)] if encodings else []
        self._cap_bytes = cap_bytes
        self._parts: list[bytes] = []
        self._small: list[bytes] = []  # behind those: each part costs some forty bytes beside its own
        self._chunks = 0
        self.wire_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the wire."""
        self.wire_bytes += len(chunk)
        if self.wire_bytes > self._cap_bytes:
            raise _too_large(self._cap_bytes)
        self._chunks += 1
        if self._chunks > min(_MOST_EMPTY + self.wire_bytes, _MOST_TINY_CHUNKS + self.wire_bytes // _TINY_CHUNK_BYTES):
            message = f"the body comes in crumbs: {self._chunks} of them for {self.wire_bytes} bytes"
            raise Failed(Failure.of(FailureKind.SERVER_ERROR, message))
        parts: Iterable[bytes] = (chunk,)
        for stage in self._stages:
            parts = stage.decoded(parts)
        self._small.extend(parts)
        if len(self._small) >= _MOST_SMALL:
            self._join()

    def _join(self) -> None:
        self._parts.append(b"".join(self._small))
        self._small.clear()

    def whole(self) -> bytes:
        """All of it; to be asked for when the wire has ended."""
        for stage in self._stages:
            if not stage.decoder.ended:
                raise Failed(Failure.of(FailureKind.CONNECT, f"the {stage.name} body ends too early"))
        if not self._parts and len(self._small) == 1:  # as most come
            return self._small[0]
        self._join()
        return b"".join(self._parts)


class _EncodingStage:
    """One encoding of a body, and how much was made by taking it off."""

    __slots__ = ("_cap_bytes", "_made_bytes", "decoder", "name")

    def __init__(self, name: str, cap_bytes: int) -> None:
        self.name = name
        self.decoder = _DECODERS[name]()
        self._cap_bytes = cap_bytes
        self._made_bytes = 0

    def decoded(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            try:
                for piece in self.decoder.decode(part):
                    self._made_bytes += len(piece)
                    if self._made_bytes > self._cap_bytes:
                        raise _too_large(self._cap_bytes)
                    yield piece
            except _ERRORS as error:
                message = f"the body is no {self.name}: {error}"
                raise Failed(Failure.of(FailureKind.SERVER_ERROR, message)) from None


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


_F = TypeVar("_F", bound=_Decompressor)


class _FrameDecoder(Generic[_F]):
    """Frames, one after the other: members of gzip, frames of zstd. Deflate has one, and no `magic`.

    `opened` makes a frame from its first byte; `pieces` takes the next bytes of one.
    """

    def __init__(
        self,
        magic: bytes | None,
        slice_bytes: int,
        opened: Callable[[int], _F],
        pieces: Callable[[_F, bytes], Iterable[bytes]],
    ) -> None:
        self._magic = magic
        self._slice_bytes = slice_bytes
        self._opened = opened
        self._pieces = pieces
        self._frame: _F | None = None
        self._held = b""  # what may be the beginning of a magic
        self._count = 0
        self._made_bytes = 0

    @property
    def ended(self) -> bool:
        return self._frame is None or bool(self._frame.eof)

    def decode(self, data: bytes) -> Iterator[bytes]:
        data, self._held = self._held + data, b""
        at = 0
        while at < len(data):
            if self._frame is None or self._frame.eof:
                if self._frame is not None and not self._begins(data, at):
                    return  # padding after the end, as some servers send it
                self._frame = self._opened(data[at])
            # Slices, because a frame that ends copies all that is left of what it was given.
            part = data[at : at + self._slice_bytes]
            for piece in self._pieces(self._frame, part):
                self._made_bytes += len(piece)
                yield piece
            at += len(part) - (len(self._frame.unused_data) if self._frame.eof else 0)

    def _begins(self, data: bytes, at: int) -> bool:
        """Whether a further frame begins there; too few bytes to tell are held until more come."""
        if self._magic is None:
            return False
        start = data[at : at + len(self._magic)]
        if start != self._magic:
            self._held = start if self._magic.startswith(start) else b""
            return False
        self._count += 1
        if self._count > _MOST_FRAMES + self._made_bytes // _FRAME_BYTES:
            message = f"the body is in {self._count} frames that make {self._made_bytes} bytes"
            raise Failed(Failure.of(FailureKind.SERVER_ERROR, message))
        return True


def _deflate_decompressor(first: int) -> isal_zlib.Decompress:
    # "deflate" means zlib by the standard, and a bare stream to some servers; the low bits tell them apart.
    return isal_zlib.decompressobj(_ZLIB if first & 0x0F == 8 else _RAW)


def _inflate(frame: isal_zlib.Decompress, data: bytes) -> Iterator[bytes]:
    piece = frame.decompress(data, _PIECE_BYTES)
    while piece:
        yield piece
        # A piece that is not full was the last; otherwise more may be waiting, with or without input left.
        full = len(piece) >= _PIECE_BYTES and not frame.eof
        piece = frame.decompress(frame.unconsumed_tail, _PIECE_BYTES) if full else b""


def _zstd_decoder() -> _Decoder:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return _FrameDecoder(
        _ZSTD_MAGIC,
        _ZSTD_SLICE_BYTES,
        lambda _: decompressor.decompressobj(),
        lambda frame, data: (frame.decompress(data),),
    )


class _BrotliDecoder:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    @property
    def ended(self) -> bool:
        return not self._begun or bool(self._stream.is_finished())

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        if self._stream.is_finished():
            return
        piece = self._stream.process(data, output_buffer_limit=_PIECE_BYTES)
        while piece:
            yield piece
            full = len(piece) >= _PIECE_BYTES and not self._stream.is_finished()
            piece = self._stream.process(b"", output_buffer_limit=_PIECE_BYTES) if full else b""


_DECODERS: Final[dict[str, Callable[[], _Decoder]]] = {
    "gzip": lambda: _FrameDecoder(
        _GZIP_MAGIC, _INFLATE_SLICE_BYTES, lambda _: isal_zlib.decompressobj(_GZIP), _inflate
    ),
    "deflate": lambda: _FrameDecoder(None, _INFLATE_SLICE_BYTES, _deflate_decompressor, _inflate),
    "br": _BrotliDecoder,
    "zstd": _zstd_decoder,
}


def _encoding_names(encodings: Sequence[str]) -> list[str]:
    """What is to be taken off, outermost first."""
    named = [name.strip().lower().removeprefix("x-") for value in encodings for name in value.split(",")]
    names = [name for name in named if name not in {"", "identity", "none"}]
    for name in names:
        if name not in _DECODERS:
            message = f"the body is encoded as {name[:50]!r}, which nobody asked for"
            raise Failed(Failure.of(FailureKind.SERVER_ERROR, message))
    if len(names) > _MOST_CHAINED:
        raise Failed(Failure.of(FailureKind.SERVER_ERROR, f"the body is encoded {len(names)} times"))
    return names[::-1]


def _too_large(cap_bytes: int) -> Failed:
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"the body is larger than {cap_bytes} bytes"))
