"""FileSource: a CSV, JSON or JSON Lines file (or stdin), packed or not, as rows.

Joins the readers: raw_bytes → text → csv_rows or json_rows. After it comes the checker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import PurePath
from typing import Final

from swath.domain.errors import BadInput
from swath.pipeline.accept.csv_rows import CsvRows
from swath.pipeline.accept.json_rows import json_array_rows, json_lines_rows
from swath.pipeline.accept.raw_bytes import STDIN, ByteReader, chunks_of, open_bytes, unpacked
from swath.pipeline.accept.rows import OpenedRows
from swath.pipeline.accept.text import Lines, text_blocks

__all__ = ["FileSource", "Format", "format_by_name", "opened_rows"]


class Format(StrEnum):
    """How rows are written in a file."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"


_SUFFIXES: Final = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
}


class FileSource:
    """A file by its path; `-` is stdin. The suffix tells the format (without .gz), else the first character does."""

    def __init__(
        self,
        path: str | PurePath,
        form: Format | None = None,
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
    def open(self) -> Iterator[OpenedRows]:
        """See RowSource."""
        with open_bytes(self._path, self._stdin) as file:
            chunks = unpacked(self.name, chunks_of(self.name, file))
            yield opened_rows(self.name, chunks, self._format, self._delimiter)


def opened_rows(name: str, chunks: Iterator[bytes], form: Format | None, delimiter: str | None = None) -> OpenedRows:
    """The rows in these bytes, which are not packed any more; without a format their first character tells it."""
    blocks = text_blocks(name, chunks)
    head = next(blocks, "")
    blocks = chain((head,), blocks) if head else blocks
    match form or _by_content(head):
        case Format.CSV:
            rows = CsvRows(name, Lines(blocks), delimiter)
            return OpenedRows(rows.columns, iter(rows))
        case _ if not head:
            raise BadInput(f"{name}: is empty; it needs an object for each item")
        case Format.JSON:
            return OpenedRows(None, json_array_rows(name, blocks))
        case Format.JSONL:
            return OpenedRows(None, json_lines_rows(name, Lines(blocks)))


def _suffix(name: str) -> str:
    path = PurePath(name.lower())
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def format_by_name(name: str) -> Format | None:
    """What the suffix says, without .gz."""
    return _SUFFIXES.get(_suffix(name))


def _by_content(head: str) -> Format:
    return {"[": Format.JSON, "{": Format.JSONL}.get(head.lstrip()[:1], Format.CSV)
