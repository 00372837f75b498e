"""Checks the packs of a job: every record and line that an item refers to, their indexes, and that nothing else lies
there. Called by verify.py for each group of rows, and at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput
from swath.domain.item import ItemRecord
from swath.domain.layout import PACKS, PackedAt, pack_fence
from swath.domain.result import Artifact
from swath.pipeline.finish.artifacts import METADATA_FILE, Stored, stored_in
from swath.pipeline.finish.index_check import IndexCheck
from swath.pipeline.finish.pack_index import index_key, index_lines
from swath.pipeline.finish.pack_ranges import PackRange, ranges_of
from swath.pipeline.finish.packing import line_parts, needed_of
from swath.pipeline.finish.report import Findings, ProblemCode, difference
from swath.ports.result_storage import ResultStorage

__all__ = ["PackCheck"]

_RANGES_AT_ONCE: Final = 4


class _Bytes(NamedTuple):
    """What was found at a place of a pack. `stored` is what a line says of its pages."""

    size: int
    digest: str
    stored: Stored | None = None


class PackCheck:
    """The packs of one job; `present` counts artifacts, and `bytes` what they share once. A pack has its index when its
    lease is settled, so only an `ended` job has all of them."""

    def __init__(self, job_id: str, storage: ResultStorage, *, ended: bool) -> None:
        self._job_id = job_id
        self._storage = storage
        self._index = IndexCheck(job_id, storage) if ended else None
        self._needed: dict[str, int] = {}
        self.present = 0
        self.bytes = 0

    async def check(self, records: Iterable[ItemRecord], findings: Findings) -> None:
        """Notes what is missing or changed of the items' packed files."""
        packed = [(record, places) for record in records if (places := _places(record))]
        found = await self._look(at for _, places in packed for at in places)
        told: set[tuple[str, int, int]] = set()
        for record, places in packed:
            for pack, length in needed_of(record.artifacts).items():
                self._needed[pack] = max(length, self._needed.get(pack, 0))
            for at, artifact in places.items():
                self._compare(record, artifact, found.get(at[:3]), findings, first=at[:3] not in told)
                told.add(at[:3])
            await self._check_index(record, places, found, findings)

    async def _look(self, places: Iterable[PackedAt]) -> dict[tuple[str, int, int], _Bytes]:
        found: dict[tuple[str, int, int], _Bytes] = {}
        ranges = iter(ranges_of(places))
        while some := list(islice(ranges, _RANGES_AT_ONCE)):
            for looked in await asyncio.gather(*map(self._look_at, some)):
                found |= looked
        return found

    async def _look_at(self, one: PackRange) -> dict[tuple[str, int, int], _Bytes]:
        try:
            data = await self._storage.read(self._job_id, one.pack, one.start, one.length)
        except KeyError:
            return {}
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
        self,
        record: ItemRecord,
        places: dict[PackedAt, Artifact],
        found: dict[tuple[str, int, int], _Bytes],
        findings: Findings,
    ) -> None:
        fence = pack_fence(next(iter(places)).pack)
        if fence is None or self._index is None:
            return
        about = next((at for at in places if at.name == METADATA_FILE), None)
        line = None if about is None else found.get(about[:3])
        if line is None or line.stored is None:
            self._index.pass_over(fence)
            return
        await self._index.expect(fence, index_lines(record.artifacts, line.stored), findings)

    async def end(self, findings: Findings, *, retried: bool) -> None:
        """When all rows were checked. A pack of a job that was retried may hold, and its index list, what was then
        replaced."""
        fences = {pack_fence(pack) for pack in self._needed}
        if self._index is not None:
            self._index.end(findings, exact=not retried)
            fences = fences if retried else {*self._index.fences}
        async for key in self._storage.keys(self._job_id, PACKS):
            fence = pack_fence(key)
            if key in self._needed:
                if not retried:
                    await self._check_end(key, findings)
            elif fence is None or key != index_key(fence) or fence not in fences:
                findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")

    async def _check_end(self, pack: str, findings: Findings) -> None:
        needed = self._needed[pack]
        try:
            behind = await self._storage.read(self._job_id, pack, needed, 1)
        except KeyError:  # somebody removes it at this moment
            behind = b""
        if behind:
            findings.add(
                ProblemCode.ARTIFACT_CHANGED, pack, f"nothing refers to what is behind its first {needed} bytes"
            )


def _places(record: ItemRecord) -> dict[PackedAt, Artifact]:
    if not record.state.terminal:
        return {}
    return {at: artifact for artifact in record.artifacts if (at := PackedAt.of(artifact.key)) is not None}


def _examined(one: PackRange, data: bytes) -> dict[tuple[str, int, int], _Bytes]:
    pieces: Sequence[bytes] = one.cut(data)
    return {
        at[:3]: _Bytes(len(piece), hashlib.sha256(piece).hexdigest(), _stored(at, piece))
        for at, piece in zip(one.places, pieces, strict=True)
    }


def _stored(at: PackedAt, piece: bytes) -> Stored | None:
    if at.name != METADATA_FILE:
        return None
    try:
        return stored_in(line_parts(piece)[METADATA_FILE])
    except (msgspec.MsgspecError, UnicodeDecodeError, BadInput):
        return None
