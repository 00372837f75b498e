"""Opens a file or stdin, decompresses gzip, decodes UTF-8 and splits it into lines, in chunks of bounded size.

Errors of the operating system and other encodings become BadInput that says what to do.
"""

from __future__ import annotations

import codecs
import difflib
import io
import os
import select
import shlex
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from swath.domain.errors import BadInput
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS

__all__ = [
    "CHUNK_BYTES",
    "STDIN",
    "ByteReader",
    "TextLines",
    "decompress",
    "file_error_message",
    "open_bytes",
    "read_chunks",
    "text_blocks",
]

CHUNK_BYTES: Final = 1 << 17
WRITER_SECONDS: Final = 60.0  # for somebody to open a pipe at its other end; what is written may come much later
STDIN: Final = "-"

_GZIP: Final = b"\x1f\x8b"
_OTHER_FORMATS: Final = (
    (b"PK\x03\x04", "is a zip archive or an Excel workbook; save the sheet as CSV (UTF-8), or unzip it"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook; save the sheet as CSV (UTF-8)"),
    (b"BZh", "is packed with bzip2; unpack it: bunzip2 -k"),
    (b"\xfd7zXZ", "is packed with xz; unpack it: unxz -k"),
    (b"\x28\xb5\x2f\xfd", "is packed with zstd; unpack it: unzstd"),
    (b"PAR1", "is Parquet, which cannot be read; export it as CSV or JSON Lines"),
    (b"%PDF", "is a PDF; give a CSV, JSON or JSON Lines file"),
)
_MAX_MAGIC_BYTES: Final = 8


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
        raise BadInput(f"{path or repr(path)}: {file_error_message(path, error)}") from None


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


def file_error_message(path: str, error: OSError | ValueError) -> str:
    """What went wrong with a file, and what to do."""
    match error:
        case FileNotFoundError():
            return f"there is no such file{_similar_file_hint(path)}"
        case IsADirectoryError():
            return "is a directory; name one file in it"
        case PermissionError():
            return "may not be read; give yourself permission: chmod u+r"
        case OSError():
            return f"cannot be read: {error.strerror or error}"
    return "is not the name of a file"  # a NUL byte inside it


def _similar_file_hint(path: str) -> str:
    try:
        names = [entry.name for entry in Path(path).parent.iterdir()]
    except (OSError, ValueError):
        return "; check the path"
    near = difflib.get_close_matches(Path(path).name, names, n=1, cutoff=0.75)
    return f"; did you mean {str(Path(path).with_name(near[0]))!r}?" if near else "; check the path"


def read_chunks(name: str, file: ByteReader) -> Iterator[bytes]:
    """Reads to the end. The first chunk is long enough to tell formats apart, however slowly a pipe is filled."""
    held = b""
    try:
        while data := _read(file):
            held += data
            if len(held) >= _MAX_MAGIC_BYTES:
                yield held
                held = b""
    except OSError as error:
        raise BadInput(f"{name}: {file_error_message(name, error)}") from None
    if held:
        yield held


def _read(file: ByteReader) -> bytes:
    while (data := file.read(CHUNK_BYTES)) is None:
        select.select([file], [], [])
    return data


def decompress(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpacks gzip, known by its first bytes whatever the name says; refuses other packed and binary formats."""
    head = next(chunks, b"")
    for magic, hint in _OTHER_FORMATS:
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


_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def text_blocks(name: str, chunks: Iterator[bytes]) -> Iterator[str]:
    """Decodes strictly, without the byte order mark. Raises BadInput at the first byte that is not UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines_before, after_cr, first = 0, False, True
    for raw in chunks:
        chunk = raw
        if first:
            _refuse_marks(name, chunk)
            chunk, first = chunk.removeprefix(codecs.BOM_UTF8), False
        if after_cr and chunk.startswith(b"\n"):
            lines_before -= 1  # a CRLF that was cut in two ends one line
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError as error:
            line = lines_before + _line_ends(error.object[: error.start]) + 1
            raise BadInput(_not_utf8(name, line, error)) from None
        if b"\0" in chunk:
            line = lines_before + _line_ends(chunk[: chunk.index(b"\0")]) + 1
            raise BadInput(_has_nul(name, line, chunk))
        lines_before += _line_ends(chunk)
        after_cr = chunk.endswith(b"\r")
        if text:
            yield text
    if decoder.getstate()[0]:
        found = f"line {lines_before + 1}: ends in the middle of a UTF-8 character"
        raise BadInput(f"{name}: {found}; it was cut off, or it is latin-1: {_conversion(name, 'LATIN1')}")


def _line_ends(data: bytes) -> int:
    ends = data.count(b"\n")
    return ends + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else ends


def _refuse_marks(name: str, head: bytes) -> None:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            raise BadInput(f"{name}: line 1: is {encoding}, not UTF-8; {_conversion(name, encoding)}")


def _not_utf8(name: str, line: int, error: UnicodeDecodeError) -> str:
    if _looks_like_utf16(error.object):
        return _has_nul(name, line, error.object)
    # 0x80 to 0x9F are letters and quotes in Windows' code page and hardly ever used in latin-1 proper.
    windows = any(0x80 <= byte <= 0x9F for byte in error.object[error.start : error.start + 4096])
    encoding, spoken = ("CP1252", "Windows-1252") if windows else ("LATIN1", "latin-1")
    found = f"line {line}: byte 0x{error.object[error.start]:02X} is not UTF-8"
    return f"{name}: {found}; the file looks like {spoken}; {_conversion(name, encoding)}"


def _has_nul(name: str, line: int, chunk: bytes) -> str:
    if _looks_like_utf16(chunk):
        encoding = "UTF-16LE" if chunk[0] else "UTF-16BE"
        return f"{name}: line {line}: looks like UTF-16, not UTF-8; {_conversion(name, encoding)}"
    return f"{name}: line {line}: has a NUL byte, so the file is damaged or not text; export it again"


def _looks_like_utf16(chunk: bytes) -> bool:
    """Mostly Latin letters: every other byte is zero, but by far not all of them."""
    return 0.3 < chunk.count(0) / len(chunk) < 0.7


def _conversion(name: str, encoding: str) -> str:
    if name == "stdin":
        return f"convert it on the way in: … | iconv -f {encoding} -t UTF-8 | …"
    file = shlex.quote(name)
    if name.endswith(".gz"):
        plain = shlex.quote(f"utf8-{_base(name).removesuffix('.gz')}")
        return f"convert it: gzip -dc {file} | iconv -f {encoding} -t UTF-8 > {plain}"
    return f"convert it: iconv -f {encoding} -t UTF-8 {file} > {shlex.quote('utf8-' + _base(name))}"


def _base(name: str) -> str:
    return name.rpartition("/")[2]


class TextLines:
    """Physical lines with their ends (LF, CRLF or CR), in lists.

    A line above the limit comes as an empty one and its number is put into `oversized`, so that numbering goes on.
    """

    def __init__(self, blocks: Iterator[str]) -> None:
        self._blocks = blocks
        self.count = 0
        self.oversized: set[int] = set()

    def __iter__(self) -> Iterator[list[str]]:
        carry, dropping = "", False
        for block in self._blocks:
            lines = io.StringIO(carry + block, newline="").readlines()
            # A CR at the end may be half of a CRLF, so it waits for the next block too.
            carry = "" if lines[-1].endswith("\n") else lines.pop()
            if lines:
                # Only the first line can be longer than a block, because only it was carried over.
                self._limit(lines, dropping)
                dropping = False
                self.count += len(lines)
                yield lines
            if len(carry) > ROW_LIMIT_CHARS:
                carry, dropping = carry[-1:], True  # the last character, in case it is that CR
        if carry:
            lines = [carry]
            self._limit(lines, dropping)
            self.count += 1
            yield lines

    def _limit(self, lines: list[str], dropping: bool) -> None:
        if dropping or len(lines[0]) > ROW_LIMIT_CHARS:
            self.oversized.add(self.count + 1)
            lines[0] = "\n"
