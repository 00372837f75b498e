"""Request and response models of the on-demand API (appendix 1), and how a task view is made of an item."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from swath.domain.errors import StoreUnavailable
from swath.domain.item import ItemRecord
from swath.domain.job import Job, StopReason, WaitingFor
from swath.domain.transitions import ItemState, JobState
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.request_body import StrictBody
from swath.pipeline.formats.artifacts import DATA_FILE, METADATA_FILE
from swath.pipeline.ingest.on_demand import MAX_TASKS
from swath.ports.result_storage import ResultStorage

__all__ = [
    "TASK_EXAMPLES",
    "BatchBody",
    "BatchResults",
    "BatchTask",
    "BatchView",
    "ScrapeBody",
    "SyncBody",
    "TargetBody",
    "TaskPage",
    "TaskState",
    "TaskTicket",
    "TaskTiming",
    "TaskView",
    "cancelled_by_circuit",
    "task_state",
    "task_view",
]

# Between the commit of an end and the moment its files have their final names; longer only after a crash, until another
# worker has published them.
_PUBLISH_RETRY_SECONDS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 1.0)


class TaskState(StrEnum):
    """`failed` also when robots.txt denies the address, or its site's circuit was open."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_STATES: Final = {
    ItemState.PENDING: TaskState.QUEUED,
    ItemState.QUEUED: TaskState.QUEUED,
    ItemState.IN_PROGRESS: TaskState.RUNNING,
    ItemState.SUCCESS: TaskState.COMPLETED,
    ItemState.FAILED: TaskState.FAILED,
    ItemState.SKIPPED: TaskState.FAILED,
    ItemState.CANCELLED: TaskState.CANCELLED,
}


TASK_EXAMPLES: Final[list[Any]] = [
    {
        "task_id": "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01",
        "job_id": "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a00",
        "status": "completed",
        "target_type": "example-http",
        "target_url": "https://example.com/",
        "finding": "found",
        "data": {"method": "POST", "echo": {"url": "https://example.com/"}},
        "pages": [],
        "failure": None,
        "timing": {
            "created_at": 1_767_225_600.0,
            "started_at": 1_767_225_600.1,
            "ended_at": 1_767_225_600.4,
            "duration_ms": 300,
            "attempts": 1,
        },
    }
]


class TaskPage(BaseModel):
    """A page that was fetched. Its body is served by `GET /jobs/{job_id}/items/{task_id}/download`."""

    name: str
    url: str
    status: int
    content_type: str
    size: int
    fetched_at: float


class TaskFailure(BaseModel):
    """Why it failed: a failure kind, or `circuit_open`."""

    kind: str
    message: str


class TaskTiming(BaseModel):
    """Unix seconds, as far as there are any; `duration_ms` from its first attempt to its end."""

    created_at: float
    started_at: float | None
    ended_at: float | None
    duration_ms: int | None
    attempts: int


class TaskView(BaseModel):
    """A task as it stands. `finding`, `data` and `pages` only when it is completed."""

    model_config = ConfigDict(json_schema_extra={"examples": TASK_EXAMPLES})

    task_id: str
    job_id: str
    status: TaskState
    target_type: str
    target_url: str
    finding: str | None
    data: Any
    pages: list[TaskPage]
    failure: TaskFailure | None
    timing: TaskTiming


def cancelled_by_circuit(record: ItemRecord) -> bool:
    """Whether it was not tried, because the circuit of its site is open (D3)."""
    return record.state is ItemState.CANCELLED and record.reason == StopReason.CIRCUIT_OPEN


def task_state(record: ItemRecord) -> TaskState:
    """In the words of this API."""
    return TaskState.FAILED if cancelled_by_circuit(record) else _STATES[record.state]


async def task_view(storage: ResultStorage, job: Job, record: ItemRecord) -> TaskView:
    """The task with all that it has brought, if it is completed."""
    data: Any = None
    pages: list[TaskPage] = []
    if record.state is ItemState.SUCCESS:
        data, metadata = await asyncio.gather(
            _document(storage, job, record, DATA_FILE), _document(storage, job, record, METADATA_FILE)
        )
        pages = [TaskPage.model_validate(page) for page in (metadata or {}).get("pages", ())]
    return TaskView(
        task_id=record.item_id,
        job_id=job.job_id,
        status=task_state(record),
        target_type=job.scraper_id,
        target_url=str(record.input.get("url", "")),
        finding=None if record.finding is None else record.finding.value,
        data=data,
        pages=pages,
        failure=_failure(record),
        timing=_timing(job, record),
    )


