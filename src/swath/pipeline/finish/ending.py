"""Finisher: ends a job whose items have all ended, or sweeps what a cancelled one leaves behind.

Before: the last outcome was committed. After: manifests and job_metadata.json lie beside the artifacts, everything adds
up, and the job is terminal. May die at any step, and be repeated by anybody.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from swath.domain.errors import LeaseLost, SwathError, Unbalanced
from swath.domain.job import JobStatus, final_state
from swath.domain.lease import Directive, Lease
from swath.domain.manifest import PART_ITEMS, ManifestPart, Tally
from swath.observe.crash_points import reach
from swath.pipeline.finish.manifests import LISTS, METADATA_KEY, ManifestWriter, Parts, metadata_document, metadata_of
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore
from swath.ports.lease_book import LeaseBook
from swath.ports.result_storage import ResultStorage

__all__ = ["Finisher"]

_SWEEP_ITEMS: Final = 5_000
_READ_ITEMS: Final = 1_000
_LONGEST_PUT_OFF_SECONDS: Final = 60.0


class _PutOff(NamedTuple):
    seconds: float
    until: float


class Finisher:
    """A service: `run_once` ends at most one job. After an error let some time pass before the next call."""

    def __init__(
        self,
        store: JobStore,
        book: LeaseBook,
        storage: ResultStorage,
        clock: Clock,
        worker_id: str,
        *,
        job_id: str | None = None,
        part_items: int = PART_ITEMS,
    ) -> None:
        self._store = store
        self._book = book
        self._storage = storage
        self._clock = clock
        self._worker_id = worker_id
        self._job_id = job_id
        self._part_items = part_items
        self._put_off: dict[str, _PutOff] = {}

    async def run_once(self) -> JobStatus | None:
        """Ends one job and answers with it; None when there is none to end, or another finisher has taken it over.

        Raises Unbalanced when the job does not add up; it stays as it is then. A job that could not be ended is put off
        for longer and longer, so that it never stands in the way of others.
        """
        now = self._clock.boot()
        without = [job_id for job_id, put_off in self._put_off.items() if put_off.until > now]
        lease = await self._book.claim_ending(self._worker_id, self._job_id, without)
        if lease is None:
            return None
        job_id = lease.job.job_id
        try:
            ended = await self._end(lease)
            self._put_off.pop(job_id, None)
            return ended
        except LeaseLost:
            return None
        except BaseException:  # also when cancelled: the next finisher need not wait until the lease runs out
            seconds = min(2 * self._put_off.get(job_id, _PutOff(0.5, now)).seconds, _LONGEST_PUT_OFF_SECONDS)
            self._put_off[job_id] = _PutOff(seconds, now + seconds)
            with suppress(SwathError):
                await self._book.release(lease.worker_id, lease.fence)
            raise

    async def _end(self, lease: Lease) -> JobStatus:
        hold = _Hold(self._book, self._clock, lease)
        while lease.cancelling and await self._book.sweep(lease, _SWEEP_ITEMS):
            await hold.keep()
        await self._clear_rooms(lease.job.job_id)
        reach("before_manifest")
        tally, parts = await self._write_manifests(lease, hold)
        status = await self._store.status(lease.job.job_id)
        _check_balance(status, tally, parts)
        await self._remove_leftovers(lease.job.job_id, parts)
        state = final_state(status.counts, cancelled=lease.cancelling)
        metadata = metadata_document(metadata_of(status, state, tally, parts))
        await self._storage.put(lease.job.job_id, {METADATA_KEY: metadata})
        reach("after_job_metadata")
        ended = await self._book.end(lease, state, msgspec.json.decode(metadata))
        reach("after_end")
        return ended

    async def _clear_rooms(self, job_id: str) -> None:
        """No lease is left, so a room that is was made by a worker that had lost its lease before, and died then."""
        for fence in await self._storage.open_leases(job_id):
            await self._storage.settle(job_id, fence, ())

    async def _write_manifests(self, lease: Lease, hold: _Hold) -> tuple[Tally, dict[str, tuple[ManifestPart, ...]]]:
        writer = ManifestWriter(lease.job, self._storage, self._part_items)
        after = 0
        while records := await self._store.items(lease.job.job_id, after, _READ_ITEMS):
            await hold.keep()
            await writer.add(records)
            after = records[-1].seq
        return writer.tally, await writer.close()

    async def _remove_leftovers(self, job_id: str, parts: Parts) -> None:
        """Removes parts that an earlier ending wrote and this one did not.

        Only now, and only those: a finisher that slept through the loss of its lease may get here after another has
        ended the job, and must not take away what that one wrote.
        """
        for name in LISTS:
            written = {part.artifact.key for part in parts[name]}
            found = [key async for key in self._storage.keys(job_id, f"manifests/{name}/")]
            for key in found:
                if key not in written:
                    await self._storage.remove(job_id, key)


class _Hold:
    """Keeps the right to end a job while its items stream by."""

    def __init__(self, book: LeaseBook, clock: Clock, lease: Lease) -> None:
        self._book = book
        self._clock = clock
        self._lease = lease
        self._renewed_at = clock.boot()

    async def keep(self) -> None:
        """Called between batches. Renews after a sixth of the lease, so that a slow batch still ends within a third."""
        now = self._clock.boot()
        if now - self._renewed_at < self._lease.lease_seconds / 6:
            return
        fence = self._lease.fence
        directives = await self._book.renew(self._lease.worker_id, [fence])
        if directives.get(fence, Directive.LOST) is Directive.LOST:
            raise LeaseLost(f"another worker ends job {self._lease.job.job_id!r} now")
        self._renewed_at = now


def _check_balance(status: JobStatus, tally: Tally, parts: Parts) -> None:
    """Counters, rows and parts must give the same sums, by state and by failure kind. Raises Unbalanced."""
    job_id, counts = status.job.job_id, status.counts
    by_counters = msgspec.to_builtins(counts) | status.failures
    by_rows = msgspec.to_builtins(tally.counts()) | tally.failures
    if by_counters != by_rows:
        raise Unbalanced(job_id, by_counters, by_rows, by=("counters", "rows"))
    by_parts = {name: sum(part.items for part in parts[name]) for name in LISTS}
    expected = {"full": counts.ended, "success": counts.success, "errors": counts.ended - counts.success}
    if by_parts != expected:
        raise Unbalanced(job_id, by_parts, expected, by=("manifest", "counters"))
