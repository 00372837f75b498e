"""`GET /jobs/{id}/verify` and `GET /jobs/{id}/compare`: what is known of a whole job, checked or compared with another
(R4, R7). Both read everything, so they answer line by line while they work. After: progress.py, exports.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from swath.bootstrap.services import Services
from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.errors import ApiError, ErrorCode, declared
from swath.entrypoints.api.gate import needs
from swath.entrypoints.api.paths import JobId
from swath.entrypoints.api.progress import Progress, Work, failing_in_line, line
from swath.entrypoints.api.routing import ApiRoute
from swath.pipeline.finish.report import VerifyReport
from swath.pipeline.finish.verify import verify
from swath.pipeline.results.compare import Comparison
from swath.pipeline.results.compare_report import Question, Summary
from swath.pipeline.results.compare_table import compare_table
from swath.pipeline.results.compare_text import difference_json

__all__ = ["router"]

router = APIRouter(tags=["results"], route_class=ApiRoute, dependencies=[Depends(needs(Scope.READ))])

T = TypeVar("T")

LINES_TYPE: Final = "application/x-ndjson"
DIFFERENCES_AT_ONCE: Final = 500
_PROGRESS: Final = '{"progress":{"done":1000,"total":5000}}\n'
_ERRORS: Final = (
    ErrorCode.JOB_NOT_FOUND,
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.RATE_LIMITED,
    ErrorCode.STORE_UNAVAILABLE,
)


def _lines(description: str, last: str, *errors: ErrorCode) -> dict[int | str, dict[str, Any]]:
    content = {LINES_TYPE: {"schema": {"type": "string"}, "example": _PROGRESS + last}}
    told = f"JSON Lines: `progress` about once a second, then {description}. An `error` is the last line."
    return {200: {"description": told, "content": content}, **declared(*_ERRORS, *errors)}


@router.get(
    "/jobs/{job_id}/verify",
    response_class=Response,
    responses=_lines(
        "one `report`",
        '{"report":{"ok":true,"job_id":"test-001","state":"completed","artifacts":6,"problems":[],"found":{}}}\n',
    ),
)
async def verify_job(job_id: JobId, controller: Control) -> Response:
    """Whether store, counters, manifests and every stored file of a job agree, by checksum. Reads all of its files."""
    services = controller.services
    total = (await services.store.status(job_id)).counts.total
    return controller.exports.lines(failing_in_line(_verified(services, job_id, total)), LINES_TYPE)


async def _verified(services: Services, job_id: str, total: int) -> AsyncGenerator[bytes, None]:
    async def check(progress: Progress) -> VerifyReport:
        try:
            return await verify(services.store, services.storage, job_id, progress.add)
        except StoreDamaged as damage:
            return VerifyReport.of_damage(job_id, str(damage))

    work = Work(check, total)
    lines = work.lines()
    try:
        async for one in lines:
            yield one
    finally:
        await lines.aclose()
    yield line({"report": work.result.as_json()})


_Names = list[Annotated[str, Field(min_length=1, max_length=1_000)]]


class CompareQuery(BaseModel):
    """What is to be compared."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    against: str = Field(min_length=1, max_length=1_000)
    """The earlier job."""
    key: _Names = Field(default_factory=list, max_length=100)
    """By which fields records are the same, `input.FIELD` too; without any, by the item."""
    fields: _Names = Field(default_factory=list, max_length=1_000)
    """Only differences in these fields."""
    ignore: _Names = Field(default_factory=list, max_length=1_000)
    """No differences in these fields."""


@router.get(
    "/jobs/{job_id}/compare",
    response_class=Response,
    responses=_lines(
        "one `summary`, then a `difference` on each line",
        '{"summary":{"same":4999,"counts":{"changed":1}}}\n{"difference":{"change":"changed","key":{"item_id":"a"}}}\n',
        ErrorCode.CONFLICT,
    ),
)
async def compare(job_id: JobId, controller: Control, query: Annotated[CompareQuery, Query()]) -> Response:
    """The records of this job with those of an earlier one: new, changed, vanished. Reads all records of both."""
    store = controller.services.store
    jobs = await store.status(query.against), await store.status(job_id)
    question = Question(key=tuple(query.key), fields=tuple(query.fields), ignore=tuple(query.ignore))
    return controller.exports.lines(failing_in_line(_compared(controller.services, jobs, question)), LINES_TYPE)


async def _compared(
    services: Services, jobs: tuple[JobStatus, JobStatus], question: Question
) -> AsyncGenerator[bytes, None]:
    with compare_table() as table:
        comparison = Comparison(services.store, services.storage, table, question)

        async def load(progress: Progress) -> Summary:
            try:
                await comparison.load(jobs, progress.add)
            except UnknownName as error:  # both jobs were there
                raise ApiError(ErrorCode.VALIDATION_ERROR, str(error), {"unknown": True}) from None
            return await asyncio.to_thread(comparison.summary)

        work = Work(load, sum(job.counts.total for job in jobs))
        lines = work.lines()
        try:
            async for one in lines:
                yield one
        finally:
            await lines.aclose()
        yield line({"summary": work.result})
        pieces = _differences(comparison, work.result)
        while piece := await _to_its_end(pieces):
            yield piece


def _differences(comparison: Comparison, summary: Summary) -> Iterator[bytes]:
    found = comparison.differences()
    while some := list(islice(found, DIFFERENCES_AT_ONCE)):
        yield b"".join(line({"difference": difference_json(one, summary.key)}) for one in some)


async def _to_its_end(pieces: Iterator[bytes]) -> bytes:
    """The next piece, none at the end. The file that it is read from is not taken away under the thread that reads."""
    reading = asyncio.ensure_future(asyncio.to_thread(next, pieces, b""))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait({reading})
        raise
