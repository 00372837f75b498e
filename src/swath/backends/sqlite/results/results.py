"""Results in a folder: the artifacts and manifests of each job, readable with a file manager.

A worker stages an item's files under the fence of its lease; once the store has accepted the outcome they are
published
at their final keys, and the finish step writes the manifests.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from swath.backends.private_files import PRIVATE_FOLDER, make_folder
from swath.backends.sqlite.results import job_files
from swath.backends.sqlite.results import job_files as documents_by_key
from swath.backends.sqlite.results.disk_threads import DiskThreads, job_folder_errors
from swath.backends.sqlite.results.folders import (
    closing_fd,
    enter,
    list_names,
    missing_files,
    new_folder_mode,
    read_file,
    read_piece,
)
from swath.backends.sqlite.results.job_files import remove_job
from swath.backends.sqlite.results.staging import (
    LEASES,
    STAGED_PACKS,
    LeasePacks,
    StagingFolders,
    read_pieces,
    read_staged_or_published,
)
from swath.domain.errors import FolderUnusable, LeaseLost
from swath.domain.lease import LeasedItem
from swath.domain.manifest import MISSING_ITEMS_KEY
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, encode_key
from swath.ports.result_storage import FileRange, PackAppend, StagedItem

__all__ = ["FolderResults", "check_places"]

_WRITTEN: Final = (".", LEASES, "items", PACKS_PREFIX.rstrip("/"), "manifests")
_WRONG: Final = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}
_DOCUMENTS: Final = ("job_metadata.json", MISSING_ITEMS_KEY)
_PARTS: Final = ("manifests/full", "manifests/success", "manifests/errors")


def check_places(job: int) -> None:
    """Raises OSError for the first place that is not what belongs there, or may not be written to."""
    for name in _WRITTEN:
        with suppress(FileNotFoundError), closing_fd(enter(job, name)) as folder:
            _check_access(folder, name)
    with suppress(FileNotFoundError), closing_fd(enter(job, LEASES)) as rooms:
        for room in list_names(rooms):
            with suppress(FileNotFoundError), closing_fd(enter(rooms, room)) as below:
                _check_access(below, f"{LEASES}/{room}")
                with closing_fd(enter(below, STAGED_PACKS)) as packs:
                    _check_packs(packs, f"{LEASES}/{room}/{STAGED_PACKS}")
    for name in _DOCUMENTS:
        _check_replaceable(job, name, name)
    for path in _PARTS:
        with suppress(FileNotFoundError), closing_fd(enter(job, path)) as parts:
            for part in list_names(parts):
                _check_replaceable(parts, part, f"{path}/{part}")


def _check_access(folder: int, name: str) -> None:
    if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        raise PermissionError(errno.EACCES, "no permission", name)


def _check_packs(folder: int, path: str) -> None:
    """They are added to, so each has to be a plain file."""
    for name in list_names(folder):
        with suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(_WRONG.get(stat.S_IFMT(mode), errno.ENXIO), "no file", f"{path}/{name}")


def _check_replaceable(folder: int, name: str, path: str) -> None:
    """A document takes the place of anything but a folder."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise IsADirectoryError(errno.EISDIR, "no file", path)


T = TypeVar("T")

_KEYS_PER_READ: Final = 1_000
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
# A segment that begins with a dot would leave the job, or enter what has no final name yet.
_KEY: Final = re.compile(r"[^./\0][^/\0]*(?:/[^./\0][^/\0]*)*")
_PREFIX: Final = re.compile(r"(?:[^./\0][^/\0]*/)*(?:[^./\0][^/\0]*)?")


