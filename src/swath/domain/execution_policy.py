"""ExecutionPolicy: how a job is run; and the base class of all policies, which are frozen and refuse unknown fields.

Policies come from people's YAML or JSON and are checked field by field. The JSON Schema of a policy takes the
descriptions of its fields from the source, and only when a schema is asked for.
"""

from __future__ import annotations

import ast
import inspect
from enum import StrEnum
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyLocation, ProxyType, ladder_error, location_error

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "Backoff",
    "CircuitBreaker",
    "ExecutionPolicy",
    "Keep",
    "KindRetries",
    "OnOpen",
    "PolicyModel",
    "Proxy",
    "ProxyType",
    "Retries",
    "Throttling",
    "Timeouts",
    "decode_policy",
    "encode_policy",
]


class PolicyModel(BaseModel):
    """A part of a policy, or the whole of one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        fields = handler.resolve_ref_schema(made).get("properties", {})
        for name, told in _field_docstrings(cls).items():
            fields[name].setdefault("description", told)
        return made


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """What the strings below the fields of the class say, as far as its source is there."""
    try:
        (defined,) = ast.parse(dedent(inspect.getsource(model))).body
    except (OSError, SyntaxError):
        return {}
    lines = cast("ast.ClassDef", defined).body
    return {
        field.target.id: inspect.cleandoc(told.value.value)
        for field, told in pairwise(lines)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(told, ast.Expr)
        and isinstance(told.value, ast.Constant)
        and isinstance(told.value.value, str)
    }


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Delay = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class Throttling(PolicyModel):
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


class KindRetries(PolicyModel):
    """What one failure kind does differently."""

    max_retries: int | None = Field(default=None, ge=0, le=100)
    base_delay_seconds: Delay | None = None


class Retries(PolicyModel):
    """How often a failed item is tried again, and how long it waits."""

    max_retries: int = Field(default=3, ge=0, le=100)
    backoff: Backoff = Backoff.EXPONENTIAL
    backoff_factor: float = Field(default=2, ge=1, le=100, allow_inf_nan=False)
    base_delay_seconds: Delay = 1
    max_delay_seconds: Delay = 60
    max_infrastructure_retries: int = Field(default=10, ge=0, le=1000)
    """For faults that are neither the site's nor the input's: proxy, our DNS, a crashed browser."""
    kinds: dict[FailureKind, KindRetries] = Field(default_factory=dict)


class Timeouts(PolicyModel):
    """Bounds in seconds; `item_seconds` covers one whole attempt."""

    connect_seconds: Seconds = 10
    request_seconds: Seconds = 30
    navigation_seconds: Seconds = 30
    item_seconds: Seconds = 60


class OnOpen(StrEnum):
    """What happens to a job whose circuit opens."""

    FAIL = "fail"
    PAUSE = "pause"


class CircuitBreaker(PolicyModel):
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


class Proxy(PolicyModel):
    """Which way out the job takes; what a product does not offer is refused."""

    type: ProxyType = ProxyType.NONE
    country: str | None = None
    state: str | None = None
    city: str | None = None
    zip: str | None = Field(default=None, coerce_numbers_to_str=True)
    session: str | None = Field(default=None, coerce_numbers_to_str=True)
    """An identity that all items share; without it each attempt has one of its own."""
    ladder: tuple[ProxyType, ...] = ()
    """From cheap to dear; an item that is blocked takes the next step. `[none]` keeps to the direct way."""

    @model_validator(mode="after")
    def _is_offered(self) -> Proxy:
        if self.ladder and self.type not in {ProxyType.NONE, self.ladder[0]}:
            raise ValueError(f"type {self.type} is not where the ladder begins; say one of the two")
        wrong = ladder_error(self.ladder)
        if wrong is not None:
            raise ValueError(f"ladder {wrong}")
        wrong = location_error(self.ladder or (self.type,), self.place)
        if wrong is not None:
            raise ValueError(wrong)
        return self

    @property
    def place(self) -> ProxyLocation:
        """Where, and as whom."""
        return ProxyLocation(country=self.country, state=self.state, city=self.city, zip=self.zip, session=self.session)


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


class ExecutionPolicy(PolicyModel):
    """All of the above; every part has a default."""

    throttling: Throttling = Throttling()
    retries: Retries = Retries()
    timeouts: Timeouts = Timeouts()
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    proxy: Proxy = Proxy()
    keep: Keep = Keep.BOTH
    retention_days: float | None = Field(default=None, gt=0, le=36_500, allow_inf_nan=False)
    """The job and all its data are deleted so long after it ended; by default they stay."""
    cache_responses: bool = False
    """A page that several items ask for in the same words is fetched once by each worker process."""

    def with_concurrency(self, workers: int) -> ExecutionPolicy:
        """The same policy with another `max_concurrent_workers`, checked."""
        changed = self.model_dump(mode="json") | {
            "throttling": self.throttling.model_dump(mode="json") | {"max_concurrent_workers": workers}
        }
        return ExecutionPolicy.model_validate(changed)

    def as_json(self) -> dict[str, Any]:
        """Only what differs from the defaults, so that stored jobs stay readable."""
        return self.model_dump(mode="json", exclude_defaults=True)


def encode_policy(value: object) -> object:
    """For msgspec, which knows all of a Job but its policy: what stores write down of it."""
    if isinstance(value, ExecutionPolicy):
        return value.as_json()
    raise TypeError(f"{type(value).__name__} is no part of a job")


def decode_policy(kind: type, value: object) -> object:
    """The policy that was encoded."""
    if kind is ExecutionPolicy:
        return ExecutionPolicy.model_validate(value)
    raise TypeError(f"{type(value).__name__} is no part of a job")
