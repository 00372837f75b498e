"""How many rows and bytes one write transaction may change, so that no writer blocks the others for long.

Larger changes are made in pieces of this size (decision 0028); a single row that is larger is a piece of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["FRAME_BYTES", "MAX_BYTES", "MAX_ROWS", "PAGE_BYTES", "first_piece", "stored_bytes"]

MAX_ROWS: Final = 5_000  # inserted, changed or removed by one transaction
MAX_BYTES: Final = 8 << 20  # written to the log by one transaction
PAGE_BYTES: Final = 4_096
FRAME_BYTES: Final = 24  # that the log adds to each page

# What is planned for a piece. The rest is for pages that split, for the nodes above them, and for the job's own row.
_PIECE_ROWS: Final = 4_000
_PIECE_BYTES: Final = 6 << 20
_LONGEST_IN_PAGE: Final = 1_000  # bytes of a row that SQLite keeps together; of a longer one, half stays there
_OVERFLOW_BYTES: Final = PAGE_BYTES - 4


def stored_bytes(length: int) -> int:
    """At most so much of the file does a row of this length take: what does not fit beside others has its own pages."""
    if length <= _LONGEST_IN_PAGE:
        return length + 50
    return _LONGEST_IN_PAGE + -(-length // _OVERFLOW_BYTES) * PAGE_BYTES


def first_piece(costs: Iterable[tuple[int, int]]) -> int:
    """How many of these changes go into one transaction, at least one. Each costs so many rows and so many bytes."""
    rows = size = count = 0
    for row_cost, byte_cost in costs:
        rows, size = rows + row_cost, size + byte_cost
        if count and (rows > _PIECE_ROWS or size > _PIECE_BYTES):
            break
        count += 1
    return count
