"""Rooms: what a lease may be writing, noted in the bucket before it writes, so that anybody can clean up behind it.

A room is `.leases/{fence}/` in the job's folder. Its notes name places (object_names.py), not files, so the one made at
the opening covers all items of the lease. A room that left losers behind keeps the note `lost` for good: a writer who
slept through its loss may still add files, and they stay unseen. results.py asks here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from swath.backends.aws.results.object_names import LEASES, Place
from swath.backends.aws.results.objects import Objects

__all__ = ["Rooms"]

_OPENED: Final = "room"
_LOST: Final = "lost"
_MOST_CACHED: Final = 10_000


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Encoded ids of items: those that nobody can have written for before, and the others."""

    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Note).decode


class Rooms:
    """Jobs are given by their folder. Nothing is remembered but `lost` notes, which never change."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lost: dict[tuple[str, int], frozenset[Place]] = {}

    async def open(self, job: str, fence: int, places: Collection[Place]) -> bool:
        """Opens a room; False when it was opened before, and then nothing is noted."""
        return await self._objects.put(_path(job, fence, _OPENED), _noted(places), create=True)

    async def is_open(self, job: str, fence: int) -> bool:
        """Whether the lease may write."""
        return await self._objects.exists(_path(job, fence, _OPENED))

    async def add(self, job: str, fence: int, number: int, places: Collection[Place]) -> None:
        """Notes what the opening did not name; `number` makes the note a new one."""
        await self._objects.put(_path(job, fence, f"{_OPENED}-{number}"), _noted(places))

    async def close(self, job: str, fence: int, losers: Collection[Place], notes: int | None) -> None:
        """Takes the room away. Losers are noted first, and are to be deleted after.

        `notes` is how many were added, if the caller knows: otherwise they are looked for.
        """
        if losers:
            await self._objects.put(_path(job, fence, _LOST), _noted(losers))
            self._lost.pop((job, fence), None)
        if notes is None:
            names = [name for name in await self._names(job, fence) if name != _LOST]
        else:
            names = [_OPENED, *(f"{_OPENED}-{number}" for number in range(notes))]
        await self._objects.delete([_path(job, fence, name) for name in names])

    async def places(self, job: str, fence: int) -> tuple[set[Place], set[Place]]:
        """What an open room names, and what was lost in one that is closed."""
        noted, lost = set[Place](), set[Place]()
        for name in await self._names(job, fence):
            (lost if name == _LOST else noted).update(await self._read(job, fence, name) or ())
        return noted, lost

    async def fences(self, job: str) -> list[int]:
        """The fences whose rooms are open."""
        return sorted({fence for fence, name in await self._all(job) if name != _LOST})

    async def unseen(self, job: str) -> set[Place]:
        """All places whose files do not count, or not yet: those of open rooms, and those that were lost."""
        notes = await self._all(job)
        found = await asyncio.gather(*(self._note(job, fence, name) for fence, name in notes))
        return set().union(*found)

    async def _note(self, job: str, fence: int, name: str) -> Collection[Place]:
        if name != _LOST:
            noted = await self._read(job, fence, name)
            return noted if noted is not None else await self._read(job, fence, _LOST) or ()  # closed meanwhile
        known = self._lost.get((job, fence))
        if known is None:
            if len(self._lost) >= _MOST_CACHED:
                self._lost.clear()
            known = self._lost[job, fence] = await self._read(job, fence, _LOST) or frozenset()
        return known

    async def _read(self, job: str, fence: int, name: str) -> frozenset[Place] | None:
        """What a note names; None when it is gone."""
        try:
            note = _decode(await self._objects.get(_path(job, fence, name)))
        except KeyError:
            return None
        return frozenset([*(Place(path, 0) for path in note.first), *(Place(path, fence) for path in note.later)])

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


def _noted(places: Iterable[Place]) -> bytes:
    split: tuple[list[str], list[str]] = [], []
    for place in places:
        split[not place.is_first].append(place.path)
    return _encode(_Note(first=tuple(split[0]), later=tuple(split[1])))
