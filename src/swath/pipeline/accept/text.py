"""UTF-8 text and its physical lines, from chunks of bytes. Comes before: csv_rows.py and json_rows.py.

A file in another encoding is refused with the line where it shows and the command that converts it.
"""

from __future__ import annotations

import codecs
import io
import shlex
from collections.abc import Iterator
from typing import Final

from swath.domain.errors import BadInput
from swath.pipeline.accept.rows import ROW_LIMIT_CHARS

__all__ = ["Lines", "text_blocks"]

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


class Lines:
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
