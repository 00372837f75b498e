"""Artifacts: which stored file a caller means, and the bytes that it lies in: in pieces, checked on the way.

Before: routes/results.py has the item. After: offer.py says how it is handed out. A page in a pack is read like one
that was compressed by itself: what its record has before it and behind it is passed over.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from swath.domain.errors import StoreDamaged
from swath.domain.item import ItemRecord
from swath.domain.keys import download_name, page_name
from swath.domain.layout import PackedAt, file_of
from swath.domain.result import Artifact
from swath.entrypoints.api.inert import Span
from swath.pipeline.finish.warc import PagePlace, place_of
from swath.ports.result_storage import ResultStorage

__all__ = ["PIECE_BYTES", "Stored", "find_artifact", "names_of"]

PIECE_BYTES: Final = 256 << 10  # a few of them are held for each download; of a bucket each is a request
_WORDS: Final = {
    "html": "html.html",
    "data": "data.json",
    "metadata": "metadata.json",
    "screenshot": "screenshot.png",
}
_GZIP: Final = b"\x1f\x8b\x08"
_GZIP_WBITS: Final = 31
_BEGINNING_BYTES: Final = 64  # of a page; kinds of files are told by fewer
_SIZE_BYTES: Final = 4  # at the end of a gzip; pages are far smaller than what would not fit


class _Page(msgspec.Struct, frozen=True):
    file: str | None = None


class _Metadata(msgspec.Struct, frozen=True):
    pages: tuple[_Page, ...] = ()


def names_of(record: ItemRecord) -> list[str]:
    """The files of an item, by the names under which they can be asked for."""
    return [file_of(record.item_id, artifact.key) for artifact in record.artifacts]


def find_artifact(record: ItemRecord, wanted: str) -> Artifact | None:
    """By word (`html`, `data`, `metadata`, `screenshot`), by file, or by the name of a page or a download."""
    by_name = {file_of(record.item_id, artifact.key): artifact for artifact in record.artifacts}
    for name in [_WORDS[wanted]] if wanted in _WORDS else (wanted, page_name(wanted), download_name(wanted)):
        found = by_name.get(name) or (by_name.get(f"{name}.gz") if name.endswith(".html") else None)
        if found is not None:
            return found
    return None


class Stored:
    """One file of an item that has ended, stored by itself, or as a record of a pack: then its bytes are the record's.

    Raises StoreDamaged when it is not what was stored.
    """

    def __init__(self, storage: ResultStorage, job_id: str, record: ItemRecord, artifact: Artifact) -> None:
        self._storage = storage
        self._job_id = job_id
        self._record = record
        self.artifact = artifact
        packed = PackedAt.of(artifact.key)
        self._key, self._start = (artifact.key, 0) if packed is None else (packed.pack, packed.start)

    async def read(self, start: int, length: int) -> bytes:
        """A piece of it."""
        try:
            return await self._storage.read(self._job_id, self._key, self._start + start, min(length, PIECE_BYTES))
        except KeyError:
            raise self._damaged("is missing") from None

    async def is_packed(self, beginning: bytes) -> bool:
        """Whether it is a page that was compressed for storing. In a bucket its name does not say so."""
        key = self.artifact.key
        if key.endswith(".html.gz"):
            return True
        if not key.endswith(".html") or not beginning.startswith(_GZIP):
            return False
        about = find_artifact(self._record, "metadata")
        if about is None:
            return False
        try:
            told = msgspec.json.decode(await self._storage.get(self._job_id, about.key), type=_Metadata)
        except (KeyError, msgspec.MsgspecError):
            return False
        return any(page.file == f"{file_of(self._record.item_id, key)}.gz" for page in told.pages)

    async def pieces(self, span: Span, first: bytes) -> AsyncIterator[bytes]:
        """The bytes of the span, of which the first piece was read already. Of a whole file the last piece goes out
        when the hash is right: whoever has got all of it has got what was stored."""
        digest = hashlib.sha256() if span.whole else None
        at, piece = span.start, first
        while True:
            at += len(piece)
            if digest is not None:
                digest.update(piece)
            if at >= span.end:
                break
            yield piece
            piece = await self.read(at, span.end - at)
            if not piece:
                raise self._damaged("is too short")
        if digest is not None and digest.hexdigest() != self.artifact.sha256:
            raise self._damaged("has other bytes than were stored")
        yield piece

    async def unpacked_size(self) -> int:
        """How many bytes a packed page has: gzip says so at its end."""
        return int.from_bytes(await self.read(max(0, self.artifact.size - _SIZE_BYTES), _SIZE_BYTES), "little")

    async def place(self, first: bytes) -> tuple[PagePlace, bytes]:
        """Where the page is in its unpacked record, and how it begins; no more is unpacked than that takes."""
        seen = b""
        async for piece in self._all_unpacked(first):
            seen += piece
            try:
                place = place_of(seen)
            except ValueError as error:
                raise self._damaged(f"cannot be read: {error}") from None
            if place is not None and len(seen) >= min(place.end, place.start + _BEGINNING_BYTES):
                return place, seen[place.start : min(place.end, place.start + _BEGINNING_BYTES)]
        raise self._damaged("is too short")

    async def unpacked(self, span: Span, first: bytes, before: int = 0) -> AsyncIterator[bytes]:
        """These bytes of the page as it was fetched, in pieces; those before them are unpacked and let go, and so are
        the `before` ones that are not the page's. Of a whole page the last piece goes out when the hash is right."""
        at, held = -before, b""
        async for piece in self._all_unpacked(first):
            wanted = piece[max(0, span.start - at) : max(0, span.end - at)]
            at += len(piece)
            if wanted:
                if held:
                    yield held
                held = wanted
            else:
                await asyncio.sleep(0)  # nobody who is sent something holds us up here, so others get their turn
            if at >= span.end and not span.whole:
                break
        if at < span.end:
            raise self._damaged("is too short")
        yield held

    async def _all_unpacked(self, first: bytes) -> AsyncIterator[bytes]:
        size = self.artifact.size
        unpacking = zlib.decompressobj(_GZIP_WBITS)
        try:
            async for piece in self.pieces(Span(0, size, size), first):
                left = piece
                while left:
                    yield unpacking.decompress(left, PIECE_BYTES)
                    left = unpacking.unconsumed_tail
            yield unpacking.flush()
        except zlib.error:
            raise self._damaged("cannot be unpacked") from None

    def _damaged(self, how: str) -> StoreDamaged:
        told = f"the stored file {self.artifact.key} of job {self._job_id!r} {how}; see `swath jobs verify`"
        return StoreDamaged(told, self._job_id)
