"""Items that came back unfinished: what earlier leases did to them, and when each may be handed out again.

They wait in buckets of a few seconds, each kind in rows of its own, so that none hides another; the job row counts
them. While a lease holds such items, what is known of them is in a row of that lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from swath.backends.aws.client.rows import Delete, Key, Put, PutRequest, Row, decode_body
from swath.backends.aws.dynamo.layout import (
    HELD,
    PART_BYTES,
    ReturnedKind,
    held_key,
    returned_key,
    returned_partition,
    returned_range,
    split_into_bodies,
)
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.job_row import JobRow, WaitingCounts
from swath.domain.item import Attempt, HandedBackItem, TryCounts

__all__ = [
    "BUCKET_SECONDS",
    "MAX_BUCKET_ROWS",
    "MAX_DEATHS",
    "KnownReturns",
    "ReturnedBuckets",
    "ReturnedItem",
    "add_returned",
    "after_worker_loss",
    "bucket_and_kind",
    "carried_row",
    "encoded_bytes",
    "read_bucket",
    "read_carried",
    "read_known_returns",
]

BUCKET_SECONDS: Final = 5
MAX_BUCKET_ROWS: Final = 40  # of a bucket that are looked at by one change
MAX_DEATHS: Final = 2  # so many may be chance; with one more the item is a suspect
_REST_BYTES: Final = 2_500_000  # of rows from which one change takes items, as a transaction has 4 MB
_HELD_BYTES: Final = 330_000  # of what is known of the items of a lease, compressed, as a row has 400 KB
_SMALL_BYTES: Final = 3_000  # what is known of an item is hardly ever more; then it is not compressed to find out


class ReturnedItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One item. `due` is shared time, 0 for at once. `deaths` are leases that held it when their workers were lost, and
    of which nobody could say for certain what ran. `silences`: how often its worker fell silent while it ran alone,
    since it was last tried."""

    seq: int
    due: float = 0.0
    tries: TryCounts = TryCounts()
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    deaths: int = 0
    silences: int = 0

    @property
    def never_began(self) -> bool:
        """Whether no attempt at it is known."""
        return not self.suspect and not self.attempts and self.tries == TryCounts()

    @property
    def kind(self) -> ReturnedKind:
        """Which of the rows of its bucket it is in."""
        if self.suspect:
            return ReturnedKind.SUSPECT
        return ReturnedKind.UNTRIED if self.never_began else ReturnedKind.BEGUN

    def after(self, handed: HandedBackItem, due: float) -> ReturnedItem:
        """With what its worker says; a suspect that was tried and killed nobody is none any more."""
        tried = (handed.tries, handed.attempts) != (self.tries, self.attempts)
        silences = 0 if tried else self.silences
        return ReturnedItem(self.seq, due, handed.tries, handed.attempts, self.suspect and not tried, silences=silences)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[ReturnedItem])


def after_worker_loss(item: ReturnedItem, *, alone: bool, died: bool) -> ReturnedItem:
    """Its worker was lost while it ran; `alone` if nothing ran beside it, `died` if that is proven."""
    tries = msgspec.structs.replace(item.tries, crashes=item.tries.crashes + (alone and died))
    silences = item.silences + (alone and not died)
    return ReturnedItem(item.seq, 0.0, tries, item.attempts, suspect=True, silences=silences)


