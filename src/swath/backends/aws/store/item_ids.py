"""Finds which row of a job has an item id, so that duplicates are found over the whole job in little memory.

The table keeps a hash of each id in the order of the load; any process builds an index of its own from them, in an
unnamed file that the system frees with the process.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.aws.client.rows import Put, decode_body
from swath.backends.aws.dynamo.layout import ids_key, split_into_bodies
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.item_chunks import ItemChunks
from swath.backends.aws.store.job_row import JobRow
from swath.backends.private_files import make_folder

__all__ = ["ItemIdIndex", "ItemIdIndexes", "hash_item_id", "id_rows"]

_HASH_BYTES: Final = 16
_SEQ_BYTES: Final = 8
_SLOT_BYTES: Final = _HASH_BYTES + _SEQ_BYTES
_EMPTY: Final = bytes(_SEQ_BYTES)
_FIRST_SLOTS: Final = 1 << 12
_OPEN: Final = 8  # indexes at once

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[tuple[int, bytes]])


def hash_item_id(item_id: str) -> bytes:
    """Two ids of one job have the same with a chance of less than one in 10^18, at a billion of items."""
    return hashlib.blake2b(item_id.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()


def id_rows(number: int, batch: int, mark: str, hashes: Iterable[tuple[int, bytes]]) -> list[Put]:
    """The rows of a batch."""
    entries: list[object] = list(hashes)
    parts = split_into_bodies(_encoder, entries) if entries else []
    return [Put(ids_key(number, batch, mark, part), body) for part, (_, body) in enumerate(parts)]


class ItemIdIndex:
    """A table of hashes in a file, with open addressing. `batches` is how many batches of the load are in it."""

    def __init__(self, folder: Path) -> None:
        self.batches = 0
        self._folder = folder
        self._slots = _FIRST_SLOTS
        self._used = 0
        self._memory = self._mapped(_FIRST_SLOTS)

    def find(self, hashed: bytes) -> int | None:
        """The row that has the id, if any has."""
        at = self._place(hashed)
        found = int.from_bytes(self._memory[at + _HASH_BYTES : at + _SLOT_BYTES], "little")
        return found or None

    def add(self, hashed: bytes, seq: int) -> None:
        """Notes a row; `seq` is at least 1. The id is not in it yet."""
        if 3 * self._used >= 2 * self._slots:
            self._grow()
        at = self._place(hashed)
        self._memory[at : at + _SLOT_BYTES] = hashed + seq.to_bytes(_SEQ_BYTES, "little")
        self._used += 1

    def close(self) -> None:
        """Lets go of the file."""
        self._memory.close()

    def _place(self, hashed: bytes) -> int:
        """Where it is, or would be."""
        memory, slots = self._memory, self._slots
        slot = int.from_bytes(hashed[:8], "little") % slots
        while True:
            at = slot * _SLOT_BYTES
            if memory[at : at + _HASH_BYTES] == hashed or memory[at + _HASH_BYTES : at + _SLOT_BYTES] == _EMPTY:
                return at
            slot = (slot + 1) % slots

    def _grow(self) -> None:
        before, slots = self._memory, self._slots
        self._slots = 2 * slots
        self._memory = self._mapped(self._slots)
        for at in range(0, slots * _SLOT_BYTES, _SLOT_BYTES):
            entry = before[at : at + _SLOT_BYTES]
            if entry[_HASH_BYTES:] != _EMPTY:
                to = self._place(entry[:_HASH_BYTES])
                self._memory[to : to + _SLOT_BYTES] = entry
        before.close()

    def _mapped(self, slots: int) -> mmap.mmap:
        make_folder(self._folder)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            # On a full disk a write into a hole would kill the process, so the room is taken now.
            os.posix_fallocate(file.fileno(), 0, slots * _SLOT_BYTES)
            return mmap.mmap(file.fileno(), slots * _SLOT_BYTES)


class ItemIdIndexes:
    """The indexes of the jobs that this process loads or looks into, the last few."""

    def __init__(self, table: Table, chunks: ItemChunks, folder: Path) -> None:
        self._table = table
        self._chunks = chunks
        self._folder = folder
        self._indexes: OrderedDict[int, ItemIdIndex] = OrderedDict()

    async def of(self, head: JobRow) -> ItemIdIndex:
        """The index of a job with all batches that the head counts; read from the table as far as it is missing."""
        index = self._indexes.get(head.number)
        if index is None:
            index = self._indexes[head.number] = ItemIdIndex(self._folder)
            while len(self._indexes) > _OPEN:
                _, oldest = self._indexes.popitem(last=False)
                oldest.close()
        self._indexes.move_to_end(head.number)
        if index.batches < head.batches:
            await self._read(head, index)
        return index

    def extend(self, number: int, batch: int, hashes: Mapping[bytes, int]) -> None:
        """A batch was committed; an index that has all before it need not read it back."""
        index = self._indexes.get(number)
        if index is not None and index.batches == batch:
            for hashed, seq in hashes.items():
                index.add(hashed, seq)
            index.batches += 1

    async def _read(self, head: JobRow, index: ItemIdIndex) -> None:
        first = ids_key(head.number, index.batches, "", 0).s[:8]
        last = ids_key(head.number, head.batches - 1, "~", 0).s
        async for row in self._table.query(f"ids/{head.number}", first, last):
            number, mark, _ = row.key.s.split("#")
            if await self._chunks.mark(head.number, int(number)) == mark:
                for seq, hashed in decode_body(_decoder, row):
                    if index.find(hashed) is None:
                        index.add(hashed, seq)
        index.batches = head.batches

    def forget(self, number: int) -> None:
        """The job is gone."""
        index = self._indexes.pop(number, None)
        if index is not None:
            index.close()

    def close(self) -> None:
        """Lets go of all files."""
        for number in list(self._indexes):
            self.forget(number)
