"""`POST /jobs/{id}/items`: loads items of any number from a stream of NDJSON, CSV or JSON, and starts the loaded job
(J2).

The body is read like a file, in batches that are each stored whole, so that an interrupted upload can be resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.domain.transitions import JobState
from swath.domain.validation_messages import clip_text
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ApiError, ErrorCode, api_error_for, error_responses
from swath.entrypoints.api.limits import MIN_BYTES_PER_SECOND, LoadLimits, UploadSpeed
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.pipeline.ingest.job_spec import refuse_if_robots_deny_all
from swath.pipeline.ingest.load import (
    LoadOptions,
    LoadReport,
    OnBadRows,
    OnDuplicates,
    RowsRefused,
    fields_before,
    find_start,
    load_stream,
)
from swath.pipeline.ingest.sources.file_and_stream import ByteStream, InputFormat, StreamSource
from swath.pipeline.ingest.validate import RowChecker
from swath.pipeline.worker.sweeper import announce
from swath.sdk.scraper import Scraper, one_line_error

__all__ = ["UploadOptions", "format_of", "load_view", "receive_items", "router", "start_loaded_job"]

SOURCE_NAME: Final = "body"  # what messages call it
IDLE_SECONDS: Final = 60.0  # a sender that says nothing for so long holds up others
PROGRESS_SECONDS: Final = 2.0  # that a store in trouble gets to say how far a load came
_JSONL: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_FORMAT_OF_TYPE: Final[dict[str, InputFormat | None]] = {
    **dict.fromkeys(_JSONL, InputFormat.JSONL),
    "text/csv": InputFormat.CSV,
    "text/tab-separated-values": InputFormat.CSV,
    "application/json": InputFormat.JSON,
    # These say nothing, or are what programs say when they were not told; the content shows.
    **dict.fromkeys(("", "application/octet-stream", "application/gzip", "application/x-gzip", "text/plain")),
    "application/x-www-form-urlencoded": None,
}
_UTF8: Final = ("", "utf-8", "utf8", "us-ascii")


class UploadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a body is to be read, and where its rows belong."""

    form: InputFormat | None
    options: LoadOptions
    key: str | None = None
    offset: int | None = None
    id_column: str | None = None
    mapping: dict[str, str] = {}


