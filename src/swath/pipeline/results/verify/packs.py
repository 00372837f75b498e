"""Checks packs: the records and lines that items refer to, the indexes, and that the bytes between them are whole.

Bytes that no item refers to (heads, requests, losing attempts) have no stored checksum, but must be whole records or
lines, or ordinary tools could not read the pack.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

import msgspec

from swath.domain.errors import BadInput
from swath.domain.item import ItemRecord
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, WARC_SUFFIX, PackLocation, pack_fence
from swath.pipeline.formats.artifacts import METADATA_FILE, StoredMetadata, parse_metadata
from swath.pipeline.formats.packs import (
    PackRange,
    group_into_ranges,
    index_document,
    index_key,
    index_lines,
    line_parts,
)
from swath.pipeline.formats.warc import member_head
from swath.pipeline.results.verify.report import ProblemCode, ProblemList, describe_difference
from swath.ports.result_storage import ResultStorage

__all__ = ["CoveredRanges", "GapReader", "IndexCheck", "PackCheck", "covered_ranges", "gap_reader_for"]

_WBITS: Final = 31
_SLICE_BYTES: Final = 64 * 1024  # what is behind a record is copied with each, so not much of it is given at once
_PIECE_BYTES: Final = 1024 * 1024
_HEAD_BYTES: Final = 10  # of a gzip member; no checksum covers them
_RECORD_START: Final = b"WARC/1.1\r\nWARC-Type: "
_KIND_BYTES: Final = len(b"request\r\n")
_RECORD_END: Final = b"\r\n\r\n"
_LINE_START: Final = b'{"item_id":'  # by which a gigabyte of something else is known at once


class CoveredRanges:
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


def gap_reader_for(pack: str) -> GapReader:
    """For the gaps of a pack, by its name."""
    return _RecordReader() if pack.endswith(WARC_SUFFIX) else _LineReader()


def covered_ranges(places: Sequence[PackLocation], data: bytes) -> list[tuple[int, int]]:
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
    reader = gap_reader_for(pack)
    try:
        reader.feed(data)
        reader.end()
    except ValueError:
        return False
    return True


class _RecordReader:
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


class _LineReader:
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


_KEPT: Final = 8


class IndexCheck:
    """`expect` the lines of each item, then `end`."""

    def __init__(self, job_id: str, storage: ResultStorage) -> None:
        self._job_id = job_id
        self._storage = storage
        self._read: OrderedDict[int, frozenset[str]] = OrderedDict()
        self._listed: dict[int, int | None] = {}  # lines of each index; None where there is none
        self._expected: Counter[int] = Counter()
        self._lacking: Counter[int] = Counter()
        self._disordered: set[int] = set()
        self._unsure: set[int] = set()

    @property
    def fences(self) -> Collection[int]:
        """The leases that need an index, or may."""
        return self._listed.keys() | self._unsure

    def pass_over(self, fence: int) -> None:
        """An item of this lease cannot say what the index should have of it."""
        self._unsure.add(fence)

    async def expect(self, fence: int, lines: Sequence[str], findings: ProblemList) -> None:
        """The index of the lease must list these."""
        if not lines:
            return
        listed = await self._lines(fence, findings)
        self._expected[fence] += len(lines)
        self._lacking[fence] += sum(line not in listed for line in lines)

    def end(self, findings: ProblemList, *, exact: bool) -> None:
        """Notes the indexes that lack something or, if they are to be `exact`, have something besides."""
        for fence, listed in self._listed.items():
            if listed is None:
                continue
            expected, lacking = self._expected[fence], self._lacking[fence]
            if fence in self._disordered:
                message = "its lines are not in order, or the last one is cut off"
            elif lacking:
                message = f"it does not list {lacking} of {expected} pages as they lie there"
            elif exact and listed != expected and fence not in self._unsure:
                message = f"it lists {listed} pages, and the items have {expected}"
            else:
                continue
            findings.add(ProblemCode.ARTIFACT_CHANGED, index_key(fence), message)

    async def _lines(self, fence: int, findings: ProblemList) -> frozenset[str]:
        if fence in self._read:
            self._read.move_to_end(fence)
            return self._read[fence]
        try:
            document = await self._storage.get(self._job_id, index_key(fence))
        except KeyError:
            if fence not in self._listed:
                findings.add(ProblemCode.ARTIFACT_MISSING, index_key(fence), "the index of a pack is not there")
            self._listed[fence] = None
            return frozenset()
        lines = [f"{line}\n" for line in document.decode("utf-8", "replace").removesuffix("\n").split("\n")]
        if index_document(lines) != document:
            self._disordered.add(fence)
        self._listed[fence] = len(lines)
        self._read[fence] = frozenset(lines)
        if len(self._read) > _KEPT:
            self._read.popitem(last=False)
        return self._read[fence]


_RANGES_AT_ONCE: Final = 4
_PACKS_AT_ONCE: Final = 8
_READ_BYTES: Final = 1024 * 1024


class _FoundBytes(NamedTuple):
    """What was found at a place of a pack. `stored` is what a line says of its pages."""

    size: int
    digest: str
    stored: StoredMetadata | None = None


_Looked = tuple[dict[tuple[str, int, int], _FoundBytes], list[tuple[int, int]]]
"""What was found in a range, and the parts of the pack that need no other look."""


class PackCheck:
    """The packs of one job; `present` counts artifacts, and `bytes` what they share once. A pack has its index when its
    lease is settled, so only an `ended` job has all of them."""

    def __init__(self, job_id: str, storage: ResultStorage, *, ended: bool) -> None:
        self._job_id = job_id
        self._storage = storage
        self._index = IndexCheck(job_id, storage) if ended else None
        self._covered: dict[str, CoveredRanges] = {}
        self.present = 0
        self.bytes = 0

    async def check(self, records: Iterable[ItemRecord], findings: ProblemList) -> None:
        """Notes what is missing or changed of the items' packed files."""
        packed = [(record, places) for record in records if (places := _places(record))]
        found = await self._look(at for _, places in packed for at in places)
        told: set[tuple[str, int, int]] = set()
        for record, places in packed:
            for at, artifact in places.items():
                self._compare(record, artifact, found.get(at[:3]), findings, first=at[:3] not in told)
                told.add(at[:3])
            await self._check_index(places, found, findings)

    async def _look(self, places: Iterable[PackLocation]) -> dict[tuple[str, int, int], _FoundBytes]:
        found: dict[tuple[str, int, int], _FoundBytes] = {}
        distinct: dict[tuple[str, int, int], PackLocation] = {}
        for at in places:
            distinct.setdefault(at[:3], at)  # of files that share a line the first tells what is in it
        ranges = iter(group_into_ranges(distinct.values()))
        while some := list(islice(ranges, _RANGES_AT_ONCE)):
            for one, (looked, parts) in zip(some, await asyncio.gather(*map(self._look_at, some)), strict=True):
                found |= looked
                covered = self._covered.setdefault(one.pack, CoveredRanges())
                for part in parts:
                    covered.add(*part)
        return found

    async def _look_at(self, one: PackRange[PackLocation]) -> _Looked:
        try:
            data = await self._storage.read(self._job_id, one.pack, one.start, one.length)
        except KeyError:
            return {}, [(at.start, at.end) for at in one.places]
        return await asyncio.to_thread(_examine, one, data)

    def _compare(
        self, record: ItemRecord, artifact: Artifact, found: _FoundBytes | None, findings: ProblemList, *, first: bool
    ) -> None:
        """Of a line that two files share, what is wrong is told once."""
        if found is None:
            if first:
                message = f"a file of item {record.item_id!r} is not there"
                findings.add(ProblemCode.ARTIFACT_MISSING, artifact.key, message)
            return
        self.present += 1
        if first:
            self.bytes += found.size
            if (found.size, found.digest) != (artifact.size, artifact.sha256):
                findings.add(ProblemCode.ARTIFACT_CHANGED, artifact.key, describe_difference(artifact, found.size))

    async def _check_index(
        self,
        places: dict[PackLocation, Artifact],
        found: dict[tuple[str, int, int], _FoundBytes],
        findings: ProblemList,
    ) -> None:
        fence = pack_fence(next(iter(places)).pack)
        if fence is None or self._index is None:
            return
        about = next((at for at in places if at.name == METADATA_FILE), None)
        line = None if about is None else found.get(about[:3])
        if line is None or line.stored is None:
            self._index.pass_over(fence)
            return
        await self._index.expect(fence, index_lines(places, line.stored), findings)

    async def end(self, findings: ProblemList, *, retried: bool) -> None:
        """When all rows were checked. A pack of a job that was retried may hold, and its index list, what was then
        replaced."""
        fences = {pack_fence(pack) for pack in self._covered if pack.endswith(WARC_SUFFIX)}
        if self._index is not None:
            self._index.end(findings, exact=not retried)
            fences = fences if retried else {*self._index.fences}
        packs = []
        async for key in self._storage.keys(self._job_id, PACKS_PREFIX):
            fence = pack_fence(key)
            if key in self._covered:
                packs.append(key)
            elif fence is None or key != index_key(fence) or fence not in fences:
                findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")
        for at in range(0, len(packs), _PACKS_AT_ONCE):
            some = packs[at : at + _PACKS_AT_ONCE]
            await asyncio.gather(*(self._check_rest(pack, findings, retried=retried) for pack in some))

    async def _check_rest(self, pack: str, findings: ProblemList, *, retried: bool) -> None:
        """What no item refers to: before and between the files of items, and behind them."""
        covered = self._covered[pack]
        for start, end in covered.gaps():
            if not await self._is_whole(pack, start, end):
                message = f"bytes {start} to {end}, which belong to no file, are not whole records or lines"
                findings.add(ProblemCode.ARTIFACT_CHANGED, pack, message)
        if not retried and await self._read(pack, covered.end, 1):
            message = f"nothing refers to what is behind its first {covered.end} bytes"
            findings.add(ProblemCode.ARTIFACT_CHANGED, pack, message)
        elif retried and not await self._is_whole(pack, covered.end, sys.maxsize):
            message = f"what is behind its first {covered.end} bytes is not whole records or lines"
            findings.add(ProblemCode.ARTIFACT_CHANGED, pack, message)

    async def _is_whole(self, pack: str, start: int, end: int) -> bool:
        """Where a pack ends before the gap does, the file behind the gap has been told of."""
        reader, at = gap_reader_for(pack), start
        try:
            while at < end and (data := await self._read(pack, at, min(_READ_BYTES, end - at))):
                await asyncio.to_thread(reader.feed, data)
                at += len(data)
            reader.end()
        except ValueError:
            return False
        return True

    async def _read(self, pack: str, start: int, length: int) -> bytes:
        try:
            return await self._storage.read(self._job_id, pack, start, length)
        except KeyError:  # somebody removes it at this moment
            return b""


def _places(record: ItemRecord) -> dict[PackLocation, Artifact]:
    if not record.state.terminal:
        return {}
    return {at: artifact for artifact in record.artifacts if (at := PackLocation.of(artifact.key)) is not None}


def _examine(one: PackRange[PackLocation], data: bytes) -> _Looked:
    pieces: Sequence[bytes] = one.cut(data)
    found = {
        at[:3]: _FoundBytes(len(piece), hashlib.sha256(piece).hexdigest(), _stored(at, piece))
        for at, piece in zip(one.places, pieces, strict=True)
    }
    return found, covered_ranges(one.places, data)


def _stored(at: PackLocation, piece: bytes) -> StoredMetadata | None:
    if at.name != METADATA_FILE:
        return None
    try:
        return parse_metadata(line_parts(piece)[METADATA_FILE])
    except (msgspec.MsgspecError, UnicodeDecodeError, BadInput):
        return None
