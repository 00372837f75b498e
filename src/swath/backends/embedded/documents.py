"""Documents by key in a job's folder: written whole or not at all, listed, removed. results.py calls it in its threads.

A document is written below `.writing/` and gets its final name when it is complete. Each writer has a folder of its own
there, locked while it lives, so that the next one can tell what the dead left behind, and remove it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby

from swath.backends.embedded.folders import (
    clear,
    enter,
    files_below,
    make_below,
    names,
    opened,
    sync_folder,
    write_file,
)
from swath.domain.result import Artifact

__all__ = ["WRITING", "delete", "put", "remove", "walk"]

WRITING = ".writing"

_TRIES = 100  # to get a folder that nobody sweeps away before it is locked


def put(job: int, documents: Mapping[str, bytes], *, fsync: bool) -> list[Artifact]:
    """Writes documents, each replacing its former whole."""
    with _writing_folder(job) as writing:
        for folder, keys in groupby(documents, lambda key: key.rpartition("/")[0]):
            with opened(enter(job, folder or ".", create=True)) as target:
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
            with opened(enter(job, WRITING)) as shared:
                clear(shared, name)
            os.rmdir(WRITING, dir_fd=job)
        os.close(folder)


def _locked_folder(job: int) -> tuple[int, str]:
    for _ in range(_TRIES):
        with suppress(FileNotFoundError), opened(enter(job, WRITING, create=True)) as shared:
            _sweep(shared)
            name = secrets.token_hex(8)
            make_below(shared, name)
            folder = enter(shared, name)
            fcntl.flock(folder, fcntl.LOCK_EX)
            if name in names(shared):
                return folder, name
            os.close(folder)  # another writer took it for a dead one's
    raise OSError(errno.EBUSY, "other writers keep sweeping", WRITING)


def _sweep(shared: int) -> None:
    for name in names(shared):
        with suppress(FileNotFoundError, BlockingIOError), opened(enter(shared, name)) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
            clear(shared, name)


def walk(job: int, prefix: str, *, prune: bool = False) -> Iterator[tuple[int, str, str]]:
    """Files whose key begins with `prefix`: open folder, name, key. Nothing of what has no final name yet."""
    folder, _, start = prefix.rpartition("/")
    try:
        top = enter(job, folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return
    base = f"{folder}/" if folder else ""
    with opened(top), os.scandir(top) as entries:
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
            with opened(below):
                yield from files_below(below, f"{base}{entry.name}/", prune=prune)
            if prune:
                with suppress(OSError):
                    os.rmdir(entry.name, dir_fd=top)


def delete(job: int, keys: Iterable[str]) -> None:
    """Removes the files with these keys. A folder is opened once for keys that stand side by side."""
    for folder, beside in groupby(keys, lambda key: key.rpartition("/")[0]):
        with suppress(FileNotFoundError, NotADirectoryError), opened(enter(job, folder or ".")) as holder:
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
                clear(folder, name)
