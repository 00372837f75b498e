"""Notes in the bucket what a lease is about to write, and settles it: what was accepted stays, the rest goes.

The notes of a lease are in `.leases/{fence}/` and name item prefixes; packs need none, for their names carry the
fence.
To settle, losers are noted, the notes are closed, and what lost is deleted, in this order: it can be interrupted
anywhere and repeated by anybody. The note `lost` stays for good, since a writer that slept through the loss of its
lease may still add files; they stay hidden. A process remembers what it wrote under its own leases.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.s3.job_files import JobFile, JobFiles
from swath.backends.aws.s3.object_names import LEASES, ItemPrefix
from swath.backends.aws.s3.objects import Objects, gather_all
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, encode_key, pack_fence
from swath.ports.result_storage import PackAppend

__all__ = [
    "AcceptedFiles",
    "HiddenFiles",
    "LeasePacks",
    "LeaseWrites",
    "NoteContents",
    "Settlement",
    "StagingNotes",
    "StagingState",
    "item_files",
    "oversized_packs",
    "prefixes_of_items",
    "to_artifacts",
]

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


class NoteContents(NamedTuple):
    """What a note says: places that do not count, or not yet, and after a loss the only packs of the lease that do.

    `kept` are the keys of these, and of documents among them; None when all count.
    """

    places: frozenset[ItemPrefix] = frozenset()
    kept: frozenset[str] | None = None


class StagingState(NamedTuple):
    """What an open room names, and what was lost in it when it was closed."""

    is_open: bool
    places: frozenset[ItemPrefix]
    lost: NoteContents


class HiddenFiles(NamedTuple):
    """What does not count in a job, or not yet: places, packs of leases that are `open`, and of others all but `kept`.

    `anew`: a job of this id was deleted, so there may be packs of its sleepers, and only packs that are kept count.
    """

    places: set[ItemPrefix]
    open: frozenset[int]
    kept: dict[int, frozenset[str]]
    anew: bool = False

    def hides(self, key: str) -> bool:
        """Whether nobody is to see it."""
        fence = pack_fence(key)
        if fence is None:
            return ItemPrefix.of_key(key) in self.places
        kept = self.kept.get(fence)
        return fence in self.open or (self.anew if kept is None else key not in kept)


class StagingNotes:
    """Jobs are given by their folder. Nothing is remembered but `lost` notes, which never change."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lost: dict[tuple[str, int], NoteContents] = {}

    async def open(self, job: str, fence: int, places: Collection[ItemPrefix]) -> bool:
        """Opens a room; False when it was opened before, and then nothing is noted."""
        return await self._objects.put(_path(job, fence, _OPENED), _encode_note(places), create=True)

    async def is_open(self, job: str, fence: int) -> bool:
        """Whether the lease may write."""
        return await self._objects.exists(_path(job, fence, _OPENED))

    async def add(self, job: str, fence: int, number: int, places: Collection[ItemPrefix]) -> None:
        """Notes what the opening did not name; `number` makes the note a new one."""
        await self._objects.put(_path(job, fence, f"{_OPENED}-{number}"), _encode_note(places))

    async def close(self, job: str, fence: int, lost: NoteContents, notes: int | None) -> None:
        """Takes the room away. Losers are noted first, and are to be deleted after.

        `notes` is how many were added, if the caller knows: otherwise they are looked for.
        """
        if lost.places or lost.kept is not None:
            await self._objects.put(_path(job, fence, _LOST), _encode_note(lost.places, lost.kept))
            self._lost.pop((job, fence), None)
        if notes is None:
            names = [name for name in await self._names(job, fence) if name != _LOST]
        else:
            names = [_OPENED, *(f"{_OPENED}-{number}" for number in range(notes))]
        await self._objects.delete([_path(job, fence, name) for name in names])

    async def look(self, job: str, fence: int) -> StagingState:
        """The room as it is now, also one that was closed or never there."""
        places, lost, is_open = set[ItemPrefix](), NoteContents(), False
        for name in await self._names(job, fence):
            note = await self._read(job, fence, name)
            if name == _LOST:
                lost = note or lost
            elif note is not None:
                places |= note.places
                is_open = True
        return StagingState(is_open, frozenset(places), lost)

    async def fences(self, job: str) -> list[int]:
        """The fences whose rooms are open."""
        return sorted({fence for fence, name in await self._all(job) if name != _LOST})

    async def unseen(self, job: str) -> HiddenFiles:
        """Whatever is in open rooms, and whatever was lost."""
        notes = await self._all(job)
        found = await asyncio.gather(*(self._note(job, fence, name) for fence, name in notes))
        return HiddenFiles(
            set[ItemPrefix]().union(*(note.places for note in found)),
            frozenset(fence for fence, name in notes if name != _LOST),
            {fence: note.kept for (fence, _), note in zip(notes, found, strict=True) if note.kept is not None},
        )

    async def _note(self, job: str, fence: int, name: str) -> NoteContents:
        if name != _LOST:
            noted = await self._read(job, fence, name)
            return (
                noted if noted is not None else await self._read(job, fence, _LOST) or NoteContents()
            )  # closed meanwhile
        known = self._lost.get((job, fence))
        if known is None:
            if len(self._lost) >= _MOST_CACHED:
                self._lost.clear()
            known = self._lost[job, fence] = await self._read(job, fence, _LOST) or NoteContents()
        return known

    async def _read(self, job: str, fence: int, name: str) -> NoteContents | None:
        """What a note says; None when it is gone."""
        try:
            note = _decode(await self._objects.get(_path(job, fence, name)))
        except KeyError:
            return None
        places = frozenset(
            [*(ItemPrefix(path, 0) for path in note.first), *(ItemPrefix(path, fence) for path in note.later)]
        )
        return NoteContents(places, None if note.kept is None else frozenset(note.kept))

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


