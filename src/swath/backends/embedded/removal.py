"""How a deleted job leaves the folder of results. Called by results.py, in its threads, step by step.

A process that sleeps in the midst of it may wake up when another one has deleted the job, and a new job has been
ordered under its id. So nothing is moved or removed by the name of the job's folder but that folder when it is empty.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.backends.embedded.disk_threads import in_folder_of
from swath.backends.embedded.folders import clear_in_pieces, enter, names, opened, parent_of, sync_folder
from swath.domain.keys import encode
from swath.observe.crash_points import reach

__all__ = ["removal"]

_FILES_PER_PIECE: Final = 500
_ASIDE: Final = ".deleted"
_ROUNDS: Final = 1_000  # how often a folder is emptied again while somebody still writes into it


def removal(results: Path, job_id: str, *, fsync: bool) -> Generator[int]:
    """Says from time to time how many files are gone, and can be left then; what is aside stays so.

    The first time is before anything is removed. Only the folder that is open then is emptied: whoever asks in between
    whether the job is still to be deleted never empties that of a later one.
    """
    try:
        root = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    path = encode(job_id)
    aside = f"{_ASIDE}-{hashlib.sha256(path.encode()).hexdigest()[:32]}"  # no encoded name begins with a dot
    with ExitStack() as stack:
        stack.enter_context(opened(root))
        stack.enter_context(in_folder_of(job_id, results / path))
        job = stack.enter_context(_opened_if_folder(root, path))
        yield 0
        reach("before_removal")
        yield from clear_in_pieces(root, aside, _FILES_PER_PIECE)  # of a removal that was cut short
        if job is not None:
            _put_aside(job, root, aside)
        with suppress(FileNotFoundError), parent_of(root, path) as (parent, name):
            _remove_name(parent, name, job)
            sync_folder(root, fsync)
        with suppress(OSError):  # of a long name there are parents, which another job may need
            while path := path.rpartition("/")[0]:
                os.rmdir(path, dir_fd=root)
        yield from clear_in_pieces(root, aside, _FILES_PER_PIECE)


@contextmanager
def _opened_if_folder(root: int, path: str) -> Iterator[int | None]:
    """The open folder, if there is one."""
    try:
        job = enter(root, path)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    with opened(job):
        yield job


def _put_aside(job: int, root: int, aside: str) -> None:
    """Moves all that the open folder holds, so that a half-removed job is seen for a moment only."""
    with opened(enter(root, aside, create=True)) as target:
        for _ in range(_ROUNDS):
            found = names(job)
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
