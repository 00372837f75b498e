"""Ends a job whose items have all ended, or cancels what a stopped job has left.

Afterwards manifests and job_metadata.json are stored, everything balances, the job is terminal and its webhook is in
the outbox. It may die at any step and be repeated by anybody. A later generation ends like the first one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import msgspec

from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable, SwathError, Unbalanced
from swath.domain.item import ItemRecord
from swath.domain.job import EndingStep, JobStatus, final_state
from swath.domain.lease import Lease
from swath.domain.manifest import MISSING_ITEMS_KEY, PART_ITEMS, JobMetadata, ManifestPart, ManifestTotals
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook
from swath.observability.crash_points import reach
from swath.pipeline.finish.cleanup import MissingFiles, ObsoleteFiles, settle_abandoned_lease, state_with_missing_files
from swath.pipeline.finish.ending_lease import EndingLease, EndingStore
from swath.pipeline.formats.manifests import (
    LISTS,
    METADATA_KEY,
    ManifestParts,
    ManifestWriter,
    generation_key,
    make_job_metadata,
    metadata_document,
    part_document,
    part_number,
)
from swath.pipeline.retrying import MAX_BACKOFF_SECONDS
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["EndingObserver", "Finisher", "make_webhook"]

# The receiver has no use for them, and they have no bound.
_OMITTED_FIELDS: Final = ("parts", "execution_policy")


def make_webhook(status: JobStatus, metadata: JobMetadata, configured_url: str | None, clock: Clock) -> Webhook | None:
    """What is to be told of this end, due at once. `metadata` is what was written of it."""
    now = clock.now()
    job, url = status.job, status.job.callback_url or configured_url
    if url is None:
        return None
    told = {name: value for name, value in msgspec.to_builtins(metadata).items() if name not in _OMITTED_FIELDS}
    summary = told | {
        "name": job.name,
        "labels": job.labels,
        "on_demand": job.on_demand,
        "request_id": job.request_id,
        "started_at": status.started_at,
        "ended_at": now,
    }
    # By chance, and not from the job: one that is ordered anew under the id of a deleted one is another to receivers.
    webhook_id = f"wh_{uuid.uuid4().hex}"
    return Webhook(
        webhook_id=webhook_id,
        job_id=job.job_id,
        generation=status.generation,
        url=url,
        summary=summary,
        created_at=now,
        due_at=clock.boot(),
    )


_SWEEP_ITEMS: Final = 5_000
_READ_ITEMS: Final = 1_000
_MAX_RETRY_SECONDS: Final = 60.0
_MAX_STORE_RETRY_SECONDS: Final = 2.0  # work is to go on soon after the store or the disk is back

_log = logging.getLogger("swath.ending")


class _PostponedJob(NamedTuple):
    seconds: float
    until: float
    unavailable: StoreUnavailable | None
    told: str


class EndingObserver(Protocol):
    """Somebody who wants to see the items of a job that ends, and to do something before it is terminal."""

    async def pass_by(self, records: Sequence[ItemRecord]) -> None:
        """These have ended as they say; called in order of `seq`."""
        ...

    async def end(self, lease: Lease, state: JobState) -> None:
        """All have passed and add up, and the holder of this lease will end the job in this state."""
        ...


class Finisher:
    """A service: `run_once` ends at most one job. After an error let some time pass before the next call."""

    def __init__(  # noqa: PLR0913 each is one thing, and most have a default
        self,
        store: JobStore,
        book: EndingStore,
        storage: ResultStorage,
        clock: Clock,
        worker_id: str,
        *,
        job_id: str | None = None,
        part_items: int = PART_ITEMS,
        webhook_url: str | None = None,
        on_version: Callable[[JobStatus], Awaitable[EndingObserver | None]] | None = None,
    ) -> None:
        """`webhook_url`: who is told of the ends of jobs that do not say whom to tell. `on_version` says who looks
        on at the end of a job that makes a version of another's results."""
        self._store = store
        self._book = book
        self._storage = storage
        self._clock = clock
        self._worker_id = worker_id
        self._job_id = job_id
        self._part_items = part_items
        self._webhook_url = webhook_url
        self._on_version = on_version
        self._put_off: dict[str, _PostponedJob] = {}

    async def run_once(self) -> JobStatus | None:
        """Ends one job and answers with it; None when there is none to end, or another finisher has taken it over.

        Raises Unbalanced when the job does not add up; it stays as it is then. A job that could not be ended is put off
        for longer and longer, so that it never stands in the way of others. While one is put off because the store or
        the disk was away, and there is nothing else to do, that is raised again.
        """
        now = self._clock.boot()
        put_off = {job_id: one for job_id, one in self._put_off.items() if one.until > now}
        lease = await self._book.claim_ending(self._worker_id, self._job_id, list(put_off))
        if lease is None:
            for one in put_off.values():
                if one.unavailable is not None:
                    raise one.unavailable
            return None
        try:
            ended = await self._end(lease)
        except LeaseLost:
            await self._give_up(lease)
            return None
        except BaseException as error:  # also when cancelled: the next finisher need not wait until the lease runs out
            self._put_off_after(error, lease.job.job_id)
            await self._give_up(lease)
            raise
        self._put_off.pop(lease.job.job_id, None)
        return ended

    async def _give_up(self, lease: Lease) -> None:
        """Removes the room, which may have been made after a rescue, then releases what may still be ours.

        A room that cannot be removed now is removed by the next finisher before it writes anything.
        """
        with suppress(SwathError):
            await self._storage.settle(lease.job.job_id, lease.fence, ())
        with suppress(SwathError):
            await self._book.release(lease.worker_id, lease.fence)

    def _put_off_after(self, error: BaseException, job_id: str) -> None:
        former = self._put_off.get(job_id)
        seconds = min(1.0 if former is None else 2 * former.seconds, _MAX_RETRY_SECONDS)
        of_this_job = isinstance(error, FolderUnusable)
        unavailable = error if isinstance(error, StoreUnavailable) and not of_this_job else None
        if unavailable is not None:
            seconds = min(seconds, _MAX_STORE_RETRY_SECONDS)
        elif of_this_job:
            seconds = min(seconds, MAX_BACKOFF_SECONDS)
            if former is None or former.told != str(error):
                _log.error("job %s cannot be ended and is tried again: %s", job_id, error)
        self._put_off[job_id] = _PostponedJob(seconds, self._clock.boot() + seconds, unavailable, str(error))

    async def _end(self, lease: Lease) -> JobStatus:
        hold = EndingLease(self._book, self._clock, lease)
        reach("after_ending_claim")
        await self._storage.open_lease(lease.job.job_id, lease.fence)
        reach("after_ending_room")
        await hold.confirm()
        status = await hold.during(self._close(lease, hold))
        onlooker = None if self._on_version is None else await hold.during(self._on_version(status))
        metadata = await hold.during(self._account(lease, status, hold, onlooker))
        if onlooker is not None:
            await hold.during(onlooker.end(lease, JobState(metadata.status)))
        document = metadata_document(metadata)
        await hold.keep()
        reach("before_job_metadata")
        await self._storage.put_under(lease.job.job_id, lease.fence, {METADATA_KEY: document})
        reach("after_job_metadata")
        await self._storage.settle(lease.job.job_id, lease.fence, ())
        reach("before_end")
        webhook = make_webhook(status, metadata, self._webhook_url, self._clock)
        ended = await self._book.end(lease, JobState(metadata.status), msgspec.json.decode(document), webhook)
        reach("after_end")
        return ended

    async def _close(self, lease: Lease, hold: EndingLease) -> JobStatus:
        """The job as it stands when all its items have ended. How long that takes depends on the disk, as in
        `_account`, so the right is renewed meanwhile."""
        total = None
        while lease.stopping and (left := await self._book.sweep(lease, _SWEEP_ITEMS)):
            total = total or left
            hold.reached(EndingStep.CANCELLING, total - left, total)
            await hold.keep()
        await self._clear_rooms(lease, hold)
        reach("before_manifest")
        return await self._store.status(lease.job.job_id)

    async def _account(
        self, lease: Lease, status: JobStatus, hold: EndingLease, onlooker: EndingObserver | None
    ) -> JobMetadata:
        """Everything else but the end itself."""
        absent = MissingFiles(self._store, self._storage, lease.job)
        tally, parts = await self._write_manifests(lease, status, hold, [absent, *filter(None, [onlooker])])
        await absent.end()
        _check_balance(status, tally, parts)
        await hold.keep()
        reach("before_leftovers")
        await self._remove_leftovers(lease, status.generation, parts)
        reach("before_former_metadata")
        await self._keep_former(lease, status)
        await self._tell_missing(lease, status.generation, absent)
        state = state_with_missing_files(final_state(status.counts, lease.stopping), absent.items)
        return make_job_metadata(status, state, tally, parts, absent.items)

    async def _clear_rooms(self, lease: Lease, hold: EndingLease) -> None:
        """Settles every other room: a worker's that made it after it had lost its lease, or that of a former finisher,
        who can publish nothing from then on.

        There is no other lease, and that is confirmed after the rooms are listed: they might be those of a later
        generation if this process was stopped meanwhile. Hardly anything can have won in such a room; if it has, the
        rows say so.
        """
        job_id = lease.job.job_id
        fences = [fence for fence in await self._storage.open_leases(job_id) if fence != lease.fence]
        if fences:
            await hold.confirm()
        winners: dict[int, list[str]] = {fence: [] for fence in fences}
        after = 0
        while winners and (records := await self._store.items(job_id, after, _READ_ITEMS)):
            for record in records:
                if record.artifacts and record.fence in winners:
                    winners[record.fence].append(record.item_id)
            after = records[-1].seq
        for fence, item_ids in winners.items():
            reach("before_settling_others")
            await settle_abandoned_lease(self._store, self._storage, job_id, fence, item_ids)

    async def _write_manifests(
        self, lease: Lease, status: JobStatus, hold: EndingLease, passing: Sequence[MissingFiles | EndingObserver] = ()
    ) -> tuple[ManifestTotals, dict[str, tuple[ManifestPart, ...]]]:
        job_id, generation = lease.job.job_id, status.generation
        writer = ManifestWriter(lease.job, self._storage, self._part_items, fence=lease.fence, generation=generation)
        former = ObsoleteFiles(self._storage, lease, generation)
        after = listed = 0
        while records := await self._store.items(job_id, after, _READ_ITEMS):
            hold.reached(EndingStep.LISTING, listed, status.counts.total)
            await hold.keep()
            await former.pass_by(records)
            await writer.add(records)
            for one in passing:
                await one.pass_by(records)
            after, listed = records[-1].seq, listed + len(records)
        await self._clear_rooms(lease, hold)
        await former.end(lambda done, total: hold.reached(EndingStep.REMOVING, done, total))
        await hold.keep()
        return writer.tally, await writer.close()

    async def _keep_former(self, lease: Lease, status: JobStatus) -> None:
        """Keeps the metadata of the generation before; the store has it until this one ends, however often we try."""
        former = status.manifest
        if former is not None:
            documents = {generation_key(former["generation"]): metadata_document(former)}
            await self._storage.put_under(lease.job.job_id, lease.fence, documents)

    async def _tell_missing(self, lease: Lease, generation: int, absent: MissingFiles) -> None:
        """Lists the items whose files are missing; without any, removes the list of a former generation."""
        job_id = lease.job.job_id
        if absent.items:
            told = "files of %d items of job %s are gone; `swath jobs retry %s --items %s/%s` runs these items again"
            _log.error(told, absent.items, job_id, job_id, self._storage.location(job_id), MISSING_ITEMS_KEY)
            await self._storage.put_under(job_id, lease.fence, {MISSING_ITEMS_KEY: absent.document()})
        elif generation > 1:
            await self._storage.withdraw(job_id, lease.fence, {MISSING_ITEMS_KEY: b""})

    async def _remove_leftovers(self, lease: Lease, generation: int, parts: ManifestParts) -> None:
        """Removes parts that an earlier ending wrote and this one did not.

        Only now, and only those; on S3 they stay without items. Under the fence, since a finisher that was stopped here
        may go on after another generation has ended, which needs a part with that number again.
        """
        job_id = lease.job.job_id
        for name in LISTS:
            written = {part.artifact.key for part in parts[name]}
            found = [key async for key in self._storage.keys(job_id, f"manifests/{name}/")]
            left = [key for key in found if key not in written]
            empty = {key: part_document(job_id, name, part_number(key), (), generation) for key in left}
            await self._storage.withdraw(job_id, lease.fence, empty)


def _check_balance(status: JobStatus, tally: ManifestTotals, parts: ManifestParts) -> None:
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