def _encode_note(places: Collection[ItemPrefix], kept: Collection[str] | None = None) -> bytes:
    split: tuple[list[str], list[str]] = [], []
    for place in places:
        split[not place.is_first].append(place.path)
    return _encode(_Note(tuple(split[0]), tuple(split[1]), None if kept is None else tuple(sorted(kept))))


_PACKED_PAGE: Final = ".html.gz"  # no download is named so (domain/keys.py)


class LeaseWrites(msgspec.Struct):
    """Whether the first items of the lease get plain keys, the places noted in the room and by how many notes, the
    keys written (or begun to be) by place, the places that are published, and the packs written (or begun to be) with
    their sizes. `mark` is in the names of packs: no other process ever gives the same ones."""

    plain: bool | None = None
    noted: set[ItemPrefix] = msgspec.field(default_factory=set)
    notes: int = 0
    keys: dict[ItemPrefix, frozenset[str]] = msgspec.field(default_factory=dict)
    published: set[ItemPrefix] = msgspec.field(default_factory=set)
    packs: dict[str, int] = msgspec.field(default_factory=dict)
    mark: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))
    appends: int = 0

    def new_packs(self, fence: int, additions: Mapping[str, PackAppend]) -> dict[str, JobFile]:
        """By ending: each addition as a pack of its own, for an object cannot be added to. Known from now on."""
        name = f"{PACKS_PREFIX}{fence}-{self.mark}-{self.appends:05}"
        self.appends += 1
        files = {end: JobFile(f"{name}.{end}", added.head + added.data) for end, added in additions.items()}
        self.packs |= {file.key: len(file.data) for file in files.values()}
        return files

    def lost_places(self) -> dict[ItemPrefix, frozenset[str]]:
        """What was written and is not published."""
        return {place: keys for place, keys in self.keys.items() if keys and place not in self.published}


def item_files(place: ItemPrefix, files: Mapping[str, bytes]) -> list[JobFile]:
    """A compressed page lies under the name of the page, and its header says how it is packed."""
    made = []
    for name, data in files.items():
        plain = name.removesuffix(".gz")
        packed = name.endswith(_PACKED_PAGE) and plain not in files
        made.append(JobFile(place.folder + (plain if packed else name), data, packed))
    return made


def prefixes_of_items(places: Collection[ItemPrefix], item_ids: Collection[str]) -> set[ItemPrefix]:
    """Those of these items."""
    paths = {encode_key(item_id) for item_id in item_ids}
    return {place for place in places if place.path in paths}


def to_artifacts(files: Iterable[JobFile]) -> tuple[Artifact, ...]:
    """As the store refers to them."""
    return tuple(Artifact(file.key, len(file.data), hashlib.sha256(file.data).hexdigest()) for file in files)


