"""Request and response models of the job endpoints, as declared in OpenAPI.

Unknown request fields are refused. The shape of a status is that of `JobStatus.as_json` (J7). Times are Unix
seconds.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WrapValidator

from swath.domain.errors import BadInput
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import ITEM_ID_LIMIT, ItemRecord
from swath.domain.job import JOB_ID_LIMIT, EndingStep, Job, JobStatus
from swath.domain.manifest import item_details, manifest_entry
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState, JobState
from swath.entrypoints.api.request_body import StrictBody, validate_each
from swath.fetch.url import redacted
from swath.pipeline.ingest.job_spec import check_job_id, parse_policy
from swath.pipeline.results.provenance import Evidence

__all__ = [
    "CIRCUIT_JOB",
    "TWO_ITEMS",
    "CurrentVersion",
    "DeletionView",
    "EvidenceView",
    "ItemList",
    "ItemView",
    "JobList",
    "JobView",
    "NewItem",
    "NewJob",
    "OneItemView",
    "PolicyPart",
    "PolicyView",
    "Reextract",
    "Retry",
    "ScraperList",
    "ScraperView",
    "VersionsView",
    "full_item_view",
    "item_view",
    "job_view",
]

MAX_ITEMS: Final = 50_000
TWO_ITEMS: dict[str, Any] = {
    "job_id": "test-001",
    "scraper_id": "example-http",
    "items": [
        {"item_id": "item-1", "input": {"test_param": "hello"}},
        {"item_id": "item-2", "input": {"test_param": "world"}},
    ],
}
CIRCUIT_JOB: dict[str, Any] = {
    "job_id": "circuit-test",
    "scraper_id": "example-fail",
    "execution_policy": {
        "throttling": {"max_concurrent_workers": 3},
        "circuit_breaker": {"min_requests": 5, "failure_threshold_percentage": 0.8},
        "retries": {"max_retries": 1},
    },
    "items": [{"item_id": f"item-{n:02}", "input": {"test": "value"}} for n in range(1, 11)],
}


def _valid_job_id(job_id: str) -> str:
    try:
        check_job_id(job_id)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("job_id ")) from None
    return job_id


def _policy(value: object, _: object) -> ExecutionPolicy:
    return parse_policy(value)


_Label = Annotated[str, Field(max_length=200)]


class NewItem(StrictBody):
    """One input of a job."""

    item_id: str | None = Field(default=None, min_length=1, max_length=ITEM_ID_LIMIT)
    """Names the item within its job; without it, it is named after its input."""
    input: dict[str, Any]
    """What the scraper's input model takes."""


class NewJob(StrictBody):
    """An order. With `items` it starts by itself; without them it waits for `POST /jobs/{job_id}/items`."""

    model_config = ConfigDict(json_schema_extra={"examples": [TWO_ITEMS, CIRCUIT_JOB]})
    bulk = True

    job_id: Annotated[str, Field(min_length=1, max_length=JOB_ID_LIMIT), AfterValidator(_valid_job_id)] | None = None
    """Given again with the same content, it is the same job. Without it, one is made."""
    scraper_id: str | None = Field(default=None, min_length=1, max_length=100)
    """Without it, the scraper of `SWATH_DEFAULT_SCRAPER`."""
    name: str | None = Field(default=None, max_length=1_000)
    """For people."""
    labels: dict[_Label, Annotated[str, Field(max_length=1_000)]] = Field(default_factory=dict, max_length=100)
    callback_url: str | None = Field(default=None, min_length=1, max_length=8_000)
    """Hears of the job's end, instead of the address that is set for all jobs."""
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    """Higher runs first."""
    layout: Annotated[Layout, Field(strict=False)] = Layout.FILES
    """How results are stored: a file each, or packed as WARC and JSON Lines."""
    execution_policy: Annotated[ExecutionPolicy, WrapValidator(_policy)] = ExecutionPolicy()
    items: Annotated[list[NewItem], WrapValidator(validate_each(NewItem, "items"))] | None = Field(
        default=None, min_length=1, max_length=MAX_ITEMS
    )
    """Larger jobs are loaded as a stream."""


class Retry(StrictBody):
    """Which items of an ended job run again: those that fit any of the first four; `since` narrows them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"failed": True}, {"kinds": ["blocked", "timeout"]}, {"not_run": True}]}
    )
    bulk = True

    failed: bool = False
    kinds: list[Annotated[FailureKind, Field(strict=False)]] = Field(default_factory=list, max_length=100)
    not_run: bool = False
    """Those that were cancelled."""
    item_ids: list[Annotated[str, Field(max_length=ITEM_ID_LIMIT)]] = Field(default_factory=list, max_length=10_000)
    since: float | None = Field(default=None, ge=0, le=1e11, allow_inf_nan=False)
    """What ended then or later, in Unix seconds; alone it takes successes too."""


class Reextract(StrictBody):
    """By which scraper the stored pages are read again, and of how many items, if not of all."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scraper_id": "demo-county", "sample": 100}]})

    scraper_id: str
    scraper_version: str | None = None
    """Refused if the scraper that is installed has another."""
    sample: int | None = Field(default=None, ge=1, le=100_000)
    """Only so many items from all over the job; such a version never replaces the results of all."""
    max_concurrent_workers: int | None = Field(default=None, ge=1, le=10_000)


class CurrentVersion(StrictBody):
    """Which version of the results readers are to get."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, le=1_000_000)


PolicyPart = Annotated[
    dict[str, Any],
    Field(
        description="Any part of `execution_policy`: what it names is changed, `null` goes back to the default.",
        examples=[{"throttling": {"max_concurrent_workers": 20}}],
    ),
]


class SourceView(BaseModel):
    """A page of an item, and the stored file that has it; `sha256` is of the body as fetched."""

    name: str
    url: str
    status: int
    fetched_at: float
    sha256: str
    size: int
    from_cache: bool
    file: str | None
    artifact: str | None


class ValueView(BaseModel):
    """One field of a record. `pages`: what the record was extracted from; `found_in`: where its text occurs."""

    record: int
    field: str
    value: str | int | float | bool | None
    pages: list[str]
    found_in: list[str] | None


class EvidenceView(BaseModel):
    """How the item has ended in the current version, and from its values back to their pages, which are stored with the
    job `job_id`. `damage`: files that cannot be read."""

    version: int
    scraper_id: str
    scraper_version: str
    state: ItemState
    outcome: str | None
    failure: dict[str, Any] | None
    reason: str | None
    job_id: str
    generation: int | None
    proxy_tier: str | None
    pages: list[SourceView]
    values: list[ValueView]
    damage: list[str]


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
    told = {"callback_url": None if url is None else redacted(url)}  # its query may be all that one needs to post there
    return {**status.as_json(), **told, "deleting": status.deleting, "stopping": status.stopping}


def item_view(job: Job, record: ItemRecord) -> dict[str, Any]:
    """As ItemView."""
    return manifest_entry(job, record)


def full_item_view(job: Job, record: ItemRecord, evidence: Evidence | None, waits: str | None) -> dict[str, Any]:
    """As OneItemView."""
    return item_details(job, record) | {"waits_for": waits, "evidence": msgspec.to_builtins(evidence)}
