"""The bytes of a file or of stdin, unpacked if they are gzip, in chunks of bounded size.

Comes before: text.py, which makes characters of them. What the operating system refuses becomes BadInput here.
"""

from __future__ import annotations

import difflib
import os
import select
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from swath.domain.errors import BadInput

__all__ = ["CHUNK_BYTES", "STDIN", "ByteReader", "chunks_of", "open_bytes", "reason", "unpacked"]

CHUNK_BYTES: Final = 1 << 17
WRITER_SECONDS: Final = 60.0  # for somebody to open a pipe at its other end; what is written may come much later
STDIN: Final = "-"

_GZIP: Final = b"\x1f\x8b"
_FOREIGN: Final = (
    (b"PK\x03\x04", "is a zip archive or an Excel workbook; save the sheet as CSV (UTF-8), or unzip it"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook; save the sheet as CSV (UTF-8)"),
    (b"BZh", "is packed with bzip2; unpack it: bunzip2 -k"),
    (b"\xfd7zXZ", "is packed with xz; unpack it: unxz -k"),
    (b"\x28\xb5\x2f\xfd", "is packed with zstd; unpack it: unzstd"),
    (b"PAR1", "is Parquet, which cannot be read; export it as CSV or JSON Lines"),
    (b"%PDF", "is a PDF; give a CSV, JSON or JSON Lines file"),
)
_LONGEST_MAGIC: Final = 8


class ByteReader(Protocol):
    """An open file or pipe."""

    def read(self, size: int, /) -> bytes | None:
        """At most so many bytes; none at the end, None from a non-blocking pipe that is empty for now."""
        ...

    def fileno(self) -> int:
        """By which to wait for such a pipe."""
        ...


def open_bytes(path: str, stdin: ByteReader | None) -> AbstractContextManager[ByteReader]:
    """The open file; `-` is stdin, which stays open. Raises BadInput."""
    try:
        if path != STDIN:
            return _open_pipe(path) if Path(path).is_fifo() else _open(path)
        if stdin is not None:
            return nullcontext(stdin)
        # Unbuffered and ours: a thread waiting in sys.stdin would hold its lock when the interpreter ends.
        return open(0, "rb", buffering=0, closefd=False)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path or repr(path)}: {reason(path, error)}") from None


def _open(path: str) -> FileIO:
    return FileIO(path)  # the caller closes it


def _open_pipe(path: str) -> FileIO:
    """Waits until something comes, or at least somebody is there who may write. Raises BadInput when nobody is."""
    pipe = FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    coming = select.poll()
    coming.register(pipe, select.POLLIN)
    silent = not coming.poll(WRITER_SECONDS * 1_000) and not coming.poll(0)
    if silent and pipe.read(1) == b"":  # with a writer it would be None
        pipe.close()
        raise BadInput(
            f"{path}: is a pipe that nobody has written to in {WRITER_SECONDS:g} s; start what writes to it first"
        )
    os.set_blocking(pipe.fileno(), True)
    return pipe


def reason(path: str, error: OSError | ValueError) -> str:
    """What went wrong with a file, and what to do."""
    match error:
        case FileNotFoundError():
            return f"there is no such file{_neighbour(path)}"
        case IsADirectoryError():
            return "is a directory; name one file in it"
        case PermissionError():
            return "may not be read; give yourself permission: chmod u+r"
        case OSError():
            return f"cannot be read: {error.strerror or error}"
    return "is not the name of a file"  # a NUL byte inside it


def _neighbour(path: str) -> str:
    try:
        names = [entry.name for entry in Path(path).parent.iterdir()]
    except (OSError, ValueError):
        return "; check the path"
    near = difflib.get_close_matches(Path(path).name, names, n=1, cutoff=0.75)
    return f"; did you mean {str(Path(path).with_name(near[0]))!r}?" if near else "; check the path"


def chunks_of(name: str, file: ByteReader) -> Iterator[bytes]:
    """Reads to the end. The first chunk is long enough to tell formats apart, however slowly a pipe is filled."""
    held = b""
    try:
        while data := _read(file):
            held += data
            if len(held) >= _LONGEST_MAGIC:
                yield held
                held = b""
    except OSError as error:
        raise BadInput(f"{name}: {reason(name, error)}") from None
    if held:
        yield held


def _read(file: ByteReader) -> bytes:
    while (data := file.read(CHUNK_BYTES)) is None:
        select.select([file], [], [])
    return data


def unpacked(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpacks gzip, known by its first bytes whatever the name says; refuses other packed and binary formats."""
    head = next(chunks, b"")
    for magic, hint in _FOREIGN:
        if head.startswith(magic):
            raise BadInput(f"{name}: {hint}")
    rest = chain((head,), chunks)
    return _gunzip(name, rest) if head.startswith(_GZIP) else rest


def _gunzip(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpacks one or more gzip members; `max_length` keeps a bomb from being unpacked at once."""
    member = zlib.decompressobj(wbits=31)
    begun = True
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if not begun:  # between members; some tools pad with zeros
                    data = data.lstrip(b"\0")
                    begun = bool(data)
                    continue
                if unpacked_part := member.decompress(data, CHUNK_BYTES):
                    yield unpacked_part
                data = member.unconsumed_tail or member.unused_data
                if member.eof:
                    member, begun = zlib.decompressobj(wbits=31), False
    except zlib.error:
        raise BadInput(f"{name}: is damaged gzip; fetch it again, and check it with gzip -t") from None
    if begun:
        raise BadInput(f"{name}: is cut off in the middle of its gzip data; fetch it again, and check it with gzip -t")
