"""Results in S3: the artifacts and manifests of each job, under `s3://bucket/prefix/job/`.

A worker stages an item's files under the fence of its lease. Every file is written once, at the key that the store
then
refers to, so publishing moves nothing. Trouble with the objects of one job, while S3 serves the rest of the place,
becomes FolderUnusable, which delays that job alone: a bucket policy or an encryption key may concern one prefix, and
S3
throttles by prefix.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from swath.backends.aws.client.metering import Meter
from swath.backends.aws.s3.bucket import PROBE, Bucket
from swath.backends.aws.s3.credentials import CredentialChain
from swath.backends.aws.s3.errors import S3AccessDenied, S3Unavailable
from swath.backends.aws.s3.job_files import FencedDocuments, JobFile, JobFiles
from swath.backends.aws.s3.object_names import ItemPrefix, check_key, check_prefix, job_folder
from swath.backends.aws.s3.objects import MULTIPART_BYTES, Objects, gather_all
from swath.backends.aws.s3.staging import (
    AcceptedFiles,
    HiddenFiles,
    LeasePacks,
    LeaseWrites,
    Settlement,
    StagingNotes,
    item_files,
    prefixes_of_items,
    to_artifacts,
)
from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.domain.storage_keys import pack_fence
from swath.ports.clock import Clock
from swath.ports.result_storage import FileRange, PackAppend, StagedItem

__all__ = ["S3Results", "attribute_error", "raises_folder_unusable"]

M = TypeVar("M", bound=Callable[..., Awaitable[Any]])

PROBE_SECONDS: Final = 3.0


class Storage(Protocol):
    """What `of_job` needs of results storage."""

    async def whose(self, job_id: str, error: S3AccessDenied | S3Unavailable) -> SwathError:
        """What to raise for it."""
        ...


def raises_folder_unusable(method: M) -> M:
    """For a method whose first argument is a job: raises FolderUnusable for trouble with that job's objects alone."""

    @functools.wraps(method)
    async def asked(self: Storage, job_id: str, *rest: Any, **named: Any) -> Any:
        try:
            return await method(self, job_id, *rest, **named)
        except (S3AccessDenied, S3Unavailable) as error:
            raise await self.whose(job_id, error) from error

    return asked  # type: ignore[return-value]  # it takes and gives what the method does


