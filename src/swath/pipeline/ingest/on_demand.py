"""Makes the job of a scrape on demand: a few items, ordered whole, that somebody waits for.

The job's id is a random UUID whose last byte is zero; its k-th task has the same UUID with last byte k.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
from pydantic import BaseModel, ValidationError

from swath.domain.errors import BadInput, Failed
from swath.domain.execution_policy import CircuitBreaker, ExecutionPolicy, Throttling
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.validation_messages import describe_problem
from swath.fetch.url import canonical
from swath.pipeline.ingest.job_spec import sites_of
from swath.pipeline.ingest.sources.json_rows import VALUES_LIMIT, has_more_values
from swath.ports.job_store import ItemBatch
from swath.sdk.scraper import Scraper

__all__ = [
    "MAX_TASKS",
    "ON_DEMAND_PRIORITY",
    "InvalidTarget",
    "OnDemandJob",
    "ScrapeTarget",
    "job_id_of_task",
    "make_on_demand_job",
    "takes_url",
]

MAX_TASKS: Final = 100
ON_DEMAND_PRIORITY: Final = 1_000_001  # above all that people may give: single scrapes come first (S3)
_URL: Final = "url"


class ScrapeTarget(msgspec.Struct, frozen=True):
    """One address, and what else the scraper is to know."""

    url: str
    options: Mapping[str, Any] = {}


class InvalidTarget(BadInput):
    """A target that the scraper cannot use. `path` names the field, `number` counts targets from 0."""

    def __init__(self, number: int, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.number = number
        self.path = path
        self.what = what


class OnDemandJob(msgspec.Struct, frozen=True):
    """A job with its one batch, ready to be ordered. `start_urls` are where its tasks begin, as far as is known."""

    job: Job
    batch: ItemBatch
    start_urls: tuple[str | None, ...]

    @property
    def task_ids(self) -> list[str]:
        """In the order of the targets."""
        return [item.item_id for item in self.batch.items]


def job_id_of_task(task_id: UUID) -> str | None:
    """The job of a task; None when no task can have that id."""
    return None if not 1 <= task_id.bytes[-1] <= MAX_TASKS else str(_with_last(task_id, 0))


def takes_url(model: type[BaseModel]) -> bool:
    """Whether an input can be made of an address."""
    aliases = {field.validation_alias for field in model.model_fields.values()}
    return _URL in model.model_fields or _URL in aliases or model.model_config.get("extra") == "allow"


def make_on_demand_job(
    scraper: Scraper, targets: Sequence[ScrapeTarget], retention_days: float, template: Job
) -> OnDemandJob:
    """Makes the job of these targets; `template` brings what is not the same for all: URL, labels, times.

    Raises WrongTarget for the first target that the scraper's input model refuses.
    """
    root = uuid4()
    items, start_urls = [], []
    for number, target in enumerate(targets):
        input_, start_url = _checked(scraper, number, target)
        items.append(Item(number + 1, str(_with_last(root, number + 1)), input_))
        start_urls.append(start_url)
    job = msgspec.structs.replace(
        template,
        job_id=str(_with_last(root, 0)),
        scraper_id=scraper.id,
        sites=sites_of(scraper),
        priority=ON_DEMAND_PRIORITY,
        policy=_policy(retention_days),
        on_demand=True,
    )
    digest = hashlib.sha256(msgspec.json.encode(items, order="deterministic")).hexdigest()
    return OnDemandJob(job, ItemBatch(0, 1, len(items), digest, tuple(items)), tuple(start_urls))


def _policy(retention_days: float) -> ExecutionPolicy:
    """Targets have nothing to do with each other: sites bound how many run at once, and none stops the others."""
    return ExecutionPolicy(
        throttling=Throttling(max_concurrent_workers=MAX_TASKS),
        circuit_breaker=CircuitBreaker(min_requests=10 * MAX_TASKS, consecutive_failures=10 * MAX_TASKS),
        retention_days=retention_days,
    )


def _checked(scraper: Scraper, number: int, target: ScrapeTarget) -> tuple[dict[str, Any], str | None]:
    """The input that is stored, and where the item begins."""
    if _URL in target.options:
        raise InvalidTarget(number, "options.url", "the address is said by target_url")
    if has_more_values(target.options, VALUES_LIMIT):
        raise InvalidTarget(number, "options", f"has more than {VALUES_LIMIT:,} values")
    try:
        canonical(target.url)
    except Failed as failed:
        raise InvalidTarget(number, "target_url", failed.failure.message) from None
    input_ = {_URL: target.url, **target.options}
    try:
        msgspec.json.encode(input_)
        parsed = scraper.Input.model_validate(input_)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(["options", *(str(part) for part in first["loc"])])
        path = "target_url" if path == f"options.{_URL}" else path
        raise InvalidTarget(number, path, describe_problem(first, scraper.Input)) from None
    except Exception as error:  # noqa: BLE001 half characters, and whatever an author's validator raises
        raise InvalidTarget(number, "options", f"cannot be used: {type(error).__name__}") from None
    return input_, _start_url(scraper, parsed)


def _start_url(scraper: Scraper, parsed: BaseModel) -> str | None:
    try:
        return scraper.start_url(parsed)
    except Exception:  # noqa: BLE001 an author's code; whatever is wrong shows when the item runs
        return None


def _with_last(root: UUID, last: int) -> UUID:
    return UUID(bytes=root.bytes[:-1] + bytes([last]))