def format_of(request: Request, said: InputFormat | None) -> InputFormat | None:
    """By what the caller says; None: by the first character. Raises ApiError for what no load can be."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip(' "')
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise _header("Content-Encoding", f"{clip_text(encoding, 100)} is not read; send it as it is, or as gzip")
    if charset not in _UTF8:
        raise _header("Content-Type", f"charset {clip_text(charset, 100)} is not read; send UTF-8")
    if said is None and kind.strip() not in _FORMAT_OF_TYPE:
        taken = "application/x-ndjson, text/csv, application/json or application/octet-stream"
        raise _header("Content-Type", f"{clip_text(kind.strip(), 100)} is not read; send {taken}")
    return said or _FORMAT_OF_TYPE[kind.strip()]


def _header(name: str, message: str) -> ApiError:
    return invalid_fields([FieldError(name, message, "header")])


async def receive_items(controller: Controller, job_id: str, request: Request, order: UploadOptions) -> dict[str, Any]:
    """Reads the body to its end, or to the first trouble. What was stored before that stays.

    Raises ApiError with `loaded_rows`, from which the caller knows where to go on.
    """
    store = controller.services.store
    job = (await store.status(job_id)).job
    scraper = await asyncio.to_thread(controller.registry.get, job.scraper_id, job.scraper_source)
    async with controller.loads.turn(job_id), controller.loads.place():
        try:
            report = await _load(controller, job_id, request, order, scraper)
        except (BadInput, Conflict, StoreUnavailable) as error:
            raise await _error_with_progress(controller, job_id, error) from error
        return load_view(job_id, report, (await store.status(job_id)).loaded_rows)


async def _load(
    controller: Controller, job_id: str, request: Request, order: UploadOptions, scraper: Scraper
) -> LoadReport:
    store, stream = controller.services.store, ByteStream()
    start = await find_start(store, job_id, order.key, order.offset)
    before = await fields_before(store, job_id, start) if order.offset else ()
    checker = RowChecker(scraper.Input, mapping=order.mapping, id_column=order.id_column, before=before)
    fed = asyncio.create_task(_feed_chunks(request, stream, controller.loads))
    try:
        source = StreamSource(SOURCE_NAME, stream, order.form)
        return await load_stream(store, job_id, source, checker, start, order.options)
    finally:
        stream.end(
            BadInput(f"{SOURCE_NAME}: nobody reads it any more")
        )  # whoever waits in the thread goes on from here
        fed.cancel()
        await asyncio.gather(fed, return_exceptions=True)


async def _feed_chunks(request: Request, stream: ByteStream, loads: LoadLimits) -> None:
    chunks, pace, clock = aiter(request.stream()), UploadSpeed(), asyncio.get_running_loop().time
    try:
        while True:
            begun = clock()
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            if pace.is_slow(clock() - begun, len(chunk)) and loads.wanted:
                told = f"came slower than {MIN_BYTES_PER_SECOND:,} bytes a second while other loads wait"
                stream.end(BadInput(f"{SOURCE_NAME}: {told}; send it again"))
                return
            await stream.feed(chunk)
    except TimeoutError:
        stream.end(BadInput(f"{SOURCE_NAME}: nothing came of it for {IDLE_SECONDS:g} s; send it again"))
    except ClientDisconnect:
        stream.end(BadInput(f"{SOURCE_NAME}: was cut off; send it again"))
    except Exception as error:
        stream.end(error)
        raise
    else:
        stream.end()


async def _error_with_progress(controller: Controller, job_id: str, error: SwathError) -> ApiError:
    told = api_error_for(error)
    details: dict[str, Any] = dict(told.details or {})
    if isinstance(error, RowsRefused):
        details |= load_view(job_id, error.report, 0)
    with contextlib.suppress(SwathError, TimeoutError):  # then the caller finds out by its status
        async with asyncio.timeout(PROGRESS_SECONDS):
            details["loaded_rows"] = (await controller.services.store.status(job_id)).loaded_rows
    # What is still to come of the body is not read: only a new connection is of use.
    return ApiError(told.code, str(told), details, told.retry_after, headers={"Connection": "close"})


def load_view(job_id: str, report: LoadReport, loaded_rows: int) -> dict[str, Any]:
    """As it is answered: of errors and duplicates the first 100, and how many there are."""
    return {
        "job_id": job_id,
        "rows": report.rows,
        "added": report.items,
        "duplicates": report.duplicates,
        "first_duplicates": [msgspec.to_builtins(one) for one in report.first_duplicates],
        "errors": [{"line": bad.line, "message": bad.message} for bad in report.first_bad_rows],
        "error_count": report.bad_rows,
        "loaded_rows": loaded_rows,
    }


async def start_loaded_job(controller: Controller, job_id: str) -> JobStatus:
    """Closes the load of a job and lets workers know; one that was started before is returned as it stands.

    Raises BadInput when it has no items or robots.txt denies them all, and ApiError conflict while rows come in.
    """
    services = controller.services
    async with controller.loads.turn(job_id, seconds=0.1):
        status = await services.store.status(job_id)
        if status.state is JobState.LOADING and not status.deleting and not status.stopping:
            if not status.counts.total:
                raise BadInput(f"job {job_id!r} has no items; give it at least one")
            await _check_robots(controller, status)
            status = await services.store.seal(job_id, status.loaded_batches)
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    await announce(services.queue, services.clock, status)
    return status


async def _check_robots(controller: Controller, status: JobStatus) -> None:
    job = status.job
    scraper = await asyncio.to_thread(controller.registry.get, job.scraper_id, job.scraper_source)
    network = controller.outside.network
    try:
        await refuse_if_robots_deny_all(
            controller.services.store, job, scraper, lambda: contextlib.nullcontext(network)
        )
    except SwathError:
        raise
    except Exception as error:
        raise BadInput(f"scraper {scraper.id!r} cannot say where the items begin: {one_line_error(error)}") from error


router = APIRouter(tags=["jobs"], route_class=ApiRoute)

_EXAMPLE: Final[dict[str, Any]] = {
    "job_id": "test-002",
    "rows": 3,
    "added": 2,
    "duplicates": 0,
    "first_duplicates": [],
    "errors": [{"line": 3, "message": "parcel_id: is missing"}],
    "error_count": 1,
    "loaded_rows": 3,
}
_FORMAT_OF_NAME: Final = {
    "csv": InputFormat.CSV,
    "ndjson": InputFormat.JSONL,
    "jsonl": InputFormat.JSONL,
    "json": InputFormat.JSON,
}
_NDJSON: Final = '{"test_param": "hello"}\n{"item_id": "item-2", "input": {"test_param": "world"}}\n'
_CSV: Final = "test_param\nhello\nworld\n"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "Items as JSON Lines (an object on each line), as a table with a header line (CSV), or as one "
        "JSON array of objects; gzip of each too. In `application/octet-stream` the query parameter `format` says "
        "which, or else the first character: `{` begins JSON Lines, `[` an array, everything else a table. An array "
        "may also be sent as `application/json`.",
        # Generators of clients take the first type that they know, and hardly any knows the other two. A schema of an
        # array beside them is more than openapi-python-client can do: what it writes fails when it is called.
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": _NDJSON},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": _NDJSON},
            "text/csv": {"schema": {"type": "string"}, "example": _CSV},
        },
    }
}


class BadLine(BaseModel):
    """A line that became no item, and why."""

    line: int
    message: str


class DuplicateLine(BaseModel):
    """A row that repeats an item id; the first of them stays. Places are ready to be read."""

    place: str
    item_id: str
    first_place: str


class LoadView(BaseModel):
    """What became of the rows: `added` are items now, also those that an earlier try had stored; of errors and
    duplicates the first 100 are told.

    `loaded_rows` are all rows that the job has, good or bad: where an `offset` goes on.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    job_id: str
    rows: int
    added: int
    duplicates: int
    first_duplicates: list[DuplicateLine]
    errors: list[BadLine]
    error_count: int
    loaded_rows: int


