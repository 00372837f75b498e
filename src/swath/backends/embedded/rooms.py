"""Rooms: where a lease's files lie until the store has accepted their items. Called by results.py, in its threads.

A room is `.leases/{fence}` in the job's folder and holds one folder per item, which is published by one rename, and
packs (packs.py). Every change under items/ moves something out of a room or into one, so who has lost the room can
change nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import count

from swath.backends.embedded.folders import clear, enter, make_below, names, opened, parent_of, sync_folder, write_file
from swath.domain.errors import LeaseLost
from swath.domain.keys import encode
from swath.domain.result import Artifact
from swath.ports.result_storage import StagedItem

__all__ = ["LEASES", "Rooms"]

LEASES = ".leases"
_GONE = ".gone-"


class Rooms:
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
            with opened(enter(job, f"{LEASES}/{fence}")) as room:
                staged = [self._stage_item(room, item) for item in items]
                sync_folder(room, self._fsync)
                return staged
        except FileNotFoundError as error:  # the room is gone, perhaps since we entered it
            raise LeaseLost(f"lease {fence} was taken away: its room is gone") from error

    def _stage_item(self, room: int, item: StagedItem) -> tuple[Artifact, ...]:
        path = encode(item.item_id)
        with parent_of(room, path, create=True) as (parent, last):
            try:
                make_below(parent, last)
            except FileExistsError:
                clear(parent, last)
                make_below(parent, last)
            with opened(enter(parent, last)) as folder:
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
        with opened(room), opened(enter(job, "items", create=True)) as items:
            staged = set(names(room))  # looked at once: at its end a lease has published nearly all of them before
            for path in map(encode, item_ids):
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
        clear(room, aside)

    def remove(self, job: int, fence: int) -> None:
        """Removes the room with what was not published, whoever may still write into it.

        The room loses its name first, or a writer that does not know yet could fill it as fast as it is emptied.
        """
        with suppress(FileNotFoundError), opened(enter(job, LEASES)) as leases:
            clear(leases, f"{_GONE}{fence}")  # of a settlement that died here
            with suppress(FileNotFoundError):
                os.rename(str(fence), f"{_GONE}{fence}", src_dir_fd=leases, dst_dir_fd=leases)
            clear(leases, f"{_GONE}{fence}")

    def fences(self, job: int) -> list[int]:
        """The fences that have a room, or something left of it."""
        with suppress(FileNotFoundError), opened(enter(job, LEASES)) as leases:
            numbers = {name.removeprefix(_GONE) for name in names(leases)}
            return sorted(int(number) for number in numbers if number.isdecimal())
        return []
