"""Versions of a job's results (R6): re-extracts stored pages, lists versions, and selects the current one."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Depends, Response

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, error_responses
from swath.entrypoints.api.models import CurrentVersion, JobView, Reextract, VersionsView, job_view
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.pipeline.results.versions.diff import read_diff
from swath.pipeline.results.versions.lifecycle import (
    Version,
    VersionRequest,
    begin_version,
    load_version,
    use_version,
    versions_of,
)
from swath.pipeline.worker.sweeper import announce
from swath.ports.result_storage import ResultStorage
from swath.sdk.scraper import Scraper

__all__ = ["router"]

router = APIRouter(tags=["versions"], route_class=ApiRoute)

_SUBMIT: Final = [Depends(needs(Scope.SUBMIT))]


def _ignore_progress(items: int) -> None:
    """Nobody watches."""


@router.post(
    "/jobs/{job_id}/reextract",
    status_code=202,
    response_model=Envelope[JobView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.SCRAPER_NOT_FOUND, ErrorCode.CONFLICT),
    dependencies=_SUBMIT,
)
async def reextract(controller: Control, job_id: JobId, body: Reextract) -> Response:
    """Orders a new version of an ended job's results, read out of its stored pages without the network.

    Answers with the job that makes it. Asked again before that has ended, it is the same job.
    """
    services = controller.services
    scraper = await asyncio.to_thread(controller.registry.get, body.scraper_id)
    _check_version(scraper, body.scraper_version)
    wish = VersionRequest(scraper=scraper, sample=body.sample, concurrency=body.max_concurrent_workers)
    status = await begin_version(services.store, services.clock.now(), job_id, wish)
    status = await load_version(services.store, status, _ignore_progress)
    await announce(services.queue, services.clock, status)
    return ok(job_view(status), 202)


def _check_version(scraper: Scraper, asked: str | None) -> None:
    if asked is not None and asked != scraper.version:
        told = f"scraper {scraper.id!r} has version {scraper.version or '(none)'} here, not {asked}"
        raise invalid_fields([FieldError("scraper_version", told)])


@router.get(
    "/jobs/{job_id}/versions",
    response_model=Envelope[VersionsView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND),
    dependencies=[Depends(needs(Scope.READ))],
)
async def list_versions(controller: Control, job_id: JobId) -> Response:
    """All versions of a job's results, the first first, each with what it says otherwise than the one before it."""
    services = controller.services
    status = await services.store.status(job_id)
    found = await versions_of(services.store, status)
    shown = [await _version_view(services.storage, version) for version in found]
    return ok({"job_id": job_id, "current_version": status.current_version, "versions": shown})


async def _version_view(storage: ResultStorage, version: Version) -> dict[str, Any]:
    status = version.status
    diff = None
    if version.number > 1 and status.state.terminal:
        diff = await read_diff(storage, status.job.job_id)
    return version.as_json(msgspec.to_builtins(diff))


@router.post(
    "/jobs/{job_id}/versions/current",
    response_model=Envelope[JobView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.CONFLICT),
    dependencies=_SUBMIT,
)
async def use(controller: Control, job_id: JobId, body: CurrentVersion) -> Response:
    """Gives readers that version of the results from now on."""
    return ok(job_view(await use_version(controller.services.store, job_id, body.version)))
