"""Offers: a stored file as a caller can have it, whole or in part, whatever layout it lies in. Before: artifacts.py.

After: routes/results.py answers with it. Files and pages go out in pieces as they are read. What is a part of a line is
read and checked whole first; a large one is let go, and read again when it is its turn to be sent.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from swath.domain.item import ItemRecord
from swath.domain.layout import WARC, PackedAt, file_of
from swath.domain.result import Artifact
from swath.entrypoints.api.artifacts import PIECE_BYTES, Stored
from swath.entrypoints.api.inert import Downloads, Span, file_name
from swath.pipeline.finish.stored import plain_files, stored_bytes
from swath.ports.result_storage import ResultStorage

__all__ = ["Body", "Offer", "offer"]

Body = bytes | AsyncIterator[bytes]


class Offer(NamedTuple):
    """`body` gives a part of it. `beginning` is enough to see what kind of file it is."""

    name: str
    etag: str
    size: int
    beginning: bytes
    headers: dict[str, str]
    body: Callable[[Span], Awaitable[Body]]


class _Place(NamedTuple):
    storage: ResultStorage
    job_id: str
    record: ItemRecord
    artifact: Artifact


async def offer(
    storage: ResultStorage, job_id: str, record: ItemRecord, artifact: Artifact, downloads: Downloads, accepted: str
) -> Offer:
    """What can be had of an artifact by who accepts these encodings. Raises StoreDamaged."""
    packed = PackedAt.of(artifact.key)
    if packed is None:
        return await _by_itself(Stored(storage, job_id, record, artifact), takes_gzip=_takes_gzip(accepted))
    if packed.pack.endswith(WARC):
        return await _out_of_a_record(Stored(storage, job_id, record, artifact))
    return await _out_of_a_line(_Place(storage, job_id, record, artifact), downloads)


async def _by_itself(stored: Stored, *, takes_gzip: bool) -> Offer:
    artifact = stored.artifact
    beginning = await stored.read(0, min(artifact.size, PIECE_BYTES))
    packed = await stored.is_packed(beginning)
    plain = packed and not takes_gzip
    headers = {"Vary": "Accept-Encoding"} if packed else {}
    if packed and not plain:
        headers["Content-Encoding"] = "gzip"

    async def body(span: Span) -> Body:
        if plain:
            pieces, small = stored.unpacked(span, beginning), span.length <= PIECE_BYTES
        else:
            first = beginning if span.whole else await stored.read(span.start, span.length)
            pieces, small = stored.pieces(span, first), len(first) >= span.length
        return b"".join([piece async for piece in pieces]) if small else pieces

    return Offer(
        name=file_name(artifact.key.removesuffix(".gz") if packed else artifact.key),
        etag=f'"{artifact.sha256}{"-plain" if plain else ""}"',
        size=await stored.unpacked_size() if plain else artifact.size,
        beginning=beginning,
        headers=headers,
        body=body,
    )


async def _out_of_a_record(stored: Stored) -> Offer:
    first = await stored.read(0, stored.artifact.size)
    place, beginning = await stored.place(first)

    async def body(span: Span) -> Body:
        pieces = stored.unpacked(span, first, place.start)
        return b"".join([piece async for piece in pieces]) if span.length <= PIECE_BYTES else pieces

    return Offer(file_name(stored.artifact.key), f'"{place.sha256}"', place.size, beginning, {}, body)


async def _out_of_a_line(place: _Place, downloads: Downloads) -> Offer:
    async with downloads.unpacking:
        size, digest, beginning = await _looked_at(place)

    async def body(span: Span) -> Body:
        return beginning[span.start : span.end] if span.end <= len(beginning) else _pieces(place, span)

    return Offer(file_name(place.artifact.key), f'"{digest}"', size, beginning, {}, body)


async def _looked_at(place: _Place) -> tuple[int, str, bytes]:
    whole = await _unpacked(place)
    return len(whole), await asyncio.to_thread(lambda: hashlib.sha256(whole).hexdigest()), whole[:PIECE_BYTES]


async def _pieces(place: _Place, span: Span) -> AsyncIterator[bytes]:
    whole = await _unpacked(place)
    for start in range(span.start, span.end, PIECE_BYTES):
        yield whole[start : min(span.end, start + PIECE_BYTES)]


async def _unpacked(place: _Place) -> bytes:
    raw = await stored_bytes(place.storage, place.job_id, place.artifact)
    item_id = place.record.item_id
    files = await asyncio.to_thread(plain_files, place.job_id, item_id, [place.artifact], [raw])
    return files[file_of(item_id, place.artifact.key)]


def _takes_gzip(accepted: str) -> bool:
    """Whether the caller says that it can unpack."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