class LoadQuery(BaseModel):
    """What may be said in the address."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    format: Literal["csv", "ndjson", "jsonl", "json"] | None = None
    """Wins over the Content-Type; without either the first character tells it. `json` is one array of objects."""
    bad_rows: OnBadRows = OnBadRows.SKIP
    """`skip` leaves out what cannot be used; `refuse` stores nothing from the first batch on that has such a row."""
    duplicates: OnDuplicates = OnDuplicates.KEEP_FIRST
    """`refuse` stops behind the first batch that repeats an item id."""
    offset: int | None = Field(default=None, ge=0, le=2**53)
    """The rows go on behind so many, which must be the job's `loaded_rows`; a table brings its header line again."""
    id_column: str | None = Field(default=None, min_length=1, max_length=1_000)
    """Which column names the items."""
    map: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=100)
    """`field=column`: which column an input field is."""


@router.post(
    "/jobs/{job_id}/items",
    response_model=Envelope[LoadView],
    responses=error_responses(
        ErrorCode.JOB_NOT_FOUND, ErrorCode.SCRAPER_NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.STORE_UNAVAILABLE
    ),
    dependencies=[Depends(needs(Scope.SUBMIT))],
    openapi_extra=_BODY,
)
async def load_items(
    job_id: JobId,
    controller: Control,
    request: Request,
    query: Annotated[LoadQuery, Query()],
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Response:
    """Adds items to a job that is `loading`, as they arrive, in batches that are each stored whole.

    A load that was broken off goes on when the same body is sent again: from the start, or under the same
    `Idempotency-Key`, or with an `offset` only what is missing. A job may be loaded by several requests, each under a
    key of its own.
    """
    if idempotency_key is not None and query.offset is not None:
        told = "give an Idempotency-Key or an offset, not both"
        raise invalid_fields([FieldError("offset", told, "query"), FieldError("Idempotency-Key", told, "header")])
    order = UploadOptions(
        form=format_of(request, _FORMAT_OF_NAME.get(query.format or "")),
        options=LoadOptions(on_bad_rows=query.bad_rows, on_duplicates=query.duplicates),
        key=idempotency_key,
        offset=query.offset,
        id_column=query.id_column,
        mapping=_mapping(query.map),
    )
    return ok(await receive_items(controller, job_id, request, order))


def _mapping(given: list[str]) -> dict[str, str]:
    pairs = {}
    for at, text in enumerate(given):
        field, equals, column = text.partition("=")
        if not (field and equals and column):
            raise invalid_fields([FieldError(f"map[{at}]", "write it as field=column", "query")])
        pairs[field] = column
    return pairs
