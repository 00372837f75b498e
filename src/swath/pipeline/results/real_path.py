"""Where a path that a user has named leads to, as far as links may be followed.

In a folder like /tmp anybody may put a link under the name that somebody else is about to write to. Linux follows no
such link (fs.protected_symlinks), if it is set up so; whoever resolves a path first has to see to that himself.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from swath.domain.errors import BadInput

__all__ = ["real_path"]

_MOST_LINKS: Final = 40
_OPEN_TO_ALL: Final = stat.S_ISVTX | stat.S_IWOTH


def real_path(path: Path) -> Path:
    """Like os.path.realpath. Raises BadInput at a link that another user has put into a folder that is open to all, and
    OSError for links that go in circles."""
    left = _parts(path.absolute())
    at, links = Path("/"), 0
    while left:
        name = left.pop()
        if name == "..":
            at = at.parent
            continue
        to = _link(at, name)
        if to is None:
            at /= name
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        at = Path("/") if to.is_absolute() else at
        left += _parts(to)
    return at


def _parts(path: Path) -> list[str]:
    """The last one first."""
    return [part for part in reversed(path.parts) if part != path.anchor]


def _link(folder: Path, name: str) -> Path | None:
    """Where it leads to; None: it is no link. What stands there is looked at once, so that it cannot be exchanged
    meanwhile: a link that may be followed is not the other user's to remove."""
    step = folder / name
    try:
        status = step.lstat()
        if not stat.S_ISLNK(status.st_mode):
            return None
        above = folder.stat()
        to = step.readlink()
    except OSError:
        return None
    if above.st_mode & _OPEN_TO_ALL == _OPEN_TO_ALL and status.st_uid not in (os.geteuid(), above.st_uid):
        raise BadInput(f"{step} is a link of another user in a folder that is open to all; choose another place")
    return to
