"""Reads, writes, lists and removes the files of a job by key, and removes the whole job.

A file is written below `.writing/` and renamed when it is complete; each writer locks a folder of its own there, so
the
next one can remove what a dead writer left. A file that only a lease holder may write is written in the folder of
the
lease and renamed from there: once that folder is gone, a former holder can neither write nor remove anything. A
deleted
job is emptied before its folder is removed, because a new job may have been created under the same id meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Final

from swath.backends.sqlite.results.disk_threads import job_folder_errors
from swath.backends.sqlite.results.folders import (
    closing_fd,
    enter,
    files_below,
    list_names,
    make_below,
    parent_of,
    remove_tree,
    remove_tree_in_pieces,
    sync_folder,
    write_file,
)
from swath.backends.sqlite.results.staging import LEASES
from swath.domain.result import Artifact
from swath.domain.storage_keys import encode_key
from swath.observability.crash_points import reach

__all__ = ["WRITING", "delete", "put", "put_fenced", "remove", "remove_fenced", "remove_job", "walk"]

WRITING = ".writing"

_TRIES = 100  # to get a folder that nobody sweeps away before it is locked


def put(job: int, documents: Mapping[str, bytes], *, fsync: bool) -> list[Artifact]:
    """Writes documents, each replacing its former whole."""
    with _writing_folder(job) as writing:
        for folder, keys in groupby(documents, lambda key: key.rpartition("/")[0]):
            with closing_fd(enter(job, folder or ".", create=True)) as target:
                for key in keys:
                    write_file(writing, "document", documents[key], fsync=fsync)
                    os.rename("document", key.rpartition("/")[2], src_dir_fd=writing, dst_dir_fd=target)
                sync_folder(target, fsync)
    return [Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in documents.items()]


@contextmanager
def _writing_folder(job: int) -> Iterator[int]:
    folder, name = _locked_folder(job)
    try:
        yield folder
    finally:
        with suppress(OSError):  # whatever stays is swept by the next writer
            with closing_fd(enter(job, WRITING)) as shared:
                remove_tree(shared, name)
            os.rmdir(WRITING, dir_fd=job)
        os.close(folder)


def _locked_folder(job: int) -> tuple[int, str]:
    for _ in range(_TRIES):
        with suppress(FileNotFoundError), closing_fd(enter(job, WRITING, create=True)) as shared:
            _sweep(shared)
            name = secrets.token_hex(8)
            make_below(shared, name)
            folder = enter(shared, name)
            fcntl.flock(folder, fcntl.LOCK_EX)
            if name in list_names(shared):
                return folder, name
            os.close(folder)  # another writer took it for a dead one's
    raise OSError(errno.EBUSY, "other writers keep sweeping", WRITING)


def _sweep(shared: int) -> None:
    for name in list_names(shared):
        with suppress(FileNotFoundError, BlockingIOError), closing_fd(enter(shared, name)) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
            remove_tree(shared, name)


def walk(job: int, prefix: str, *, prune: bool = False) -> Iterator[tuple[int, str, str]]:
    """Files whose key begins with `prefix`: open folder, name, key. Nothing of what has no final name yet."""
    folder, _, start = prefix.rpartition("/")
    try:
        top = enter(job, folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return
    base = f"{folder}/" if folder else ""
    with closing_fd(top), os.scandir(top) as entries:
        for entry in entries:
            if not entry.name.startswith(start) or (not folder and entry.name.startswith(".")):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield top, entry.name, base + entry.name
                continue
            try:
                below = enter(top, entry.name)
            except FileNotFoundError:
                continue
            except NotADirectoryError:  # it became a link just now
                yield top, entry.name, base + entry.name
                continue
            with closing_fd(below):
                yield from files_below(below, f"{base}{entry.name}/", prune=prune)
            if prune:
                with suppress(OSError):
                    os.rmdir(entry.name, dir_fd=top)


def delete(job: int, keys: Iterable[str]) -> None:
    """Removes the files with these keys. A folder is opened once for keys that stand side by side."""
    for folder, beside in groupby(keys, lambda key: key.rpartition("/")[0]):
        with suppress(FileNotFoundError, NotADirectoryError), closing_fd(enter(job, folder or ".")) as holder:
            for key in beside:
                with suppress(FileNotFoundError):
                    os.unlink(key.rpartition("/")[2], dir_fd=holder)


def remove(job: int, prefix: str) -> None:
    """Removes what `walk` finds, and folders that are empty then."""
    for folder, name, _ in walk(job, prefix, prune=True):
        with suppress(FileNotFoundError):
            try:
                os.unlink(name, dir_fd=folder)
            except (IsADirectoryError, PermissionError):  # one that lies too deep; which error depends on the system
                remove_tree(folder, name)


def put_fenced(job: int, fence: int, documents: Mapping[str, bytes], *, fsync: bool) -> list[Artifact]:
    """Writes documents, each replacing its former whole. Raises FileNotFoundError when the room is gone."""
    new = _new_name()
    with closing_fd(enter(job, f"{LEASES}/{fence}")) as room:
        for folder, keys in groupby(documents, lambda key: key.rpartition("/")[0]):
            with closing_fd(enter(job, folder or ".", create=True)) as target:
                for key in keys:
                    write_file(room, new, documents[key], fsync=fsync)
                    reach("before_document")
                    os.rename(new, key.rpartition("/")[2], src_dir_fd=room, dst_dir_fd=target)
                sync_folder(target, fsync)
    return [Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in documents.items()]


def remove_fenced(job: int, fence: int, keys: Sequence[str]) -> None:
    """Removes documents. Raises FileNotFoundError when the room is gone."""
    with closing_fd(enter(job, f"{LEASES}/{fence}")) as room:
        for key in keys:
            reach("before_withdrawal")
            with suppress(FileNotFoundError), parent_of(job, key) as (folder, name):
                aside = _new_name()
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=room)
                os.unlink(aside, dir_fd=room)


def _new_name() -> str:
    """No encoded name begins with a dot, so no item's folder has this name."""
    return f".document-{secrets.token_hex(8)}"