async def _document(storage: ResultStorage, job: Job, record: ItemRecord, file: str) -> Any:
    """What is stored as JSON under that name, if it is kept. Raises StoreUnavailable while it is not there yet."""
    key = next((one.key for one in record.artifacts if one.key.rpartition("/")[2] == file), None)
    if key is None:
        return None
    for pause_seconds in _PUBLISH_RETRY_SECONDS:
        try:
            return msgspec.json.decode(await storage.get(job.job_id, key))
        except KeyError:
            await asyncio.sleep(pause_seconds)
    raise StoreUnavailable(f"{file} of task {record.item_id} has not been published yet", WaitingFor.DISK)


def _failure(record: ItemRecord) -> TaskFailure | None:
    if cancelled_by_circuit(record):
        return TaskFailure(kind=StopReason.CIRCUIT_OPEN, message="the site is left alone, because its circuit is open")
    if record.failure is None:
        return None
    return TaskFailure(kind=record.failure.kind, message=record.failure.message)


def _timing(job: Job, record: ItemRecord) -> TaskTiming:
    started_at = record.attempts[0].started_at if record.attempts else None
    ended_at = record.ended_at if record.state.terminal else None
    lasted = None if started_at is None or ended_at is None else max(0, round((ended_at - started_at) * 1_000))
    return TaskTiming(
        created_at=job.created_at,
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=lasted,
        attempts=len(record.attempts),
    )


DEFAULT_SYNC_SECONDS: Final = 60.0
MAX_SYNC_SECONDS: Final = 600.0
_TARGET: Final[dict[str, Any]] = {"target_type": "example-http", "target_url": "https://example.com/"}
_BODY: Final[dict[str, Any]] = {**_TARGET, "workspace_id": None, "provider": None, "callback_url": None, "options": {}}


def _check_batch_size(targets: object) -> object:
    """Raises ApiError before any of them is looked at."""
    if isinstance(targets, list) and len(targets) > MAX_TASKS:
        raise ApiError(ErrorCode.BATCH_TOO_LARGE, f"a batch has at most {MAX_TASKS} targets, not {len(targets):,}")
    return targets


class TargetBody(StrictBody):
    """One address."""

    target_type: str = Field(min_length=1, max_length=100)
    """The id of a scraper whose input has a `url`."""
    target_url: str = Field(min_length=1, max_length=32_768, json_schema_extra={"format": "uri"})
    options: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the scraper's input."""


class ScrapeBody(TargetBody):
    """One address, and who is to be told."""

    model_config = ConfigDict(json_schema_extra={"examples": [_BODY]})
    most_bytes = 256 << 10  # hundreds of callers may wait for what they ordered

    workspace_id: str | None = Field(default=None, min_length=1, max_length=200)
    """Kept as a label of the job, like `provider`."""
    provider: str | None = Field(default=None, min_length=1, max_length=200)
    callback_url: str | None = Field(default=None, min_length=1, max_length=8_000)
    """Hears of the task's end."""


class SyncBody(ScrapeBody):
    """The same, with how long the caller waits."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_BODY, "timeout_seconds": 30}]})

    timeout_seconds: float = Field(default=DEFAULT_SYNC_SECONDS, gt=0, le=MAX_SYNC_SECONDS, allow_inf_nan=False)


class BatchBody(StrictBody):
    """Several addresses for one scraper, at most 100."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [_TARGET], "callback_url": None}]})
    bulk = True

    targets: Annotated[list[TargetBody], BeforeValidator(_check_batch_size)] = Field(min_length=1)
    callback_url: str | None = Field(default=None, min_length=1, max_length=8_000)
    """Hears when all of them have ended."""


class TaskTicket(BaseModel):
    """A task that was ordered."""

    task_id: str
    job_id: str
    status: TaskState


class BatchTask(BaseModel):
    """One of a batch."""

    task_id: str
    status: TaskState
    target_url: str


class BatchView(BaseModel):
    """A batch as it stands: `status` is the job's, `counts` are its tasks by state."""

    job_id: str
    status: JobState
    target_type: str
    counts: dict[str, int]
    tasks: list[BatchTask]


class BatchResults(BaseModel):
    """Completed tasks only, in the order of the targets."""

    job_id: str
    results: list[TaskView]
