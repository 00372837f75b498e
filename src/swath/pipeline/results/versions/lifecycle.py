"""Orders a new version of a job's results as a job over the stored pages, loads its items, and ends it.

At its end the diff is stored, and readers get the new version if it lacks no record that the former one had. An
interrupted load is continued by the same command.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.execution_policy import CircuitBreaker, ExecutionPolicy, Keep, Retries, Throttling
from swath.domain.item import Item, ItemRecord, SuccessOutcome
from swath.domain.job import Job, JobStatus
from swath.domain.lease import Lease
from swath.domain.result_versions import (
    DIFF_KEY,
    GENERATION_LABEL,
    SAMPLE_LABEL,
    SCRAPER_VERSION_LABEL,
    SOURCE_LABEL,
    VERSION_LABEL,
    check_job_ended,
    check_version,
    is_all_from_current_pages,
    is_sample,
    version_job_id,
    version_of,
)
from swath.domain.storage_keys import Layout
from swath.domain.transitions import JobState
from swath.observability.crash_points import reach
from swath.pipeline.extract.stored_pages import has_pages
from swath.pipeline.results.versions.diff import VersionComparison, read_diff
from swath.ports.job_control import JobControl
from swath.ports.job_store import ItemBatch, JobStore
from swath.ports.result_storage import ResultStorage
from swath.sdk.scraper import Scraper

__all__ = [
    "Version",
    "VersionEnd",
    "VersionRequest",
    "VersionStore",
    "begin_version",
    "load_version",
    "next_with_pages",
    "refuse_mixed_pages",
    "use_version",
    "versions_of",
]

BATCH_ITEMS: Final = 2_000
LOOK_ITEMS: Final = 16  # at first, from a place where an item for a sample is looked for

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class _ItemSlice(msgspec.Struct, frozen=True):
    """What there is of the scraped job's items up to `last`, from the end of the slice before."""

    last: int
    records: Sequence[ItemRecord]


async def load_version(store: JobStore, status: JobStatus, progress: Callable[[int], None]) -> JobStatus:
    """Loads and seals it; one that was sealed before is returned as it stands. `progress` hears of items so far."""
    job = status.job
    if status.state is not JobState.LOADING or job.extracts is None:
        return status
    sample = job.labels.get(SAMPLE_LABEL)
    if sample is None:
        number, last, items = status.loaded_batches, status.loaded_rows, status.counts.total
        slices = _all_items(store, job.extracts, last)
    else:  # looked for again from the start: the store knows the batches that it has
        number, last, items = 0, 0, 0
        slices = _sample(store, job.extracts, int(sample))
    async for some in slices:
        await store.load(job.job_id, _batch(number, last, some))
        reach("after_load_batch")
        number, last, items = number + 1, some.last, items + len(some.records)
        progress(items)
    return await store.seal(job.job_id, number)


def _batch(number: int, before: int, some: _ItemSlice) -> ItemBatch:
    items = tuple(Item(record.seq, record.item_id, record.input) for record in some.records)
    digest = hashlib.sha256(_encode((number, before, some.last, items))).hexdigest()
    return ItemBatch(number, before + 1, some.last - before, digest, items)


def _is_wanted(record: ItemRecord) -> bool:
    """What was not there when it was asked for has no record in its pages."""
    return record.state.terminal and record.finding is not SuccessOutcome.NOT_FOUND and has_pages(record)


async def _all_items(store: JobStore, job_id: str, after: int) -> AsyncIterator[_ItemSlice]:
    while records := await store.items(job_id, after, BATCH_ITEMS):
        after = records[-1].seq
        yield _ItemSlice(after, [record for record in records if _is_wanted(record)])


