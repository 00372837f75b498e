"""ExecutionPolicy: how a job wants to be run. Comes from people's YAML or JSON, so it is checked field by field.

`proxy` and `requests_per_second` are data here; the parts that act on them read them from the job.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from swath.domain.failure import FailureKind

__all__ = [
    "Backoff",
    "CircuitBreaker",
    "ExecutionPolicy",
    "Keep",
    "KindRetries",
    "OnOpen",
    "Proxy",
    "ProxyType",
    "Retries",
    "Throttling",
    "Timeouts",
]

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Throttling(_Section):
    """How much at once, and how fast."""

    max_concurrent_workers: int = Field(default=8, ge=1, le=10_000)
    """Items of the job that may be queued or in progress at once, over all workers."""
    requests_per_second: float | None = Field(default=None, gt=0, le=10_000, allow_inf_nan=False)
    """Lowers the site's rate for this job; never raises it."""


class Backoff(StrEnum):
    """How the delay grows from retry to retry."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class KindRetries(_Section):
    """What one failure kind does differently."""

    max_retries: int | None = Field(default=None, ge=0, le=100)
    base_delay_seconds: Delay | None = None


class Retries(_Section):
    """How often a failed item is tried again, and how long it waits."""

    max_retries: int = Field(default=3, ge=0, le=100)
    backoff: Backoff = Backoff.EXPONENTIAL
    backoff_factor: float = Field(default=2, ge=1, le=100, allow_inf_nan=False)
    base_delay_seconds: Delay = 1
    max_delay_seconds: Delay = 60
    max_infrastructure_retries: int = Field(default=10, ge=0, le=1000)
    """For faults that are neither the site's nor the input's: proxy, our DNS, a crashed browser."""
    kinds: dict[FailureKind, KindRetries] = Field(default_factory=dict)


class Timeouts(_Section):
    """Bounds in seconds; `item_seconds` covers one whole attempt."""

    connect_seconds: Seconds = 10
    request_seconds: Seconds = 30
    navigation_seconds: Seconds = 30
    item_seconds: Seconds = 60


class OnOpen(StrEnum):
    """What happens to a job whose circuit opens."""

    FAIL = "fail"
    PAUSE = "pause"


class CircuitBreaker(_Section):
    """When a job stops by itself because its items fail."""

    min_requests: int = Field(default=20, ge=1, le=100_000)
    failure_threshold_percentage: float = Field(default=0.5, gt=0)
    consecutive_failures: int = Field(default=20, ge=1, le=100_000)
    max_not_found_percentage: float = Field(default=0.9, gt=0)
    on_open: OnOpen = OnOpen.FAIL

    @field_validator("failure_threshold_percentage", "max_not_found_percentage")
    @classmethod
    def _is_a_fraction(cls, value: float) -> float:
        if value > 1:
            raise ValueError(f"is a fraction between 0 and 1; for {value:g} % write {value / 100:g}")
        return value


class ProxyType(StrEnum):
    """Which product a request goes through."""

    NONE = "none"
    DATACENTER = "datacenter"
    RESIDENTIAL = "residential"
    WEB_UNLOCKER = "web_unlocker"
    CUSTOM = "custom"


class Proxy(_Section):
    """Which way out the job takes."""

    type: ProxyType = ProxyType.NONE
    country: str | None = None
    state: str | None = None
    city: str | None = None
    zip: str | None = None
    session: str | None = None
    ladder: tuple[ProxyType, ...] = ()


class Keep(StrEnum):
    """What of a success is stored."""

    PAGES = "pages"
    DATA = "data"
    BOTH = "both"

    @property
    def pages(self) -> bool:
        """Whether fetched pages are stored."""
        return self is not Keep.DATA

    @property
    def data(self) -> bool:
        """Whether extracted records are stored."""
        return self is not Keep.PAGES


class ExecutionPolicy(_Section):
    """All of the above; every part has a default."""

    throttling: Throttling = Throttling()
    retries: Retries = Retries()
    timeouts: Timeouts = Timeouts()
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    proxy: Proxy = Proxy()
    keep: Keep = Keep.BOTH
    retention_days: float | None = Field(default=None, gt=0, le=36_500, allow_inf_nan=False)
    """The job and all its data are deleted so long after it ended; by default they stay."""

    def with_concurrency(self, workers: int) -> ExecutionPolicy:
        """The same policy with another `max_concurrent_workers`, checked."""
        changed = self.model_dump(mode="json") | {
            "throttling": self.throttling.model_dump(mode="json") | {"max_concurrent_workers": workers}
        }
        return ExecutionPolicy.model_validate(changed)

    def as_json(self) -> dict[str, Any]:
        """Only what differs from the defaults, so that stored jobs stay readable."""
        return self.model_dump(mode="json", exclude_defaults=True)
