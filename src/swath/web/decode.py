"""Takes content encodings off a body while it arrives, never making more of it than the cap allows.

Used by the transport for each chunk; the client's own decoding is off, so that the bytes on the wire can be counted.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from isal import igzip_lib, isal_zlib

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["ACCEPTED_ENCODINGS", "Body"]

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
_GZIP: Final = 31  # window bits of 15, with a gzip frame
_ZLIB: Final = 15
_RAW: Final = -15
_IsalError = cast("type[Exception]", igzip_lib.IsalError)  # its stub declares an instance


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


class Body:
    """A body on its way in. Raises Failed: too_large above the cap, server_error when it does not decode."""

    __slots__ = ("_cap_bytes", "_decompressor", "_encoding", "_parts", "_size", "wire_bytes")

    def __init__(self, encoding: str | None, cap_bytes: int) -> None:
        self._encoding = _known(encoding)
        self._cap_bytes = cap_bytes
        self._decompressor: _Decompressor | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self.wire_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the wire."""
        self.wire_bytes += len(chunk)
        if self._encoding is None:
            self._keep(chunk)
            return
        try:
            self._decode(chunk)
        except _IsalError as error:
            raise Failed(Failure.of(FailureKind.SERVER_ERROR, f"the body is no {self._encoding}: {error}")) from error

    def whole(self) -> bytes:
        """All of it; to be asked for when the wire has ended."""
        if self._decompressor is not None and not self._decompressor.eof:
            raise Failed(Failure.of(FailureKind.CONNECT, f"the {self._encoding} body ends too early"))
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _decode(self, data: bytes) -> None:
        while data:
            if self._decompressor is None:
                self._decompressor = isal_zlib.decompressobj(self._window_bits(data))
            elif self._decompressor.eof:
                if self._encoding != "gzip" or not data.startswith(b"\x1f\x8b"):
                    return  # padding after the end, as some servers send it
                self._decompressor = isal_zlib.decompressobj(_GZIP)
            # One byte more than is allowed is enough to know, so a bomb costs no more memory than the cap.
            self._keep(self._decompressor.decompress(data, self._cap_bytes - self._size + 1))
            data = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail

    def _window_bits(self, start: bytes) -> int:
        if self._encoding == "gzip":
            return _GZIP
        # "deflate" means zlib by the standard, and a bare stream to some servers; the low bits tell them apart.
        return _ZLIB if start[0] & 0x0F == 8 else _RAW

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._cap_bytes:
            raise Failed(Failure.of(FailureKind.TOO_LARGE, f"the body is larger than {self._cap_bytes} bytes"))
        if part:
            self._parts.append(part)


def _known(encoding: str | None) -> str | None:
    name = (encoding or "").strip().lower()
    if name in {"", "identity", "none"}:
        return None
    if name in {"gzip", "x-gzip"}:
        return "gzip"
    if name == "deflate":
        return "deflate"
    raise Failed(Failure.of(FailureKind.SERVER_ERROR, f"the body is encoded as {name!r}, which nobody asked for"))
