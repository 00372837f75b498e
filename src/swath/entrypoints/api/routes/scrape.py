"""On-demand scrapes, `/api/v1/scrape…` (I3). A task is an item of a small job with top priority, stored like any other.

A request is refused at once when too many tasks are queued, the site's circuit is open, or no proxy or browser is
available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Response

from swath.domain.circuit_breaker import CircuitState, open_until
from swath.domain.errors import BadInput, Failed, UnknownName
from swath.domain.failure import FailureKind
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.service_key import Scope
from swath.domain.transitions import ItemState
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.create_job import check_callback_address
from swath.entrypoints.api.envelope import Envelope, ok, request_id
from swath.entrypoints.api.errors import STORE_RETRY_SECONDS, ApiError, ErrorCode, error_responses
from swath.entrypoints.api.routing import ApiRoute, needs
from swath.entrypoints.api.scrape_models import (
    BatchBody,
    BatchResults,
    BatchTask,
    BatchView,
    ScrapeBody,
    SyncBody,
    TaskState,
    TaskTicket,
    TaskView,
    cancelled_by_circuit,
    task_state,
    task_view,
)
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.pipeline.ingest.on_demand import (
    MAX_TASKS,
    InvalidTarget,
    OnDemandJob,
    ScrapeTarget,
    job_id_of_task,
    make_on_demand_job,
    takes_url,
)
from swath.pipeline.worker.sweeper import announce
from swath.sdk.scraper import Scraper

__all__ = ["ScrapeRequest", "circuit_error", "no_task", "prepare_scrape", "router", "submit_scrape"]

BROWSER_RETRY_SECONDS: Final = 5.0  # until a browser may have become free
PROBE_RETRY_SECONDS: Final = 5.0  # until somebody who met a half-open circuit may ask again


class ScrapeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants scraped. `prefix` is where a target stands in the body, for paths of wrong fields."""

    target_type: str
    targets: Sequence[ScrapeTarget]
    callback_url: str | None = None
    labels: Mapping[str, str] = {}
    prefix: str = ""

    def path(self, number: int, field: str) -> str:
        """Of a field of a target."""
        return f"{self.prefix.format(number)}{field}"


async def prepare_scrape(controller: Controller, wish: ScrapeRequest) -> OnDemandJob:
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
        demand = await asyncio.to_thread(make_on_demand_job, scraper, wish.targets, retention_days, template)
    except InvalidTarget as wrong:
        raise invalid_fields([FieldError(wish.path(wrong.number, wrong.path), wrong.what)]) from None
    if wish.callback_url is not None:
        await check_callback_address(controller, wish.callback_url)
    _check_sites(controller, demand)
    if scraper.needs_browser and controller.worker is not None:
        await _check_browsers(controller)
    return demand


async def submit_scrape(controller: Controller, demand: OnDemandJob) -> JobStatus:
    """Orders it and wakes a worker. Raises ApiError queue_full, StoreUnavailable."""
    services, tasks = controller.services, len(demand.batch.items)
    async with controller.depth.room(services.store, services.clock, tasks, services.settings.queue_depth):
        status = await services.store.order(demand.job, demand.batch)
    await announce(services.queue, services.clock, status)
    return status


async def _scraper(controller: Controller, wish: ScrapeRequest) -> Scraper:
    scraper = await asyncio.to_thread(controller.registry.get, wish.target_type)
    if not takes_url(scraper.Input):
        told = f"scraper {scraper.id!r} takes no address; order a job of it with POST /jobs"
        raise invalid_fields([FieldError(wish.path(0, "target_type"), told)])
    return scraper


async def _check_browsers(controller: Controller) -> None:
    """Raises ApiError when no browser can be had, after ten seconds at the latest. One that cannot run here at all is
    left to workers elsewhere."""
    try:
        await controller.outside.browsers.check()
    except BadInput:
        return
    except Failed as failed:
        wait_seconds = failed.failure.retry_after_seconds or BROWSER_RETRY_SECONDS
        told = "no browser can be started now; `swath doctor` on the controller's machine says why"
        raise ApiError(ErrorCode.POOL_EXHAUSTED, told, retry_after=wait_seconds) from None