_FILES_PER_PIECE: Final = 500
_ASIDE: Final = ".deleted"
_ROUNDS: Final = 1_000  # how often a folder is emptied again while somebody still writes into it


def remove_job(results: Path, job_id: str, *, fsync: bool) -> Generator[int]:
    """Says from time to time how many files are gone, and can be left then; what is aside stays so.

    The first time is before anything is removed. Only the folder that is open then is emptied: whoever asks in between
    whether the job is still to be deleted never empties that of a later one.
    """
    try:
        root = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    path = encode_key(job_id)
    aside = f"{_ASIDE}-{hashlib.sha256(path.encode()).hexdigest()[:32]}"  # no encoded name begins with a dot
    with ExitStack() as stack:
        stack.enter_context(closing_fd(root))
        stack.enter_context(job_folder_errors(job_id, results / path))
        job = stack.enter_context(_opened_if_folder(root, path))
        yield 0
        reach("before_removal")
        yield from remove_tree_in_pieces(root, aside, _FILES_PER_PIECE)  # of a removal that was cut short
        if job is not None:
            _put_aside(job, root, aside)
        with suppress(FileNotFoundError), parent_of(root, path) as (parent, name):
            _remove_name(parent, name, job)
            sync_folder(root, fsync)
        with suppress(OSError):  # of a long name there are parents, which another job may need
            while path := path.rpartition("/")[0]:
                os.rmdir(path, dir_fd=root)
        yield from remove_tree_in_pieces(root, aside, _FILES_PER_PIECE)


@contextmanager
def _opened_if_folder(root: int, path: str) -> Iterator[int | None]:
    """The open folder, if there is one."""
    try:
        job = enter(root, path)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    with closing_fd(job):
        yield job


def _put_aside(job: int, root: int, aside: str) -> None:
    """Moves all that the open folder holds, so that a half-removed job is seen for a moment only."""
    with closing_fd(enter(root, aside, create=True)) as target:
        for _ in range(_ROUNDS):
            found = list_names(job)
            if not found:
                return
            for name in found:
                with suppress(FileNotFoundError):
                    os.rename(name, secrets.token_hex(8), src_dir_fd=job, dst_dir_fd=target)


def _remove_name(parent: int, name: str, job: int | None) -> None:
    """Removes the folder that was emptied, or what stood where a folder belongs."""
    if job is None:
        with suppress(IsADirectoryError, PermissionError):  # what the system says of a folder: a later job made it
            os.unlink(name, dir_fd=parent)
    elif os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), os.fstat(job)):
        os.rmdir(name, dir_fd=parent)
