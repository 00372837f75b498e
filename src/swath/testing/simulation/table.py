"""MemoryTable: the table of the AWS back end in this process's memory. The rest of the store does not know.

It keeps the promises of backends/aws/table/table.py (conditions, order, all or nothing); what a network does to a
request is not its part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Sequence

from swath.backends.aws.calls.rows import ABSENT, ANY, Delete, Key, Put, Row
from swath.backends.aws.table.table import LAST, Table

__all__ = ["MemoryTable"]


class _Partition:
    """Rows of one `p`, and their keys in order."""

    __slots__ = ("order", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, tuple[bytes, int]] = {}
        self.order: list[str] = []


class MemoryTable(Table):
    """What a method does it does at once, and nothing comes between."""

    def __init__(self) -> None:
        self.name = "memory"
        self._partitions: dict[str, _Partition] = {}
        self._numbers: dict[Key, dict[str, int]] = {}

    def row(self, key: Key) -> Row | None:
        """One row, at once."""
        partition = self._partitions.get(key.p)
        stored = None if partition is None else partition.rows.get(key.s)
        return None if stored is None else Row(key, *stored)

    def drop(self, p: str) -> None:
        """Forgets a partition."""
        self._partitions.pop(p, None)

    async def get(self, *keys: Key) -> dict[Key, Row]:
        return {key: row for key in keys if (row := self.row(key)) is not None}

    async def query(
        self, p: str, first: str = "", last: str = LAST, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncIterator[Row]:
        partition = self._partitions.get(p)
        if partition is None or first > last:
            return
        order = partition.order
        found = order[bisect_left(order, first) : bisect_right(order, last)]
        if reverse:
            found.reverse()
        for s in found[:limit]:
            stored = partition.rows.get(s)
            if stored is not None:
                yield Row(Key(p, s), *stored)

    async def commit(self, *changes: Put | Delete) -> bool:
        if not all(self._holds(change) for change in changes):
            return False
        for change in changes:
            self._make(change)
        return True

    async def write_many(self, changes: Sequence[Put | Delete]) -> None:
        for change in changes:
            self._make(change)

    async def add(self, key: Key, **amounts: int) -> dict[str, int]:
        numbers = self._numbers.setdefault(key, {})
        for name, amount in amounts.items():
            numbers[name] = numbers.get(name, 0) + amount
        return {name: numbers[name] for name in amounts}

    def _holds(self, change: Put | Delete) -> bool:
        if isinstance(change, Delete) or change.expected is ANY:
            return True
        row = self.row(change.key)
        return row is None if change.expected == ABSENT else row is not None and row.version == change.expected

    def _make(self, change: Put | Delete) -> None:
        partition = self._partitions.setdefault(change.key.p, _Partition())
        s = change.key.s
        if isinstance(change, Put):
            if s not in partition.rows:
                insort(partition.order, s)
            partition.rows[s] = change.body, change.version
        elif partition.rows.pop(s, None) is not None:
            del partition.order[bisect_left(partition.order, s)]
