"""Items that came back unfinished: what earlier leases did to them, and when each may be handed out again.

They wait in buckets of a few seconds, each kind in rows of its own, so that none hides another; the head counts them.
While a lease holds such items, what is known of them is in a row of that lease. Written by finishing.py, leases.py
and rescue.py; taken by claims.py and endings.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from swath.backends.aws.calls.rows import Delete, Key, Put, Row, Written, decoded
from swath.backends.aws.jobs.head import Head, Waiting
from swath.backends.aws.table.layout import (
    HELD,
    PART_BYTES,
    Kind,
    back_key,
    back_partition,
    back_range,
    held_key,
    in_parts,
)
from swath.backends.aws.table.table import Table
from swath.domain.attempt import Attempt, HandedBack, Tries

__all__ = [
    "BUCKET_SECONDS",
    "DEATHS",
    "ROWS",
    "Back",
    "Known",
    "Taken",
    "accused",
    "add_back",
    "all_known",
    "carried",
    "carry",
    "place_of",
    "read_bucket",
    "size_of",
]

BUCKET_SECONDS: Final = 5
ROWS: Final = 40  # of a bucket that are looked at by one change
DEATHS: Final = 2  # so many may be chance; with one more the item is a suspect
_REST_BYTES: Final = 2_500_000  # of rows from which one change takes items, as a transaction has 4 MB
_HELD_BYTES: Final = 330_000  # of what is known of the items of a lease, compressed, as a row has 400 KB
_SMALL_BYTES: Final = 3_000  # what is known of an item is hardly ever more; then it is not compressed to find out


class Back(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One item. `due` is shared time, 0 for at once. `deaths` are leases that held it when their workers were lost, and
    of which nobody could say for certain what ran. `silences`: how often its worker fell silent while it ran alone,
    since it was last tried."""

    seq: int
    due: float = 0.0
    tries: Tries = Tries()
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    deaths: int = 0
    silences: int = 0

    @property
    def never_began(self) -> bool:
        """Whether no attempt at it is known."""
        return not self.suspect and not self.attempts and self.tries == Tries()

    @property
    def kind(self) -> Kind:
        """Which of the rows of its bucket it is in."""
        if self.suspect:
            return Kind.SUSPECT
        return Kind.UNTRIED if self.never_began else Kind.BEGUN

    def after(self, handed: HandedBack, due: float) -> Back:
        """With what its worker says; a suspect that was tried and killed nobody is none any more."""
        tried = (handed.tries, handed.attempts) != (self.tries, self.attempts)
        silences = 0 if tried else self.silences
        return Back(self.seq, due, handed.tries, handed.attempts, self.suspect and not tried, silences=silences)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Back])


def accused(item: Back, *, alone: bool, died: bool) -> Back:
    """Its worker was lost while it ran; `alone` if nothing ran beside it, `died` if that is proven."""
    tries = msgspec.structs.replace(item.tries, crashes=item.tries.crashes + (alone and died))
    silences = item.silences + (alone and not died)
    return Back(item.seq, 0.0, tries, item.attempts, suspect=True, silences=silences)


