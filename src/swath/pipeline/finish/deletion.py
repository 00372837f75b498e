"""Deletes a job that was marked for deletion or is past its retention, with all its data.

Versions of its results go first, then its files, then its rows in pieces: a job whose deletion was interrupted is
still
marked.
"""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import suppress
from typing import Final, Protocol

from swath.domain.errors import Conflict, FolderUnusable, LeaseLost, SwathError, UnknownName
from swath.domain.job import JobStatus
from swath.domain.lease import Lease
from swath.domain.result_versions import current_job_id, version_job_id
from swath.domain.transitions import JobState
from swath.observability.crash_points import reach
from swath.pipeline.finish.ending_lease import EndingLease, EndingStore
from swath.pipeline.retrying import FailureBackoff
from swath.ports.clock import Clock
from swath.ports.job_control import JobControl
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["DeletionStore", "Remover", "mark_for_deletion"]

_PURGE_ITEMS: Final = 5_000

_log = logging.getLogger("swath.deletion")


class DeletionStore(EndingStore, JobStore, JobControl, Protocol):
    """The right to delete comes from one part; the others know and mark the versions that go with a job."""


class _VersionBusy(SwathError):
    """A version of the job still runs, or somebody else deletes it."""


async def mark_for_deletion(store: DeletionStore, job_id: str) -> JobStatus:
    """What `JobControl.delete` does, for people. Raises Conflict also when readers get the results of this job in the
    place of another's, and when a version of it is being made."""
    job = (await store.status(job_id)).job
    if job.extracts is not None:
        with suppress(UnknownName):
            scraped = await store.status(job.extracts)
            if current_job_id(scraped) == job_id and not scraped.deleting:
                move = f"swath jobs use {job.extracts} --version 1"
                raise Conflict(f"readers of job {job.extracts!r} get the results of {job_id!r}; first `{move}`")
    for made in await _versions(store, job_id):
        if not made.state.terminal and made.state is not JobState.LOADING:
            raise Conflict(f"a version of job {job_id!r} is being made; cancel job {made.job.job_id!r} first")
    return await store.delete(job_id)


async def _versions(store: JobStore, job_id: str) -> list[JobStatus]:
    """The jobs that have made versions of its results."""
    found: list[JobStatus] = []
    try:
        versions = (await store.status(job_id)).versions
    except UnknownName:  # its rows are being removed, so its versions are gone
        return found
    for number in range(2, versions + 1):
        with suppress(UnknownName):
            made = await store.status(version_job_id(job_id, number))
            if made.job.extracts == job_id:  # else it is somebody's own job that has such a name
                found.append(made)
    return found


class Remover:
    """A service: `run_once` deletes at most one job with its versions; with `job_id` none but that."""

    def __init__(
        self, book: DeletionStore, storage: ResultStorage, clock: Clock, worker_id: str, *, job_id: str | None = None
    ) -> None:
        self._book = book
        self._storage = storage
        self._clock = clock
        self._worker_id = worker_id
        self._job_id = job_id
        self._put_offs = FailureBackoff[str](clock)

    async def run_once(self) -> str | None:
        """Deletes one job and answers with its id; None when there is none, or another remover has taken it over, or a
        version of it has to end first.

        A job that could not be deleted is put off for longer and longer, so that it never stands in the way of others.
        """
        lease = await self._book.claim_deletion(self._worker_id, self._job_id, self._put_offs.waiting)
        if lease is None:
            return None
        try:
            deleted = await self._delete(lease)
        except Exception as error:
            if self._put_offs.failed(lease.job.job_id, error) and isinstance(error, FolderUnusable):
                _log.error("job %s cannot be deleted and is tried again: %s", lease.job.job_id, error)
            raise
        self._put_offs.worked(lease.job.job_id)
        return deleted

    async def _delete(self, lease: Lease) -> str | None:
        _log.info("job %s: deleting it, because %s", lease.job.job_id, _deletion_reason(lease))
        try:
            await self._remove(lease)
        except LeaseLost:
            return None
        except BaseException as error:  # also when cancelled: the next remover need not wait until the lease runs out
            with suppress(SwathError):
                await self._book.release(lease.worker_id, lease.fence)
            if isinstance(error, _VersionBusy):
                return None
            raise
        _log.info("job %s: deleted", lease.job.job_id)
        return lease.job.job_id

    async def _remove(self, lease: Lease) -> None:
        job_id, hold = lease.job.job_id, EndingLease(self._book, self._clock, lease)
        for made in await _versions(self._book, job_id):
            await hold.during(self._remove_version(made))
        await self._let_readers_go(lease)
        reach("before_clearing")
        await hold.during(self._storage.clear(job_id, hold.confirm))
        while await self._book.purge(lease, _PURGE_ITEMS):
            await hold.keep()

    async def _remove_version(self, made: JobStatus) -> None:
        """One that runs is cancelled: its workers, or any others, end it, and the job is deleted after that."""
        job_id = made.job.job_id
        with suppress(UnknownName):
            if not made.state.terminal and made.state is not JobState.LOADING and not made.deleting:
                await self._book.cancel(job_id)
                raise _VersionBusy(f"version {job_id!r} has to end first")
            await self._book.delete(job_id)
            lease = await self._book.claim_deletion(self._worker_id, job_id)
            if lease is None or await self._delete(lease) is None:
                raise _VersionBusy(f"another worker deletes version {job_id!r}")

    async def _let_readers_go(self, lease: Lease) -> None:
        """A version can come here by itself, by a retention of its own: readers then get the first one again."""
        scraped_id = lease.job.extracts
        if scraped_id is not None:
            with suppress(UnknownName, Conflict):  # it is gone, or on its way out
                if current_job_id(await self._book.status(scraped_id)) == lease.job.job_id:
                    await self._book.set_current(scraped_id, 1)


def _deletion_reason(lease: Lease) -> str:
    if lease.due_since is None:
        return "it is marked for deletion"
    since = dt.datetime.fromtimestamp(lease.due_since, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"its retention of {lease.job.policy.retention_days:g} days is over since {since}"
