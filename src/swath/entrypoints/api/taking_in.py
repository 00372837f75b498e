"""From the body of `POST /jobs/{id}/items` to rows of a job, as they arrive; and how such a job is started (J2).

Before: routes/load.py. After: pipeline/accept, in which a body is read like a file; then dispatch.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import ClientDisconnect

from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError
from swath.domain.explain import clipped
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.errors import ApiError, translated
from swath.entrypoints.api.loads import LEAST_BYTES_PER_SECOND, Loads, Pace
from swath.entrypoints.api.problems import Problem, refused_fields
from swath.kit.author_errors import one_line
from swath.kit.scraper import Scraper
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.file_source import Format
from swath.pipeline.accept.report import LoadOptions, LoadReport, RowsRefused
from swath.pipeline.accept.robots_vet import refuse_if_robots_deny_all
from swath.pipeline.accept.stream_load import fields_before, find_start, load_stream
from swath.pipeline.accept.streams import ByteStream, StreamSource
from swath.pipeline.dispatch.announce import announce

if TYPE_CHECKING:
    from fastapi import Request

__all__ = ["LoadOrder", "format_of", "load_view", "start_load", "take_in"]

NAME: Final = "body"  # what messages call it
SILENT_SECONDS: Final = 60.0  # a sender that says nothing for so long holds up others
PROGRESS_SECONDS: Final = 2.0  # that a store in trouble gets to say how far a load came
_JSONL: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_FORMATS: Final[dict[str, Format | None]] = {
    **dict.fromkeys(_JSONL, Format.JSONL),
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.CSV,
    "application/json": Format.JSON,
    # These say nothing, or are what programs say when they were not told; the content shows.
    **dict.fromkeys(("", "application/octet-stream", "application/gzip", "application/x-gzip", "text/plain")),
    "application/x-www-form-urlencoded": None,
}
_UTF8: Final = ("", "utf-8", "utf8", "us-ascii")


class LoadOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How a body is to be read, and where its rows belong."""

    form: Format | None
    options: LoadOptions
    key: str | None = None
    offset: int | None = None
    id_column: str | None = None
    mapping: dict[str, str] = {}


def format_of(request: Request, said: Format | None) -> Format | None:
    """By what the caller says; None: by the first character. Raises ApiError for what no load can be."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip(' "')
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise _header("Content-Encoding", f"{clipped(encoding, 100)} is not read; send it as it is, or as gzip")
    if charset not in _UTF8:
        raise _header("Content-Type", f"charset {clipped(charset, 100)} is not read; send UTF-8")
    if said is None and kind.strip() not in _FORMATS:
        taken = "application/x-ndjson, text/csv, application/json or application/octet-stream"
        raise _header("Content-Type", f"{clipped(kind.strip(), 100)} is not read; send {taken}")
    return said or _FORMATS[kind.strip()]


def _header(name: str, message: str) -> ApiError:
    return refused_fields([Problem(name, message, "header")])


async def take_in(controller: Controller, job_id: str, request: Request, order: LoadOrder) -> dict[str, Any]:
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
            raise await _with_progress(controller, job_id, error) from error
        return load_view(job_id, report, (await store.status(job_id)).loaded_rows)


async def _load(
    controller: Controller, job_id: str, request: Request, order: LoadOrder, scraper: Scraper
) -> LoadReport:
    store, stream = controller.services.store, ByteStream()
    start = await find_start(store, job_id, order.key, order.offset)
    before = await fields_before(store, job_id, start) if order.offset else ()
    checker = RowChecker(scraper.Input, mapping=order.mapping, id_column=order.id_column, before=before)
    fed = asyncio.create_task(_feed(request, stream, controller.loads))
    try:
        source = StreamSource(NAME, stream, order.form)
        return await load_stream(store, job_id, source, checker, start, order.options)
    finally:
        stream.end(BadInput(f"{NAME}: nobody reads it any more"))  # whoever waits in the thread goes on from here
        fed.cancel()
        await asyncio.gather(fed, return_exceptions=True)


async def _feed(request: Request, stream: ByteStream, loads: Loads) -> None:
    chunks, pace, clock = aiter(request.stream()), Pace(), asyncio.get_running_loop().time
    try:
        while True:
            begun = clock()
            async with asyncio.timeout(SILENT_SECONDS):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            if pace.is_slow(clock() - begun, len(chunk)) and loads.wanted:
                told = f"came slower than {LEAST_BYTES_PER_SECOND:,} bytes a second while other loads wait"
                stream.end(BadInput(f"{NAME}: {told}; send it again"))
                return
            await stream.feed(chunk)
    except TimeoutError:
        stream.end(BadInput(f"{NAME}: nothing came of it for {SILENT_SECONDS:g} s; send it again"))
    except ClientDisconnect:
        stream.end(BadInput(f"{NAME}: was cut off; send it again"))
    except Exception as error:
        stream.end(error)
        raise
    else:
        stream.end()


async def _with_progress(controller: Controller, job_id: str, error: SwathError) -> ApiError:
    told = translated(error)
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


async def start_load(controller: Controller, job_id: str) -> JobStatus:
    """Closes the load of a job and lets workers know; one that was started before is returned as it stands.

    Raises BadInput when it has no items or robots.txt denies them all, and ApiError conflict while rows come in.
    """
    services = controller.services
    async with controller.loads.turn(job_id, seconds=0.1):
        status = await services.store.status(job_id)
        if status.state is JobState.LOADING and not status.deleting and not status.stopping:
            if not status.counts.total:
                raise BadInput(f"job {job_id!r} has no items; give it at least one")
            await _vet(controller, status)
            status = await services.store.seal(job_id, status.loaded_batches)
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    await announce(services.queue, services.clock, status)
    return status


async def _vet(controller: Controller, status: JobStatus) -> None:
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
        raise BadInput(f"scraper {scraper.id!r} cannot say where the items begin: {one_line(error)}") from error
