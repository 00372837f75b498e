"""Where a lease writes its files until the store has accepted its items: `.leases/{fence}` in the job's folder.

It holds one folder per item, which is published by one rename, and packs, which are added to and get their final
names
when the lease is settled. Every change under `items/` moves something out of the staging folder or into it, so a
lease
whose folder is gone can change nothing. Nothing behind the accepted length of a pack is ever read, and the process
that
writes a pack overwrites what a failed write left there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import Final

from swath.backends.sqlite.results.folders import (
    closing_fd,
    copy_file,
    enter,
    list_names,
    make_below,
    open_to_write,
    parent_of,
    read_file,
    read_files,
    read_piece,
    remove_tree,
    sync_folder,
    truncate_file,
    write_at,
    write_file,
)
from swath.domain.errors import LeaseLost
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, encode_key, pack_fence
from swath.observability.crash_points import reach
from swath.ports.result_storage import FileRange, PackAppend, StagedItem

__all__ = ["LEASES", "STAGED_PACKS", "LeasePacks", "StagingFolders", "read_pieces", "read_staged_or_published"]

LEASES = ".leases"
_GONE = ".gone-"


class StagingFolders:
    """All methods block, and take the open folder of the job."""

    def __init__(self, *, fsync: bool) -> None:
        self._fsync = fsync
        self._numbers = count()

    def make(self, job: int, fence: int) -> None:
        """Makes a room, or leaves the one that is there."""
        os.close(enter(job, f"{LEASES}/{fence}", create=True))

    def stage(self, job: int, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Writes the items into the room, which must be there."""
        try:
            with closing_fd(enter(job, f"{LEASES}/{fence}")) as room:
                staged = [self._stage_item(room, item) for item in items]
                sync_folder(room, self._fsync)
                return staged
        except FileNotFoundError as error:  # the room is gone, perhaps since we entered it
            raise LeaseLost(f"lease {fence} was taken away: its room is gone") from error

    def _stage_item(self, room: int, item: StagedItem) -> tuple[Artifact, ...]:
        path = encode_key(item.item_id)
        with parent_of(room, path, create=True) as (parent, last):
            try:
                make_below(parent, last)
            except FileExistsError:
                remove_tree(parent, last)
                make_below(parent, last)
            with closing_fd(enter(parent, last)) as folder:
                for name, data in item.files.items():
                    if "/" not in name:  # nearly always, and parent_of costs as much as closing a file
                        write_file(folder, name, data, fsync=self._fsync)
                        continue
                    with parent_of(folder, name, create=True) as (place, last_of_name):
                        write_file(place, last_of_name, data, fsync=self._fsync)
                sync_folder(folder, self._fsync)
        return tuple(
            Artifact(f"items/{path}/{name}", len(data), hashlib.sha256(data).hexdigest())
            for name, data in item.files.items()
        )

    def publish(self, job: int, fence: int, item_ids: Collection[str]) -> None:
        """Moves staged items to their final place; passes over those that are not there."""
        if not item_ids:
            return
        try:
            room = enter(job, f"{LEASES}/{fence}")
        except FileNotFoundError:  # settled before
            return
        with closing_fd(room), closing_fd(enter(job, "items", create=True)) as items:
            staged = set(list_names(room))  # looked at once: at its end a lease has published nearly all of them before
            for path in map(encode_key, item_ids):
                if path.partition("/")[0] in staged:
                    with suppress(FileNotFoundError):  # a long name is split, and may be published or not
                        self._publish_item(room, items, path)
            sync_folder(items, self._fsync)

    def _publish_item(self, room: int, items: int, path: str) -> None:
        with parent_of(room, path) as (source, name), parent_of(items, path, create=True) as (target, _):
            try:
                os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self._replace(room, source, target, name)
            if target != items:
                sync_folder(target, self._fsync)

    def _replace(self, room: int, source: int, target: int, name: str) -> None:
        """Exchanges the folder of an earlier generation. Its files are never mixed with the new ones.

        The old folder goes into the room first: after a crash in between the new one is still staged, to be published
        again, and somebody whose room is gone cannot take away what a later lease has published.
        """
        aside = f".aside-{os.getpid()}-{next(self._numbers)}"  # no encoded name begins with a dot
        os.rename(name, aside, src_dir_fd=target, dst_dir_fd=room)
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        remove_tree(room, aside)

    def remove(self, job: int, fence: int) -> None:
        """Removes the room with what was not published, whoever may still write into it.

        The room loses its name first, or a writer that does not know yet could fill it as fast as it is emptied.
        """
        with suppress(FileNotFoundError), closing_fd(enter(job, LEASES)) as leases:
            remove_tree(leases, f"{_GONE}{fence}")  # of a settlement that died here
            with suppress(FileNotFoundError):
                os.rename(str(fence), f"{_GONE}{fence}", src_dir_fd=leases, dst_dir_fd=leases)
            remove_tree(leases, f"{_GONE}{fence}")

    def fences(self, job: int) -> list[int]:
        """The fences that have a room, or something left of it."""
        with suppress(FileNotFoundError), closing_fd(enter(job, LEASES)) as leases:
            numbers = {name.removeprefix(_GONE) for name in list_names(leases)}
            return sorted(int(number) for number in numbers if number.isdecimal())
        return []


STAGED_PACKS: Final = ".packs"  # an item's folder never begins with a dot, so none can be in the way


