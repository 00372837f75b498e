"""Checked rows in batches, with the digests by which a load that was broken off finds its place again.

Comes before: load.py, which hands the batches to the store. Everything here runs in the reading thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from itertools import count
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput
from swath.domain.item import Item
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.rows import BadRow, Row, RowSource
from swath.ports.job_store import Batch, LoadStart

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "CheckedBatch", "checked_batches"]

# A commit of this many ids in no order rewrites most pages of their index once; with fewer, it does so more often.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20  # of items as JSON

# Sorted keys: the order in which an object names its fields is not content.
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class CheckedBatch(msgspec.Struct, frozen=True):
    """A batch for the store, the rows of it that were refused, and the physical line of every row."""

    batch: Batch
    bad: tuple[BadRow, ...]
    lines: tuple[int, ...]


_FROM_THE_START: Final = LoadStart(number=0, rows=0)


def checked_batches(
    source: RowSource, checker: RowChecker, start: LoadStart = _FROM_THE_START
) -> Generator[CheckedBatch, None, None]:
    """Reads and checks everything. Batches end where content says so, so the same content gives the same batches.

    `start` is where the source goes on in the job, if other sources were loaded into it before.
    """
    with source.open() as opened:
        if opened.columns is not None:
            checker.check_columns(source.name, opened.columns)
        rows = _numbered_from(start.rows, opened.rows) if start.rows else opened.rows
        first_row, chain = start.rows + 1, ""
        for number in count(start.number):
            checked = _next_batch(rows, checker, _Place(number, first_row, chain))
            if checked is None:
                break
            yield checked
            first_row += checked.batch.rows
            chain = checked.batch.digest
        if first_row == start.rows + 1:
            what = "has a header but no rows" if opened.columns is not None else "has no rows"
            raise BadInput(f"{source.name}: {what}; give at least one item")


def _numbered_from(before: int, rows: Iterator[Row | BadRow]) -> Iterator[Row | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield BadRow(row.number + before, row.line, row.message)
        else:
            yield Row(row.number + before, row.line, row.data, row.text)


class _Place(NamedTuple):
    """Where a batch begins; `chain` is the digest of the batch before."""

    number: int
    first_row: int
    chain: str


def _next_batch(rows: Iterator[Row | BadRow], checker: RowChecker, place: _Place) -> CheckedBatch | None:
    items: list[Item] = []
    bad: list[BadRow] = []
    lines: list[int] = []
    content = bytearray()  # what the digest is made of
    check, encode_into = checker.check, _ENCODER.encode_into
    for row in rows:
        lines.append(row.line)
        checked = row if isinstance(row, BadRow) else check(row)
        if isinstance(checked, Item):
            before = len(content)
            try:
                encode_into(checked, content, -1)
                items.append(checked)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                del content[before:]
                bad.append(_not_json(row, error))
        else:
            bad.append(checked)
        if len(lines) >= BATCH_ROWS or len(content) >= BATCH_BYTES:
            break
    if not lines:
        return None
    head = f"{place.chain} {place.number} {place.first_row} {len(lines)}\n".encode()
    digest = hashlib.sha256(head + content).hexdigest()
    batch = Batch(place.number, place.first_row, len(lines), digest, tuple(items))
    return CheckedBatch(batch, tuple(bad), tuple(lines))


def _not_json(row: Row | BadRow, error: Exception) -> BadRow:
    why = "it has half of a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)
    return BadRow(row.number, row.line, f"cannot be stored as JSON: {why}")