def _check_sites(controller: Controller, demand: OnDemandJob) -> None:
    """Raises ApiError when not one target can be reached now; of several, each finds out for itself."""
    errors = [_site_error(controller, demand.job, url) for url in demand.start_urls]
    first = next((error for error in errors if error is not None), None)
    if first is not None and None not in errors:
        raise first


def _site_error(controller: Controller, job: Job, url: str | None) -> ApiError | None:
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
    wait_seconds = until - now if circuit.state is CircuitState.OPEN else min(until - now, PROBE_RETRY_SECONDS)
    told = f"site {site.name} is left alone: its circuit is open"
    return ApiError(ErrorCode.CIRCUIT_OPEN, told, details, retry_after=wait_seconds)


router = APIRouter(prefix="/api/v1/scrape", tags=["scrape"], route_class=ApiRoute)

_CIRCUIT_RETRY_SECONDS: Final = 60.0
_C = ErrorCode
_REFUSALS: Final = (
    *(_C.SCRAPER_NOT_FOUND, _C.QUEUE_FULL, _C.CIRCUIT_OPEN, _C.POOL_EXHAUSTED, _C.NO_HEALTHY_PROXIES),
    _C.STORE_UNAVAILABLE,
)


@router.post(
    "",
    status_code=202,
    response_model=Envelope[TaskTicket],
    responses=error_responses(*_REFUSALS),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape(body: ScrapeBody, controller: Control) -> Response:
    """Orders one scrape and answers at once."""
    demand = await prepare_scrape(controller, _scrape_request(body))
    await submit_scrape(controller, demand)
    return ok(TaskTicket(task_id=demand.task_ids[0], job_id=demand.job.job_id, status=TaskState.QUEUED), 202)


@router.post(
    "/sync",
    response_model=Envelope[TaskView],
    responses=error_responses(*_REFUSALS, _C.TASK_TIMEOUT),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape_sync(body: SyncBody, controller: Control) -> Response:
    """Orders one scrape and answers when it has ended, well or not. If that takes too long, it goes on all the same."""
    demand = await prepare_scrape(controller, _scrape_request(body))
    job, task_id = demand.job, demand.task_ids[0]
    async with controller.hub.expecting(job.job_id, task_id) as expected:
        await submit_scrape(controller, demand)
        record = await expected.ended(body.timeout_seconds)
    if expected.let_go:
        told = f"the controller stops; the task goes on when there is a worker: GET /api/v1/scrape/{task_id}"
        raise ApiError(_C.STORE_UNAVAILABLE, told, {"task_id": task_id}, retry_after=STORE_RETRY_SECONDS)
    if record is None:
        told = f"the task was not done within {body.timeout_seconds:g} s; it goes on: GET /api/v1/scrape/{task_id}"
        raise ApiError(_C.TASK_TIMEOUT, told, {"task_id": task_id})
    _refuse_if_not_attempted(controller, demand, record)
    return ok(await task_view(controller.services.storage, job, record))


@router.post(
    "/batch",
    status_code=202,
    response_model=Envelope[BatchView],
    responses=error_responses(_C.BATCH_TOO_LARGE, *_REFUSALS),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape_batch(body: BatchBody, controller: Control) -> Response:
    """Orders a scrape of each target, as tasks of one job."""
    target_type = body.targets[0].target_type
    for at, target in enumerate(body.targets):
        if target.target_type != target_type:
            told = f"must be {target_type!r} too: the targets of a batch are for one scraper"
            raise invalid_fields([FieldError(f"targets[{at}].target_type", told)])
    wish = ScrapeRequest(
        target_type=target_type,
        targets=[ScrapeTarget(target.target_url, target.options) for target in body.targets],
        callback_url=body.callback_url,
        prefix="targets[{}].",
    )
    demand = await prepare_scrape(controller, wish)
    status = await submit_scrape(controller, demand)
    return ok(_batch_view(status, [_queued_task(item.item_id, item.input) for item in demand.batch.items]), 202)


@router.get("/sync", include_in_schema=False)
@router.get("/batch", include_in_schema=False)
async def no_task() -> Response:
    """These names stand where a task id does below, and are none."""
    raise HTTPException(405)


@router.get(
    "/{task_id}",
    response_model=Envelope[TaskView],
    responses=error_responses(_C.TASK_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_task(task_id: UUID, controller: Control) -> Response:
    """A task as it stands, with its result when it is completed."""
    unknown = ApiError(_C.TASK_NOT_FOUND, f"there is no task {str(task_id)!r}")
    job_id = job_id_of_task(task_id)
    if job_id is None:
        raise unknown
    try:
        status = await _batch_status(controller, UUID(job_id))
        record = await controller.services.store.item(job_id, str(task_id))
    except (UnknownName, ApiError):
        raise unknown from None
    return ok(await task_view(controller.services.storage, status.job, record))


@router.get(
    "/jobs/{job_id}",
    response_model=Envelope[BatchView],
    responses=error_responses(_C.JOB_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_batch(job_id: UUID, controller: Control) -> Response:
    """A batch, or the job of a single task, with all its tasks."""
    status = await _batch_status(controller, job_id)
    return ok(await _read_batch_view(controller, status))


@router.get(
    "/jobs/{job_id}/results",
    response_model=Envelope[BatchResults],
    responses=error_responses(_C.JOB_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_results(job_id: UUID, controller: Control) -> Response:
    """What has been completed so far."""
    status, services = await _batch_status(controller, job_id), controller.services
    records = await services.store.items(status.job.job_id, 0, MAX_TASKS)
    done = [record for record in records if record.state is ItemState.SUCCESS]
    results = [await task_view(services.storage, status.job, record) for record in done]
    return ok(BatchResults(job_id=status.job.job_id, results=results))


@router.post(
    "/jobs/{job_id}/cancel",
    response_model=Envelope[BatchView],
    responses=error_responses(_C.JOB_NOT_FOUND, _C.CONFLICT, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def cancel_batch(job_id: UUID, controller: Control) -> Response:
    """Stops what has not started; what runs may finish."""
    await _batch_status(controller, job_id)
    return ok(await _read_batch_view(controller, await controller.services.store.cancel(str(job_id))))


def _scrape_request(body: ScrapeBody) -> ScrapeRequest:
    labels = {"workspace_id": body.workspace_id, "provider": body.provider}
    return ScrapeRequest(
        target_type=body.target_type,
        targets=[ScrapeTarget(body.target_url, body.options)],
        callback_url=body.callback_url,
        labels={name: value for name, value in labels.items() if value is not None},
    )


def _refuse_if_not_attempted(controller: Controller, demand: OnDemandJob, record: ItemRecord) -> None:
    """Raises ApiError for what kept the task from being tried at all; the caller may come again."""
    details = {"task_id": record.item_id}
    if cancelled_by_circuit(record):
        url = demand.start_urls[0]
        known = None if url is None else circuit_error(controller, url, details)
        told = "the site is left alone, because its circuit is open"
        raise known or ApiError(_C.CIRCUIT_OPEN, told, details, retry_after=_CIRCUIT_RETRY_SECONDS)
    failure = record.failure
    if failure is not None and failure.kind is FailureKind.PROXY and failure.retry_after_seconds is not None:
        raise ApiError(_C.NO_HEALTHY_PROXIES, failure.message, details, retry_after=failure.retry_after_seconds)


async def _batch_status(controller: Controller, job_id: UUID) -> JobStatus:
    """Raises UnknownName, and ApiError job_not_found for a job that is no scrape on demand."""
    status = await controller.services.store.status(str(job_id))
    if not status.job.on_demand:
        raise ApiError(_C.JOB_NOT_FOUND, f"there is no scrape {str(job_id)!r}; it is a job: GET /jobs/{job_id}")
    return status


async def _read_batch_view(controller: Controller, status: JobStatus) -> BatchView:
    records = await controller.services.store.items(status.job.job_id, 0, MAX_TASKS)
    tasks = [
        BatchTask(task_id=one.item_id, status=task_state(one), target_url=str(one.input.get("url", "")))
        for one in records
    ]
    return _batch_view(status, tasks)


def _queued_task(task_id: str, input_: dict[str, Any]) -> BatchTask:
    return BatchTask(task_id=task_id, status=TaskState.QUEUED, target_url=str(input_["url"]))


def _batch_view(status: JobStatus, tasks: list[BatchTask]) -> BatchView:
    states = [task.status for task in tasks]
    counts = {state.value: states.count(state) for state in TaskState} | {"total": len(tasks)}
    return BatchView(
        job_id=status.job.job_id, status=status.state, target_type=status.job.scraper_id, counts=counts, tasks=tasks
    )
