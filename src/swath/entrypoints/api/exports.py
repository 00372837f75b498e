"""Exports: a job's records as one answer (R5), a few at once. Before: routes/export.py has the job and what is wanted.

Text and archives go out as they are made. Tables are made whole in a temporary file first, which nobody finds once it
was sent. Whatever goes wrong before the first byte is told in the envelope; after it, the connection is cut.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi.responses import StreamingResponse

from swath.entrypoints.api.edge import told
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.pipeline.results.export import Export, Format
from swath.pipeline.results.part import writing

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import Receive, Scope, Send

__all__ = ["Exports"]

MOST_AT_ONCE: Final = 2  # each takes as much memory as some hundred records, and much of a processor
PLACE_SECONDS: Final = 10.0  # that one waits until another is over
PIECE_BYTES: Final = 256 << 10


class Exports:
    """How many exports are made at once. One per controller."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    def answer(self, export: Export, form: Format) -> Response:
        """An answer that waits for its place; where none gets free it is rate_limited."""
        return _Answer(export.pieces() if form.streams else _from_file(export, form), self._places)

    def lines(self, pieces: AsyncGenerator[bytes, None], kind: str) -> Response:
        """The same for a check or a comparison, which reads as much."""
        answer = _Answer(pieces, self._places)
        answer.headers["Content-Type"] = kind
        answer.headers["Cache-Control"] = "no-store"
        return answer


async def _from_file(export: Export, form: Format) -> AsyncGenerator[bytes, None]:
    target = Path(tempfile.gettempdir()) / f"swath-export-{os.getuid()}.{form.value}"
    with writing(target, private=True) as part:
        await export.to_part(part.path)
        with part.path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece


class _Answer(StreamingResponse):
    """Has its place only while it is made and sent: an answer that nobody waits for cannot keep one."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], places: asyncio.Semaphore) -> None:
        super().__init__(self._all())
        self._pieces = pieces
        self._places = places
        self._first = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            said = f"{MOST_AT_ONCE} exports, checks or comparisons are under way here; try again later"
            await ApiError(ErrorCode.RATE_LIMITED, said, retry_after=PLACE_SECONDS).answer()(scope, receive, send)
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
            await told(error).answer()(scope, receive, send)
            return
        await super().__call__(scope, receive, send)

    async def _all(self) -> AsyncGenerator[bytes, None]:
        yield self._first
        async for piece in self._pieces:
            yield piece