def place_of(item: Back) -> tuple[int, Kind]:
    """The bucket and the kind: items with the same ones can be in one row."""
    return int(item.due // BUCKET_SECONDS) * BUCKET_SECONDS, item.kind


def size_of(item: Back) -> int:
    """Bytes that it adds to a row, before that is compressed."""
    return len(_encoder.encode(item))


def add_back(head: Head, items: Iterable[Back]) -> list[Put]:
    """Lets items wait, and takes those that never began out of what the circuit has released."""
    places: dict[tuple[int, Kind], list[object]] = {}
    untried = 0
    for item in items:
        places.setdefault(place_of(item), []).append(item)
        untried += item.never_began
        _count(head, item, 1)
    head.circuit = msgspec.structs.replace(head.circuit, released=head.circuit.released - untried)
    return [
        Put(back_key(head.number, bucket, kind, secrets.token_hex(6)), body)
        for (bucket, kind), waiting in places.items()
        for _, body in in_parts(_encoder, waiting)
    ]


def _count(head: Head, item: Back, by: int) -> None:
    bucket, kind = place_of(item)
    waiting = head.waiting.setdefault(bucket, Waiting())
    if kind is Kind.SUSPECT:
        waiting.suspects += by
    elif kind is Kind.UNTRIED:
        waiting.untried += by
    else:
        waiting.begun += by
    if not waiting.items:
        del head.waiting[bucket]


class Taken:
    """Items of buckets as they were read, some of which are taken out."""

    def __init__(self) -> None:
        self._rows: dict[Key, list[Back]] = {}
        self._sizes: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}

    def add(self, row: Row) -> None:
        """One row as it was read."""
        items = decoded(_decoder, row)
        self._rows[row.key] = items
        self._sizes[row.key] = len(row.body)
        self._keys.update(dict.fromkeys((item.seq for item in items), row.key))

    @property
    def items(self) -> list[Back]:
        """All of them, in the order in which they are handed out."""
        every = [item for items in self._rows.values() for item in items]
        return sorted(every, key=lambda item: (not item.suspect, item.due, item.seq))

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return len(self._rows)

    def in_one_commit(self, items: Iterable[Back]) -> list[Back]:
        """The first of these that one lease can take: what is left in their rows is written once more, and what is
        known of them has to fit into the one row of the lease. Always at least one."""
        chosen: list[Back] = []
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

    def take(self, head: Head, taken: Iterable[Back]) -> list[Put | Delete]:
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
        merged: dict[Key, list[Back]] = {}
        into, into_bytes = None, 0
        for key in keys:
            left = [item for item in self._rows[key] if item.seq not in gone]
            left_bytes = sum(map(size_of, left))
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


def _held_bytes(key: Key, item: Back) -> int:
    size_bytes = size_of(item)
    return size_bytes if size_bytes <= _SMALL_BYTES else Written(Put(key, _encoder.encode([item]))).size_bytes


async def read_bucket(
    table: Table, number: int, bucket: int, into: Taken, rows: int = ROWS, kinds: Collection[Kind] = tuple(Kind)
) -> None:
    """Adds what waits in a bucket, of these kinds, which are next to each other; if it is very full only a part of it,
    always the same."""
    first, last = back_range(number, bucket, min(kinds), max(kinds))
    async for row in table.query(first.p, first.s, last.s, limit=max(1, rows - into.rows)):
        into.add(row)


def carry(number: int, fence: int, items: Collection[Back]) -> list[Put]:
    """The row of a lease that holds items which came back before, no more of them than `in_one_commit` lets through."""
    known = [item for item in items if not item.never_began or item.deaths]
    return [Put(held_key(number, fence), _encoder.encode(known))] if known else []


async def carried(table: Table, number: int, fences: Collection[int]) -> dict[tuple[int, int], Back]:
    """What is known of items that these leases were handed out with, by fence and item: one that was handed back is
    still in the row of that lease, as it was before."""
    rows = await table.get(*(held_key(number, fence) for fence in fences))
    return {(_fence_of(row), item.seq): item for row in rows.values() for item in decoded(_decoder, row)}


def _fence_of(row: Row) -> int:
    return int(row.key.s.removeprefix(HELD))


class Known(msgspec.Struct):
    """What is known of items that wait, and of items that are held after they came back, by fence and item."""

    waiting: dict[int, Back] = {}
    held: dict[tuple[int, int], Back] = {}


async def all_known(table: Table, number: int) -> Known:
    """Everything of a job. May be much: for people to look at."""
    known = Known()
    async for row in table.query(back_partition(number)):
        items = decoded(_decoder, row)
        if row.key.s.startswith(HELD):
            known.held.update({(_fence_of(row), item.seq): item for item in items})
        else:
            known.waiting.update({item.seq: item for item in items})
    return known
