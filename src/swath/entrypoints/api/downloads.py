"""Sends stored files and exports, a few at once, with headers that keep a browser from executing them (Z7).

Supports one byte range per request. Exports in a table format are written to an unnamed temporary file first. Errors
before the first byte use the envelope; after it, the connection is cut.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi.responses import StreamingResponse

from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.middleware import logged_api_error
from swath.pipeline.results.export.exporter import Export, ExportFormat
from swath.pipeline.results.export.output_file import open_output

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import Receive, Scope, Send

__all__ = [
    "BYTES_TYPE",
    "IMAGE_TYPES",
    "ByteRange",
    "DownloadSlots",
    "ExportSlots",
    "RangeNotSatisfiable",
    "accepts_bytes_only",
    "as_attachment",
    "requested_range",
    "safe_content_type",
    "safe_file_name",
]

_SANDBOX_HEADERS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private",
}
_TEXT: Final = "text/plain; charset=utf-8"
_IMAGES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
IMAGE_TYPES: Final = (*dict.fromkeys(_IMAGES.values()), "image/webp")
BYTES_TYPE: Final = "application/octet-stream"
_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})\s*", re.IGNORECASE)
_RANGES: Final = re.compile(r"\s*bytes\s*=\s*[\d\s,-]+", re.IGNORECASE)
_MAX_NAME_CHARS: Final = 100
MAX_DOWNLOADS: Final = 32  # files in pieces; each holds about a megabyte, or all of a record that was extracted
MAX_UNPACKING: Final = 4  # items that are looked at whole before they are answered with
DOWNLOAD_WAIT_SECONDS: Final = 10.0  # that one waits until another is over


class ByteRange(msgspec.Struct, frozen=True):
    """Bytes from `start` up to and without `end`, of `size`. `ranged`: because a range was asked for."""

    start: int
    end: int
    size: int
    ranged: bool = False

    @property
    def length(self) -> int:
        """How many."""
        return self.end - self.start

    @property
    def whole(self) -> bool:
        """Whether it is all there is."""
        return self.length == self.size


class RangeNotSatisfiable(Exception):
    """A range that the file does not have, or more than one."""


def requested_range(size: int, asked: str | None, if_range: str | None, etag: str) -> ByteRange:
    """The part that a request asks for: all of it, where no range is meant or the file is another one by now.

    Raises Unsatisfiable.
    """
    whole = ByteRange(0, size, size)
    if asked is None or (if_range is not None and if_range.strip() != etag):
        return whole
    found = _RANGE.fullmatch(asked)
    if found is None or found[1] == found[2] == "":
        if "," in asked and _RANGES.fullmatch(asked):
            raise RangeNotSatisfiable("ask for one range at a time")
        return whole  # of a unit that we do not know, or nonsense: as if nothing was said
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return whole
    if start >= end:
        raise RangeNotSatisfiable(f"the file has {size:,} bytes")
    return ByteRange(start, end, size, ranged=True)


def safe_content_type(beginning: bytes, accepted: str) -> str:
    """Plain text, but for the images that a browser can do no harm with, told by how they begin; bytes for a caller
    that accepts nothing else."""
    if accepts_bytes_only(accepted):
        return BYTES_TYPE
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES.items() if beginning.startswith(magic)), _TEXT)


def accepts_bytes_only(accepted: str) -> bool:
    """Whether the header `Accept` names application/octet-stream, and no other type."""
    return {part.partition(";")[0].strip().lower() for part in accepted.split(",")} == {BYTES_TYPE}


def safe_file_name(key: str) -> str:
    """A name to save it under, of plain characters alone."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key.rpartition("/")[2])[-_MAX_NAME_CHARS:].lstrip(".")
    return name or "artifact"


class DownloadSlots:
    """How many files are handed out in pieces at once, and how many items are `unpacking` whole. One per controller."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MAX_DOWNLOADS)
        self.unpacking = asyncio.Semaphore(MAX_UNPACKING)

    def answer(self, pieces: AsyncIterator[bytes], status: int) -> Response:
        """An answer that waits for its place; where none gets free it is rate_limited."""
        return _StreamedDownload(pieces, status, self._places)


class _StreamedDownload(StreamingResponse):
    """Has its place only while it is sent: an answer that is never sent cannot keep one."""

    def __init__(self, pieces: AsyncIterator[bytes], status: int, places: asyncio.Semaphore) -> None:
        super().__init__(pieces, status)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(DOWNLOAD_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            told = f"{MAX_DOWNLOADS} downloads are under way here; try again later"
            refusal = ApiError(ErrorCode.RATE_LIMITED, told, retry_after=DOWNLOAD_WAIT_SECONDS)
            await refusal.answer()(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.release()


def as_attachment(made: Response, headers: Mapping[str, str], name: str, kind: str) -> Response:
    """That answer, unable to do anything. One that is all there knows its length; one in pieces needs it here."""
    for header, value in headers.items():
        made.headers[header] = value
    for header, value in _SANDBOX_HEADERS.items():
        made.headers[header] = value
    made.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    made.headers["Content-Type"] = kind
    return made


MAX_EXPORTS: Final = 2  # each takes as much memory as some hundred records, and much of a processor
EXPORT_WAIT_SECONDS: Final = 10.0  # that one waits until another is over
PIECE_BYTES: Final = 256 << 10


class ExportSlots:
    """How many exports are made at once. One per controller."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MAX_EXPORTS)

    def answer(self, export: Export, form: ExportFormat) -> Response:
        """An answer that waits for its place; where none gets free it is rate_limited."""
        return _ExportResponse(export.pieces() if form.streams else _table_pieces(export, form), self._places)

    def lines(self, pieces: AsyncGenerator[bytes, None], kind: str) -> Response:
        """The same for a check or a comparison, which reads as much."""
        answer = _ExportResponse(pieces, self._places)
        answer.headers["Content-Type"] = kind
        answer.headers["Cache-Control"] = "no-store"
        return answer


async def _table_pieces(export: Export, form: ExportFormat) -> AsyncGenerator[bytes, None]:
    target = Path(tempfile.gettempdir()) / f"swath-export-{os.getuid()}.{form.value}"
    with open_output(target, private=True) as part:
        await export.to_part(part.path)
        with part.path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece


class _ExportResponse(StreamingResponse):
    """Has its place only while it is made and sent: an answer that nobody waits for cannot keep one."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], places: asyncio.Semaphore) -> None:
        super().__init__(self._all())
        self._pieces = pieces
        self._places = places
        self._first = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(EXPORT_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            said = f"{MAX_EXPORTS} exports, checks or comparisons are under way here; try again later"
            await ApiError(ErrorCode.RATE_LIMITED, said, retry_after=EXPORT_WAIT_SECONDS).answer()(scope, receive, send)
            return
        try:
            await self._send(scope, receive, send)
        finally:
            await self._pieces.aclose()
            self._places.release()

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._first = await anext(self._pieces)
        except Exception as error:  # noqa: BLE001 nothing was sent yet, so whatever it is can be told
            await logged_api_error(error).answer()(scope, receive, send)
            return
        await super().__call__(scope, receive, send)

    async def _all(self) -> AsyncGenerator[bytes, None]:
        yield self._first
        async for piece in self._pieces:
            yield piece
