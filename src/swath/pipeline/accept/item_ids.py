"""Reads a list of item ids that a person wrote, for a retry by selection. After: the store looks for them."""

from __future__ import annotations

import csv
from collections.abc import Collection
from itertools import chain

from swath.domain.errors import BadInput
from swath.pipeline.accept.csv_rows import CsvRows
from swath.pipeline.accept.raw_bytes import STDIN, ByteReader, chunks_of, open_bytes, unpacked
from swath.pipeline.accept.rows import BadRow
from swath.pipeline.accept.text import Lines, text_blocks

__all__ = ["look_like_rows", "read_item_ids"]

COLUMN = "item_id"
DELIMITERS = ",;\t|"


def read_item_ids(path: str, stdin: ByteReader | None = None) -> frozenset[str]:
    """One id a line, or a CSV file with a column `item_id`; `-` is stdin. Raises BadInput."""
    name = "stdin" if path == STDIN else path
    with open_bytes(path, stdin) as file:
        blocks = text_blocks(name, unpacked(name, chunks_of(name, file)))
        head = next(blocks, "")
        lines = Lines(chain((head,), blocks) if head else blocks)
        found = _column(name, lines) if _is_table(head) else _ids(lines)
    if not found:
        raise BadInput(f"{name}: has no item ids; write one on each line")
    return found


def look_like_rows(ids: Collection[str]) -> bool:
    """Whether what was read line by line was rather a table. An id may have a comma, so that alone is no mistake."""
    return any({0} != counts and len(counts) == 1 for counts in ({id_.count(d) for id_ in ids} for d in DELIMITERS))


def _is_table(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return any(COLUMN in (cell.strip() for cell in next(csv.reader([first], delimiter=d), [])) for d in DELIMITERS)


def _column(name: str, lines: Lines) -> frozenset[str]:
    ids = set()
    for row in CsvRows(name, lines):
        if isinstance(row, BadRow):
            raise BadInput(f"{name}: {row}")
        ids.add(row.data[COLUMN])
    return frozenset(ids - {""})


def _ids(lines: Lines) -> frozenset[str]:
    return frozenset(chain.from_iterable((line.strip() for line in block) for block in lines)) - {""}
