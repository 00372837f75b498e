"""`GET /health` and `GET /readiness` (I4, W5, Z9). Neither needs a key, so they return figures and no names or paths.

The store is read at most once a second for all requests, and no request waits longer than two seconds for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from swath import __version__
from swath.domain.errors import StoreUnavailable, SwathError
from swath.domain.fair_scheduling import JobBacklog, count_workers
from swath.domain.job import WaitingFor
from swath.domain.transitions import JobState
from swath.entrypoints.api.controller import Control, Controller, controller_of
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.observability.prometheus import Gauge
from swath.ports.clock import Clock
from swath.ports.store import Store

__all__ = ["HealthSnapshot", "ServiceHealth", "ServiceHealthOf", "router"]

CACHE_SECONDS: Final = 1.0
STORE_TIMEOUT_SECONDS: Final = 2.0
OPEN_STATES: Final = tuple(state for state in JobState if not state.terminal)
_PAGE_JOBS: Final = 500
_MAX_PAGES: Final = 20

_log = logging.getLogger("swath.standing")


class HealthSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at `at`, on the boot clock. `jobs` are those that have not ended, by state.

    `waiting_for` is what the store, or any worker of it, waits for, and `held_by` the process that keeps all others
    from writing to the store, if it is known; without an `answer` nothing else is known.
    """

    at: float
    answer: bool
    waiting_for: WaitingFor | None = None
    held_by: str | None = None
    backlog: tuple[JobBacklog, ...] = ()
    jobs: Mapping[str, int] = {}

    @property
    def pending(self) -> int:
        """Items that wait, over all jobs that may run."""
        return sum(job.pending for job in self.backlog)

    @property
    def claimable(self) -> int:
        """Those of them that a worker could have at once."""
        return sum(job.claimable for job in self.backlog)

    @property
    def workers(self) -> int:
        """Workers with items of a job."""
        return count_workers(self.backlog)

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest item that waits."""
        return max((job.oldest_seconds for job in self.backlog if job.oldest_seconds is not None), default=None)

    def gauges(self) -> Iterator[Gauge]:
        """For Prometheus. Figures that are not known are left out: no figure is better than a wrong one."""
        yield Gauge("swath_store_up", "Whether the store answers.", {"": float(self.answer)})
        waits = {what.value: float(what is self.waiting_for) for what in WaitingFor}
        yield Gauge("swath_waiting_for", "What workers or the store wait for.", waits, "what")
        if not self.answer:
            return
        jobs = {state.value: float(self.jobs.get(state.value, 0)) for state in OPEN_STATES}
        yield Gauge("swath_jobs", "Jobs that have not ended.", jobs, "state")
        yield Gauge("swath_queue_items", "Items that wait.", {"": self.pending})
        yield Gauge("swath_queue_claimable_items", "Items that a worker could have at once.", {"": self.claimable})
        yield Gauge("swath_active_workers", "Workers with items of a job.", {"": self.workers})
        wanted = sum(job.wanted for job in self.backlog)
        yield Gauge("swath_wanted_workers", "Further workers that would find something to do.", {"": wanted})
        each = self.pending / max(1, self.workers)
        yield Gauge("swath_backlog_per_worker", "Items that wait, for each worker.", {"": each})
        oldest = self.oldest_seconds or 0.0
        yield Gauge("swath_oldest_pending_seconds", "Age of the oldest item that waits.", {"": oldest})


class ServiceHealth:
    """One per app. Looks only when somebody asks."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        fresh_seconds: float = CACHE_SECONDS,
        patience_seconds: float = STORE_TIMEOUT_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._last: HealthSnapshot | None = None
        self._looking: asyncio.Task[HealthSnapshot] | None = None
        self._began_at = 0.0
        self._told = ""

    async def look(self) -> HealthSnapshot:
        """How it stands. The same look is waited for by all, so that a store which hangs is not asked again and
        again."""
        now = self._clock.boot()
        if self._last is not None and 0 <= now - self._last.at < self._fresh_seconds:
            return self._last
        if self._looking is None or self._looking.done():
            self._looking, self._began_at = asyncio.create_task(self._ask()), now
        left_seconds = max(0.0, self._began_at + self._patience_seconds - now)
        done, _ = await asyncio.wait({self._looking}, timeout=left_seconds)
        if not done:
            return HealthSnapshot(at=now, answer=False, waiting_for=WaitingFor.STORE)
        self._last = self._looking.result()
        return self._last

    async def _ask(self) -> HealthSnapshot:
        try:
            backlog = tuple(await self._store.backlog())
            jobs, waiting_for, held_by = await self._open_jobs()
            if held_by is None and (held_by := await self._store.held_by()) is not None:  # also without an open job
                waiting_for = waiting_for or WaitingFor.STORE
        except SwathError as error:  # a row that cannot be read, a table that is gone: a person has to see to it
            waiting_for = error.waiting_for if isinstance(error, StoreUnavailable) else WaitingFor.STORE
            self._tell(str(error))
            return HealthSnapshot(at=self._clock.boot(), answer=False, waiting_for=waiting_for)
        self._tell("")
        return HealthSnapshot(
            at=self._clock.boot(), answer=True, waiting_for=waiting_for, held_by=held_by, backlog=backlog, jobs=jobs
        )

    def _tell(self, trouble: str) -> None:
        """Once, until it changes or is over."""
        if trouble and trouble != self._told:
            _log.error("how the store stands cannot be told: %s", trouble)
        self._told = trouble

    async def _open_jobs(self) -> tuple[Mapping[str, int], WaitingFor | None, str | None]:
        found: Counter[str] = Counter()
        waiting_for: WaitingFor | None = None
        held_by: str | None = None
        after: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._store.jobs(after, _PAGE_JOBS, states=OPEN_STATES)
            found.update(status.state.value for status in page)
            waiting_for = next((status.waiting_for for status in page if status.waiting_for is not None), waiting_for)
            held_by = next((status.held_by for status in page if status.held_by is not None), held_by)
            if len(page) < _PAGE_JOBS:
                break
            after = page[-1].job.job_id
        return found, waiting_for, held_by