async def attribute_error(
    objects: Objects, job_id: str, location: str, error: S3AccessDenied | S3Unavailable
) -> SwathError:
    """Tries the same kind of request beside the jobs: only when that works the trouble is of this job alone."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await objects.try_place(error.operation, PROBE)
    except S3AccessDenied:
        return error
    except (SwathError, TimeoutError):
        return error if isinstance(error, S3Unavailable) else StoreUnavailable(str(error), WaitingFor.DISK)
    return FolderUnusable(f"cannot use the results of job {job_id!r} in {location}: {error}", WaitingFor.DISK)


LONGEST_LINK_SECONDS: Final = 7 * 86_400  # what S3 allows
_LONGEST_PREFIX: Final = 200
_READS_AT_ONCE: Final = 16
_LOOK_SECONDS: Final = 3.0
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
PACK_SECONDS: Final = 2.0  # S3 charges by the object, so one is to hold what many items left


class S3Results:
    """ResultStorage in a place of S3 that any number of hosts may share.

    Requests that S3 charges as writes: one for each file, pack and document, one for each lease; for the files of an
    item on a later claim one listing, and for every item of a job whose id a deleted one had. A lease and a commit cost
    a HEAD besides. What another process has published is listed when its lease is settled.
    """

    def __init__(self, objects: Objects) -> None:
        self.pack_seconds = PACK_SECONDS
        self._objects = objects
        self._files = JobFiles(objects)
        self._rooms = StagingNotes(objects)
        self._fenced = FencedDocuments(objects, self._files)
        self._settlement = Settlement(self._files, LeasePacks(objects, self._files), self._rooms)
        self._desks: dict[tuple[str, int], LeaseWrites] = {}

    @classmethod
    def open(
        cls, url: str, clock: Clock, *, meter: Meter | None = None, multipart_bytes: int = MULTIPART_BYTES
    ) -> S3Results:
        """From `s3://bucket/prefix`, with `?region=` where the settings of AWS name another. Asks nothing of S3 yet."""
        parts = urlsplit(url)
        bucket = Bucket(parts.netloc, parts.path.strip("/"))
        if parts.scheme != "s3" or not bucket.name or len(bucket.prefix.encode()) > _LONGEST_PREFIX:
            raise UserError(f"{url!r} is no place for results; write s3://BUCKET/PREFIX, as `swath aws init` does")
        region = next(iter(parse_qs(parts.query).get("region", ())), None)
        return cls(Objects(bucket, CredentialChain(clock, region), meter, multipart_bytes=multipart_bytes))

    @property
    def meter(self) -> Meter:
        """The requests made so far."""
        return self._objects.meter

    async def close(self) -> None:
        """Connections end with the process; further calls would open them again."""
        await self._objects.close()

    @raises_folder_unusable
    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:
        """Makes the room, with a note of what may be written."""
        job, desk = job_folder(job_id), self._desks.get((job_id, fence), LeaseWrites())
        self._files.forget_names(job)
        places = set(await self._places(job, fence, desk, items))
        if await self._rooms.open(job, fence, places):
            self._desks[job_id, fence] = desk
            desk.noted |= places

    @raises_folder_unusable
    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Writes each file at its final key, if the room is there."""
        for item in items:
            for name in item.files:
                check_key(name)
        job, desk = job_folder(job_id), self._desks.setdefault((job_id, fence), LeaseWrites())
        places = await self._places(job, fence, desk, items)
        files = {place: item_files(place, item.files) for place, item in zip(places, items, strict=True)}
        former = {place: desk.keys.get(place, frozenset()) for place in files}
        # Known before the room is looked at, or a settlement at the same time in this process could miss them.
        desk.keys |= {place: former[place] | {file.key for file in new} for place, new in files.items()}
        if not await self._rooms.is_open(job, fence):
            desk.keys |= former
            raise self._lost(job_id, fence)
        await self._note(job, fence, desk, files.keys() - desk.noted)
        await gather_all(self._files.put(job, file) for new in files.values() for file in new)
        kept = {place: frozenset(file.key for file in new) for place, new in files.items()}
        await self._files.delete(job, [key for place, keys in former.items() for key in keys - kept[place]])
        desk.keys |= kept
        desk.published -= kept.keys()
        return await asyncio.to_thread(lambda: [to_artifacts(files[place]) for place in places])

    @raises_folder_unusable
    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """Keeps in mind what is no longer on trial, and removes what earlier leases wrote for these items."""
        job, desk = job_folder(job_id), self._desks.get((job_id, fence))
        staged = desk.keys.keys() if desk is not None else (await self._rooms.look(job, fence)).places
        new = prefixes_of_items(staged, item_ids) - (desk.published if desk is not None else set())
        await gather_all(self._files.delete_former(job, place) for place in new if not place.is_first)
        if desk is not None:
            desk.published |= new

    @raises_folder_unusable
    async def append(self, job_id: str, fence: int, additions: Mapping[str, PackAppend]) -> dict[str, tuple[str, int]]:
        """Writes each addition as an object, if the room is there. What a failed call has written is deleted later."""
        job, desk = job_folder(job_id), self._desks.setdefault((job_id, fence), LeaseWrites())
        files = desk.new_packs(fence, additions)
        if not await self._rooms.is_open(job, fence):
            for file in files.values():
                del desk.packs[file.key]
            raise self._lost(job_id, fence)
        await gather_all(self._files.put(job, file) for file in files.values())
        return {ending: (file.key, len(additions[ending].head)) for ending, file in files.items()}

    @raises_folder_unusable
    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = _NONE,
        documents: Mapping[str, bytes] = _NONE,
    ) -> None:
        """Publishes first what is left to be, then closes the room (settlement.py)."""
        for key in documents:
            check_key(key)
        await self.publish(job_id, fence, winners)
        won, desk = AcceptedFiles(winners, packs, documents), self._desks.get((job_id, fence))
        await self._settlement.settle(job_folder(job_id), fence, desk, won)
        self._desks.pop((job_id, fence), None)

    @raises_folder_unusable
    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes each document as one object."""
        for key in documents:
            check_key(key)
        job, files = job_folder(job_id), [JobFile(key, data) for key, data in documents.items()]
        await gather_all(self._files.put(job, file) for file in files)
        return await asyncio.to_thread(lambda: [*to_artifacts(files)])

    @raises_folder_unusable
    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes each document on a condition (fenced.py), if the room is there."""
        job, files = job_folder(job_id), await self._fenced_files(job_id, fence, documents)
        await self._fenced.put(job, fence, files)
        return await asyncio.to_thread(lambda: [*to_artifacts(files)])

    @raises_folder_unusable
    async def withdraw(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> None:
        """Puts the given bytes in the place of each document that is there."""
        if documents:
            files = await self._fenced_files(job_id, fence, documents)
            await self._fenced.replace(job_folder(job_id), fence, files)

    async def _fenced_files(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[JobFile]:
        for key in documents:
            check_key(key)
        if not await self._rooms.is_open(job_folder(job_id), fence):
            raise self._lost(job_id, fence)
        return [JobFile(key, data) for key, data in documents.items()]

    @raises_folder_unusable
    async def get(self, job_id: str, key: str) -> bytes:
        """The bytes as they lie there: a compressed page is not unpacked."""
        check_key(key)
        return await self._files.get(job_folder(job_id), key)

    @raises_folder_unusable
    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """By a ranged request, of the bytes as they lie there."""
        check_key(key)
        return await self._files.read(job_folder(job_id), key, start, length)

    async def read_all(self, job_id: str, pieces: Sequence[FileRange]) -> list[bytes | None]:
        """Some at a time; a bucket has no request for many."""
        limit = asyncio.Semaphore(_READS_AT_ONCE)
        found: list[bytes | None] = [None] * len(pieces)

        async def read(number: int, piece: FileRange) -> None:
            async with limit:
                with suppress(KeyError):
                    if piece.length is None:
                        found[number] = await self.get(job_id, piece.key)
                    else:
                        found[number] = await self.read(job_id, piece.key, piece.start, piece.length)

        await gather_all([read(number, piece) for number, piece in enumerate(pieces)])
        return found

    @raises_folder_unusable
    async def absent(self, job_id: str, sizes: Mapping[str, int]) -> set[str]:
        """Asks for packs, which are few."""
        packs = [key for key in sizes if pack_fence(key) is not None]
        there = await asyncio.gather(*(self._files.exists(job_folder(job_id), key) for key in packs))
        return {key for key, found in zip(packs, there, strict=True) if not found}

    async def link(self, job_id: str, key: str, seconds: int) -> str | None:
        """A presigned one; who follows it unpacks a compressed page."""
        check_key(key)
        if not 0 < seconds <= LONGEST_LINK_SECONDS:
            raise ValueError(f"a link is good for 1 to {LONGEST_LINK_SECONDS} seconds, not {seconds}")
        return await self._files.link(job_folder(job_id), key, seconds)

    @raises_folder_unusable
    async def remove(self, job_id: str, prefix: str) -> None:
        """Lists and deletes."""
        check_prefix(prefix)
        job = job_folder(job_id)
        async for found in self._files.pages(job, prefix):
            await self._files.delete(job, found)

    @raises_folder_unusable
    async def delete(self, job_id: str, keys: Collection[str]) -> None:
        """A thousand by one request."""
        for key in keys:
            check_key(key)
        await self._files.delete(job_folder(job_id), keys)

    @raises_folder_unusable
    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        """Takes the rooms first, so that nobody writes any more, then everything else. A tombstone stays."""
        for desk in [desk for desk in self._desks if desk[0] == job_id]:
            del self._desks[desk]
        await self._files.clear(job_folder(job_id), confirm)

    async def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """Page by page. What is unseen is asked for after each page: no file is older than the note of it."""
        check_prefix(prefix)
        try:
            async for found in self._files.pages(job_folder(job_id), prefix):
                unseen = await self._unseen(job_id, found)
                for key in found:
                    if not unseen.hides(key):
                        yield key
        except (S3AccessDenied, S3Unavailable) as error:
            raise await self.whose(job_id, error) from error

    @raises_folder_unusable
    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        return await self._rooms.fences(job_folder(job_id))

    async def trouble(self, job_id: str) -> str | None:
        """Asks for an object that is never there."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._files.exists(job_folder(job_id), PROBE)
        except (S3AccessDenied, S3Unavailable, TimeoutError) as error:
            late = f"S3 (head_object) has not answered for {_LOOK_SECONDS:g} s"
            met = S3Unavailable(late, "head_object") if isinstance(error, TimeoutError) else error
            told = await self.whose(job_id, met)
            return str(told) if isinstance(told, FolderUnusable) else None
        return None

    async def whose(self, job_id: str, error: S3AccessDenied | S3Unavailable) -> SwathError:
        """FolderUnusable when only what concerns this job is denied or not answered."""
        return await attribute_error(self._objects, job_id, self.location(job_id), error)

    def location(self, job_id: str) -> str:
        """The job's folder as a URL."""
        return f"{self._objects.bucket.url}/{job_folder(job_id)}"

    async def _places(
        self, job: str, fence: int, desk: LeaseWrites, items: Collection[LeasedItem] | Collection[StagedItem]
    ) -> list[ItemPrefix]:
        """Where the lease puts its items. The plain keys may belong to sleepers of a deleted job of the same id."""
        if desk.plain is None and any(item.first for item in items):
            desk.plain = not await self._files.was_deleted(job)
        return [ItemPrefix.of(item.item_id, fence, first=item.first and desk.plain is True) for item in items]

    async def _note(self, job: str, fence: int, desk: LeaseWrites, places: Collection[ItemPrefix]) -> None:
        """Notes what the opening of the room did not name."""
        if places:
            desk.notes += 1
            await self._rooms.add(job, fence, desk.notes - 1, places)
            desk.noted |= set(places)

    async def _unseen(self, job_id: str, keys: Collection[str]) -> HiddenFiles:
        """What is on trial, what lost, and what only sleepers of a deleted job can have written."""
        job, places = job_folder(job_id), {place for key in keys if (place := ItemPrefix.of_key(key)) is not None}
        packed = any(pack_fence(key) is not None for key in keys)
        if not places and not packed:
            return HiddenFiles(set(), frozenset(), {})
        unseen = await self._rooms.unseen(job)
        hidden = unseen.places.difference(*(desk.published for of, desk in self._desks.items() if of[0] == job_id))
        plain = {place for place in places if place.is_first}
        anew = (packed or bool(plain)) and await self._files.was_deleted(job)
        return unseen._replace(places=hidden | plain if anew else hidden, anew=anew)

    def _lost(self, job_id: str, fence: int) -> LeaseLost:
        """What to raise when the room is gone; a desk where nothing was ever written is put away."""
        desk = self._desks.get((job_id, fence))
        if desk is not None and not (desk.noted or desk.packs):
            del self._desks[job_id, fence]
        return LeaseLost(f"lease {fence} was taken away: its room is gone")
