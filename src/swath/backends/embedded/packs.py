"""Packs in a job's folder: files that a lease adds to, and that get their final names when it is settled.

A pack lies in the room of its lease (rooms.py) until then. Nothing behind what is needed is ever read, and the process
that writes a pack overwrites what a failed write left there. Called by results.py, in its threads.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Final

from swath.backends.embedded.folders import (
    copy_file,
    cut_file,
    enter,
    open_to_write,
    opened,
    parent_of,
    read_file,
    read_files,
    read_piece,
    sync_folder,
    write_at,
    write_file,
)
from swath.backends.embedded.rooms import LEASES
from swath.domain.errors import LeaseLost
from swath.domain.layout import PACKS, pack_fence
from swath.observe.crash_points import reach
from swath.ports.result_storage import Addition, Piece

__all__ = ["IN_ROOM", "Packs", "read_pieces", "read_wherever"]

IN_ROOM: Final = ".packs"  # an item's folder never begins with a dot, so none can be in the way


class _Lease:
    """The packs that this process writes for a lease: where they end, by name.

    The lock is held while they are written or published: the thread of an `append` goes on when its caller is
    cancelled.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.ends: dict[str, int] = {}


class Packs:
    """All methods block. Most take the open folder of the job."""

    def __init__(self, *, fsync: bool) -> None:
        self._fsync = fsync
        self._leases: dict[tuple[str, int], _Lease] = {}

    def append(
        self, job: int, job_id: str, fence: int, additions: Mapping[str, Addition]
    ) -> dict[str, tuple[str, int]]:
        """Writes behind the ends; they move when everything is written. The room must be there."""
        lease = self._leases.setdefault((job_id, fence), _Lease())
        with lease.lock:
            try:
                with opened(enter(job, f"{LEASES}/{fence}")) as room:
                    added = self._add(room, fence, additions, lease.ends)
            except FileNotFoundError as error:  # the room is gone, perhaps since we entered it
                raise LeaseLost(f"lease {fence} was taken away: its room is gone") from error
            for ending, (key, start) in added.items():
                lease.ends[key] = start + len(additions[ending].data)
            return added

    def _add(
        self, room: int, fence: int, additions: Mapping[str, Addition], ends: dict[str, int]
    ) -> dict[str, tuple[str, int]]:
        added: dict[str, tuple[str, int]] = {}
        with opened(enter(room, IN_ROOM, create=True)) as packs:
            for ending, addition in additions.items():
                if added:
                    reach("amid_append")
                name = f"{fence}.{ending}"
                key = PACKS + name
                # A pack that is remembered and not there has been published: it must not begin anew.
                with opened(open_to_write(packs, name, create=key not in ends)) as file:
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
        with opened(room):
            for key, length in needed.items():
                with suppress(FileNotFoundError):
                    self._publish_pack(job, room, self._leases.get((job_id, fence)), key, length)
            if needed:
                reach("after_pack_rename")
            for key, data in documents.items():
                with self._new_file(room) as new:
                    write_file(room, new, data, fsync=self._fsync)
                    self._rename(room, new, job, key)

    def _publish_pack(self, job: int, room: int, lease: _Lease | None, key: str, length: int) -> None:
        name = key.removeprefix(PACKS)
        with opened(enter(room, IN_ROOM)) as packs:
            if lease is not None and key in lease.ends:
                with lease.lock:
                    cut_file(packs, name, length, fsync=self._fsync)
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


def read_wherever(job: int, key: str, read: Callable[[int, str], bytes]) -> bytes:
    """Reads from where a file is published, or a pack from its room; it may be published while we look for it there."""
    fence = pack_fence(key)
    if fence is None:
        return read(job, key)
    for place in (key, f"{LEASES}/{fence}/{IN_ROOM}/{key.removeprefix(PACKS)}"):
        with suppress(FileNotFoundError):
            return read(job, place)
    return read(job, key)


def read_pieces(job: int, pieces: Sequence[Piece]) -> list[bytes | None]:
    """Each from where it is; None where there is none."""
    whole = read_files(job, [key for key, _, length in pieces if length is None and pack_fence(key) is None])
    found: list[bytes | None] = []
    for key, start, length in pieces:
        data = whole.get(key)
        if length is not None or pack_fence(key) is not None:
            read = read_file if length is None else partial(read_piece, start=start, length=length)
            with suppress(FileNotFoundError):
                data = read_wherever(job, key, read)
        found.append(data)
    return found