def bucket_and_kind(item: ReturnedItem) -> tuple[int, ReturnedKind]:
    """The bucket and the kind: items with the same ones can be in one row."""
    return int(item.due // BUCKET_SECONDS) * BUCKET_SECONDS, item.kind


def encoded_bytes(item: ReturnedItem) -> int:
    """Bytes that it adds to a row, before that is compressed."""
    return len(_encoder.encode(item))


def add_returned(head: JobRow, items: Iterable[ReturnedItem]) -> list[Put]:
    """Lets items wait, and takes those that never began out of what the circuit has released."""
    places: dict[tuple[int, ReturnedKind], list[object]] = {}
    untried = 0
    for item in items:
        places.setdefault(bucket_and_kind(item), []).append(item)
        untried += item.never_began
        _count(head, item, 1)
    head.circuit = msgspec.structs.replace(head.circuit, released=head.circuit.released - untried)
    return [
        Put(returned_key(head.number, bucket, kind, secrets.token_hex(6)), body)
        for (bucket, kind), waiting in places.items()
        for _, body in split_into_bodies(_encoder, waiting)
    ]


def _count(head: JobRow, item: ReturnedItem, by: int) -> None:
    bucket, kind = bucket_and_kind(item)
    waiting = head.waiting.setdefault(bucket, WaitingCounts())
    if kind is ReturnedKind.SUSPECT:
        waiting.suspects += by
    elif kind is ReturnedKind.UNTRIED:
        waiting.untried += by
    else:
        waiting.begun += by
    if not waiting.items:
        del head.waiting[bucket]


class ReturnedBuckets:
    """Items of buckets as they were read, some of which are taken out."""

    def __init__(self) -> None:
        self._rows: dict[Key, list[ReturnedItem]] = {}
        self._sizes: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}

    def add(self, row: Row) -> None:
        """One row as it was read."""
        items = decode_body(_decoder, row)
        self._rows[row.key] = items
        self._sizes[row.key] = len(row.body)
        self._keys.update(dict.fromkeys((item.seq for item in items), row.key))

    @property
    def items(self) -> list[ReturnedItem]:
        """All of them, in the order in which they are handed out."""
        every = [item for items in self._rows.values() for item in items]
        return sorted(every, key=lambda item: (not item.suspect, item.due, item.seq))

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return len(self._rows)

    def in_one_commit(self, items: Iterable[ReturnedItem]) -> list[ReturnedItem]:
        """The first of these that one lease can take: what is left in their rows is written once more, and what is
        known of them has to fit into the one row of the lease. Always at least one."""
        chosen: list[ReturnedItem] = []
        touched: set[Key] = set()
        rest_bytes, held_bytes = _REST_BYTES, _HELD_BYTES
        for item in items:
            key = self._keys[item.seq]
            rest_bytes -= 0 if key in touched else self._sizes[key]
            held_bytes -= _held_bytes(key, item)
            if chosen and min(rest_bytes, held_bytes) < 0:
                break
            touched.add(key)
            chosen.append(item)
        return chosen

    def take(self, head: JobRow, taken: Iterable[ReturnedItem]) -> list[Put | Delete]:
        """Counts these out, and says what has to be written for it. What is left of small rows becomes one."""
        gone: set[int] = set()
        touched: dict[str, dict[Key, None]] = {}
        for item in taken:
            gone.add(item.seq)
            key = self._keys[item.seq]
            touched.setdefault(key.s.rpartition("#")[0], {})[key] = None
            _count(head, item, -1)
        return [change for keys in touched.values() for change in self._rest(keys, gone)]

    def _rest(self, keys: Iterable[Key], gone: Collection[int]) -> Iterable[Put | Delete]:
        """Of rows of one place."""
        merged: dict[Key, list[ReturnedItem]] = {}
        into, into_bytes = None, 0
        for key in keys:
            left = [item for item in self._rows[key] if item.seq not in gone]
            left_bytes = sum(map(encoded_bytes, left))
            if not left:
                yield Delete(key)
            elif into is not None and into_bytes + left_bytes <= PART_BYTES:
                yield Delete(key)
                merged[into] += left
                into_bytes += left_bytes
            else:
                into, into_bytes = key, left_bytes
                merged[key] = left
        for key, items in merged.items():
            yield Put(key, _encoder.encode(items))


def _held_bytes(key: Key, item: ReturnedItem) -> int:
    size_bytes = encoded_bytes(item)
    return size_bytes if size_bytes <= _SMALL_BYTES else PutRequest(Put(key, _encoder.encode([item]))).size_bytes


async def read_bucket(
    table: Table,
    number: int,
    bucket: int,
    into: ReturnedBuckets,
    rows: int = MAX_BUCKET_ROWS,
    kinds: Collection[ReturnedKind] = tuple(ReturnedKind),
) -> None:
    """Adds what waits in a bucket, of these kinds, which are next to each other; if it is very full only a part of it,
    always the same."""
    first, last = returned_range(number, bucket, min(kinds), max(kinds))
    async for row in table.query(first.p, first.s, last.s, limit=max(1, rows - into.rows)):
        into.add(row)


def carried_row(number: int, fence: int, items: Collection[ReturnedItem]) -> list[Put]:
    """The row of a lease that holds items which came back before, no more of them than `in_one_commit` lets through."""
    known = [item for item in items if not item.never_began or item.deaths]
    return [Put(held_key(number, fence), _encoder.encode(known))] if known else []


async def read_carried(table: Table, number: int, fences: Collection[int]) -> dict[tuple[int, int], ReturnedItem]:
    """What is known of items that these leases were handed out with, by fence and item: one that was handed back is
    still in the row of that lease, as it was before."""
    rows = await table.get(*(held_key(number, fence) for fence in fences))
    return {(_fence_of(row), item.seq): item for row in rows.values() for item in decode_body(_decoder, row)}


def _fence_of(row: Row) -> int:
    return int(row.key.s.removeprefix(HELD))


class KnownReturns(msgspec.Struct):
    """What is known of items that wait, and of items that are held after they came back, by fence and item."""

    waiting: dict[int, ReturnedItem] = {}
    held: dict[tuple[int, int], ReturnedItem] = {}


async def read_known_returns(table: Table, number: int) -> KnownReturns:
    """Everything of a job. May be much: for people to look at."""
    known = KnownReturns()
    async for row in table.query(returned_partition(number)):
        items = decode_body(_decoder, row)
        if row.key.s.startswith(HELD):
            known.held.update({(_fence_of(row), item.seq): item for item in items})
        else:
            known.waiting.update({item.seq: item for item in items})
    return known
