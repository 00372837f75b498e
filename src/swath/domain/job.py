"""A job as it was ordered, its counters and status, the progress of its ending, and when it is deleted.

A large job takes minutes to end. An ending that killed its worker is tried again after a growing delay.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import EndedItem
from swath.domain.storage_keys import Layout
from swath.domain.transitions import JobState

__all__ = [
    "ALERT_DEATHS",
    "JOB_ID_LIMIT",
    "Counts",
    "EndingProgress",
    "EndingStep",
    "Job",
    "JobEnding",
    "JobStatus",
    "SiteOutlook",
    "StopReason",
    "WaitingFor",
    "delete_at",
    "ending_retry_seconds",
    "final_state",
    "job_ending",
    "merge_scraper_versions",
]

ALERT_DEATHS: Final = 3  # from so many on a person has to know
_ENDING_RETRY_SECONDS: Final = (0.0, 0.0, 1.0, 10.0, 60.0, 600.0)  # by deaths; the last for all that follow


class EndingStep(StrEnum):
    """What an ending is doing."""

    STARTING = "starting"
    CANCELLING = "cancelling_items"  # those that a stopped job leaves
    LISTING = "writing_manifests"
    REMOVING = "removing_replaced_files"  # of former generations
    PUT_OFF = "put_off"  # nothing: it has killed its worker, and is tried again later


class EndingProgress(msgspec.Struct, frozen=True, array_like=True):
    """A step, and how many items, or files, it has come through."""

    step: EndingStep
    done: int = 0
    total: int = 0


class JobEnding(msgspec.Struct, frozen=True, kw_only=True):
    """The same as a status shows it. `deaths`: workers that have died while they ended this job.

    `retry_seconds` is set while it is put off: how long until some worker may try again.
    """

    step: EndingStep
    done: int = 0
    total: int = 0
    deaths: int = 0
    retry_seconds: float | None = None


def ending_retry_seconds(deaths: int) -> float:
    """How long an ending is left alone after it has killed so many workers. The first may have been chance."""
    return _ENDING_RETRY_SECONDS[min(deaths, len(_ENDING_RETRY_SECONDS) - 1)]


def job_ending(progress: EndingProgress | None, deaths: int, retry_seconds: float) -> JobEnding | None:
    """What a status shows: of an ending under way its `progress`, else whether one is put off."""
    if progress is not None:
        return JobEnding(step=progress.step, done=progress.done, total=progress.total, deaths=deaths)
    if not deaths:
        return None
    return JobEnding(step=EndingStep.PUT_OFF, deaths=deaths, retry_seconds=round(max(0.0, retry_seconds), 1))


JOB_ID_LIMIT = 200
_NOT_COMPARED = frozenset({"created_at", "sites", "request_id", "scraper_version"})


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What was ordered. `scraper_source` is the file a scraper comes from when it is not installed.

    `sites` are the addresses that the scraper said it needs, as it was when the job was submitted. `on_demand`:
    somebody waits for it; its items are called tasks. `request_id` is that of the request by which it was ordered.
    `extracts` is the job whose stored pages this one reads in the place of sites (R6). `scraper_version` is that of the
    scraper when the job was ordered; jobs of earlier releases do not say it.
    """

    job_id: str
    scraper_id: str
    scraper_source: str | None = None
    sites: tuple[str, ...] = ()
    name: str | None = None
    labels: dict[str, str] = {}
    callback_url: str | None = None
    priority: int = 0
    policy: ExecutionPolicy = ExecutionPolicy()
    created_at: float = 0.0
    on_demand: bool = False
    request_id: str | None = None
    layout: Layout = Layout.FILES
    extracts: str | None = None
    scraper_version: str | None = None

    def differences(self, other: Job) -> tuple[str, ...]:
        """The fields in which they ask for different work; when and by which request, and what the scraper says of
        itself, does not matter."""
        asked = (name for name in self.__struct_fields__ if name not in _NOT_COMPARED)
        return tuple(name for name in asked if getattr(self, name) != getattr(other, name))


class StopReason(StrEnum):
    """Why a job ends before its items are all done; also the reason that its cancelled items carry."""

    CANCELLED = "cancelled"
    CIRCUIT_OPEN = "circuit_open"


