"""Whether workers can write where they have to, below the folder of a job: asked by results.py for the job's status.

Nothing is written for it. Folders and files are looked at that a worker makes, or replaces, by their names.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from swath.backends.embedded.folders import enter, names, opened
from swath.backends.embedded.packs import IN_ROOM
from swath.backends.embedded.rooms import LEASES
from swath.domain.layout import PACKS
from swath.domain.manifest import MISSING_KEY

__all__ = ["check_places"]

_WRITTEN: Final = (".", LEASES, "items", PACKS.rstrip("/"), "manifests")
_WRONG: Final = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}
_DOCUMENTS: Final = ("job_metadata.json", MISSING_KEY)
_PARTS: Final = ("manifests/full", "manifests/success", "manifests/errors")


def check_places(job: int) -> None:
    """Raises OSError for the first place that is not what belongs there, or may not be written to."""
    for name in _WRITTEN:
        with suppress(FileNotFoundError), opened(enter(job, name)) as folder:
            _check_access(folder, name)
    with suppress(FileNotFoundError), opened(enter(job, LEASES)) as rooms:
        for room in names(rooms):
            with suppress(FileNotFoundError), opened(enter(rooms, room)) as below:
                _check_access(below, f"{LEASES}/{room}")
                with opened(enter(below, IN_ROOM)) as packs:
                    _check_packs(packs, f"{LEASES}/{room}/{IN_ROOM}")
    for name in _DOCUMENTS:
        _check_replaceable(job, name, name)
    for path in _PARTS:
        with suppress(FileNotFoundError), opened(enter(job, path)) as parts:
            for part in names(parts):
                _check_replaceable(parts, part, f"{path}/{part}")


def _check_access(folder: int, name: str) -> None:
    if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        raise PermissionError(errno.EACCES, "no permission", name)


def _check_packs(folder: int, path: str) -> None:
    """They are added to, so each has to be a plain file."""
    for name in names(folder):
        with suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(_WRONG.get(stat.S_IFMT(mode), errno.ENXIO), "no file", f"{path}/{name}")


def _check_replaceable(folder: int, name: str, path: str) -> None:
    """A document takes the place of anything but a folder."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise IsADirectoryError(errno.EISDIR, "no file", path)
