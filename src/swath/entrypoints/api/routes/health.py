"""How the controller is: `GET /health` for people and load balancers, `GET /readiness` for those who send it work (I4).

Neither needs a key, so both tell figures and words, no names or paths. Before: standing.py has looked.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from swath import __version__
from swath.domain.job import WaitingFor
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ApiError, ErrorCode, declared
from swath.entrypoints.api.standing import Look, StandingOf

__all__ = ["router"]

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


def works_in_browsers(controller: Controller) -> bool:
    """Whether items are scraped in browsers of this very process."""
    return controller.worker is not None and controller.outside.browsers.expected


@router.get("/health", response_model=Envelope[Health], openapi_extra=_NO_KEY)
async def health(controller: Control, standing: StandingOf) -> Response:
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
            queue=_queue(look),
            workers=WorkersHealth(
                embedded=controller.worker is not None, at_work=look.workers if look.answer else None
            ),
            proxies=_proxies(controller),
            browsers=controller.outside.browsers.stats,
        )
    )


@router.get(
    "/readiness",
    response_model=Envelope[Readiness],
    openapi_extra=_NO_KEY,
    responses=declared(ErrorCode.STORE_UNAVAILABLE, ErrorCode.NO_HEALTHY_PROXIES, ErrorCode.POOL_EXHAUSTED),
)
async def readiness(controller: Control, standing: StandingOf) -> Response:
    """Whether the controller can take work: 200 exactly when what is configured is healthy, else 503."""
    look = await standing.look()
    if not look.answer or look.waiting_for is not None:
        details: dict[str, Any] = {"waiting_for": look.waiting_for, "held_by": look.held_by}
        raise ApiError(ErrorCode.STORE_UNAVAILABLE, "work waits for the store", details, retry_after=RETRY_SECONDS)
    proxies = _proxies(controller)
    if proxies and not any(tier.well for tier in proxies.values()):
        unwell: dict[str, Any] = {tier: found.model_dump() for tier, found in proxies.items()}
        told = "none of the proxies that are set up is healthy"
        raise ApiError(ErrorCode.NO_HEALTHY_PROXIES, told, {"proxies": unwell}, retry_after=RETRY_SECONDS)
    browsers = controller.outside.browsers
    if works_in_browsers(controller):
        browsers.check_again()
        if not browsers.ready:
            told = "no browser can be started" if browsers.trouble else "no browser has been started yet"
            raise ApiError(ErrorCode.POOL_EXHAUSTED, told, {"browsers": browsers.stats}, retry_after=RETRY_SECONDS)
        met = ["browsers"]
    else:
        met = []
    return ok(Readiness(checked=["store", *(["proxies"] if proxies else []), *met]))


def _queue(look: Look) -> QueueHealth | None:
    if not look.answer:
        return None
    return QueueHealth(
        pending=look.pending,
        claimable=look.claimable,
        oldest_pending_seconds=look.oldest_seconds,
        jobs=dict(look.jobs),
    )


def _proxies(controller: Controller) -> dict[str, ProxyHealth]:
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
