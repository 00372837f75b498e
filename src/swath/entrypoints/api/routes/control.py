"""Starts, pauses, resumes, cancels, retries and deletes a job, and changes its policy (J5)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Response
from pydantic import ValidationError

from swath.domain.errors import BadInput, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, error_responses
from swath.entrypoints.api.models import DeletionView, JobView, PolicyPart, PolicyView, Retry, job_view
from swath.entrypoints.api.routes.uploads import start_loaded_job
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.entrypoints.api.validation_errors import MAX_LISTED, FieldError, invalid_fields, invalid_model
from swath.fetch.proxies.selector import check_proxy_request
from swath.pipeline.finish.deletion import mark_for_deletion
from swath.pipeline.ingest.job_spec import parse_policy, retry_while_outdated
from swath.pipeline.results.versions.lifecycle import refuse_mixed_pages
from swath.pipeline.worker.sweeper import announce

__all__ = ["apply_merge_patch", "router"]

router = APIRouter(tags=["jobs"], route_class=ApiRoute)

LOOKUPS_AT_ONCE: Final = 32  # ids that are looked up together

_ERRORS: Final = error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.CONFLICT)
_SUBMIT: Final = [Depends(needs(Scope.SUBMIT))]


@router.post(
    "/jobs/{job_id}/start",
    response_model=Envelope[JobView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.SCRAPER_NOT_FOUND, ErrorCode.CONFLICT),
    dependencies=_SUBMIT,
)
async def start_job(controller: Control, job_id: JobId) -> Response:
    """Closes the load, and lets the job run. One that was started before is returned as it stands."""
    return ok(job_view(await start_loaded_job(controller, job_id)))


@router.post("/jobs/{job_id}/pause", response_model=Envelope[JobView], responses=_ERRORS, dependencies=_SUBMIT)
async def pause_job(controller: Control, job_id: JobId) -> Response:
    """Nothing more begins; what runs may finish."""
    return ok(job_view(await controller.services.store.pause(job_id)))


@router.post("/jobs/{job_id}/resume", response_model=Envelope[JobView], responses=_ERRORS, dependencies=_SUBMIT)
async def resume_job(controller: Control, job_id: JobId) -> Response:
    """A paused job goes on, with a new, closed circuit."""
    return await _announce_and_show(controller, await controller.services.store.resume(job_id))


@router.post("/jobs/{job_id}/cancel", response_model=Envelope[JobView], responses=_ERRORS, dependencies=_SUBMIT)
async def cancel_job(controller: Control, job_id: JobId) -> Response:
    """Nothing more begins; what runs may finish, and the rest becomes `cancelled`."""
    return ok(job_view(await controller.services.store.cancel(job_id)))


@router.post("/jobs/{job_id}/retry", response_model=Envelope[JobView], responses=_ERRORS, dependencies=_SUBMIT)
async def retry_job(controller: Control, job_id: JobId, body: Retry) -> Response:
    """The selected items of an ended job run again, as a new generation."""
    selection = RetrySelection(
        failed=body.failed,
        kinds=frozenset(body.kinds),
        not_run=body.not_run,
        item_ids=frozenset(body.item_ids),
        since=body.since,
    )
    if selection.empty:
        told = "say which items to run again: failed, kinds, not_run, item_ids or since"
        raise invalid_fields([FieldError("", told)])
    await _check_ids(controller, job_id, body.item_ids)
    await refuse_mixed_pages(controller.services.store, job_id)
    return await _announce_and_show(controller, await controller.services.store.retry(job_id, selection))


@router.patch("/jobs/{job_id}/policy", response_model=Envelope[PolicyView], responses=_ERRORS, dependencies=_SUBMIT)
async def change_policy(controller: Control, job_id: JobId, body: Annotated[PolicyPart, Body()]) -> Response:
    """Changes how the job is run, also while it runs: whatever starts later obeys the new policy."""
    services = controller.services

    async def change() -> JobStatus:
        former = (await services.store.status(job_id)).job.policy
        policy = _policy(apply_merge_patch(former.as_json(), body))
        try:
            check_proxy_request(services.settings.proxies, policy.proxy)
        except BadInput as error:
            raise invalid_fields([FieldError("proxy", str(error))]) from None
        return await services.store.change_policy(job_id, policy, former)

    status = await retry_while_outdated(change)
    return ok({"job_id": job_id, "execution_policy": status.job.policy.model_dump(mode="json")})


@router.delete(
    "/jobs/{job_id}",
    status_code=202,
    response_model=Envelope[DeletionView],
    responses=_ERRORS,
    dependencies=[Depends(needs(Scope.ADMIN))],
)
async def delete_job(controller: Control, job_id: JobId) -> Response:
    """Marks a job that has ended or is still `loading`, and workers remove it with all its data. One that runs is to
    be cancelled first."""
    status = await mark_for_deletion(controller.services.store, job_id)
    return ok({"job_id": job_id, "deleting": status.deleting}, 202)


async def _announce_and_show(controller: Controller, status: JobStatus) -> Response:
    """The job as it stands, once workers were told of it."""
    await announce(controller.services.queue, controller.services.clock, status)
    return ok(job_view(status))


async def _check_ids(controller: Controller, job_id: str, item_ids: Collection[str]) -> None:
    """An id that the job does not have is a mistake, and the others may be wrong ones too. Raises ApiError."""
    store, asked = controller.services.store, list(item_ids)
    await store.status(job_id)

    async def unknown(at: int) -> FieldError | None:
        try:
            await store.item(job_id, asked[at])
        except UnknownName as error:
            return FieldError(f"item_ids[{at}]", str(error))
        return None

    for first in range(0, len(asked), LOOKUPS_AT_ONCE):
        looked_up = range(first, min(first + LOOKUPS_AT_ONCE, len(asked)))
        found = [one for one in await asyncio.gather(*map(unknown, looked_up)) if one is not None]
        if found:
            raise invalid_fields(found[:MAX_LISTED])


def _policy(content: Mapping[str, Any]) -> ExecutionPolicy:
    try:
        return parse_policy(content)
    except ValidationError as error:
        raise invalid_model(
            [{**one, "loc": ("body", *one["loc"])} for one in error.errors()], ExecutionPolicy
        ) from None
    except ValueError as error:
        raise invalid_fields([FieldError("", str(error))]) from None


def apply_merge_patch(former: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """What a part makes of the whole: objects are merged, null takes a name out, all else replaces (RFC 7396)."""
    made = dict(former)
    for name, value in part.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, Mapping):
            before = made.get(name)
            made[name] = apply_merge_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            made[name] = value
    return made
