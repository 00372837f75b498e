"""Rows that come in over a connection: a coroutine feeds bytes, a thread reads them as it reads a file.

Before: the API receives a body. After: batches.py, the same as for files. No more than a little is ever held: who feeds
waits for who reads, and so, by way of the socket, does the sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from swath.domain.errors import BadInput
from swath.pipeline.accept.file_source import Format, opened_rows
from swath.pipeline.accept.raw_bytes import chunks_of, unpacked
from swath.pipeline.accept.rows import ROW_LIMIT_CHARS, OpenedRows

__all__ = ["ByteStream", "StreamSource"]

HELD_BYTES: Final = 1 << 20
LINE_LIMIT_BYTES: Final = 4 * ROW_LIMIT_CHARS  # a character has four bytes at most
FREE_BYTES: Final = 8 << 20  # so much may come of however little
MOST_TIMES: Final = 200  # lists of numbers and names pack to a tenth; a bomb to a thousandth


class ByteStream:
    """Bytes on their way from the event loop on which it was made to one thread that reads. A ByteReader."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = held_bytes
        self._room = asyncio.Event()
        self._room.set()
        self._changed = threading.Condition()
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self.read_bytes = 0

    async def feed(self, data: bytes) -> None:
        """Hands over some bytes; returns when there is room for more, or nobody reads any longer."""
        with self._changed:
            if self._ended or not data:
                return
            self._held.append(data)
            self._held_bytes += len(data)
            full = self._held_bytes >= self._most
            if full:
                self._room.clear()
            self._changed.notify()
        if full:
            await self._room.wait()

    def end(self, error: Exception | None = None) -> None:
        """No more comes. With an error the reader gets that at once, and nothing of what it has not read."""
        with self._changed:
            if not self._ended:
                self._ended, self._error = True, error
            self._changed.notify()
        self._room.set()

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes or a piece as it was fed, whichever is more; none at the end. Raises the error of `end`.

        Runs in the thread.
        """
        with self._changed:
            while not (self._held or self._ended):
                self._changed.wait()
            if self._error is not None:
                raise self._error
            taken = self._take(size)
            roomy = self._held_bytes <= self._most // 2
        self.read_bytes += len(taken)
        if roomy and not self._room.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._room.set)
        return taken

    def _take(self, size: int) -> bytes:
        pieces: list[bytes] = []
        length = 0
        while self._held and (not pieces or length + len(self._held[0]) <= size):
            pieces.append(self._held.popleft())
            length += len(pieces[-1])
        self._held_bytes -= length
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def fileno(self) -> int:
        """There is none."""
        raise io.UnsupportedOperation("fileno")


class StreamSource:
    """A RowSource; it can be read once. Without a format the first character tells it."""

    def __init__(self, name: str, stream: ByteStream, form: Format | None = None) -> None:
        self.name = name
        self._stream = stream
        self._format = form

    @contextmanager
    def open(self) -> Iterator[OpenedRows]:
        """See RowSource."""
        chunks = unpacked(self.name, chunks_of(self.name, self._stream))
        yield opened_rows(self.name, self._bounded(chunks), self._format)

    def _bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Raises BadInput for what would go on for ever at little cost to whoever sends it."""
        total, line_bytes = 0, 0
        for chunk in chunks:
            total += len(chunk)
            if total > FREE_BYTES and total > MOST_TIMES * self._stream.read_bytes:
                raise BadInput(f"{self.name}: unpacks to more than {MOST_TIMES} times its size; send it unpacked")
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            line_bytes = line_bytes + len(chunk) if end < 0 else len(chunk) - end - 1
            if line_bytes > LINE_LIMIT_BYTES and self._format is not Format.JSON:
                told = f"has a line of more than {LINE_LIMIT_BYTES:,} bytes"
                raise BadInput(f"{self.name}: {told}; put each item on a line of its own, or say that it is JSON")
            yield chunk
