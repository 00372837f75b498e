"""How the tests of this folder read: a small model, sources made of bytes, and what a refused source says."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pytest
from pydantic import BaseModel, Field

from swath.domain.errors import BadInput
from swath.domain.item import Item
from swath.pipeline.ingest.sources.file_and_stream import FileSource, InputFormat
from swath.pipeline.ingest.sources.rows import BadRow, RowSource
from swath.pipeline.ingest.validate import RowChecker, checked_batches


class Parcel(BaseModel):
    parcel_id: str


class Bill(BaseModel):
    parcel_id: str = Field(min_length=1)
    year: int = Field(default=2024, ge=1900, le=2100)
    note: str | None = None


class Dribble(io.RawIOBase):
    """A pipe that hands out its bytes in pieces of the given sizes, over and over, and counts them."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.handed_out = 0

    def read(self, size: int = -1) -> bytes:
        piece = next(self._pieces, b"")
        assert size < 0 or len(piece) <= size
        self.handed_out += len(piece)
        return piece


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def given(text: str | bytes, form: InputFormat | None = None, delimiter: str | None = None) -> FileSource:
    """What stdin would bring."""
    raw = text.encode() if isinstance(text, str) else text
    return FileSource("-", form, delimiter=delimiter, stdin=io.BytesIO(raw))


def read(source: RowSource, checker: RowChecker | type[BaseModel] = Parcel) -> tuple[list[Item], list[BadRow]]:
    """All items and all bad rows."""
    if not isinstance(checker, RowChecker):
        checker = RowChecker(checker)
    items: list[Item] = []
    bad: list[BadRow] = []
    for checked in checked_batches(source, checker):
        items += checked.batch.items
        bad += checked.bad
    return items, bad


def inputs(source: RowSource, checker: RowChecker | type[BaseModel] = Parcel) -> list[dict[str, object]]:
    """The inputs of a source in which every row is good."""
    items, bad = read(source, checker)
    assert bad == []
    return [item.input for item in items]


def refusal(source: RowSource, checker: RowChecker | type[BaseModel] = Parcel) -> str:
    """The one line with which a whole source is refused."""
    with pytest.raises(BadInput) as raised:
        read(source, checker)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 600
    return message
