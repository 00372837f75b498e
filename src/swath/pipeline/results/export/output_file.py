"""Writes a file or folder under a temporary name and renames it when it is complete.

The temporary files of a killed process are removed by the next one that writes to the same name; a lock marks those
in
use. A link that another user put into a folder open to all is not followed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import BadInput
from swath.observability.crash_points import reach

__all__ = ["OutputFile", "check_target", "open_output", "real_path"]

_MAX_LINKS: Final = 40
_STICKY_AND_WRITABLE: Final = stat.S_ISVTX | stat.S_IWOTH


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
        to = _link_target(at, name)
        if to is None:
            at /= name
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        at = Path("/") if to.is_absolute() else at
        left += _parts(to)
    return at


def _parts(path: Path) -> list[str]:
    """The last one first."""
    return [part for part in reversed(path.parts) if part != path.anchor]


def _link_target(folder: Path, name: str) -> Path | None:
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
    if above.st_mode & _STICKY_AND_WRITABLE == _STICKY_AND_WRITABLE and status.st_uid not in (
        os.geteuid(),
        above.st_uid,
    ):
        raise BadInput(f"{step} is a link of another user in a folder that is open to all; choose another place")
    return to


_PART_SUFFIX: Final = ".swath-part"
_NAME_CHARACTERS: Final = 50  # of the final name; with the rest it stays within what a file system allows
_EXPORT_FOLDERS: Final = frozenset({"items", "manifests"})  # a folder with anything else is never replaced
_AT_FDCWD: Final = -100  # of Linux: AT_FDCWD and RENAME_EXCHANGE
_RENAME_EXCHANGE: Final = 2
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe put there must not hang us
_LINK_UNSUPPORTED: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class OutputFile:
    """`path` is where to write; `publish` gives it its name."""

    def __init__(self, path: Path, target: Path, lock: int) -> None:
        self.path = path
        self._target = target
        self._lock = lock

    def publish(self, *, replace: bool) -> None:
        """Once it is complete and closed. Raises BadInput when the name was taken meanwhile, unless it may be."""
        os.fsync(self._lock)
        reach("before_export_rename")
        try:
            if self.path.is_dir():
                _name_folder(self.path, self._target, replace=replace)
            elif replace:
                self.path.replace(self._target)
            else:
                _link_to_name(self.path, self._target)
        except FileExistsError:
            raise _exists_error(self._target) from None


@contextmanager
def open_output(target: Path, *, folder: bool = False, private: bool = False) -> Iterator[OutputFile]:
    """A part for that name, beside it; removed at the end unless it was published. `private`: nobody else may read it,
    whatever the process makes otherwise."""
    _remove_abandoned(target)
    path, lock = _create_part(target, folder=folder, mode=0o600 if private else 0o666)
    try:
        yield OutputFile(path, target, lock)
    finally:
        _remove(path)
        os.close(lock)


def check_target(target: Path, *, folder: bool = False, replace: bool = False) -> Path:
    """Where a link points to. Raises BadInput when nothing can or may be written there."""
    try:
        real = real_path(target)
        if not real.parent.is_dir():
            raise BadInput(f"there is no folder {real.parent}; make it, or choose another place")
        os.lstat(real)
    except FileNotFoundError:
        return real
    except OSError as error:
        raise BadInput(f"nothing can be written there: {error.strerror}; choose another name") from None
    if folder and not (real.is_dir() and {entry.name for entry in os.scandir(real)} <= _EXPORT_FOLDERS):
        raise BadInput(f"{target} is there and no folder that an export made; choose another name")
    if not folder and not real.is_file():
        raise BadInput(f"{target} is no plain file; choose another name (`-` is stdout)")
    if not replace:
        raise _exists_error(target)
    return real


def _exists_error(target: Path) -> BadInput:
    return BadInput(f"{target} exists already; choose another name, or replace it with --force")


def _prefix(target: Path) -> str:
    return f".{target.name[:_NAME_CHARACTERS]}."


def _create_part(target: Path, *, folder: bool, mode: int) -> tuple[Path, int]:
    while True:
        path = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}{_PART_SUFFIX}")
        if folder:
            path.mkdir()
            lock = os.open(path, os.O_RDONLY)
        else:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if _locked(lock) and path.exists():
            return path, lock
        os.close(lock)  # somebody took it for a dead one's before it was locked


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_abandoned(target: Path) -> None:
    prefix = _prefix(target)
    for entry in os.scandir(target.parent):
        if entry.name.startswith(prefix) and entry.name.endswith(_PART_SUFFIX):
            with suppress(OSError):  # not ours to remove, or gone
                lock = os.open(entry.path, _OPEN_FLAGS)
                try:
                    # In a folder like /tmp anybody may have put something there.
                    if os.fstat(lock).st_uid == os.geteuid() and _locked(lock):
                        _remove(Path(entry.path))
                finally:
                    os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _link_to_name(path: Path, target: Path) -> None:
    """Unlike a rename, a link never replaces anything."""
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _LINK_UNSUPPORTED:
            raise
        if target.exists():
            raise FileExistsError from None
        path.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Gives each the other's name in one step; False where system or file system cannot, and nothing happened."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (_AT_FDCWD, os.fsencode(one.absolute()), _AT_FDCWD, os.fsencode(other.absolute()))
    return call is not None and call(*names, _RENAME_EXCHANGE) == 0


def _name_folder(path: Path, target: Path, *, replace: bool) -> None:
    """A folder cannot replace one that is not empty. So both change their names at once, or, where that cannot be, the
    former one steps aside first; whoever is killed in between leaves nothing under the name."""
    if replace and target.exists():
        if not _exchange(path, target):
            aside = path.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.former{_PART_SUFFIX}")
            target.rename(aside)
            path.rename(target)
            _remove(aside)
        return  # what has the part's name now is removed with it
    try:
        path.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError from None
        raise
