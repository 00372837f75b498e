"""What callers send to have something scraped on demand, and what they get for it at once (appendix 1), as models.

Before: routing.py has parsed the JSON. After: routes/scrape.py. Results are in tasks.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from swath.domain.transitions import JobState
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.strict_body import StrictBody
from swath.entrypoints.api.tasks import TaskState, TaskView
from swath.pipeline.accept.on_demand import MOST_TASKS

__all__ = [
    "BatchBody",
    "BatchResults",
    "BatchTask",
    "BatchView",
    "ScrapeBody",
    "SyncBody",
    "TargetBody",
    "TaskTicket",
]

SYNC_SECONDS: Final = 60.0
MOST_SYNC_SECONDS: Final = 600.0
_TARGET: Final[dict[str, Any]] = {"target_type": "example-http", "target_url": "https://example.com/"}
_BODY: Final[dict[str, Any]] = {**_TARGET, "workspace_id": None, "provider": None, "callback_url": None, "options": {}}


def _few_enough(targets: object) -> object:
    """Raises ApiError before any of them is looked at."""
    if isinstance(targets, list) and len(targets) > MOST_TASKS:
        raise ApiError(ErrorCode.BATCH_TOO_LARGE, f"a batch has at most {MOST_TASKS} targets, not {len(targets):,}")
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

    timeout_seconds: float = Field(default=SYNC_SECONDS, gt=0, le=MOST_SYNC_SECONDS, allow_inf_nan=False)


class BatchBody(StrictBody):
    """Several addresses for one scraper, at most 100."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [_TARGET], "callback_url": None}]})
    bulk = True

    targets: Annotated[list[TargetBody], BeforeValidator(_few_enough)] = Field(min_length=1)
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
