"""Runs blocking file operations in threads, and translates errors of the disk.

A disk that refuses becomes StoreUnavailable; a fault in the folder of one job becomes FolderUnusable.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable
from swath.domain.job import WaitingFor

__all__ = ["DiskThreads", "job_folder_errors"]

T = TypeVar("T")

_THREADS: Final = 4
_UNAVAILABLE: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EIO: "the disk reports an error",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
    errno.ELOOP: "a link stands where a folder of ours belongs",
    errno.ENOTDIR: "a file or a link stands where a folder of ours belongs",
    errno.EEXIST: "a file, or a link that leads nowhere, stands in its place",
}
# What is wrong with a place below a job's folder; a full or failing disk is not of one job.
_JOB_FOLDER_ERRORS: Final = {
    errno.EACCES: "no permission to use {place}",
    errno.EPERM: "no permission to use {place}",
    errno.ELOOP: "{place} is a link where a file or a folder belongs",
    errno.ENOTDIR: "{place} is a file or a link where a folder belongs",
    errno.EISDIR: "{place} is a folder where a file belongs",
    errno.ENXIO: "{place} is a pipe or the like where a file belongs",  # the answer to whoever wants to write into it
    errno.EEXIST: "{place} stands in the way",
    errno.ENOTEMPTY: "{place} stands in the way",
    errno.EBUSY: "another program keeps writing into {place}",
}


@contextmanager
def job_folder_errors(job_id: str, folder: Path) -> Iterator[None]:
    """Around work below the folder of a job. Raises FolderUnusable for what is wrong with that folder alone."""
    try:
        yield
    except OSError as error:
        reason = _JOB_FOLDER_ERRORS.get(error.errno or 0)
        if reason is None:
            raise
        name = error.filename2 or error.filename  # of a rename, what stands in its way is at the second
        place = f"{name!r}" if isinstance(name, str) else "something in it"
        told = f"cannot use the results of job {job_id!r} in {folder}: {reason.format(place=place)}"
        raise FolderUnusable(told, WaitingFor.DISK, f"the results folder of job {job_id!r} cannot be used") from error


class DiskThreads:
    """Runs what blocks; `root` is named in errors."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="swath-results")
        self._closed = False

    async def close(self) -> None:
        """Lets the threads go. Who still waits for the disk has lost its lease: another process will take it over."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)

    async def run(self, work: Callable[[], T]) -> T:
        """Runs it to its end, also when the caller is cancelled. Raises LeaseLost when the storage is closed."""
        if self._closed:
            raise LeaseLost(f"the results in {self._root} are closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            reason = _UNAVAILABLE.get(error.errno or 0)
            if reason is None:
                raise
            told = f"cannot use the results in {self._root}: {reason}"
            raise StoreUnavailable(told, WaitingFor.DISK) from error

    async def steps(self, work: Generator[T]) -> AsyncGenerator[T]:
        """Runs a generator step by step. If its reader is cancelled, it is closed after the step."""
        step: asyncio.Future[T | None] | None = None
        try:
            while True:
                step = asyncio.ensure_future(self.run(lambda: next(work, None)))
                found = await asyncio.shield(step)
                if found is None:
                    return
                yield found
        finally:
            if step is None or step.done():
                work.close()
            else:
                step.add_done_callback(lambda done: _close_after(done, work))


def _close_after(step: asyncio.Future[T | None], work: Generator[T]) -> None:
    if not step.cancelled():
        step.exception()  # looked at, since nobody else will
    work.close()
