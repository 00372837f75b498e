"""Reads rows from a CSV, JSON or JSON Lines file, from stdin, or from bytes that arrive over a connection.

Reading happens in a thread. A bounded buffer passes bytes from the event loop to it, and ReadAhead passes its
results
back, so a fast sender waits for a slow reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import PurePath
from types import TracebackType
from typing import Final, Generic, TypeVar

from swath.domain.errors import BadInput
from swath.pipeline.ingest.sources.csv_rows import CsvRows
from swath.pipeline.ingest.sources.decoding import (
    STDIN,
    ByteReader,
    TextLines,
    decompress,
    open_bytes,
    read_chunks,
    text_blocks,
)
from swath.pipeline.ingest.sources.json_rows import json_array_rows, json_lines_rows
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS, OpenSource

__all__ = ["ByteStream", "FileSource", "InputFormat", "ReadAhead", "StreamSource", "format_by_name", "open_rows"]


class InputFormat(StrEnum):
    """How rows are written in a file."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"


_SUFFIXES: Final = {
    ".csv": InputFormat.CSV,
    ".tsv": InputFormat.CSV,
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSONL,
    ".ndjson": InputFormat.JSONL,
}


class FileSource:
    """A file by its path; `-` is stdin. The suffix tells the format (without .gz), else the first character does."""

    def __init__(
        self,
        path: str | PurePath,
        form: InputFormat | None = None,
        *,
        delimiter: str | None = None,
        stdin: ByteReader | None = None,
    ) -> None:
        self._path = str(path)
        self.name = "stdin" if self._path == STDIN else self._path
        self._format = form or format_by_name(self._path)
        self._delimiter = delimiter or ("\t" if _suffix(self._path) == ".tsv" else None)
        self._stdin = stdin

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """See RowSource."""
        with open_bytes(self._path, self._stdin) as file:
            chunks = decompress(self.name, read_chunks(self.name, file))
            yield open_rows(self.name, chunks, self._format, self._delimiter)


def open_rows(name: str, chunks: Iterator[bytes], form: InputFormat | None, delimiter: str | None = None) -> OpenSource:
    """The rows in these bytes, which are not packed any more; without a format their first character tells it."""
    blocks = text_blocks(name, chunks)
    head = next(blocks, "")
    blocks = chain((head,), blocks) if head else blocks
    match form or _by_content(head):
        case InputFormat.CSV:
            rows = CsvRows(name, TextLines(blocks), delimiter)
            return OpenSource(rows.columns, iter(rows))
        case _ if not head:
            raise BadInput(f"{name}: is empty; it needs an object for each item")
        case InputFormat.JSON:
            return OpenSource(None, json_array_rows(name, blocks))
        case InputFormat.JSONL:
            return OpenSource(None, json_lines_rows(name, TextLines(blocks)))


def _suffix(name: str) -> str:
    path = PurePath(name.lower())
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def format_by_name(name: str) -> InputFormat | None:
    """What the suffix says, without .gz."""
    return _SUFFIXES.get(_suffix(name))


def _by_content(head: str) -> InputFormat:
    return {"[": InputFormat.JSON, "{": InputFormat.JSONL}.get(head.lstrip()[:1], InputFormat.CSV)


HELD_BYTES: Final = 1 << 20
LINE_LIMIT_BYTES: Final = 4 * ROW_LIMIT_CHARS  # a character has four bytes at most
UNCHECKED_BYTES: Final = 8 << 20  # so much may come of however little
MAX_EXPANSION: Final = 200  # lists of numbers and names pack to a tenth; a bomb to a thousandth


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

    def __init__(self, name: str, stream: ByteStream, form: InputFormat | None = None) -> None:
        self.name = name
        self._stream = stream
        self._format = form

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """See RowSource."""
        chunks = decompress(self.name, read_chunks(self.name, self._stream))
        yield open_rows(self.name, self._bounded(chunks), self._format)

    def _bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Raises BadInput for what would go on for ever at little cost to whoever sends it."""
        total, line_bytes = 0, 0
        for chunk in chunks:
            total += len(chunk)
            if total > UNCHECKED_BYTES and total > MAX_EXPANSION * self._stream.read_bytes:
                raise BadInput(f"{self.name}: unpacks to more than {MAX_EXPANSION} times its size; send it unpacked")
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            line_bytes = line_bytes + len(chunk) if end < 0 else len(chunk) - end - 1
            if line_bytes > LINE_LIMIT_BYTES and self._format is not InputFormat.JSON:
                told = f"has a line of more than {LINE_LIMIT_BYTES:,} bytes"
                raise BadInput(f"{self.name}: {told}; put each item on a line of its own, or say that it is JSON")
            yield chunk


T = TypeVar("T")


class _End:
    """Comes after the last value, with the error if one ended the iteration."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class ReadAhead(Generic[T]):
    """An asynchronous iterator over what `produce()` yields; used as a context, so that the thread is told to stop.

    The thread is a daemon and not from asyncio's pool: one that waits for a silent stdin must not keep the process.
    """

    def __init__(self, produce: Callable[[], Generator[T, None, None]], depth: int = 2) -> None:
        self._produce = produce
        self._room = threading.Semaphore(depth)
        self._stopped = threading.Event()
        self._taken: asyncio.Queue[T | _End] = asyncio.Queue()

    async def __aenter__(self) -> ReadAhead[T]:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(loop,), name="read-ahead", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._room.release()  # the thread may be waiting for room

    def __aiter__(self) -> ReadAhead[T]:
        return self

    async def __anext__(self) -> T:
        value = await self._taken.get()
        if isinstance(value, _End):
            self._taken.put_nowait(value)  # whoever asks again gets the same answer
            raise value.error or StopAsyncIteration
        self._room.release()
        return value

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        end = _End(None)
        try:
            # Closed here, so that a file is closed now and not when its generator is collected.
            with closing(self._produce()) as values:
                for value in values:
                    self._room.acquire()
                    if self._stopped.is_set():
                        break
                    self._hand_over(loop, value)
        except BaseException as error:  # noqa: BLE001 raised again where the values are taken
            end = _End(error)
        self._hand_over(loop, end)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, value: T | _End) -> None:
        try:
            loop.call_soon_threadsafe(self._taken.put_nowait, value)
        except RuntimeError:  # the loop has closed; nobody waits any more
            self._stopped.set()