class WaitingFor(StrEnum):
    """What keeps a running job from going on, through no fault of its own."""

    STORE = "store"
    DISK = "disk"
    QUEUE = "queue"
    PROXY = "proxy"
    SCRAPER = "scraper"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Items by state. `not_found` is a part of `success`."""

    pending: int = 0
    queued: int = 0
    in_progress: int = 0
    success: int = 0
    not_found: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    total: int = 0

    @property
    def ended(self) -> int:
        """Items in a terminal state."""
        return self.success + self.failed + self.skipped + self.cancelled

    @property
    def remaining(self) -> int:
        """Items that have not ended."""
        return self.total - self.ended


class SiteOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """A site that a job needs, as it stands. `waits_seconds` is set, with the reason, while it is left alone.

    `by_proxy`: only for jobs that go by a proxy.
    """

    name: str
    circuit: str
    requests_per_second: float
    slowed_down: bool = False
    open_requests: int = 0
    waits_seconds: float | None = None
    why: str | None = None
    by_proxy: bool = False


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job as people and programs see it, in one consistent reading of the store."""

    job: Job
    state: JobState
    generation: int = 1
    counts: Counts = Counts()
    failures: dict[str, int] = {}
    items_per_second: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    loaded_rows: int = 0
    loaded_batches: int = 0
    stopping: StopReason | None = None
    circuit_opened: str | None = None  # why, if it is open
    waiting_for: WaitingFor | None = None
    held_by: str | None = None  # the process that keeps all others from writing to the store
    ending: JobEnding | None = None  # how far its last steps are, while they are under way or put off
    waiting_reason: str | None = None  # what is wrong, where that is of this job alone; see Services.status
    deleting: bool = False
    cost: float = 0.0  # of the items that have ended, in the operator's money, over all generations
    manifest: dict[str, Any] | None = None
    sites: tuple[SiteOutlook, ...] = ()  # this and the next: pipeline/dispatch/outlook.py
    closed_seconds: float = 0.0  # of the time to the end, during which its sites are closed
    versions: int = 1  # how many of its results were made, the first by the job itself, others by re-extraction (R6)
    current_version: int = 1  # which of them readers get
    scraper_versions: tuple[str, ...] = ()  # of the scraper, under which items have ended, in any generation

    @property
    def cache_hits(self) -> int | None:
        """Answers that its items shared, as its manifest says; None before there is one."""
        return None if self.manifest is None else self.manifest.get("cache_hits", 0)

    @property
    def missing_items(self) -> int:
        """Whose files were gone when the job ended."""
        return 0 if self.manifest is None or not self.state.terminal else self.manifest.get("missing_items", 0)

    @property
    def eta_seconds(self) -> float | None:
        """Time to the end at the present pace; None when nothing says: nothing ends, or the job is held up."""
        held_up = self.state is JobState.PAUSED or self.waiting_for is not None
        if self.state.terminal or held_up or self.items_per_second <= 0:
            return None
        return self.counts.remaining / self.items_per_second + self.closed_seconds

    def as_json(self) -> dict[str, Any]:
        """The shape shown everywhere (J7)."""
        eta = self.eta_seconds
        return {
            "job_id": self.job.job_id,
            "status": self.state.value,
            "generation": self.generation,
            "counts": msgspec.to_builtins(self.counts),
            "failures": self.failures,
            "items_per_second": round(self.items_per_second, 2),
            "eta_seconds": None if eta is None else round(eta, 1),
            "cost": round(self.cost, 6),
            "cache_hits": self.cache_hits,
            "missing_items": self.missing_items,
            "waiting_for": self.waiting_for,
            "held_by": self.held_by,
            "waiting_reason": self.waiting_reason,
            "ending": None if self.ending is None else msgspec.to_builtins(self.ending),
            "sites": [msgspec.to_builtins(site) for site in self.sites],
            "circuit": {"state": "open" if self.circuit_opened else "closed", "reason": self.circuit_opened},
            "scraper_id": self.job.scraper_id,
            "scraper_version": self.job.scraper_version,
            "scraper_versions": list(self.scraper_versions),
            "layout": self.job.layout.value,
            "extracts": self.job.extracts,
            "versions": self.versions,
            "current_version": self.current_version,
            "name": self.job.name,
            "labels": self.job.labels,
            "priority": self.job.priority,
            "callback_url": self.job.callback_url,
            "loaded_rows": self.loaded_rows,
            "created_at": self.job.created_at,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "execution_policy": self.job.policy.as_json(),
        }


def merge_scraper_versions(known: Iterable[str], ended: Iterable[EndedItem]) -> tuple[str, ...]:
    """The versions of the scraper under which items of a job have ended, with those of further ends, in that order."""
    return tuple(dict.fromkeys([*known, *(end.scraper_version for end in ended if end.scraper_version)]))


def final_state(counts: Counts, stopping: StopReason | None) -> JobState:
    """How a job ends, from its items and from what made it stop before they were all done, if anything did."""
    if counts.remaining:
        raise ValueError(f"{counts.remaining} items have not ended")
    if stopping is StopReason.CIRCUIT_OPEN:
        return JobState.FAILED
    if stopping is StopReason.CANCELLED and (
        counts.cancelled or not counts.total
    ):  # or before its first item was loaded
        return JobState.CANCELLED
    if counts.success == 0:
        return JobState.FAILED
    if counts.success + counts.skipped == counts.total:
        return JobState.COMPLETED
    return JobState.PARTIALLY_COMPLETED


_DAY_SECONDS: Final = 86_400


def delete_at(job: Job, started_at: float | None, ended_at: float | None) -> float | None:
    """In Unix seconds; None when it has not ended, or stays.

    A job that seems to have ended before it began ended while the wall clock was behind: the later time counts.
    """
    days = job.policy.retention_days
    if days is None or ended_at is None:
        return None
    return max(ended_at, started_at or 0.0, job.created_at) + days * _DAY_SECONDS