class _PackEnds:
    """The packs that this process writes for a lease: where they end, by name.

    The lock is held while they are written or published: the thread of an `append` goes on when its caller is
    cancelled.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.ends: dict[str, int] = {}


class LeasePacks:
    """All methods block. Most take the open folder of the job."""

    def __init__(self, *, fsync: bool) -> None:
        self._fsync = fsync
        self._leases: dict[tuple[str, int], _PackEnds] = {}

    def append(
        self, job: int, job_id: str, fence: int, additions: Mapping[str, PackAppend]
    ) -> dict[str, tuple[str, int]]:
        """Writes behind the ends; they move when everything is written. The room must be there."""
        lease = self._leases.setdefault((job_id, fence), _PackEnds())
        with lease.lock:
            try:
                with closing_fd(enter(job, f"{LEASES}/{fence}")) as room:
                    added = self._add(room, fence, additions, lease.ends)
            except FileNotFoundError as error:  # the room is gone, perhaps since we entered it
                raise LeaseLost(f"lease {fence} was taken away: its room is gone") from error
            for ending, (key, start) in added.items():
                lease.ends[key] = start + len(additions[ending].data)
            return added

    def _add(
        self, room: int, fence: int, additions: Mapping[str, PackAppend], ends: dict[str, int]
    ) -> dict[str, tuple[str, int]]:
        added: dict[str, tuple[str, int]] = {}
        with closing_fd(enter(room, STAGED_PACKS, create=True)) as packs:
            for ending, addition in additions.items():
                if added:
                    reach("amid_append")
                name = f"{fence}.{ending}"
                key = PACKS_PREFIX + name
                # A pack that is remembered and not there has been published: it must not begin anew.
                with closing_fd(open_to_write(packs, name, create=key not in ends)) as file:
                    end = ends.setdefault(key, os.fstat(file).st_size)
                    head = b"" if end else addition.head
                    write_at(file, head + addition.data, end)
                    if self._fsync:
                        os.fsync(file)
                added[ending] = (key, end + len(head))
            sync_folder(packs, self._fsync)
        return added

    def publish(
        self, job: int, job_id: str, fence: int, needed: Mapping[str, int], documents: Mapping[str, bytes]
    ) -> None:
        """Gives packs and documents their final names, if the room is there, and cuts off what nobody needs.

        All of it comes out of the room, so who has lost the room can change nothing. A pack that is no longer in it was
        published by a settlement that died.
        """
        try:
            room = enter(job, f"{LEASES}/{fence}")
        except FileNotFoundError:  # settled before
            return
        with closing_fd(room):
            for key, length in needed.items():
                with suppress(FileNotFoundError):
                    self._publish_pack(job, room, self._leases.get((job_id, fence)), key, length)
            if needed:
                reach("after_pack_rename")
            for key, data in documents.items():
                with self._new_file(room) as new:
                    write_file(room, new, data, fsync=self._fsync)
                    self._rename(room, new, job, key)

    def _publish_pack(self, job: int, room: int, lease: _PackEnds | None, key: str, length: int) -> None:
        name = key.removeprefix(PACKS_PREFIX)
        with closing_fd(enter(room, STAGED_PACKS)) as packs:
            if lease is not None and key in lease.ends:
                with lease.lock:
                    truncate_file(packs, name, length, fsync=self._fsync)
                    self._rename(packs, name, job, key)
                return
            # Whoever writes it may be frozen in a write and wake up later: it keeps its file, and we take a copy.
            with self._new_file(room) as new:
                copy_file(packs, name, room, new, length, fsync=self._fsync)
                self._rename(room, new, job, key)

    @contextmanager
    def _new_file(self, room: int) -> Iterator[str]:
        """A name for a file that gets its final one, or is removed."""
        name = f".new-{secrets.token_hex(8)}"
        try:
            yield name
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=room)

    def _rename(self, source: int, name: str, job: int, key: str) -> None:
        with parent_of(job, key, create=True) as (target, last):
            os.rename(name, last, src_dir_fd=source, dst_dir_fd=target)
            sync_folder(target, self._fsync)

    def forget(self, job_id: str, fence: int | None = None) -> None:
        """A lease, or all of a job, that will write no more."""
        for lease in [lease for lease in list(self._leases) if lease[0] == job_id and fence in (None, lease[1])]:
            self._leases.pop(lease, None)


def read_staged_or_published(job: int, key: str, read: Callable[[int, str], bytes]) -> bytes:
    """Reads from where a file is published, or a pack from its room; it may be published while we look for it there."""
    fence = pack_fence(key)
    if fence is None:
        return read(job, key)
    for place in (key, f"{LEASES}/{fence}/{STAGED_PACKS}/{key.removeprefix(PACKS_PREFIX)}"):
        with suppress(FileNotFoundError):
            return read(job, place)
    return read(job, key)


def read_pieces(job: int, pieces: Sequence[FileRange]) -> list[bytes | None]:
    """Each from where it is; None where there is none."""
    whole = read_files(job, [key for key, _, length in pieces if length is None and pack_fence(key) is None])
    found: list[bytes | None] = []
    for key, start, length in pieces:
        data = whole.get(key)
        if length is not None or pack_fence(key) is not None:
            read = read_file if length is None else partial(read_piece, start=start, length=length)
            with suppress(FileNotFoundError):
                data = read_staged_or_published(job, key, read)
        found.append(data)
    return found