class LeasePacks:
    """Jobs are given by their folder."""

    def __init__(self, objects: Objects, files: JobFiles) -> None:
        self._objects = objects
        self._files = files

    async def find(self, job: str, fence: int) -> dict[str, int]:
        """What lies there of a lease, whether it counts or not, with the sizes; documents beside it are none."""
        found = await self._objects.beginning(f"{job}/{PACKS_PREFIX.rstrip('/')}", f"{fence}-")
        return {path.removeprefix(f"{job}/"): size for path, size in found.items()}

    async def cut(self, job: str, sizes: Mapping[str, int], needed: Mapping[str, int]) -> None:
        """Takes away what is behind the bytes needed."""
        for key in oversized_packs(sizes, needed):
            await self._files.put(job, JobFile(key, await self._files.read(job, key, 0, needed[key])))


def oversized_packs(sizes: Mapping[str, int], needed: Mapping[str, int]) -> list[str]:
    """Those that hold more than is needed of them."""
    return [key for key, size in sizes.items() if needed.get(key, size) < size]


class AcceptedFiles(NamedTuple):
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

    def __init__(self, files: JobFiles, packs: LeasePacks, rooms: StagingNotes) -> None:
        self._files = files
        self._packs = packs
        self._rooms = rooms

    async def settle(self, job: str, fence: int, desk: LeaseWrites | None, won: AcceptedFiles) -> None:
        """`desk` is that of the process which wrote under the lease, if it is this one."""
        if desk is None or not await self._settle_own(job, fence, desk, won):
            await self._settle_left(job, fence, desk or LeaseWrites(), won)

    async def _settle_own(self, job: str, fence: int, desk: LeaseWrites, won: AcceptedFiles) -> bool:
        """By what the desk knows; False, and nothing is done, when that needs a room and there is none."""
        places, packs = desk.lost_places(), desk.packs.keys() - won.packs.keys()
        careful = places or packs or won.documents or oversized_packs(desk.packs, won.packs)
        if careful and not await self._rooms.is_open(job, fence):
            return False
        await self._publish_packs(job, desk.packs, won)
        noted = bool(packs) or (bool(won.kept) and await self._is_anew(job, desk))
        await self._rooms.close(job, fence, NoteContents(frozenset(places), won.kept if noted else None), desk.notes)
        await self._files.delete(job, [*(key for keys in places.values() for key in keys), *packs])
        return True

    async def _settle_left(self, job: str, fence: int, desk: LeaseWrites, won: AcceptedFiles) -> None:
        """Behind a writer that may still write, or for one that came too late: what its room says counts."""
        room = await self._rooms.look(job, fence)
        losers = (room.places - prefixes_of_items(room.places, won.item_ids)) | room.lost.places
        losers |= await self._late(job, desk.lost_places())
        packs, kept = desk.packs, room.lost.kept
        if room.is_open or kept is not None:
            packs = await self._packs.find(job, fence)
        if room.is_open:
            await self._publish_packs(job, packs, won)
            await self._rooms.close(job, fence, NoteContents(losers, won.kept), None)
            await self._files.abort_uploads(job, lambda key, _: _is_of_lease(key, fence, room.places))
        await gather_all(self._files.delete_place(job, place) for place in losers)
        counted = won.kept if room.is_open or kept is None else kept
        await self._files.delete(job, [key for key in packs if key not in counted])

    async def _publish_packs(self, job: str, sizes: Mapping[str, int], won: AcceptedFiles) -> None:
        """As far as they are needed, with the documents; nobody sees them before the room is closed."""
        await self._packs.cut(job, sizes, won.packs)
        await gather_all(self._files.put(job, JobFile(key, data)) for key, data in won.documents.items())

    async def _late(self, job: str, lost: Collection[ItemPrefix]) -> set[ItemPrefix]:
        """What a lease without a room may delete by its own word: where no lease of a later job of this id writes."""
        plain = any(place.is_first for place in lost) and await self._files.was_deleted(job)
        return {place for place in lost if plain or not place.is_first}

    async def _is_anew(self, job: str, desk: LeaseWrites) -> bool:
        """Whether a deleted job had the same id."""
        return await self._files.was_deleted(job) if desk.plain is None else not desk.plain


def _is_of_lease(key: str, fence: int, places: Collection[ItemPrefix]) -> bool:
    """Whether the lease was writing it: one of its packs, or a file of an item that its room names."""
    place = ItemPrefix.of_key(key)
    return pack_fence(key) == fence or (place is not None and (place.fence == fence or place in places))