async def _sample(store: JobStore, job_id: str, wanted: int) -> AsyncIterator[_ItemSlice]:
    """Items from all over the job, the same ones each time."""
    rows = (await store.status(job_id)).loaded_rows
    found: dict[int, ItemRecord] = {}
    last = 0
    for place in range(wanted):
        record = await next_with_pages(store, job_id, max(last, place * rows // wanted))
        if record is None:
            break
        last = record.seq
        found[last] = record
    last = 0
    while len(found) < wanted and (record := await next_with_pages(store, job_id, last)) is not None:
        last = record.seq
        found[last] = record
    chosen = sorted(found.values(), key=lambda record: record.seq)
    for at in range(0, len(chosen), BATCH_ITEMS):
        some = chosen[at : at + BATCH_ITEMS]
        yield _ItemSlice(some[-1].seq, some)


async def next_with_pages(store: JobStore, job_id: str, after: int) -> ItemRecord | None:
    """The first item beyond `after` of which there is something to read again."""
    limit = LOOK_ITEMS
    while records := await store.items(job_id, after, limit):
        for record in records:
            if _is_wanted(record):
                return record
        after, limit = records[-1].seq, min(2 * limit, BATCH_ITEMS)
    return None


ITEMS_AT_ONCE: Final = 64  # they wait for pages that are read together; what they cost is time of the processor
_LARGE: Final = 100_000

# No site suffers from what fails here, so nothing stops by itself.
_NEVER_OPENS: Final = CircuitBreaker(
    min_requests=_LARGE, failure_threshold_percentage=1, consecutive_failures=_LARGE, max_not_found_percentage=1
)


class VersionStore(JobStore, JobControl, Protocol):
    """Versions are counted in one half, and made in the other."""


class VersionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """By which scraper, from the file `source` with that hash if it is not installed; of how many items, if not of
    all."""

    scraper: Scraper
    source: str | None = None
    source_sha256: str | None = None
    sample: int | None = None
    concurrency: int | None = None


class Version(msgspec.Struct, frozen=True):
    """A version as people see it. `scraper_version` is what its items say, or will say."""

    number: int
    status: JobStatus
    scraper_version: str
    current: bool

    @property
    def sample(self) -> bool:
        """Whether it is of some items only."""
        return is_sample(self.status.job)

    def as_json(self, diff: object) -> dict[str, Any]:
        """For machines. `diff` is what it says otherwise than the one before it, or where that is told."""
        return {
            "version": self.number,
            "current": self.current,
            "sample": self.sample,
            "job_id": self.status.job.job_id,
            "status": self.status.state.value,
            "counts": msgspec.to_builtins(self.status.counts),
            "scraper_id": self.status.job.scraper_id,
            "scraper_version": self.scraper_version,
            "ended_at": self.status.ended_at,
            "diff": diff,
        }


async def begin_version(store: VersionStore, now: float, job_id: str, wish: VersionRequest) -> JobStatus:
    """The job that makes a new version, or one like it that was begun before and has not ended. It may still be
    `loading`: see version_load.py. Raises Conflict and BadInput when there is nothing to make it of."""
    status = await store.status(job_id)
    if status.job.extracts is not None:
        raise BadInput(f"job {job_id!r} is a version of job {status.job.extracts!r}; name that one")
    if not wish.scraper.has_extract:
        raise BadInput(f"scraper {wish.scraper.id!r} has no extract, so there is nothing to read out of the pages")
    check_job_ended(job_id, status.state)
    begun = await _unfinished(store, status, wish)
    if begun is not None:
        return begun
    if await next_with_pages(store, job_id, 0) is None:
        told = "its policy may have said `keep: data`, or none of its items got so far"
        raise BadInput(f"job {job_id!r} has no stored pages to read again: {told}")
    made = await store.submit(_new_job(status, await _free_number(store, job_id), wish, now))
    try:
        deleted = (await store.status(job_id)).deleting
    except UnknownName:
        deleted = True
    if deleted:  # whoever deletes the job may have looked for its versions before there was this one
        await store.abandon(made.job.job_id)
        raise Conflict.being_deleted(job_id)
    return made


async def _free_number(store: VersionStore, job_id: str) -> int:
    """The next one of which nobody has a job with that name."""
    while True:
        number = await store.add_version(job_id)
        try:
            await store.status(version_job_id(job_id, number))
        except UnknownName:
            return number


async def _unfinished(store: JobStore, status: JobStatus, wish: VersionRequest) -> JobStatus | None:
    """Raises Conflict when going on with it would make one version of two different things."""
    for version in reversed(await versions_of(store, status)):
        made, like = version.status, _new_job(status, version.number, wish, 0.0)
        same = (made.job.scraper_id, made.job.scraper_source) == (like.scraper_id, like.scraper_source)
        if made.state.terminal or made.deleting or not same:
            continue
        other = {name for name, _ in made.job.labels.items() ^ like.labels.items()}
        if not other:
            return made
        if other <= {SOURCE_LABEL, GENERATION_LABEL}:
            raise _refusal(status, made, version.number, wish if SOURCE_LABEL in other else None)
    return None


def _refusal(status: JobStatus, made: JobStatus, number: int, changed: VersionRequest | None) -> Conflict:
    """Of one whose scraper was `changed` since, or whose pages were."""
    cancel = f"cancel {made.job.job_id}"
    if changed is not None and changed.source is not None:
        file = Path(changed.source).name
        return Conflict(f"{file} has changed since version {number} was begun; raise its version, or {cancel}")
    return Conflict(f"items of job {status.job.job_id!r} ran again since version {number} was begun; {cancel} first")


def _new_job(status: JobStatus, number: int, wish: VersionRequest, now: float) -> Job:
    job = status.job
    labels = {
        VERSION_LABEL: str(number),
        SCRAPER_VERSION_LABEL: wish.scraper.version,
        GENERATION_LABEL: str(status.generation),
    }
    if wish.source_sha256 is not None:
        labels[SOURCE_LABEL] = wish.source_sha256
    if wish.sample is not None:
        labels[SAMPLE_LABEL] = str(wish.sample)
    policy = ExecutionPolicy(
        throttling=Throttling(max_concurrent_workers=ITEMS_AT_ONCE),
        retries=Retries(max_retries=0),
        timeouts=job.policy.timeouts,
        circuit_breaker=_NEVER_OPENS,
        keep=Keep.DATA,
    )
    return Job(
        job_id=version_job_id(job.job_id, number),
        scraper_id=wish.scraper.id,
        scraper_version=wish.scraper.version,
        scraper_source=wish.source,
        name=f"version {number} of {job.job_id}",
        labels=labels,
        priority=job.priority,
        policy=policy if wish.concurrency is None else policy.with_concurrency(wish.concurrency),
        created_at=now,
        layout=Layout.WARC,  # there are no pages to look at, and records by the line cost a fraction of files
        extracts=job.job_id,
    )


async def versions_of(store: JobStore, status: JobStatus) -> list[Version]:
    """All that there are, the first first. A number may be missing: whoever counted it died, or it was deleted."""
    found = []
    for number in range(1, status.versions + 1):
        made: JobStatus | None = status
        if number > 1:
            made = await _version(store, status.job.job_id, number)
        if made is not None:
            by = made.job.labels.get(SCRAPER_VERSION_LABEL) if number > 1 else await _scraper_version(store, made)
            found.append(Version(number, made, by or "", number == status.current_version))
    return found


async def _version(store: JobStore, job_id: str, number: int) -> JobStatus | None:
    with contextlib.suppress(UnknownName):
        made = await store.status(version_job_id(job_id, number))
        if made.job.extracts == job_id:  # else it is somebody's own job that has such a name
            return made
    return None


async def _scraper_version(store: JobStore, status: JobStatus) -> str:
    """The order of a job does not say it; its items do."""
    first = await store.items(status.job.job_id, 0, 1)
    return first[0].scraper_version if first else ""


async def refuse_mixed_pages(store: JobStore, job_id: str) -> None:
    """Before items of a job run again. Raises Conflict when that would read other pages than those which the version
    that it makes was read from."""
    made = await store.status(job_id)
    if made.job.extracts is None:
        return
    with contextlib.suppress(UnknownName):
        if not is_all_from_current_pages(made.job, await store.status(made.job.extracts)):
            told = f"items of job {made.job.extracts!r} ran again since {job_id!r} was begun"
            raise Conflict(f"{told}, and one version is never made of two; make another with `swath jobs reextract`")


async def use_version(store: VersionStore, job_id: str, number: int) -> JobStatus:
    """Gives readers that version from now on. Raises BadInput for one that they cannot do with."""
    status = await store.status(job_id)
    check_version(job_id, number, status.versions)
    if number > 1:
        made = await _version(store, job_id, number)
        if made is None or made.deleting:
            raise BadInput(f"version {number} of job {job_id!r} is not there any more; see `swath jobs versions`")
        if is_sample(made.job):
            raise BadInput(f"version {number} of job {job_id!r} is a sample; make one of all items without --sample")
        if not made.state.terminal:
            raise BadInput(f"version {number} of job {job_id!r} is {made.state}; it can be used when it has ended")
    return await store.set_current(job_id, number)


class VersionEnd:
    """What is done at the end of a job that makes a version, before it is terminal. Can be repeated, by anybody."""

    def __init__(self, store: VersionStore, storage: ResultStorage) -> None:
        self._store = store
        self._storage = storage

    async def __call__(self, status: JobStatus) -> _VersionEnding | None:
        """Who is to see the items of this job pass by; nobody, if it makes no version or that was done before."""
        job, number = status.job, version_of(status.job)
        if job.extracts is None or number is None:
            return None
        try:
            scraped = await self._store.status(job.extracts)
        except UnknownName:
            return None
        if scraped.current_version == number:
            if status.generation == 1:  # whoever came so far before has died since
                return None
            scraped = await self._as_before(scraped, job)
        return _VersionEnding(self._store, self._storage, scraped, status)

    async def _as_before(self, scraped: JobStatus, job: Job) -> JobStatus:
        """The scraped job with the version that readers got before this one; with the first, if that is gone."""
        with contextlib.suppress(msgspec.MsgspecError):  # it is written anew in any case
            diff = await read_diff(self._storage, job.job_id)
            former = 1 if diff is None else diff.former_version
            if former > 1 and await _version(self._store, scraped.job.job_id, former) is not None:
                return msgspec.structs.replace(scraped, current_version=former)
        return msgspec.structs.replace(scraped, current_version=1)


class _VersionEnding:
    """The end of one version, whose items pass by one time for all who want to see them."""

    def __init__(self, store: VersionStore, storage: ResultStorage, scraped: JobStatus, made: JobStatus) -> None:
        self._store = store
        self._storage = storage
        self._made = made
        self._comparison = VersionComparison(store, storage, scraped, made.job)

    async def pass_by(self, records: Sequence[ItemRecord]) -> None:
        """Compares these items with what readers get."""
        await self._comparison.add(records)

    async def end(self, lease: Lease, state: JobState) -> None:
        """Writes the diff; then readers get the version, if nobody would miss anything. They do not when items of it
        have run again: which version they get has been decided by then, perhaps by a person."""
        job, number, diff = self._made.job, version_of(self._made.job), self._comparison.diff
        document = msgspec.json.encode(diff) + b"\n" * (self._made.generation - 1)  # as in `part_document`
        reach("before_diff")
        await self._storage.put_under(job.job_id, lease.fence, {DIFF_KEY: document})
        ran = state in (JobState.COMPLETED, JobState.PARTIALLY_COMPLETED) and self._made.generation == 1
        if ran and job.extracts and number and not diff.loses_records and not is_sample(job):
            with contextlib.suppress(Conflict, UnknownName):  # it is being deleted
                reach("before_current_version")
                await self._store.set_current(job.extracts, number, under=lease)
