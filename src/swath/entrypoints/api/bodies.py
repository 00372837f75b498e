"""Bodies: what callers may send to manage jobs, as models. Unknown fields are refused, and nothing is guessed.

Before: routing.py has parsed the JSON. After: routes/. What is sent back is in views.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, WrapValidator

from swath.domain.errors import BadInput
from swath.domain.failure import FailureKind
from swath.domain.item import ITEM_ID_LIMIT
from swath.domain.job import JOB_ID_LIMIT
from swath.domain.layout import Layout
from swath.domain.policy import ExecutionPolicy
from swath.entrypoints.api.strict_body import StrictBody, one_by_one
from swath.pipeline.accept.new_job import check_job_id
from swath.pipeline.accept.policy_file import strict_policy

__all__ = ["CIRCUIT_JOB", "TWO_ITEMS", "CurrentVersion", "NewItem", "NewJob", "PolicyPart", "Reextract", "Retry"]

MOST_ITEMS: Final = 50_000
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


def _usable(job_id: str) -> str:
    try:
        check_job_id(job_id)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("job_id ")) from None
    return job_id


def _policy(value: object, _: object) -> ExecutionPolicy:
    return strict_policy(value)


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

    job_id: Annotated[str, Field(min_length=1, max_length=JOB_ID_LIMIT), AfterValidator(_usable)] | None = None
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
    items: Annotated[list[NewItem], WrapValidator(one_by_one(NewItem, "items"))] | None = Field(
        default=None, min_length=1, max_length=MOST_ITEMS
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
