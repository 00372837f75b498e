"""`GET /jobs/{id}/verify` and `GET /jobs/{id}/compare` (R4, R7).

Both read whole jobs, so they answer with JSON Lines while they work: progress about once a second, then what they
found.
An error within the first second is answered like any other; later it is the last line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from itertools import islice
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from swath.bootstrap.services import Services
from swath.domain.errors import StoreDamaged, SwathError, UnknownName
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.entrypoints.api.middleware import logged_api_error
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.pipeline.results.compare.comparison import JobComparison
from swath.pipeline.results.compare.report import CompareRequest, CompareSummary, difference_json
from swath.pipeline.results.compare.table import compare_table
from swath.pipeline.results.verify.report import VerifyReport
from swath.pipeline.results.verify.verifier import verify

__all__ = ["ProgressCount", "ReportedWork", "json_line", "router", "with_error_line"]

T = TypeVar("T")

PROGRESS_SECONDS: Final = 1.0


class _ClientGone(Exception):
    """Whoever asked has gone away."""


class ProgressCount:
    """How many items of how many are done. Given to the work, which calls `add`; that stops it when nobody reads."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self.stopped = False

    def add(self, items: int) -> None:
        """So many more are done."""
        if self.stopped:
            raise _ClientGone
        self._done += items

    def line(self) -> bytes:
        """As it is now."""
        return json_line({"progress": {"done": self._done, "total": self._total}})


class ReportedWork(Generic[T]):
    """Work that is waited for line by line. It is stopped by its progress and never cancelled, because it may be in the
    middle of a file that belongs to it."""

    def __init__(self, work: Callable[[ProgressCount], Coroutine[Any, Any, T]], total: int) -> None:
        self._work = work
        self._progress = ProgressCount(total)
        self._result: T | None = None

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """How far it is, until it is done. Raises what it raises."""
        task = asyncio.create_task(self._work(self._progress))
        try:
            while not (await asyncio.wait({task}, timeout=PROGRESS_SECONDS))[0]:
                yield self._progress.line()
            self._result = await task
        finally:
            self._progress.stopped = True
            await asyncio.gather(task, return_exceptions=True)

    @property
    def result(self) -> T:
        """Known when all lines were read."""
        if self._result is None:
            raise RuntimeError("it is not done")
        return self._result


def json_line(found: dict[str, Any]) -> bytes:
    """One line of an answer."""
    return msgspec.json.encode(found) + b"\n"


async def with_error_line(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same lines; an error after the first of them is one more."""
    begun = False
    try:
        async for one in lines:
            yield one
            begun = True
    except (SwathError, ApiError) as error:
        if not begun:
            raise
        known = logged_api_error(error)
        yield json_line({"error": {"code": known.code, "message": str(known), "details": known.details}})
    finally:
        await lines.aclose()


router = APIRouter(tags=["results"], route_class=ApiRoute, dependencies=[Depends(needs(Scope.READ))])


LINES_TYPE: Final = "application/x-ndjson"
DIFFERENCES_AT_ONCE: Final = 500
_PROGRESS: Final = '{"progress":{"done":1000,"total":5000}}\n'
_ERRORS: Final = (
    ErrorCode.JOB_NOT_FOUND,
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.RATE_LIMITED,
    ErrorCode.STORE_UNAVAILABLE,
)


def _line_responses(description: str, last: str, *errors: ErrorCode) -> dict[int | str, dict[str, Any]]:
    content = {LINES_TYPE: {"schema": {"type": "string"}, "example": _PROGRESS + last}}
    told = f"JSON Lines: `progress` about once a second, then {description}. An `error` is the last line."
    return {200: {"description": told, "content": content}, **error_responses(*_ERRORS, *errors)}


@router.get(
    "/jobs/{job_id}/verify",
    response_class=Response,
    responses=_line_responses(
        "one `report`",
        '{"report":{"ok":true,"job_id":"test-001","state":"completed","artifacts":6,"problems":[],"found":{}}}\n',
    ),
)
async def verify_job(job_id: JobId, controller: Control) -> Response:
    """Whether store, counters, manifests and every stored file of a job agree, by checksum. Reads all of its files."""
    services = controller.services
    total = (await services.store.status(job_id)).counts.total
    return controller.exports.lines(with_error_line(_verify_lines(services, job_id, total)), LINES_TYPE)


async def _verify_lines(services: Services, job_id: str, total: int) -> AsyncGenerator[bytes, None]:
    async def check(progress: ProgressCount) -> VerifyReport:
        try:
            return await verify(services.store, services.storage, job_id, progress.add)
        except StoreDamaged as damage:
            return VerifyReport.of_damage(job_id, str(damage))

    work = ReportedWork(check, total)
    lines = work.lines()
    try:
        async for one in lines:
            yield one
    finally:
        await lines.aclose()
    yield json_line({"report": work.result.as_json()})


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
    responses=_line_responses(
        "one `summary`, then a `difference` on each line",
        '{"summary":{"same":4999,"counts":{"changed":1}}}\n{"difference":{"change":"changed","key":{"item_id":"a"}}}\n',
        ErrorCode.CONFLICT,
    ),
)
async def compare(job_id: JobId, controller: Control, query: Annotated[CompareQuery, Query()]) -> Response:
    """The records of this job with those of an earlier one: new, changed, vanished. Reads all records of both."""
    store = controller.services.store
    jobs = await store.status(query.against), await store.status(job_id)
    question = CompareRequest(key=tuple(query.key), fields=tuple(query.fields), ignore=tuple(query.ignore))
    return controller.exports.lines(with_error_line(_compare_lines(controller.services, jobs, question)), LINES_TYPE)


async def _compare_lines(
    services: Services, jobs: tuple[JobStatus, JobStatus], question: CompareRequest
) -> AsyncGenerator[bytes, None]:
    with compare_table() as table:
        comparison = JobComparison(services.store, services.storage, table, question)

        async def load(progress: ProgressCount) -> CompareSummary:
            try:
                await comparison.load(jobs, progress.add)
            except UnknownName as error:  # both jobs were there
                raise ApiError(ErrorCode.VALIDATION_ERROR, str(error), {"unknown": True}) from None
            return await asyncio.to_thread(comparison.summary)

        work = ReportedWork(load, sum(job.counts.total for job in jobs))
        lines = work.lines()
        try:
            async for one in lines:
                yield one
        finally:
            await lines.aclose()
        yield json_line({"summary": work.result})
        pieces = _difference_lines(comparison, work.result)
        while piece := await _next_piece(pieces):
            yield piece


def _difference_lines(comparison: JobComparison, summary: CompareSummary) -> Iterator[bytes]:
    found = comparison.differences()
    while some := list(islice(found, DIFFERENCES_AT_ONCE)):
        yield b"".join(json_line({"difference": difference_json(one, summary.key)}) for one in some)


async def _next_piece(pieces: Iterator[bytes]) -> bytes:
    """The next piece, none at the end. The file that it is read from is not taken away under the thread that reads."""
    reading = asyncio.ensure_future(asyncio.to_thread(next, pieces, b""))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait({reading})
        raise
