"""Scrapes on demand, `/api/v1/scrape…` (I3): one page now, for somebody who waits. A task is an item of a small job
with top priority, so it is as durable as any.

Before: demanding.py orders it. After: hub.py tells when a task has ended, tasks.py shows what it has brought.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, Response

from swath.domain.errors import UnknownName
from swath.domain.failure import FailureKind
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.domain.transitions import ItemState
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.demanding import Wish, circuit_error, place, prepare
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import STORE_SECONDS, ApiError, ErrorCode, declared
from swath.entrypoints.api.gate import needs
from swath.entrypoints.api.problems import Problem, refused_fields
from swath.entrypoints.api.routing import ApiRoute
from swath.entrypoints.api.scrape_bodies import (
    BatchBody,
    BatchResults,
    BatchTask,
    BatchView,
    ScrapeBody,
    SyncBody,
    TaskTicket,
)
from swath.entrypoints.api.tasks import TaskState, TaskView, task_of, task_state, turned_away
from swath.pipeline.accept.on_demand import MOST_TASKS, Demand, Target, job_id_of

__all__ = ["no_task", "router"]

router = APIRouter(prefix="/api/v1/scrape", tags=["scrape"], route_class=ApiRoute)

_AGAIN_SECONDS: Final = 60.0
_C = ErrorCode
_REFUSALS: Final = (
    *(_C.SCRAPER_NOT_FOUND, _C.QUEUE_FULL, _C.CIRCUIT_OPEN, _C.POOL_EXHAUSTED, _C.NO_HEALTHY_PROXIES),
    _C.STORE_UNAVAILABLE,
)


@router.post(
    "",
    status_code=202,
    response_model=Envelope[TaskTicket],
    responses=declared(*_REFUSALS),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape(body: ScrapeBody, controller: Control) -> Response:
    """Orders one scrape and answers at once."""
    demand = await prepare(controller, _wish(body))
    await place(controller, demand)
    return ok(TaskTicket(task_id=demand.task_ids[0], job_id=demand.job.job_id, status=TaskState.QUEUED), 202)


@router.post(
    "/sync",
    response_model=Envelope[TaskView],
    responses=declared(*_REFUSALS, _C.TASK_TIMEOUT),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape_sync(body: SyncBody, controller: Control) -> Response:
    """Orders one scrape and answers when it has ended, well or not. If that takes too long, it goes on all the same."""
    demand = await prepare(controller, _wish(body))
    job, task_id = demand.job, demand.task_ids[0]
    async with controller.hub.expecting(job.job_id, task_id) as expected:
        await place(controller, demand)
        record = await expected.ended(body.timeout_seconds)
    if expected.let_go:
        told = f"the controller stops; the task goes on when there is a worker: GET /api/v1/scrape/{task_id}"
        raise ApiError(_C.STORE_UNAVAILABLE, told, {"task_id": task_id}, retry_after=STORE_SECONDS)
    if record is None:
        told = f"the task was not done within {body.timeout_seconds:g} s; it goes on: GET /api/v1/scrape/{task_id}"
        raise ApiError(_C.TASK_TIMEOUT, told, {"task_id": task_id})
    _refuse_untried(controller, demand, record)
    return ok(await task_of(controller.services.storage, job, record))


@router.post(
    "/batch",
    status_code=202,
    response_model=Envelope[BatchView],
    responses=declared(_C.BATCH_TOO_LARGE, *_REFUSALS),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def scrape_batch(body: BatchBody, controller: Control) -> Response:
    """Orders a scrape of each target, as tasks of one job."""
    target_type = body.targets[0].target_type
    for at, target in enumerate(body.targets):
        if target.target_type != target_type:
            told = f"must be {target_type!r} too: the targets of a batch are for one scraper"
            raise refused_fields([Problem(f"targets[{at}].target_type", told)])
    wish = Wish(
        target_type=target_type,
        targets=[Target(target.target_url, target.options) for target in body.targets],
        callback_url=body.callback_url,
        prefix="targets[{}].",
    )
    demand = await prepare(controller, wish)
    status = await place(controller, demand)
    return ok(_batch_view(status, [_pending(item.item_id, item.input) for item in demand.batch.items]), 202)


@router.get("/sync", include_in_schema=False)
@router.get("/batch", include_in_schema=False)
async def no_task() -> Response:
    """These names stand where a task id does below, and are none."""
    raise HTTPException(405)


@router.get(
    "/{task_id}",
    response_model=Envelope[TaskView],
    responses=declared(_C.TASK_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_task(task_id: UUID, controller: Control) -> Response:
    """A task as it stands, with its result when it is completed."""
    unknown = ApiError(_C.TASK_NOT_FOUND, f"there is no task {str(task_id)!r}")
    job_id = job_id_of(task_id)
    if job_id is None:
        raise unknown
    try:
        status = await _batch(controller, UUID(job_id))
        record = await controller.services.store.item(job_id, str(task_id))
    except (UnknownName, ApiError):
        raise unknown from None
    return ok(await task_of(controller.services.storage, status.job, record))


@router.get(
    "/jobs/{job_id}",
    response_model=Envelope[BatchView],
    responses=declared(_C.JOB_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_batch(job_id: UUID, controller: Control) -> Response:
    """A batch, or the job of a single task, with all its tasks."""
    status = await _batch(controller, job_id)
    return ok(await _shown(controller, status))


@router.get(
    "/jobs/{job_id}/results",
    response_model=Envelope[BatchResults],
    responses=declared(_C.JOB_NOT_FOUND, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def get_results(job_id: UUID, controller: Control) -> Response:
    """What has been completed so far."""
    status, services = await _batch(controller, job_id), controller.services
    records = await services.store.items(status.job.job_id, 0, MOST_TASKS)
    done = [record for record in records if record.state is ItemState.SUCCESS]
    results = [await task_of(services.storage, status.job, record) for record in done]
    return ok(BatchResults(job_id=status.job.job_id, results=results))


@router.post(
    "/jobs/{job_id}/cancel",
    response_model=Envelope[BatchView],
    responses=declared(_C.JOB_NOT_FOUND, _C.CONFLICT, _C.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def cancel_batch(job_id: UUID, controller: Control) -> Response:
    """Stops what has not started; what runs may finish."""
    await _batch(controller, job_id)
    return ok(await _shown(controller, await controller.services.store.cancel(str(job_id))))


def _wish(body: ScrapeBody) -> Wish:
    labels = {"workspace_id": body.workspace_id, "provider": body.provider}
    return Wish(
        target_type=body.target_type,
        targets=[Target(body.target_url, body.options)],
        callback_url=body.callback_url,
        labels={name: value for name, value in labels.items() if value is not None},
    )


def _refuse_untried(controller: Controller, demand: Demand, record: ItemRecord) -> None:
    """Raises ApiError for what kept the task from being tried at all; the caller may come again."""
    details = {"task_id": record.item_id}
    if turned_away(record):
        url = demand.start_urls[0]
        known = None if url is None else circuit_error(controller, url, details)
        told = "the site is left alone, because its circuit is open"
        raise known or ApiError(_C.CIRCUIT_OPEN, told, details, retry_after=_AGAIN_SECONDS)
    failure = record.failure
    if failure is not None and failure.kind is FailureKind.PROXY and failure.retry_after_seconds is not None:
        raise ApiError(_C.NO_HEALTHY_PROXIES, failure.message, details, retry_after=failure.retry_after_seconds)


async def _batch(controller: Controller, job_id: UUID) -> JobStatus:
    """Raises UnknownName, and ApiError job_not_found for a job that is no scrape on demand."""
    status = await controller.services.store.status(str(job_id))
    if not status.job.on_demand:
        raise ApiError(_C.JOB_NOT_FOUND, f"there is no scrape {str(job_id)!r}; it is a job: GET /jobs/{job_id}")
    return status


async def _shown(controller: Controller, status: JobStatus) -> BatchView:
    records = await controller.services.store.items(status.job.job_id, 0, MOST_TASKS)
    tasks = [
        BatchTask(task_id=one.item_id, status=task_state(one), target_url=str(one.input.get("url", "")))
        for one in records
    ]
    return _batch_view(status, tasks)


def _pending(task_id: str, input_: dict[str, Any]) -> BatchTask:
    return BatchTask(task_id=task_id, status=TaskState.QUEUED, target_url=str(input_["url"]))


def _batch_view(status: JobStatus, tasks: list[BatchTask]) -> BatchView:
    states = [task.status for task in tasks]
    counts = {state.value: states.count(state) for state in TaskState} | {"total": len(tasks)}
    return BatchView(
        job_id=status.job.job_id, status=status.state, target_type=status.job.scraper_id, counts=counts, tasks=tasks
    )
