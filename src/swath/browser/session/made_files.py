"""Files that a page makes by itself, as Chromium has written them: read as what may be anything.

Whoever has taken over the browser, or runs as its user, may put a link, a pipe or somebody else's file in the place of
one, or grow it while it is read, and say any name. So a name counts only inside of the folder, the folder is reached by
descriptors, and of a file only what is a plain one, of the browser's user, with no other name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["read_made"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not hang us


def read_made(path: Path, folder: Path | None, user: int | None, most_bytes: int) -> bytes | None:
    """None: it has more. `folder` is where the browser writes, `user` whom it runs as; None of them: the driver's own,
    and as we do. Blocks. Raises Failed (navigation) when it is not a file to be trusted."""
    owner = os.geteuid() if user is None else user
    try:
        if folder is not None and path.parent != folder:
            raise _refused("it is not where the browser writes")
        return _read(path, owner, most_bytes)
    except OSError as error:
        raise _refused(error.strerror or type(error).__name__) from None


def _read(path: Path, owner: int, most_bytes: int) -> bytes | None:
    above = os.open(path.parent.parent, _FOLDER)
    try:
        status = os.fstat(above)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _refused("others may replace its folder")
        folder = os.open(path.parent.name, _FOLDER, dir_fd=above)
    finally:
        os.close(above)
    try:
        file = os.open(path.name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as reading:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _refused("it is no plain file")
        if status.st_uid != owner:
            raise _refused("it is not the browser's")
        if status.st_nlink != 1:
            raise _refused("it has other names")
        body = reading.read(most_bytes + 1)
    return body if len(body) <= most_bytes else None


def _refused(why: str) -> Failed:
    return Failed(Failure.of(FailureKind.NAVIGATION, f"the file that the page made was not read: {why}"))
