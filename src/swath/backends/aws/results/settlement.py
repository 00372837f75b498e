"""Settlement: how the room of a lease is closed, so that what won in it stays and all the rest is gone or unseen.

Before: results.py has published the winners' files. Losers are noted, the room is closed, and what lost is deleted, in
this order: it can be cut short anywhere, and repeated by anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from swath.backends.aws.results.desk import Desk, of_items
from swath.backends.aws.results.files import File, Files
from swath.backends.aws.results.object_names import Place
from swath.backends.aws.results.objects import all_ended
from swath.backends.aws.results.packs import Packs, too_long
from swath.backends.aws.results.rooms import Noted, Rooms
from swath.domain.layout import pack_fence

__all__ = ["Settlement", "Won"]


class Won(NamedTuple):
    """What counts of a lease: items, bytes of its packs, and documents to be put beside them."""

    item_ids: Collection[str]
    packs: Mapping[str, int]
    documents: Mapping[str, bytes]

    @property
    def kept(self) -> frozenset[str]:
        """The keys of packs and documents."""
        return frozenset([*self.packs, *self.documents])


class Settlement:
    """Jobs are given by their folder."""

    def __init__(self, files: Files, packs: Packs, rooms: Rooms) -> None:
        self._files = files
        self._packs = packs
        self._rooms = rooms

    async def settle(self, job: str, fence: int, desk: Desk | None, won: Won) -> None:
        """`desk` is that of the process which wrote under the lease, if it is this one."""
        if desk is None or not await self._settle_own(job, fence, desk, won):
            await self._settle_left(job, fence, desk or Desk(), won)

    async def _settle_own(self, job: str, fence: int, desk: Desk, won: Won) -> bool:
        """By what the desk knows; False, and nothing is done, when that needs a room and there is none."""
        places, packs = desk.lost_places(), desk.packs.keys() - won.packs.keys()
        careful = places or packs or won.documents or too_long(desk.packs, won.packs)
        if careful and not await self._rooms.is_open(job, fence):
            return False
        await self._publish_packs(job, desk.packs, won)
        noted = bool(packs) or (bool(won.kept) and await self._is_anew(job, desk))
        await self._rooms.close(job, fence, Noted(frozenset(places), won.kept if noted else None), desk.notes)
        await self._files.delete(job, [*(key for keys in places.values() for key in keys), *packs])
        return True

    async def _settle_left(self, job: str, fence: int, desk: Desk, won: Won) -> None:
        """Behind a writer that may still write, or for one that came too late: what its room says counts."""
        room = await self._rooms.look(job, fence)
        losers = (room.places - of_items(room.places, won.item_ids)) | room.lost.places
        losers |= await self._late(job, desk.lost_places())
        packs, kept = desk.packs, room.lost.kept
        if room.is_open or kept is not None:
            packs = await self._packs.find(job, fence)
        if room.is_open:
            await self._publish_packs(job, packs, won)
            await self._rooms.close(job, fence, Noted(losers, won.kept), None)
            await self._files.abort_uploads(job, lambda key, _: _is_of(key, fence, room.places))
        await all_ended(self._files.delete_place(job, place) for place in losers)
        counted = won.kept if room.is_open or kept is None else kept
        await self._files.delete(job, [key for key in packs if key not in counted])

    async def _publish_packs(self, job: str, sizes: Mapping[str, int], won: Won) -> None:
        """As far as they are needed, with the documents; nobody sees them before the room is closed."""
        await self._packs.cut(job, sizes, won.packs)
        await all_ended(self._files.put(job, File(key, data)) for key, data in won.documents.items())

    async def _late(self, job: str, lost: Collection[Place]) -> set[Place]:
        """What a lease without a room may delete by its own word: where no lease of a later job of this id writes."""
        plain = any(place.is_first for place in lost) and await self._files.was_deleted(job)
        return {place for place in lost if plain or not place.is_first}

    async def _is_anew(self, job: str, desk: Desk) -> bool:
        """Whether a deleted job had the same id."""
        return await self._files.was_deleted(job) if desk.plain is None else not desk.plain


def _is_of(key: str, fence: int, places: Collection[Place]) -> bool:
    """Whether the lease was writing it: one of its packs, or a file of an item that its room names."""
    place = Place.of_key(key)
    return pack_fence(key) == fence or (place is not None and (place.fence == fence or place in places))
