"""File operations relative to open folders, one path segment at a time: no link is followed, and no path is too long.

Everything here blocks.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

__all__ = [
    "closing_fd",
    "copy_file",
    "enter",
    "files_below",
    "list_names",
    "make_below",
    "missing_files",
    "new_folder_mode",
    "open_to_write",
    "parent_of",
    "read_file",
    "read_files",
    "read_piece",
    "remove_tree",
    "remove_tree_in_pieces",
    "sync_folder",
    "truncate_file",
    "write_at",
    "write_file",
]

_MODE: Final = ContextVar("mode of new folders", default=0o700)  # files have the same, without the right to enter
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe put there must not hang us
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NO_FILE: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)  # a link, a folder or a socket
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ_BYTES: Final = 16 * 1024 * 1024
_DEEPEST: Final = 200  # folders in folders that are entered; an id and a file name of 1,000 characters take 140
_CLEAR_ROUNDS: Final = 1_000  # how often a folder is emptied again while somebody still writes into it


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Closes the descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def enter(fd: int, path: str, *, create: bool = False) -> int:
    """Opens the folder `path` below `fd`; the caller closes it. Raises FileNotFoundError, NotADirectoryError."""
    here = fd
    for segment in path.split("/"):
        try:
            below = _open_folder(here, segment, create)
        finally:
            if here != fd:
                os.close(here)
        here = below
    return here


def _open_folder(fd: int, name: str, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        make_below(fd, name)
    return os.open(name, _FOLDER, dir_fd=fd)


@contextmanager
def new_folder_mode(folder_mode: int) -> Iterator[None]:
    """What is made in this thread meanwhile has that mode, less what the umask takes away."""
    token = _MODE.set(folder_mode)
    try:
        yield
    finally:
        _MODE.reset(token)


def make_below(fd: int, name: str) -> None:
    """Makes a folder. Raises FileExistsError."""
    os.mkdir(name, _MODE.get(), dir_fd=fd)


@contextmanager
def parent_of(fd: int, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that holds the last segment of `path`, and that segment."""
    if "/" not in path:
        yield fd, path
        return
    parents, _, last = path.rpartition("/")
    with closing_fd(enter(fd, parents, create=create)) as parent:
        yield parent, last


def write_file(fd: int, name: str, data: bytes, *, fsync: bool) -> None:
    """Writes a file that does not exist yet."""
    file = os.open(name, _NEW_FILE, _MODE.get() & 0o666, dir_fd=fd)
    try:
        written = os.write(file, data)
        while written < len(data):  # a signal or a nearly full disk may cut a write short
            written += os.write(file, data[written:])
        if fsync:
            os.fsync(file)
    finally:
        os.close(file)


def open_to_write(fd: int, name: str, *, create: bool) -> int:
    """A file to be written to; the caller closes it. Raises FileNotFoundError when there is none and none is made, and
    FileExistsError when something stands there that somebody else may have planted."""
    file = os.open(name, _OLD_FILE | (os.O_CREAT if create else 0), _MODE.get() & 0o666, dir_fd=fd)
    if not _is_plain(os.fstat(file), fd):
        os.close(file)
        raise FileExistsError(errno.EEXIST, "no plain file", name)
    return file


def _is_plain(found: os.stat_result, folder: int) -> bool:
    """Whether an open file is a regular one that nobody else has planted in the folder.

    A hard link leads to a file of somebody else as a symbolic one does, and no flag of `open` refuses it. Only who may
    write to the folder can plant one, so in a folder that is ours alone a second name is a backup's or our own doing.
    """
    if not stat.S_ISREG(found.st_mode):
        return False
    if found.st_nlink <= 1:  # 0 when it was replaced since it was opened
        return True
    holder = os.fstat(folder)
    return holder.st_uid in (0, os.geteuid()) and not holder.st_mode & _OTHERS_MAY_WRITE


def write_at(file: int, data: bytes, start: int) -> None:
    """Writes all of it, over what may be there."""
    written = os.pwrite(file, data, start)
    while written < len(data):
        written += os.pwrite(file, data[written:], start + written)


def truncate_file(fd: int, name: str, length: int, *, fsync: bool) -> None:
    """Leaves so many bytes of a file; a shorter one stays as it is."""
    with closing_fd(open_to_write(fd, name, create=False)) as file:
        if os.fstat(file).st_size > length:
            os.ftruncate(file, length)
        if fsync:
            os.fsync(file)


def copy_file(fd: int, name: str, target: int, new: str, length: int, *, fsync: bool) -> None:
    """Copies so many bytes, as far as there are, into a file that does not exist yet."""
    with (
        _plain_file(fd, name) as source,
        closing_fd(os.open(new, _NEW_FILE, _MODE.get() & 0o666, dir_fd=target)) as copy,
    ):
        copied = 0
        while copied < length and (piece := os.pread(source, min(length - copied, _READ_BYTES), copied)):
            write_at(copy, piece, copied)
            copied += len(piece)
        if fsync:
            os.fsync(copy)


def read_file(fd: int, path: str) -> bytes:
    """The whole file. Raises FileNotFoundError when there is none, or when anything else stands in its place."""
    with _plain_file(fd, path) as file:
        return _all_of(file, os.fstat(file).st_size)


def _read(fd: int, name: str) -> bytes:
    file = os.open(name, _READ, dir_fd=fd)
    try:
        found = os.fstat(file)
        if not _is_plain(found, fd):
            raise FileNotFoundError(errno.ENOENT, "no plain file", name)
        return _all_of(file, found.st_size)
    finally:
        os.close(file)