class FolderResults:
    """ResultStorage in a folder that any number of processes of one machine may share.

    `folder_mode` says who may read what is made; files have the same, without the right to enter.
    A killed process costs nothing. Without `fsync` a power loss may leave short files behind; `jobs verify` finds them.
    """

    pack_seconds = 0.0

    def __init__(self, root: Path, *, fsync: bool = False, folder_mode: int = PRIVATE_FOLDER) -> None:
        self._root = root
        self._folder_mode = folder_mode
        self._fsync = fsync
        self._rooms = StagingFolders(fsync=fsync)
        self._packs = LeasePacks(fsync=fsync)
        self._threads = DiskThreads(root)

    async def close(self) -> None:
        """Lets the threads go; further calls are errors."""
        await self._threads.close()

    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:  # noqa: ARG002 any may come
        """Makes the room. Nothing else does, so whoever lost the lease has nowhere to write to."""
        try:
            await self._with_job(job_id, lambda job: self._rooms.make(job, fence), create=True)
        except FileNotFoundError as error:  # it was there for a moment
            raise LeaseLost(f"lease {fence} was taken away: its room is being cleared") from error

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Writes each item as one folder in the room."""
        for item in items:
            for name in item.files:
                _check(_KEY, name)
        try:
            return await self._with_job(job_id, lambda job: self._rooms.stage(job, fence, items))
        except FileNotFoundError as error:
            raise LeaseLost(f"lease {fence} was taken away: its job {job_id!r} has no folder") from error

    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """Moves each item's folder to its final place by one rename."""
        with suppress(FileNotFoundError):  # nothing was ever staged for this job
            await self._with_job(job_id, lambda job: self._rooms.publish(job, fence, item_ids))

    async def append(self, job_id: str, fence: int, additions: Mapping[str, PackAppend]) -> dict[str, tuple[str, int]]:
        """Writes to the files in the room, all in one go."""
        for ending in additions:
            _check(_KEY, PACKS_PREFIX + ending)
        try:
            return await self._with_job(job_id, lambda job: self._packs.append(job, job_id, fence, additions))
        except FileNotFoundError as error:
            raise LeaseLost(f"lease {fence} was taken away: its job {job_id!r} has no folder") from error

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = _NONE,
        documents: Mapping[str, bytes] = _NONE,
    ) -> None:
        """Publishes, then removes the room, whoever may still write into it."""
        for key in (*packs, *documents):
            _check(_KEY, key)

        def work(job: int) -> None:
            self._rooms.publish(job, fence, winners)
            self._packs.publish(job, job_id, fence, packs, documents)
            self._rooms.remove(job, fence)

        with suppress(FileNotFoundError):  # nothing was ever staged for this job
            await self._with_job(job_id, work)
        self._packs.forget(job_id, fence)

    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Gives each document its final name when it is complete."""
        for key in documents:
            _check(_KEY, key)
        write = documents_by_key.put
        return await self._with_job(job_id, lambda job: write(job, documents, fsync=self._fsync), create=True)

    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes each document in the room and renames it from there."""
        for key in documents:
            _check(_KEY, key)
        try:
            return await self._with_job(
                job_id, lambda job: job_files.put_fenced(job, fence, documents, fsync=self._fsync)
            )
        except FileNotFoundError as error:
            raise LeaseLost(f"lease {fence} was taken away: its room is gone") from error

    async def withdraw(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> None:
        """Moves each document into the room, which removes it with all it holds."""
        for key in documents:
            _check(_KEY, key)
        with suppress(FileNotFoundError):
            await self._with_job(job_id, lambda job: job_files.remove_fenced(job, fence, [*documents]))

    async def get(self, job_id: str, key: str) -> bytes:
        """Reads a plain file; a link under the key counts as nothing."""
        _check(_KEY, key)
        try:
            return await self._with_job(job_id, lambda job: read_staged_or_published(job, key, read_file))
        except FileNotFoundError:
            raise KeyError(key) from None

    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """Opens the file anew for each piece: nothing is held while a reader takes its time."""
        _check(_KEY, key)
        piece = partial(read_piece, start=start, length=length)
        try:
            return await self._with_job(job_id, lambda job: read_staged_or_published(job, key, piece))
        except FileNotFoundError:
            raise KeyError(key) from None

    async def read_all(self, job_id: str, pieces: Sequence[FileRange]) -> list[bytes | None]:
        """All in one thread: several would wait for each other at every step."""
        for piece in pieces:
            _check(_KEY, piece.key)
        try:
            return await self._with_job(job_id, lambda job: read_pieces(job, pieces))
        except FileNotFoundError:
            return [None] * len(pieces)

    async def absent(self, job_id: str, sizes: Mapping[str, int]) -> set[str]:
        """One look at the folder's entry for each, at its final place."""
        try:
            return await self._with_job(job_id, lambda job: missing_files(job, sizes))
        except FileNotFoundError:
            return {*sizes}

    async def link(self, job_id: str, key: str, seconds: int) -> str | None:  # noqa: ARG002 nobody reaches a folder by one
        """None: a folder is reached by its machine alone."""
        _check(_KEY, key)
        return None

    async def remove(self, job_id: str, prefix: str) -> None:
        """Removes files, and the folders that are empty then."""
        _check(_PREFIX, prefix)
        with suppress(FileNotFoundError):
            await self._with_job(job_id, lambda job: documents_by_key.remove(job, prefix))

    async def delete(self, job_id: str, keys: Collection[str]) -> None:
        """Removes each file by its name; no folder is listed."""
        for key in keys:
            _check(_KEY, key)
        with suppress(FileNotFoundError):
            await self._with_job(job_id, lambda job: documents_by_key.delete(job, keys))

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        """Puts what the job's folder holds aside first, so that a half-removed job is hardly ever seen, then removes it
        in pieces."""
        self._packs.forget(job_id)
        async with aclosing(self._threads.steps(remove_job(self._root, job_id, fsync=self._fsync))) as steps:
            async for _ in steps:
                if confirm is not None:
                    await confirm()
                    confirm = None

    async def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """Walks the folders, some keys at a time."""
        _check(_PREFIX, prefix)
        async with aclosing(self._threads.steps(self._walk(job_id, prefix))) as walk:
            async for found in walk:
                for key in found:
                    yield key

    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        try:
            return await self._with_job(job_id, self._rooms.fences)
        except FileNotFoundError:
            return []

    def location(self, job_id: str) -> str:
        """The job's folder."""
        return str(self._root / encode_key(job_id))

    async def trouble(self, job_id: str) -> str | None:
        """Looks at the places where workers write."""
        try:
            await self._with_job(job_id, check_places)
        except FileNotFoundError:
            return None
        except FolderUnusable as error:
            return str(error)
        return None

    async def _with_job(self, job_id: str, work: Callable[[int], T], *, create: bool = False) -> T:
        """Runs `work` on the job's open folder, in a thread. Raises FileNotFoundError when there is none."""

        def blocking() -> T:
            with new_folder_mode(self._folder_mode), self._job(job_id, create=create) as job:
                return work(job)

        return await self._threads.run(blocking)

    @contextmanager
    def _job(self, job_id: str, *, create: bool = False) -> Iterator[int]:
        """The job's open folder. What is wrong below it is of this job alone."""
        if create:
            make_folder(self._root, self._folder_mode)
        with (
            closing_fd(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root,
            job_folder_errors(job_id, self._root / encode_key(job_id)),
            closing_fd(enter(root, encode_key(job_id), create=create)) as job,
        ):
            yield job

    def _walk(self, job_id: str, prefix: str) -> Generator[list[str]]:
        with suppress(FileNotFoundError), self._job(job_id) as job:
            walk = (key for _, _, key in documents_by_key.walk(job, prefix))
            while found := list(islice(walk, _KEYS_PER_READ)):
                yield found


def _check(safe: re.Pattern[str], key: str) -> None:
    if not safe.fullmatch(key):
        raise ValueError(f"{key!r} is no key inside a job")
