"""Inert: how a stored file is handed out, so that nothing a site has sent can do anything here (Z7). One range at most.

Before: routes/results.py has found the artifact. The headers that make it so are put on last, so nothing that comes
before can take them away.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi.responses import StreamingResponse

from swath.entrypoints.api.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import Receive, Scope, Send

__all__ = [
    "BYTES_TYPE",
    "IMAGE_TYPES",
    "Downloads",
    "Span",
    "Unsatisfiable",
    "accepts_bytes_only",
    "content_type",
    "file_name",
    "inert",
    "wanted_span",
]

_INERT: Final = {
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
_LONGEST_NAME: Final = 100
MOST_AT_ONCE: Final = 32  # files in pieces; each holds about a megabyte, or all of a record that was extracted
UNPACKED_AT_ONCE: Final = 4  # items that are looked at whole before they are answered with
PLACE_SECONDS: Final = 10.0  # that one waits until another is over


class Span(msgspec.Struct, frozen=True):
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


class Unsatisfiable(Exception):
    """A range that the file does not have, or more than one."""


def wanted_span(size: int, asked: str | None, if_range: str | None, etag: str) -> Span:
    """The part that a request asks for: all of it, where no range is meant or the file is another one by now.

    Raises Unsatisfiable.
    """
    whole = Span(0, size, size)
    if asked is None or (if_range is not None and if_range.strip() != etag):
        return whole
    found = _RANGE.fullmatch(asked)
    if found is None or found[1] == found[2] == "":
        if "," in asked and _RANGES.fullmatch(asked):
            raise Unsatisfiable("ask for one range at a time")
        return whole  # of a unit that we do not know, or nonsense: as if nothing was said
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return whole
    if start >= end:
        raise Unsatisfiable(f"the file has {size:,} bytes")
    return Span(start, end, size, ranged=True)


def content_type(beginning: bytes, accepted: str) -> str:
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


def file_name(key: str) -> str:
    """A name to save it under, of plain characters alone."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key.rpartition("/")[2])[-_LONGEST_NAME:].lstrip(".")
    return name or "artifact"


class Downloads:
    """How many files are handed out in pieces at once, and how many items are `unpacking` whole. One per controller."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self.unpacking = asyncio.Semaphore(UNPACKED_AT_ONCE)

    def answer(self, pieces: AsyncIterator[bytes], status: int) -> Response:
        """An answer that waits for its place; where none gets free it is rate_limited."""
        return _InPieces(pieces, status, self._places)


class _InPieces(StreamingResponse):
    """Has its place only while it is sent: an answer that is never sent cannot keep one."""

    def __init__(self, pieces: AsyncIterator[bytes], status: int, places: asyncio.Semaphore) -> None:
        super().__init__(pieces, status)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            told = f"{MOST_AT_ONCE} downloads are under way here; try again later"
            refusal = ApiError(ErrorCode.RATE_LIMITED, told, retry_after=PLACE_SECONDS)
            await refusal.answer()(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.release()


def inert(made: Response, headers: Mapping[str, str], name: str, kind: str) -> Response:
    """That answer, unable to do anything. One that is all there knows its length; one in pieces needs it here."""
    for header, value in headers.items():
        made.headers[header] = value
    for header, value in _INERT.items():
        made.headers[header] = value
    made.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    made.headers["Content-Type"] = kind
    return made
