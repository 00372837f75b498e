"""Views: jobs, items and scrapers as the API shows them, declared for OpenAPI, and made of what the store says.

The shape of a status is that of `JobStatus.as_json` (J7), here as everywhere. Times are in Unix seconds.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import BaseModel

from swath.domain.ending import EndingStep
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.layout import Layout
from swath.domain.manifest import entry, entry_with_past
from swath.domain.transitions import ItemState, JobState
from swath.entrypoints.api.evidence_views import EvidenceView
from swath.pipeline.results.evidence import Evidence
from swath.web.address import shown

__all__ = [
    "DeletionView",
    "ItemList",
    "ItemView",
    "JobList",
    "JobView",
    "OneItemView",
    "PolicyView",
    "ScraperList",
    "ScraperView",
    "VersionsView",
    "job_view",
    "listed_item",
    "one_item",
]


class CountsView(BaseModel):
    """Items by state. `not_found` is counted inside `success` too."""

    pending: int
    queued: int
    in_progress: int
    success: int
    not_found: int
    failed: int
    skipped: int
    cancelled: int
    total: int


class CircuitView(BaseModel):
    """The job's circuit, and why it is open."""

    state: str
    reason: str | None


class SiteView(BaseModel):
    """A site that the job needs, as it stands."""

    name: str
    circuit: str
    requests_per_second: float
    slowed_down: bool
    open_requests: int
    waits_seconds: float | None
    why: str | None


class EndingView(BaseModel):
    """How far the last steps of a job are. `retry_seconds`: they have killed their worker, and are tried again then."""

    step: EndingStep
    done: int
    total: int
    deaths: int
    retry_seconds: float | None


class JobView(BaseModel):
    """A job as it stands. `waiting_for` is what holds it up through no fault of its own, `waiting_reason` says more;
    `held_by` is the process that keeps all others from writing to the store, if it is known."""

    job_id: str
    status: JobState
    generation: int
    counts: CountsView
    failures: dict[str, int]
    items_per_second: float
    eta_seconds: float | None
    cost: float
    cache_hits: int | None
    missing_items: int
    waiting_for: str | None
    held_by: str | None
    ending: EndingView | None
    waiting_reason: str | None
    sites: list[SiteView]
    circuit: CircuitView
    scraper_id: str
    scraper_version: str | None
    scraper_versions: list[str]
    layout: Layout
    extracts: str | None
    versions: int
    current_version: int
    name: str | None
    labels: dict[str, str]
    priority: int
    callback_url: str | None
    loaded_rows: int
    created_at: float
    started_at: float | None
    ended_at: float | None
    execution_policy: dict[str, Any]
    deleting: bool
    stopping: str | None


class JobList(BaseModel):
    """The newest first. `next_cursor` goes on behind the last of them; null at the end."""

    jobs: list[JobView]
    next_cursor: str | None


class PolicyView(BaseModel):
    """The whole policy, defaults too."""

    job_id: str
    execution_policy: dict[str, Any]


class DeletionView(BaseModel):
    """The job is marked; workers remove it and all its data, and then it is not found any more."""

    job_id: str
    deleting: bool


class VersionView(BaseModel):
    """A version of a job's results. `job_id` is the job that made it; `diff` counts, by field, what it says otherwise
    than the one that was current before it."""

    version: int
    current: bool
    sample: bool
    job_id: str
    status: JobState
    counts: CountsView
    scraper_id: str
    scraper_version: str
    ended_at: float | None
    diff: dict[str, Any] | None


class VersionsView(BaseModel):
    """All of them, the first first; `current_version` is the one that readers get."""

    job_id: str
    current_version: int
    versions: list[VersionView]


class ItemView(BaseModel):
    """An item with its attempts and what they brought. `outcome` is `not_found` where the site has no such record."""

    job_id: str
    item_id: str
    seq: int
    input: dict[str, Any]
    state: ItemState
    outcome: str | None
    failure: dict[str, Any] | None
    reason: str | None
    scraper_id: str
    scraper_version: str
    fence: int
    tries: dict[str, int]
    attempts: list[dict[str, Any]]
    artifacts: list[dict[str, Any]]


class OneItemView(ItemView):
    """The same with what the list leaves out: its ends in earlier generations, when it may run and what it
    waits for until then and, if it was asked for, evidence."""

    generation: int
    ended_at: float | None
    not_before: float | None
    waits_for: str | None
    suspect: bool
    earlier: list[dict[str, Any]]
    evidence: EvidenceView | None


class ItemList(BaseModel):
    """By their place in the job. A page may be short though more follow: `next_cursor` says, null at the end."""

    items: list[ItemView]
    next_cursor: str | None


class ScraperView(BaseModel):
    """What a job may name. `origin`: `shipped`, `package …` or `file`."""

    scraper_id: str
    name: str
    version: str
    description: str
    sites: list[str]
    origin: str


class ScraperList(BaseModel):
    """All that can be run here, by id."""

    scrapers: list[ScraperView]


def job_view(status: JobStatus) -> dict[str, Any]:
    """As JobView."""
    url = status.job.callback_url
    told = {"callback_url": None if url is None else shown(url)}  # its query may be all that one needs to post there
    return {**status.as_json(), **told, "deleting": status.deleting, "stopping": status.stopping}


def listed_item(job: Job, record: ItemRecord) -> dict[str, Any]:
    """As ItemView."""
    return entry(job, record)


def one_item(job: Job, record: ItemRecord, evidence: Evidence | None, waits: str | None) -> dict[str, Any]:
    """As OneItemView."""
    return entry_with_past(job, record) | {"waits_for": waits, "evidence": msgspec.to_builtins(evidence)}
