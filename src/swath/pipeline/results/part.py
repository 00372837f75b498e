"""A file or folder that is being written, under a name of its own beside the one that it gets when it is complete.

Nobody ever sees half of it under its final name. What a killed process left is removed by the next one that writes to
the same name: whoever still writes holds a lock.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import BadInput
from swath.observe.crash_points import reach
from swath.pipeline.results.real_path import real_path

__all__ = ["Part", "check_target", "writing"]

_ENDING: Final = ".swath-part"
_NAME_CHARACTERS: Final = 50  # of the final name; with the rest it stays within what a file system allows
_OF_EXPORT: Final = frozenset({"items", "manifests"})  # a folder with anything else is never replaced
_HERE: Final = -100  # of Linux: AT_FDCWD and RENAME_EXCHANGE
_EXCHANGE: Final = 2
_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe put there must not hang us
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Part:
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
                _link(self.path, self._target)
        except FileExistsError:
            raise _exists(self._target) from None


@contextmanager
def writing(target: Path, *, folder: bool = False, private: bool = False) -> Iterator[Part]:
    """A part for that name, beside it; removed at the end unless it was published. `private`: nobody else may read it,
    whatever the process makes otherwise."""
    _remove_dead(target)
    path, lock = _new(target, folder=folder, mode=0o600 if private else 0o666)
    try:
        yield Part(path, target, lock)
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
    if folder and not (real.is_dir() and {entry.name for entry in os.scandir(real)} <= _OF_EXPORT):
        raise BadInput(f"{target} is there and no folder that an export made; choose another name")
    if not folder and not real.is_file():
        raise BadInput(f"{target} is no plain file; choose another name (`-` is stdout)")
    if not replace:
        raise _exists(target)
    return real


def _exists(target: Path) -> BadInput:
    return BadInput(f"{target} exists already; choose another name, or replace it with --force")


def _prefix(target: Path) -> str:
    return f".{target.name[:_NAME_CHARACTERS]}."


def _new(target: Path, *, folder: bool, mode: int) -> tuple[Path, int]:
    while True:
        path = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}{_ENDING}")
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


def _remove_dead(target: Path) -> None:
    prefix = _prefix(target)
    for entry in os.scandir(target.parent):
        if entry.name.startswith(prefix) and entry.name.endswith(_ENDING):
            with suppress(OSError):  # not ours to remove, or gone
                lock = os.open(entry.path, _LOOK)
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


def _link(path: Path, target: Path) -> None:
    """Unlike a rename, a link never replaces anything."""
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError from None
        path.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Gives each the other's name in one step; False where system or file system cannot, and nothing happened."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (_HERE, os.fsencode(one.absolute()), _HERE, os.fsencode(other.absolute()))
    return call is not None and call(*names, _EXCHANGE) == 0


def _name_folder(path: Path, target: Path, *, replace: bool) -> None:
    """A folder cannot replace one that is not empty. So both change their names at once, or, where that cannot be, the
    former one steps aside first; whoever is killed in between leaves nothing under the name."""
    if replace and target.exists():
        if not _exchange(path, target):
            aside = path.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.former{_ENDING}")
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
