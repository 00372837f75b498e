"""Rooms: what a lease may be writing, noted in the bucket before it writes, so that anybody can clean up behind it.

A room is `.leases/{fence}/` in the job's folder. Its notes name places (object_names.py); packs need none, for their
names carry the fence. A room that left losers behind keeps the note `lost` for good: a writer who slept through its
loss may still add files, and they stay unseen. results.py asks here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.results.object_names import LEASES, Place
from swath.backends.aws.results.objects import Objects
from swath.domain.layout import pack_fence

__all__ = ["Noted", "Room", "Rooms", "Unseen"]

_OPENED: Final = "room"
_LOST: Final = "lost"
_MOST_CACHED: Final = 10_000


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Encoded ids of items: those that nobody can have written for before, and the others."""

    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    kept: tuple[str, ...] | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Note).decode


class Noted(NamedTuple):
    """What a note says: places that do not count, or not yet, and after a loss the only packs of the lease that do.

    `kept` are the keys of these, and of documents among them; None when all count.
    """

    places: frozenset[Place] = frozenset()
    kept: frozenset[str] | None = None


class Room(NamedTuple):
    """What an open room names, and what was lost in it when it was closed."""

    is_open: bool
    places: frozenset[Place]
    lost: Noted


class Unseen(NamedTuple):
    """What does not count in a job, or not yet: places, packs of leases that are `open`, and of others all but `kept`.

    `anew`: a job of this id was deleted, so there may be packs of its sleepers, and only packs that are kept count.
    """

    places: set[Place]
    open: frozenset[int]
    kept: dict[int, frozenset[str]]
    anew: bool = False

    def hides(self, key: str) -> bool:
        """Whether nobody is to see it."""
        fence = pack_fence(key)
        if fence is None:
            return Place.of_key(key) in self.places
        kept = self.kept.get(fence)
        return fence in self.open or (self.anew if kept is None else key not in kept)


class Rooms:
    """Jobs are given by their folder. Nothing is remembered but `lost` notes, which never change."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lost: dict[tuple[str, int], Noted] = {}

    async def open(self, job: str, fence: int, places: Collection[Place]) -> bool:
        """Opens a room; False when it was opened before, and then nothing is noted."""
        return await self._objects.put(_path(job, fence, _OPENED), _noted(places), create=True)

    async def is_open(self, job: str, fence: int) -> bool:
        """Whether the lease may write."""
        return await self._objects.exists(_path(job, fence, _OPENED))

    async def add(self, job: str, fence: int, number: int, places: Collection[Place]) -> None:
        """Notes what the opening did not name; `number` makes the note a new one."""
        await self._objects.put(_path(job, fence, f"{_OPENED}-{number}"), _noted(places))

    async def close(self, job: str, fence: int, lost: Noted, notes: int | None) -> None:
        """Takes the room away. Losers are noted first, and are to be deleted after.

        `notes` is how many were added, if the caller knows: otherwise they are looked for.
        """
        if lost.places or lost.kept is not None:
            await self._objects.put(_path(job, fence, _LOST), _noted(lost.places, lost.kept))
            self._lost.pop((job, fence), None)
        if notes is None:
            names = [name for name in await self._names(job, fence) if name != _LOST]
        else:
            names = [_OPENED, *(f"{_OPENED}-{number}" for number in range(notes))]
        await self._objects.delete([_path(job, fence, name) for name in names])

    async def look(self, job: str, fence: int) -> Room:
        """The room as it is now, also one that was closed or never there."""
        places, lost, is_open = set[Place](), Noted(), False
        for name in await self._names(job, fence):
            note = await self._read(job, fence, name)
            if name == _LOST:
                lost = note or lost
            elif note is not None:
                places |= note.places
                is_open = True
        return Room(is_open, frozenset(places), lost)

    async def fences(self, job: str) -> list[int]:
        """The fences whose rooms are open."""
        return sorted({fence for fence, name in await self._all(job) if name != _LOST})

    async def unseen(self, job: str) -> Unseen:
        """Whatever is in open rooms, and whatever was lost."""
        notes = await self._all(job)
        found = await asyncio.gather(*(self._note(job, fence, name) for fence, name in notes))
        return Unseen(
            set[Place]().union(*(note.places for note in found)),
            frozenset(fence for fence, name in notes if name != _LOST),
            {fence: note.kept for (fence, _), note in zip(notes, found, strict=True) if note.kept is not None},
        )

    async def _note(self, job: str, fence: int, name: str) -> Noted:
        if name != _LOST:
            noted = await self._read(job, fence, name)
            return noted if noted is not None else await self._read(job, fence, _LOST) or Noted()  # closed meanwhile
        known = self._lost.get((job, fence))
        if known is None:
            if len(self._lost) >= _MOST_CACHED:
                self._lost.clear()
            known = self._lost[job, fence] = await self._read(job, fence, _LOST) or Noted()
        return known

    async def _read(self, job: str, fence: int, name: str) -> Noted | None:
        """What a note says; None when it is gone."""
        try:
            note = _decode(await self._objects.get(_path(job, fence, name)))
        except KeyError:
            return None
        places = frozenset([*(Place(path, 0) for path in note.first), *(Place(path, fence) for path in note.later)])
        return Noted(places, None if note.kept is None else frozenset(note.kept))

    async def _names(self, job: str, fence: int) -> list[str]:
        return [path.rpartition("/")[2] async for page in self._objects.pages(_path(job, fence, "")) for path in page]

    async def _all(self, job: str) -> list[tuple[int, str]]:
        """Every note there is, with its fence."""
        notes = []
        async for page in self._objects.pages(f"{job}/{LEASES}/"):
            for path in page:
                fence, _, name = path.removeprefix(f"{job}/{LEASES}/").partition("/")
                if fence.isdecimal():
                    notes.append((int(fence), name))
        return notes


def _path(job: str, fence: int, name: str) -> str:
    return f"{job}/{LEASES}/{fence}/{name}"


def _noted(places: Collection[Place], kept: Collection[str] | None = None) -> bytes:
    split: tuple[list[str], list[str]] = [], []
    for place in places:
        split[not place.is_first].append(place.path)
    return _encode(_Note(tuple(split[0]), tuple(split[1]), None if kept is None else tuple(sorted(kept))))
