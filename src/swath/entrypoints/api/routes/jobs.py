"""`POST /jobs`, `GET /jobs`, `GET /jobs/{id}` and `GET /jobs/{id}/status` (I2)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Query, Response

from swath.domain.errors import UnknownName
from swath.domain.service_key import Scope
from swath.domain.transitions import JobState
from swath.entrypoints.api.auth import Caller
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.create_job import JobIdentity, submit_job
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, error_responses
from swath.entrypoints.api.models import CIRCUIT_JOB, TWO_ITEMS, JobList, JobView, NewJob, job_view
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields

__all__ = ["router"]

router = APIRouter(tags=["jobs"], route_class=ApiRoute)

_EXAMPLES = {
    "two items": {"summary": "Two items that are echoed", "value": TWO_ITEMS},
    "circuit": {"summary": "Ten items that all fail: the circuit opens", "value": CIRCUIT_JOB},
    "streamed": {
        "summary": "A job that is loaded by POST /jobs/{job_id}/items and started by POST /jobs/{job_id}/start",
        "value": {"job_id": "parcels", "scraper_id": "demo-county"},
    },
}


@router.post(
    "/jobs",
    status_code=201,
    response_model=Envelope[JobView],
    responses={
        200: {"model": Envelope[JobView], "description": "The same order again: the job as it stands"},
        **error_responses(ErrorCode.SCRAPER_NOT_FOUND, ErrorCode.CONFLICT),
    },
)
async def create_job(
    controller: Control,
    caller: Annotated[Caller, Depends(needs(Scope.SUBMIT))],
    body: Annotated[NewJob, Body(openapi_examples=_EXAMPLES)],
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Response:
    """Orders a job. With items it starts by itself; without, it is `loading` until they are streamed in and it is
    started. The same `job_id`, or without one the same `Idempotency-Key` of the same service key, with the same content
    is the same job."""
    status, new = await submit_job(controller, body, JobIdentity.of(caller, body.job_id, idempotency_key))
    return ok(job_view(status), 201 if new else 200)


@router.get("/jobs", response_model=Envelope[JobList], dependencies=[Depends(needs(Scope.READ))])
async def list_jobs(
    controller: Control,
    status: Annotated[list[JobState] | None, Query(description="Only jobs in one of these states.")] = None,
    cursor: Annotated[str | None, Query(max_length=200, description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    on_demand: Annotated[bool, Query(description="Scrapes on demand, too.")] = False,
) -> Response:
    """Jobs, the newest first."""
    try:
        found = await controller.services.store.jobs(cursor, limit, states=status or (), on_demand=on_demand)
    except UnknownName:
        told = "its job is gone; begin with the first page again"
        raise invalid_fields([FieldError("cursor", told, "query")]) from None
    last = found[-1].job.job_id if len(found) == limit else None
    return ok({"jobs": [job_view(one) for one in found], "next_cursor": last})


@router.get(
    "/jobs/{job_id}",
    response_model=Envelope[JobView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND),
    dependencies=[Depends(needs(Scope.READ))],
)
async def show_job(controller: Control, job_id: JobId) -> Response:
    """One job: its order, and where it stands."""
    return ok(job_view(await controller.services.status(job_id)))


@router.get(
    "/jobs/{job_id}/status",
    response_model=Envelope[JobView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND),
    dependencies=[Depends(needs(Scope.READ))],
)
async def show_status(controller: Control, job_id: JobId) -> Response:
    """Where a job stands; costs the same for a job of any size."""
    return ok(job_view(await controller.services.status(job_id)))
