"""A file of items on its way to a controller: read in bounded memory, packed as gzip, and sent as it is read (J2).

Nothing is parsed here: the controller reads it as it would a file of its own, so it also finds what is wrong, by line.
Before: `jobs create --items FILE --server URL`. After: the controller's pipeline/accept.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Iterator
from typing import Final

from swath.pipeline.accept.raw_bytes import STDIN, chunks_of, open_bytes
from swath.pipeline.accept.read_ahead import ReadAhead

__all__ = ["name_of", "packed", "packed_pieces"]

BLOCK_BYTES: Final = 1 << 20
SLOW_SECONDS: Final = 5.0  # a slow pipe is passed on before a block is full: the controller takes silence for death
QUICK: Final = 1  # of the levels of gzip: a network is rarely slower than this
MOST_TIMES: Final = 100  # what packs to less is sent as it is: a controller takes it for a bomb
_GZIP: Final = b"\x1f\x8b"


def name_of(items: str) -> str:
    """What messages call the source."""
    return "stdin" if items == STDIN else items


def packed(items: str) -> ReadAhead[bytes]:
    """The file as gzip, piece by piece; one that is gzip already goes as it is. Raises BadInput when it is read."""
    return ReadAhead(lambda: _read(items))


def _read(items: str) -> Generator[bytes, None, None]:
    with open_bytes(items, None) as file:
        yield from packed_pieces(chunks_of(name_of(items), file))


def packed_pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Each block is a gzip of its own, and all of them together are one again."""
    head = next(chunks, b"")
    if head.startswith(_GZIP):
        yield head
        yield from chunks
        return
    held, size, sent_at = [head], len(head), time.monotonic()
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= BLOCK_BYTES or time.monotonic() - sent_at >= SLOW_SECONDS:
            yield _gzip(b"".join(held))
            held, size, sent_at = [], 0, time.monotonic()
    if size:
        yield _gzip(b"".join(held))


def _gzip(block: bytes) -> bytes:
    small = zlib.compress(block, QUICK, wbits=31)
    return small if len(small) * MOST_TIMES >= len(block) else zlib.compress(block, 0, wbits=31)
