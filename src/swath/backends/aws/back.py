"""Items that came back unfinished: what earlier leases did to them, and when each may be handed out again.

They wait in buckets of a few seconds, in rows that are only ever added or taken away; the head counts them. While a
lease holds such items, what is known of them is in a row of that lease. Written by finishing.py, leases.py and
rescue.py; taken by claims.py and endings.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from swath.backends.aws.head import Head, Waiting
from swath.backends.aws.layout import HELD, back_key, back_partition, held_key, in_parts
from swath.backends.aws.rows import Delete, Key, Put
from swath.backends.aws.table import Table
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
    "bucket_of",
    "carried",
    "carry",
    "read_bucket",
]

BUCKET_SECONDS: Final = 5
ROWS: Final = 40  # of a bucket that are looked at by one change
DEATHS: Final = 2  # so many may be chance; with one more the item is a suspect


class Back(msgspec.Struct, frozen=True, array_like=True):
    """One item. `due` is shared time, 0 for at once. `deaths` are leases that held it when their workers died, and of
    which nobody could say for certain what ran."""

    seq: int
    due: float = 0.0
    tries: Tries = Tries()
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    deaths: int = 0

    @property
    def never_began(self) -> bool:
        """Whether no attempt at it is known."""
        return not self.suspect and not self.attempts and self.tries == Tries()

    def after(self, handed: HandedBack, due: float) -> Back:
        """With what its worker says; a suspect that was tried and killed nobody is none any more."""
        tried = (handed.tries, handed.attempts) != (self.tries, self.attempts)
        return Back(self.seq, due, handed.tries, handed.attempts, self.suspect and not tried)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Back])


def accused(item: Back, *, crashed: bool) -> Back:
    """Its worker died while it ran; `crashed` if nothing but this item can have killed it."""
    tries = msgspec.structs.replace(item.tries, crashes=item.tries.crashes + crashed)
    return Back(item.seq, 0.0, tries, item.attempts, suspect=True)


def bucket_of(due: float) -> int:
    """The bucket in which an item waits."""
    return int(due // BUCKET_SECONDS) * BUCKET_SECONDS


def add_back(head: Head, items: Iterable[Back]) -> list[Put]:
    """Lets items wait, and takes those that never began out of what the circuit has released."""
    buckets: dict[int, list[object]] = {}
    untried = 0
    for item in items:
        buckets.setdefault(bucket_of(item.due), []).append(item)
        untried += item.never_began
        _count(head, item, 1)
    head.circuit = msgspec.structs.replace(head.circuit, released=head.circuit.released - untried)
    return [
        Put(back_key(head.number, bucket, secrets.token_hex(6)), body)
        for bucket, waiting in buckets.items()
        for _, body in in_parts(_encoder, waiting)
    ]


def _count(head: Head, item: Back, by: int) -> None:
    bucket = bucket_of(item.due)
    waiting = head.waiting.setdefault(bucket, Waiting())
    if item.suspect:
        waiting.suspects += by
    elif item.never_began:
        waiting.untried += by
    else:
        waiting.begun += by
    if not waiting.items:
        del head.waiting[bucket]


class Taken:
    """Items of buckets as they were read, some of which are taken out."""

    def __init__(self) -> None:
        self._rows: dict[Key, list[Back]] = {}
        self._places: dict[int, Key] = {}

    def add(self, key: Key, items: list[Back]) -> None:
        """One row as it was read."""
        self._rows[key] = items
        self._places.update(dict.fromkeys((item.seq for item in items), key))

    @property
    def items(self) -> list[Back]:
        """All of them, in the order in which they are handed out."""
        every = [item for items in self._rows.values() for item in items]
        return sorted(every, key=lambda item: (not item.suspect, item.due, item.seq))

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return len(self._rows)

    def take(self, head: Head, taken: Iterable[Back]) -> list[Put | Delete]:
        """Counts these out, and says what has to be written for it."""
        gone: dict[Key, set[int]] = {}
        for item in taken:
            gone.setdefault(self._places[item.seq], set()).add(item.seq)
            _count(head, item, -1)
        return [self._rest(key, seqs) for key, seqs in gone.items()]

    def _rest(self, key: Key, gone: set[int]) -> Put | Delete:
        left = [item for item in self._rows[key] if item.seq not in gone]
        return Put(key, _encoder.encode(left)) if left else Delete(key)


async def read_bucket(table: Table, number: int, bucket: int, into: Taken, rows: int = ROWS) -> None:
    """Adds what waits in a bucket; if it is very full only a part of it, always the same."""
    first, last = back_key(number, bucket, ""), back_key(number, bucket, "~")
    async for row in table.query(first.p, first.s, last.s, limit=max(1, rows - into.rows)):
        into.add(row.key, _decoder.decode(row.body))


def carry(number: int, fence: int, items: Collection[Back]) -> list[Put]:
    """The row of a lease that holds items which came back before."""
    known = [item for item in items if not item.never_began or item.deaths]
    return [Put(held_key(number, fence), _encoder.encode(known))] if known else []


async def carried(table: Table, number: int, fences: Collection[int]) -> dict[int, Back]:
    """What is known of items that these leases were handed out with, by item."""
    rows = await table.get(*(held_key(number, fence) for fence in fences))
    return {item.seq: item for row in rows.values() for item in _decoder.decode(row.body)}


class Known(msgspec.Struct):
    """What is known of items that wait, and of items that are held after they came back, by fence and item."""

    waiting: dict[int, Back] = {}
    held: dict[tuple[int, int], Back] = {}


async def all_known(table: Table, number: int) -> Known:
    """Everything of a job. May be much: for people to look at."""
    known = Known()
    async for row in table.query(back_partition(number)):
        items = _decoder.decode(row.body)
        if row.key.s.startswith(HELD):
            fence = int(row.key.s.removeprefix(HELD))
            known.held.update({(fence, item.seq): item for item in items})
        else:
            known.waiting.update({item.seq: item for item in items})
    return known