def _all_of(file: int, size: int) -> bytes:
    data = os.read(file, size + 1)
    while len(data) != size and (more := os.read(file, _READ_BYTES)):  # larger than one call can read
        data += more
    return data


def read_files(fd: int, paths: Iterable[str]) -> dict[str, bytes]:
    """Those files that there are, by path; a folder is opened once for neighbours."""
    found: dict[str, bytes] = {}
    way = _OpenPath(fd)
    try:
        for path in paths:
            folder, _, name = path.rpartition("/")
            try:
                found[path] = _read(way.to(folder), name)
            except OSError as error:
                if error.errno not in (errno.ENOENT, *_NO_FILE):
                    raise
    finally:
        way.leave()
    return found


def missing_files(fd: int, sizes: Mapping[str, int]) -> set[str]:
    """Those paths under which there is no plain file of at least that size. Neighbours had better stand together."""
    absent: set[str] = set()
    way = _OpenPath(fd)
    try:
        for path, size in sizes.items():
            folder, _, name = path.rpartition("/")
            try:
                found = os.stat(name, dir_fd=way.to(folder), follow_symlinks=False)
            except OSError as error:
                if error.errno not in (errno.ENOENT, *_NO_FILE):
                    raise
                absent.add(path)
            else:
                if not stat.S_ISREG(found.st_mode) or found.st_size < size:
                    absent.add(path)
    finally:
        way.leave()
    return absent


class _OpenPath:
    """The folders that are open from one on: those which the next path has too stay open."""

    def __init__(self, fd: int) -> None:
        self._start = fd
        self._path = ""
        self._entered: list[tuple[str, int]] = []

    def to(self, folder: str) -> int:
        """The open folder of that path. Raises OSError, and stays as far as it came."""
        if folder == self._path and self._entered:
            return self._entered[-1][1]
        segments = folder.split("/") if folder else []
        known = 0
        while known < min(len(segments), len(self._entered)) and self._entered[known][0] == segments[known]:
            known += 1
        self.leave(known)
        for segment in segments[known:]:
            here = self._entered[-1][1] if self._entered else self._start
            self._entered.append((segment, os.open(segment, _FOLDER, dir_fd=here)))
        self._path = folder
        return self._entered[-1][1] if self._entered else self._start

    def leave(self, but: int = 0) -> None:
        """Closes all but the first so many."""
        self._path = ""
        while len(self._entered) > but:
            os.close(self._entered.pop()[1])


def read_piece(fd: int, path: str, start: int, length: int) -> bytes:
    """So many bytes from `start` on, as far as there are. Raises as `read_file`."""
    with _plain_file(fd, path) as file:
        data = b""
        while len(data) < length and (more := os.pread(file, length - len(data), start + len(data))):
            data += more
        return data


@contextmanager
def _plain_file(fd: int, path: str) -> Iterator[int]:
    try:
        with parent_of(fd, path) as (parent, name), closing_fd(os.open(name, _READ, dir_fd=parent)) as file:
            if not _is_plain(os.fstat(file), parent):
                raise FileNotFoundError(errno.ENOENT, "no plain file", path)
            yield file
    except OSError as error:
        if error.errno in _NO_FILE:
            raise FileNotFoundError(errno.ENOENT, "no plain file", path) from error
        raise


def list_names(fd: int) -> list[str]:
    """What the folder holds."""
    return os.listdir(fd)


def files_below(fd: int, base: str = "", *, prune: bool = False, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Every file below `fd`: its open folder, its name, and its path after `base`. Links are named, not followed.

    A folder that lies too deep to be one of ours is named like a file, and so is one that just became a link. With
    `prune` every folder that is empty after its files were handed out is removed.
    """
    with os.scandir(fd) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False) or depth == _DEEPEST:
                yield fd, entry.name, base + entry.name
                continue
            try:
                below = enter(fd, entry.name)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                yield fd, entry.name, base + entry.name
                continue
            with closing_fd(below):
                yield from files_below(below, f"{base}{entry.name}/", prune=prune, depth=depth + 1)
            if prune:
                with suppress(OSError):
                    os.rmdir(entry.name, dir_fd=fd)


def remove_tree(fd: int, name: str) -> None:
    """Removes a folder with all it holds, also while somebody else removes it or still writes into it."""
    for _ in remove_tree_in_pieces(fd, name, sys.maxsize):
        pass


def remove_tree_in_pieces(fd: int, name: str, files: int) -> Generator[int]:
    """The same, with a pause after so many files, where it can be left; answers then how many are gone."""
    gone = 0
    for _ in range(_CLEAR_ROUNDS):
        try:
            with closing_fd(enter(fd, name)) as folder:
                for parent, file, _ in files_below(folder, prune=True):
                    with suppress(FileNotFoundError):
                        _unlink_or_lift(parent, file, folder)
                    gone += 1
                    if gone % files == 0:
                        yield gone
            os.rmdir(name, dir_fd=fd)
        except FileNotFoundError:
            return
        except NotADirectoryError:  # a file or a link that somebody put there
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
    raise OSError(errno.EBUSY, "somebody keeps writing into it", name)


def _unlink_or_lift(parent: int, name: str, top: int) -> None:
    """Removes a file; a folder that lies too deep comes up to `top`, where the next round finds it."""
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):  # which of them depends on the system
        os.rename(name, f".deep-{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=top)


def sync_folder(fd: int, fsync: bool) -> None:
    """Makes the names in a folder outlast a power loss, if so configured."""
    if fsync:
        os.fsync(fd)