def _service_health(request: Request) -> ServiceHealth:
    state = request.app.state
    if not hasattr(state, "standing"):
        services = controller_of(request).services
        state.standing = ServiceHealth(services.store, services.clock)
    standing: ServiceHealth = state.standing
    return standing


ServiceHealthOf = Annotated[ServiceHealth, Depends(_service_health)]


router = APIRouter(tags=["service"])

RETRY_SECONDS = 5
_NO_KEY: Final[dict[str, Any]] = {"security": []}


class StoreHealth(BaseModel):
    """`waiting_for`: what has to come back before work goes on; it does so by itself. `held_by`: the process on the
    controller's machine that keeps all others from writing to the store, if that is why."""

    state: Literal["ok", "waiting"]
    waiting_for: WaitingFor | None
    held_by: str | None


class QueueHealth(BaseModel):
    """Items that wait, and jobs that have not ended, by state. None when the store does not answer."""

    pending: int
    claimable: int
    oldest_pending_seconds: float | None
    jobs: dict[str, int]


class WorkersHealth(BaseModel):
    """`embedded`: one runs in this very process. `at_work`: workers with items of a job, wherever they are."""

    embedded: bool
    at_work: int | None


class ProxyHealth(BaseModel):
    """The proxies of one type, as this process has met them."""

    total: int
    well: int
    successes: int
    failures: int


class Health(BaseModel):
    """`browsers` is there when this process has a pool of them."""

    status: Literal["ok", "waiting"]
    version: str
    uptime_seconds: float
    store: StoreHealth
    queue: QueueHealth | None
    workers: WorkersHealth
    proxies: dict[str, ProxyHealth]
    browsers: dict[str, int] | None = None


class Readiness(BaseModel):
    """What was found to be well."""

    ready: bool = Field(default=True, description="Always true: a controller that is not ready answers 503.")
    checked: list[str]


def uses_browsers(controller: Controller) -> bool:
    """Whether items are scraped in browsers of this very process."""
    return controller.worker is not None and controller.outside.browsers.expected


@router.get("/health", response_model=Envelope[Health], openapi_extra=_NO_KEY)
async def health(controller: Control, standing: ServiceHealthOf) -> Response:
    """How the controller is. Answers 200 as long as it runs, within a few seconds whatever the store does."""
    look = await standing.look()
    waits = not look.answer or look.waiting_for is not None
    state: Literal["ok", "waiting"] = "waiting" if waits else "ok"
    return ok(
        Health(
            status=state,
            version=__version__,
            uptime_seconds=round(max(0.0, controller.services.clock.now() - controller.started_at), 1),
            store=StoreHealth(state=state, waiting_for=look.waiting_for, held_by=look.held_by),
            queue=_queue_health(look),
            workers=WorkersHealth(
                embedded=controller.worker is not None, at_work=look.workers if look.answer else None
            ),
            proxies=_proxy_health(controller),
            browsers=controller.outside.browsers.stats,
        )
    )


@router.get(
    "/readiness",
    response_model=Envelope[Readiness],
    openapi_extra=_NO_KEY,
    responses=error_responses(ErrorCode.STORE_UNAVAILABLE, ErrorCode.NO_HEALTHY_PROXIES, ErrorCode.POOL_EXHAUSTED),
)
async def readiness(controller: Control, standing: ServiceHealthOf) -> Response:
    """Whether the controller can take work: 200 exactly when what is configured is healthy, else 503."""
    look = await standing.look()
    if not look.answer or look.waiting_for is not None:
        details: dict[str, Any] = {"waiting_for": look.waiting_for, "held_by": look.held_by}
        raise ApiError(ErrorCode.STORE_UNAVAILABLE, "work waits for the store", details, retry_after=RETRY_SECONDS)
    proxies = _proxy_health(controller)
    if proxies and not any(tier.well for tier in proxies.values()):
        unwell: dict[str, Any] = {tier: found.model_dump() for tier, found in proxies.items()}
        told = "none of the proxies that are set up is healthy"
        raise ApiError(ErrorCode.NO_HEALTHY_PROXIES, told, {"proxies": unwell}, retry_after=RETRY_SECONDS)
    browsers = controller.outside.browsers
    if uses_browsers(controller):
        browsers.check_again()
        if not browsers.ready:
            told = "no browser can be started" if browsers.trouble else "no browser has been started yet"
            raise ApiError(ErrorCode.POOL_EXHAUSTED, told, {"browsers": browsers.stats}, retry_after=RETRY_SECONDS)
        met = ["browsers"]
    else:
        met = []
    return ok(Readiness(checked=["store", *(["proxies"] if proxies else []), *met]))


def _queue_health(look: HealthSnapshot) -> QueueHealth | None:
    if not look.answer:
        return None
    return QueueHealth(
        pending=look.pending,
        claimable=look.claimable,
        oldest_pending_seconds=look.oldest_seconds,
        jobs=dict(look.jobs),
    )


def _proxy_health(controller: Controller) -> dict[str, ProxyHealth]:
    return {
        tier.value: ProxyHealth(
            total=len(proxies),
            well=sum(one.well for one in proxies.values()),
            successes=sum(one.successes for one in proxies.values()),
            failures=sum(one.failures for one in proxies.values()),
        )
        for tier, proxies in controller.outside.network.ways.health().items()
        if proxies
    }
