"""Finds the stored file that a request names, and reads it in checked pieces, whichever layout it is stored in.

Files and WARC records are streamed as they are read. A file that shares a JSON line is unpacked and checked as a
whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import StoreDamaged
from swath.domain.item import ItemRecord
from swath.domain.result import Artifact
from swath.domain.storage_keys import WARC_SUFFIX, PackLocation, artifact_file_name, download_file_name, page_file_name
from swath.entrypoints.api.downloads import ByteRange, DownloadSlots, safe_file_name
from swath.pipeline.formats.stored_files import decode_item_files, read_artifact
from swath.pipeline.formats.warc import BodyLocation, locate_body
from swath.ports.result_storage import ResultStorage

__all__ = ["PIECE_BYTES", "Body", "DownloadableFile", "StoredFile", "artifact_names", "downloadable", "find_artifact"]

PIECE_BYTES: Final = 256 << 10  # a few of them are held for each download; of a bucket each is a request
_FILE_OF_ALIAS: Final = {
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


def artifact_names(record: ItemRecord) -> list[str]:
    """The files of an item, by the names under which they can be asked for."""
    return [artifact_file_name(record.item_id, artifact.key) for artifact in record.artifacts]


def find_artifact(record: ItemRecord, wanted: str) -> Artifact | None:
    """By word (`html`, `data`, `metadata`, `screenshot`), by file, or by the name of a page or a download."""
    by_name = {artifact_file_name(record.item_id, artifact.key): artifact for artifact in record.artifacts}
    for name in (
        [_FILE_OF_ALIAS[wanted]]
        if wanted in _FILE_OF_ALIAS
        else (wanted, page_file_name(wanted), download_file_name(wanted))
    ):
        found = by_name.get(name) or (by_name.get(f"{name}.gz") if name.endswith(".html") else None)
        if found is not None:
            return found
    return None


class StoredFile:
    """One file of an item that has ended, stored by itself, or as a record of a pack: then its bytes are the record's.

    Raises StoreDamaged when it is not what was stored.
    """

    def __init__(self, storage: ResultStorage, job_id: str, record: ItemRecord, artifact: Artifact) -> None:
        self._storage = storage
        self._job_id = job_id
        self._record = record
        self.artifact = artifact
        packed = PackLocation.of(artifact.key)
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
        return any(page.file == f"{artifact_file_name(self._record.item_id, key)}.gz" for page in told.pages)

    async def pieces(self, span: ByteRange, first: bytes) -> AsyncIterator[bytes]:
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

    async def place(self, first: bytes) -> tuple[BodyLocation, bytes]:
        """Where the page is in its unpacked record, and how it begins; no more is unpacked than that takes."""
        seen = b""
        async for piece in self._all_unpacked(first):
            seen += piece
            try:
                place = locate_body(seen)
            except ValueError as error:
                raise self._damaged(f"cannot be read: {error}") from None
            if place is not None and len(seen) >= min(place.end, place.start + _BEGINNING_BYTES):
                return place, seen[place.start : min(place.end, place.start + _BEGINNING_BYTES)]
        raise self._damaged("is too short")

    async def unpacked(self, span: ByteRange, first: bytes, before: int = 0) -> AsyncIterator[bytes]:
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
            async for piece in self.pieces(ByteRange(0, size, size), first):
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


Body = bytes | AsyncIterator[bytes]


class DownloadableFile(NamedTuple):
    """`body` gives a part of it. `beginning` is enough to see what kind of file it is."""

    name: str
    etag: str
    size: int
    beginning: bytes
    headers: dict[str, str]
    body: Callable[[ByteRange], Awaitable[Body]]


class _PackedFile(NamedTuple):
    storage: ResultStorage
    job_id: str
    record: ItemRecord
    artifact: Artifact


async def downloadable(
    storage: ResultStorage, job_id: str, record: ItemRecord, artifact: Artifact, downloads: DownloadSlots, accepted: str
) -> DownloadableFile:
    """What can be had of an artifact by who accepts these encodings. Raises StoreDamaged."""
    packed = PackLocation.of(artifact.key)
    if packed is None:
        return await _single_file(StoredFile(storage, job_id, record, artifact), takes_gzip=_takes_gzip(accepted))
    if packed.pack.endswith(WARC_SUFFIX):
        return await _file_in_warc_record(StoredFile(storage, job_id, record, artifact))
    return await _file_in_json_line(_PackedFile(storage, job_id, record, artifact), downloads)


async def _single_file(stored: StoredFile, *, takes_gzip: bool) -> DownloadableFile:
    artifact = stored.artifact
    beginning = await stored.read(0, min(artifact.size, PIECE_BYTES))
    packed = await stored.is_packed(beginning)
    plain = packed and not takes_gzip
    headers = {"Vary": "Accept-Encoding"} if packed else {}
    if packed and not plain:
        headers["Content-Encoding"] = "gzip"

    async def body(span: ByteRange) -> Body:
        if plain:
            pieces, small = stored.unpacked(span, beginning), span.length <= PIECE_BYTES
        else:
            first = beginning if span.whole else await stored.read(span.start, span.length)
            pieces, small = stored.pieces(span, first), len(first) >= span.length
        return b"".join([piece async for piece in pieces]) if small else pieces

    return DownloadableFile(
        name=safe_file_name(artifact.key.removesuffix(".gz") if packed else artifact.key),
        etag=f'"{artifact.sha256}{"-plain" if plain else ""}"',
        size=await stored.unpacked_size() if plain else artifact.size,
        beginning=beginning,
        headers=headers,
        body=body,
    )


async def _file_in_warc_record(stored: StoredFile) -> DownloadableFile:
    first = await stored.read(0, stored.artifact.size)
    place, beginning = await stored.place(first)

    async def body(span: ByteRange) -> Body:
        pieces = stored.unpacked(span, first, place.start)
        return b"".join([piece async for piece in pieces]) if span.length <= PIECE_BYTES else pieces

    return DownloadableFile(safe_file_name(stored.artifact.key), f'"{place.sha256}"', place.size, beginning, {}, body)


async def _file_in_json_line(place: _PackedFile, downloads: DownloadSlots) -> DownloadableFile:
    async with downloads.unpacking:
        size, digest, beginning = await _size_and_digest(place)

    async def body(span: ByteRange) -> Body:
        return beginning[span.start : span.end] if span.end <= len(beginning) else _unpacked_pieces(place, span)

    return DownloadableFile(safe_file_name(place.artifact.key), f'"{digest}"', size, beginning, {}, body)


async def _size_and_digest(place: _PackedFile) -> tuple[int, str, bytes]:
    whole = await _unpacked(place)
    return len(whole), await asyncio.to_thread(lambda: hashlib.sha256(whole).hexdigest()), whole[:PIECE_BYTES]


async def _unpacked_pieces(place: _PackedFile, span: ByteRange) -> AsyncIterator[bytes]:
    whole = await _unpacked(place)
    for start in range(span.start, span.end, PIECE_BYTES):
        yield whole[start : min(span.end, start + PIECE_BYTES)]


async def _unpacked(place: _PackedFile) -> bytes:
    raw = await read_artifact(place.storage, place.job_id, place.artifact)
    item_id = place.record.item_id
    files = await asyncio.to_thread(decode_item_files, place.job_id, item_id, [place.artifact], [raw])
    return files[artifact_file_name(item_id, place.artifact.key)]


def _takes_gzip(accepted: str) -> bool:
    """Whether the caller says that it can unpack."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
