"""What lies in a pack beside the files of items: its head, requests, and what lost or was replaced. Nobody knows its
checksums, but all of it must be whole records or lines, or ordinary tools could not read the pack.

Called by pack_check.py, which knows where the files are.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from swath.domain.layout import WARC, PackedAt
from swath.pipeline.finish.warc import member_head

__all__ = ["Covered", "GapReader", "covered_of", "reader_of"]

_WBITS: Final = 31
_SLICE_BYTES: Final = 64 * 1024  # what is behind a record is copied with each, so not much of it is given at once
_PIECE_BYTES: Final = 1024 * 1024
_HEAD_BYTES: Final = 10  # of a gzip member; no checksum covers them
_RECORD_START: Final = b"WARC/1.1\r\nWARC-Type: "
_KIND_BYTES: Final = len(b"request\r\n")
_RECORD_END: Final = b"\r\n\r\n"
_LINE_START: Final = b'{"item_id":'  # by which a gigabyte of something else is known at once


class Covered:
    """The parts of one pack that need no other look: as few as can be, for packs are remembered to the end."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        """The first byte behind all of them."""
        return self._parts[-1][1] if self._parts else 0

    def add(self, start: int, end: int) -> None:
        """Parts that touch each other become one."""
        first = bisect_left(self._parts, start, key=lambda part: part[1])
        behind = bisect_right(self._parts, end, key=lambda part: part[0])
        touched = self._parts[first:behind]
        whole = (min(start, touched[0][0]), max(end, touched[-1][1])) if touched else (start, end)
        self._parts[first:behind] = [whole]

    def gaps(self) -> Iterator[tuple[int, int]]:
        """What lies before and between the parts."""
        at = 0
        for start, end in self._parts:
            if start > at:
                yield at, start
            at = end


class GapReader(Protocol):
    """Takes the bytes of a gap piece by piece."""

    def feed(self, data: bytes) -> None:
        """Raises ValueError for what is no record or line."""
        ...

    def end(self) -> None:
        """Raises ValueError when the last one is not whole."""
        ...


def reader_of(pack: str) -> GapReader:
    """For the gaps of a pack, by its name."""
    return _Records() if pack.endswith(WARC) else _Lines()


def covered_of(places: Sequence[PackedAt], data: bytes) -> list[tuple[int, int]]:
    """The parts of a pack that places, in order, cover together with what is whole between them. `data` are the bytes
    from the first place on. What is not whole there may turn out to be a place of another item."""
    first = places[0].start
    parts = [(first, first)]
    for place in places:
        start, end = parts[-1]
        between = data[end - first : place.start - first]
        if len(between) >= place.start - end and _is_whole(place.pack, between):
            parts[-1] = (start, max(end, place.end))
        else:
            parts.append((place.start, place.end))
    return parts


def _is_whole(pack: str, data: bytes) -> bool:
    reader = reader_of(pack)
    try:
        reader.feed(data)
        reader.end()
    except ValueError:
        return False
    return True


class _Records:
    """Gzip members, each a record; their own checksums tell whether they are as they were written, but for their heads,
    which are always the same.

    Unpacked by zlib as in ordinary tools: isal takes headers that they refuse.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._member = zlib.decompressobj(_WBITS)
        self._inside = False
        self._head = self._start = self._last = b""

    def feed(self, data: bytes) -> None:
        for at in range(0, len(data), _SLICE_BYTES):
            rest = data[at : at + _SLICE_BYTES]
            while rest:
                rest = self._unpack(rest)

    def end(self) -> None:
        if self._inside:
            raise ValueError("the last record is cut off")

    def _unpack(self, data: bytes) -> bytes:
        """Answers with what remains to be unpacked."""
        member, self._inside = self._member, True
        self._head += data[: _HEAD_BYTES - len(self._head)]
        try:
            piece = member.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            raise ValueError("it is no gzip") from error
        self._start += piece[: len(_RECORD_START) + _KIND_BYTES - len(self._start)]
        self._last = (self._last + piece[-len(_RECORD_END) :])[-len(_RECORD_END) :]
        if not member.eof:
            return member.unconsumed_tail
        if not self._start.startswith(_RECORD_START) or self._last != _RECORD_END:
            raise ValueError("it is no whole WARC record")
        if self._head != member_head(self._start.removeprefix(_RECORD_START)):
            raise ValueError("its gzip head was changed")
        self._begin()
        return member.unused_data


class _Lines:
    """JSON Lines as packing.py makes them."""

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            _check_line(b"".join((*self._held, line)))
            self._held.clear()
        if rest:
            self._held.append(rest)
            if not self._held[0].startswith(_LINE_START[: len(self._held[0])]):
                raise ValueError("it is no line of a pack")

    def end(self) -> None:
        if self._held:
            raise ValueError("the last line is cut off")


def _check_line(line: bytes) -> None:
    if not line.startswith(_LINE_START):
        raise ValueError("it is no line of a pack")
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError("it is no JSON") from error
