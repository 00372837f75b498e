"""Checks the packs of a job: every record and line that an item refers to, their indexes, and that whatever else lies
there is whole and has a reason to. Called by verify.py for each group of rows, and at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput
from swath.domain.item import ItemRecord
from swath.domain.layout import PACKS, WARC, PackedAt, pack_fence
from swath.domain.result import Artifact
from swath.pipeline.finish.artifacts import METADATA_FILE, Stored, stored_in
from swath.pipeline.finish.index_check import IndexCheck
from swath.pipeline.finish.pack_gaps import Covered, covered_of, reader_of
from swath.pipeline.finish.pack_index import index_key, index_lines
from swath.pipeline.finish.pack_ranges import PackRange, ranges_of
from swath.pipeline.finish.packing import line_parts
from swath.pipeline.finish.report import Findings, ProblemCode, difference
from swath.ports.result_storage import ResultStorage

__all__ = ["PackCheck"]

_RANGES_AT_ONCE: Final = 4
_PACKS_AT_ONCE: Final = 8
_READ_BYTES: Final = 1024 * 1024


class _Bytes(NamedTuple):
    """What was found at a place of a pack. `stored` is what a line says of its pages."""

    size: int
    digest: str
    stored: Stored | None = None


_Looked = tuple[dict[tuple[str, int, int], _Bytes], list[tuple[int, int]]]
"""What was found in a range, and the parts of the pack that need no other look."""


class PackCheck:
    """The packs of one job; `present` counts artifacts, and `bytes` what they share once. A pack has its index when its
    lease is settled, so only an `ended` job has all of them."""

    def __init__(self, job_id: str, storage: ResultStorage, *, ended: bool) -> None:
        self._job_id = job_id
        self._storage = storage
        self._index = IndexCheck(job_id, storage) if ended else None
        self._covered: dict[str, Covered] = {}
        self.present = 0
        self.bytes = 0

    async def check(self, records: Iterable[ItemRecord], findings: Findings) -> None:
        """Notes what is missing or changed of the items' packed files."""
        packed = [(record, places) for record in records if (places := _places(record))]
        found = await self._look(at for _, places in packed for at in places)
        told: set[tuple[str, int, int]] = set()
        for record, places in packed:
            for at, artifact in places.items():
                self._compare(record, artifact, found.get(at[:3]), findings, first=at[:3] not in told)
                told.add(at[:3])
            await self._check_index(places, found, findings)

    async def _look(self, places: Iterable[PackedAt]) -> dict[tuple[str, int, int], _Bytes]:
        found: dict[tuple[str, int, int], _Bytes] = {}
        distinct: dict[tuple[str, int, int], PackedAt] = {}
        for at in places:
            distinct.setdefault(at[:3], at)  # of files that share a line the first tells what is in it
        ranges = iter(ranges_of(distinct.values()))
        while some := list(islice(ranges, _RANGES_AT_ONCE)):
            for one, (looked, parts) in zip(some, await asyncio.gather(*map(self._look_at, some)), strict=True):
                found |= looked
                covered = self._covered.setdefault(one.pack, Covered())
                for part in parts:
                    covered.add(*part)
        return found

    async def _look_at(self, one: PackRange[PackedAt]) -> _Looked:
        try:
            data = await self._storage.read(self._job_id, one.pack, one.start, one.length)
        except KeyError:
            return {}, [(at.start, at.end) for at in one.places]
        return await asyncio.to_thread(_examined, one, data)

    def _compare(
        self, record: ItemRecord, artifact: Artifact, found: _Bytes | None, findings: Findings, *, first: bool
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
                findings.add(ProblemCode.ARTIFACT_CHANGED, artifact.key, difference(artifact, found.size))

    async def _check_index(
        self, places: dict[PackedAt, Artifact], found: dict[tuple[str, int, int], _Bytes], findings: Findings
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

    async def end(self, findings: Findings, *, retried: bool) -> None:
        """When all rows were checked. A pack of a job that was retried may hold, and its index list, what was then
        replaced."""
        fences = {pack_fence(pack) for pack in self._covered if pack.endswith(WARC)}
        if self._index is not None:
            self._index.end(findings, exact=not retried)
            fences = fences if retried else {*self._index.fences}
        packs = []
        async for key in self._storage.keys(self._job_id, PACKS):
            fence = pack_fence(key)
            if key in self._covered:
                packs.append(key)
            elif fence is None or key != index_key(fence) or fence not in fences:
                findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")
        for at in range(0, len(packs), _PACKS_AT_ONCE):
            some = packs[at : at + _PACKS_AT_ONCE]
            await asyncio.gather(*(self._check_rest(pack, findings, retried=retried) for pack in some))

    async def _check_rest(self, pack: str, findings: Findings, *, retried: bool) -> None:
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
        reader, at = reader_of(pack), start
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


def _places(record: ItemRecord) -> dict[PackedAt, Artifact]:
    if not record.state.terminal:
        return {}
    return {at: artifact for artifact in record.artifacts if (at := PackedAt.of(artifact.key)) is not None}


def _examined(one: PackRange[PackedAt], data: bytes) -> _Looked:
    pieces: Sequence[bytes] = one.cut(data)
    found = {
        at[:3]: _Bytes(len(piece), hashlib.sha256(piece).hexdigest(), _stored(at, piece))
        for at, piece in zip(one.places, pieces, strict=True)
    }
    return found, covered_of(one.places, data)


def _stored(at: PackedAt, piece: bytes) -> Stored | None:
    if at.name != METADATA_FILE:
        return None
    try:
        return stored_in(line_parts(piece)[METADATA_FILE])
    except (msgspec.MsgspecError, UnicodeDecodeError, BadInput):
        return None
