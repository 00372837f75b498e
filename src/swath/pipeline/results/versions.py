"""Versions of a job's results (R6): one more is ordered here, as a job over the stored pages, and this is how it ends.

Before: a job has ended whose pages were kept. After: workers run the new job like any other, without the network; at
its end the diff is written, and readers get the new version if it lacks nothing that the former one had.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.layout import Layout
from swath.domain.lease import Lease
from swath.domain.policy import CircuitBreaker, ExecutionPolicy, Keep, Retries, Throttling
from swath.domain.transitions import JobState
from swath.domain.versions import (
    DIFF_KEY,
    GENERATION_LABEL,
    SAMPLE_LABEL,
    SCRAPER_VERSION_LABEL,
    SOURCE_LABEL,
    VERSION_LABEL,
    check_version,
    is_all_read_from,
    is_sample,
    refuse_unless_ended,
    version_job_id,
    version_of,
)
from swath.kit.scraper import Scraper
from swath.observe.crash_points import reach
from swath.pipeline.results.diff import Comparison, read_diff
from swath.pipeline.results.version_load import next_with_pages
from swath.ports.job_control import JobControl
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = [
    "Version",
    "VersionEnd",
    "VersionStore",
    "Wish",
    "begin_version",
    "refuse_mixed_pages",
    "use_version",
    "versions_of",
]

ITEMS_AT_ONCE: Final = 64  # they wait for pages that are read together; what they cost is time of the processor
_MOST: Final = 100_000

# No site suffers from what fails here, so nothing stops by itself.
_NEVER_OPENS: Final = CircuitBreaker(
    min_requests=_MOST, failure_threshold_percentage=1, consecutive_failures=_MOST, max_not_found_percentage=1
)


class VersionStore(JobStore, JobControl, Protocol):
    """Versions are counted in one half, and made in the other."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
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


async def begin_version(store: VersionStore, now: float, job_id: str, wish: Wish) -> JobStatus:
    """The job that makes a new version, or one like it that was begun before and has not ended. It may still be
    `loading`: see version_load.py. Raises Conflict and BadInput when there is nothing to make it of."""
    status = await store.status(job_id)
    if status.job.extracts is not None:
        raise BadInput(f"job {job_id!r} is a version of job {status.job.extracts!r}; name that one")
    if not wish.scraper.has_extract:
        raise BadInput(f"scraper {wish.scraper.id!r} has no extract, so there is nothing to read out of the pages")
    refuse_unless_ended(job_id, status.state)
    begun = await _unfinished(store, status, wish)
    if begun is not None:
        return begun
    if await next_with_pages(store, job_id, 0) is None:
        told = "its policy may have said `keep: data`, or none of its items got so far"
        raise BadInput(f"job {job_id!r} has no stored pages to read again: {told}")
    made = await store.submit(_order(status, await _free_number(store, job_id), wish, now))
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


async def _unfinished(store: JobStore, status: JobStatus, wish: Wish) -> JobStatus | None:
    """Raises Conflict when going on with it would make one version of two different things."""
    for version in reversed(await versions_of(store, status)):
        made, like = version.status, _order(status, version.number, wish, 0.0)
        same = (made.job.scraper_id, made.job.scraper_source) == (like.scraper_id, like.scraper_source)
        if made.state.terminal or made.deleting or not same:
            continue
        other = {name for name, _ in made.job.labels.items() ^ like.labels.items()}
        if not other:
            return made
        if other <= {SOURCE_LABEL, GENERATION_LABEL}:
            raise _refusal(status, made, version.number, wish if SOURCE_LABEL in other else None)
    return None


def _refusal(status: JobStatus, made: JobStatus, number: int, changed: Wish | None) -> Conflict:
    """Of one whose scraper was `changed` since, or whose pages were."""
    cancel = f"cancel {made.job.job_id}"
    if changed is not None and changed.source is not None:
        file = Path(changed.source).name
        return Conflict(f"{file} has changed since version {number} was begun; raise its version, or {cancel}")
    return Conflict(f"items of job {status.job.job_id!r} ran again since version {number} was begun; {cancel} first")


def _order(status: JobStatus, number: int, wish: Wish, now: float) -> Job:
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
        if not is_all_read_from(made.job, await store.status(made.job.extracts)):
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
        self._comparison = Comparison(store, storage, scraped, made.job)

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
