"""From a body of `POST /api/v1/scrape` to a job in the store that runs before all others (I3).

Before: routes/scrape.py. After: a worker takes it up at once, if there is one in this process.

Whoever asks is turned away at once when nothing can come of it now: too many wait, the site's circuit is open, no proxy
is healthy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.job import Job, JobStatus
from swath.domain.site_circuit import CircuitState, open_until
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.envelope import request_id
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.ordering import check_address
from swath.entrypoints.api.problems import Problem, refused_fields
from swath.kit.scraper import Scraper
from swath.pipeline.accept.on_demand import Demand, Target, WrongTarget, demand_of, takes_url
from swath.pipeline.dispatch.announce import announce

__all__ = ["Wish", "circuit_error", "place", "prepare"]

BROWSER_SECONDS: Final = 5.0  # until a browser may have become free
PROBE_SECONDS: Final = 5.0  # until somebody who met a half-open circuit may ask again


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants scraped. `prefix` is where a target stands in the body, for paths of wrong fields."""

    target_type: str
    targets: Sequence[Target]
    callback_url: str | None = None
    labels: Mapping[str, str] = {}
    prefix: str = ""

    def path(self, number: int, field: str) -> str:
        """Of a field of a target."""
        return f"{self.prefix.format(number)}{field}"


async def prepare(controller: Controller, wish: Wish) -> Demand:
    """Checks all that can be checked before anything is stored. Raises ApiError and UnknownName."""
    services = controller.services
    scraper = await _scraper(controller, wish)
    template = Job(
        job_id="",
        scraper_id=scraper.id,
        scraper_version=scraper.version,
        callback_url=wish.callback_url,
        labels=dict(wish.labels),
        created_at=services.clock.now(),
        request_id=request_id(),
    )
    try:
        retention_days = services.settings.task_retention_days
        # Beside the event loop: an author's input model may take its time over a hundred targets.
        demand = await asyncio.to_thread(demand_of, scraper, wish.targets, retention_days, template)
    except WrongTarget as wrong:
        raise refused_fields([Problem(wish.path(wrong.number, wrong.path), wrong.what)]) from None
    if wish.callback_url is not None:
        await check_address(controller, wish.callback_url)
    _check_sites(controller, demand)
    if scraper.needs_browser and controller.worker is not None:
        await _check_browsers(controller)
    return demand


async def place(controller: Controller, demand: Demand) -> JobStatus:
    """Orders it and wakes a worker. Raises ApiError queue_full, StoreUnavailable."""
    services, tasks = controller.services, len(demand.batch.items)
    async with controller.depth.room(services.store, services.clock, tasks, services.settings.queue_depth):
        status = await services.store.order(demand.job, demand.batch)
    await announce(services.queue, services.clock, status)
    return status


async def _scraper(controller: Controller, wish: Wish) -> Scraper:
    scraper = await asyncio.to_thread(controller.registry.get, wish.target_type)
    if not takes_url(scraper.Input):
        told = f"scraper {scraper.id!r} takes no address; order a job of it with POST /jobs"
        raise refused_fields([Problem(wish.path(0, "target_type"), told)])
    return scraper


async def _check_browsers(controller: Controller) -> None:
    """Raises ApiError when no browser can be had, after ten seconds at the latest. One that cannot run here at all is
    left to workers elsewhere."""
    try:
        await controller.outside.browsers.check()
    except BadInput:
        return
    except Failed as failed:
        wait_seconds = failed.failure.retry_after_seconds or BROWSER_SECONDS
        told = "no browser can be started now; `swath doctor` on the controller's machine says why"
        raise ApiError(ErrorCode.POOL_EXHAUSTED, told, retry_after=wait_seconds) from None


def _check_sites(controller: Controller, demand: Demand) -> None:
    """Raises ApiError when not one target can be reached now; of several, each finds out for itself."""
    errors = [_objection(controller, demand.job, url) for url in demand.start_urls]
    first = next((error for error in errors if error is not None), None)
    if first is not None and None not in errors:
        raise first


def _objection(controller: Controller, job: Job, url: str | None) -> ApiError | None:
    if url is None:
        return None
    closed = circuit_error(controller, url)
    if closed is not None:
        return closed
    ways, site = controller.outside.network.ways, controller.services.directory.of(url)
    if ways.any_well(job.policy.proxy, site.policy):
        return None
    told = f"no proxy for site {site.name} is healthy; they are looked at again soon"
    return ApiError(ErrorCode.NO_HEALTHY_PROXIES, told, retry_after=controller.settings.proxy_recheck_seconds)


def circuit_error(controller: Controller, url: str, details: Mapping[str, Any] | None = None) -> ApiError | None:
    """The answer for an address whose site is left alone; None when somebody may go there, if only as a probe."""
    services = controller.services
    site, now = services.directory.of(url), services.clock.boot()
    circuit = services.sites.glance(site.name)
    until = open_until(circuit, site.policy.breaker, now)
    if until is None:
        return None
    wait_seconds = until - now if circuit.state is CircuitState.OPEN else min(until - now, PROBE_SECONDS)
    told = f"site {site.name} is left alone: its circuit is open"
    return ApiError(ErrorCode.CIRCUIT_OPEN, told, details, retry_after=wait_seconds)
