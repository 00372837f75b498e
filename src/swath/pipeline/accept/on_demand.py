"""A scrape on demand: a job of few items that somebody waits for, ordered whole (I3). Before: the API. After: dispatch.

Such a job's id is a random UUID whose last byte is zero, and its k-th task has the same UUID with last byte k as its
item id: so a task finds its job without an index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
from pydantic import BaseModel, ValidationError

from swath.domain.errors import BadInput, Failed
from swath.domain.explain import described
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.policy import CircuitBreaker, ExecutionPolicy, Throttling
from swath.kit.scraper import Scraper
from swath.pipeline.accept.new_job import sites_of
from swath.pipeline.accept.strict_json import VALUES_LIMIT, has_more_values
from swath.ports.job_store import Batch
from swath.web.address import canonical

__all__ = ["MOST_TASKS", "PRIORITY", "Demand", "Target", "WrongTarget", "demand_of", "job_id_of", "takes_url"]

MOST_TASKS: Final = 100
PRIORITY: Final = 1_000_001  # above all that people may give: single scrapes come first (S3)
_URL: Final = "url"


class Target(msgspec.Struct, frozen=True):
    """One address, and what else the scraper is to know."""

    url: str
    options: Mapping[str, Any] = {}


class WrongTarget(BadInput):
    """A target that the scraper cannot use. `path` names the field, `number` counts targets from 0."""

    def __init__(self, number: int, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.number = number
        self.path = path
        self.what = what


class Demand(msgspec.Struct, frozen=True):
    """A job with its one batch, ready to be ordered. `start_urls` are where its tasks begin, as far as is known."""

    job: Job
    batch: Batch
    start_urls: tuple[str | None, ...]

    @property
    def task_ids(self) -> list[str]:
        """In the order of the targets."""
        return [item.item_id for item in self.batch.items]


def job_id_of(task_id: UUID) -> str | None:
    """The job of a task; None when no task can have that id."""
    return None if not 1 <= task_id.bytes[-1] <= MOST_TASKS else str(_with_last(task_id, 0))


def takes_url(model: type[BaseModel]) -> bool:
    """Whether an input can be made of an address."""
    aliases = {field.validation_alias for field in model.model_fields.values()}
    return _URL in model.model_fields or _URL in aliases or model.model_config.get("extra") == "allow"


def demand_of(scraper: Scraper, targets: Sequence[Target], retention_days: float, template: Job) -> Demand:
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
        priority=PRIORITY,
        policy=_policy(retention_days),
        on_demand=True,
    )
    digest = hashlib.sha256(msgspec.json.encode(items, order="deterministic")).hexdigest()
    return Demand(job, Batch(0, 1, len(items), digest, tuple(items)), tuple(start_urls))


def _policy(retention_days: float) -> ExecutionPolicy:
    """Targets have nothing to do with each other: sites bound how many run at once, and none stops the others."""
    return ExecutionPolicy(
        throttling=Throttling(max_concurrent_workers=MOST_TASKS),
        circuit_breaker=CircuitBreaker(min_requests=10 * MOST_TASKS, consecutive_failures=10 * MOST_TASKS),
        retention_days=retention_days,
    )


def _checked(scraper: Scraper, number: int, target: Target) -> tuple[dict[str, Any], str | None]:
    """The input that is stored, and where the item begins."""
    if _URL in target.options:
        raise WrongTarget(number, "options.url", "the address is said by target_url")
    if has_more_values(target.options, VALUES_LIMIT):
        raise WrongTarget(number, "options", f"has more than {VALUES_LIMIT:,} values")
    try:
        canonical(target.url)
    except Failed as failed:
        raise WrongTarget(number, "target_url", failed.failure.message) from None
    input_ = {_URL: target.url, **target.options}
    try:
        msgspec.json.encode(input_)
        parsed = scraper.Input.model_validate(input_)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(["options", *(str(part) for part in first["loc"])])
        path = "target_url" if path == f"options.{_URL}" else path
        raise WrongTarget(number, path, described(first, scraper.Input)) from None
    except Exception as error:  # noqa: BLE001 half characters, and whatever an author's validator raises
        raise WrongTarget(number, "options", f"cannot be used: {type(error).__name__}") from None
    return input_, _start_url(scraper, parsed)


def _start_url(scraper: Scraper, parsed: BaseModel) -> str | None:
    try:
        return scraper.start_url(parsed)
    except Exception:  # noqa: BLE001 an author's code; whatever is wrong shows when the item runs
        return None


def _with_last(root: UUID, last: int) -> UUID:
    return UUID(bytes=root.bytes[:-1] + bytes([last]))
