"""Creates a job from the body of `POST /jobs`.

Everything is checked before anything is stored: scraper, items, proxies, callback address and robots.txt. A job of
one
batch is stored whole or not at all; a larger one is loaded like a file. An `Idempotency-Key` gives a job id that
only
its caller's service key can produce (J6).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from swath.domain.errors import BadInput, Conflict, SwathError, UnknownName
from swath.domain.job import Job, JobStatus
from swath.domain.validation_messages import describe_problem
from swath.entrypoints.api.auth import Caller
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.envelope import request_id
from swath.entrypoints.api.models import NewItem, NewJob
from swath.entrypoints.api.validation_errors import MAX_LISTED, FieldError, field_path, invalid_fields
from swath.fetch.proxies.selector import check_proxy_request
from swath.pipeline.ingest.job_spec import check_callback_url, inputs_in_memory, refuse_if_robots_deny, sites_of
from swath.pipeline.ingest.load import load
from swath.pipeline.ingest.sources.json_rows import VALUES_LIMIT, has_more_values
from swath.pipeline.ingest.sources.rows import RowsInMemory
from swath.pipeline.ingest.validate import CheckedBatch, RowChecker, checked_batches
from swath.pipeline.worker.sweeper import announce
from swath.sdk.scraper import Scraper, one_line_error

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["JobIdentity", "check_callback_address", "submit_job"]


class JobIdentity(msgspec.Struct, frozen=True):
    """`job_id` None: the order is a new one each time. Under `former_id` releases before service keys counted would
    have stored it, whoever ordered it."""

    job_id: str | None
    former_id: str | None = None

    @classmethod
    def of(cls, caller: Caller, job_id: str | None, idempotency_key: str | None) -> JobIdentity:
        """A job id that the caller gives is everybody's, so it wins."""
        if job_id is not None or idempotency_key is None:
            return cls(job_id)
        former = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
        return cls(f"order-{caller.own_name(idempotency_key)}", f"order-{former}")


async def submit_job(controller: Controller, body: NewJob, names: JobIdentity) -> tuple[JobStatus, bool]:
    """The job as it stands, and whether it is new. Raises ApiError and what the store raises."""
    services = controller.services
    scraper_id = body.scraper_id or services.settings.default_scraper
    if scraper_id is None:
        raise invalid_fields([FieldError("scraper_id", "is missing: see GET /scrapers, or set SWATH_DEFAULT_SCRAPER")])
    scraper = await asyncio.to_thread(controller.registry.get, scraper_id)
    job = _job_of(body, scraper, names.job_id, services.clock.now())
    try:
        check_proxy_request(services.settings.proxies, job.policy.proxy)
    except BadInput as error:
        raise invalid_fields([FieldError("execution_policy.proxy", str(error))]) from None
    if job.callback_url is not None:
        await check_callback_address(controller, job.callback_url)
    if body.items is None:
        new = not await _exists(controller, job.job_id)
        status = await services.store.submit(job)
    else:
        known = None
        if names.former_id is not None and await _exists(controller, names.former_id):
            former = msgspec.structs.replace(job, job_id=names.former_id)
            known = await _job_of_earlier_release(controller, former, scraper, body.items)
        new = known is None and not await _exists(controller, job.job_id)
        status = known or await _store_with_items(controller, job, scraper, body.items, new=new)
    await announce(services.queue, services.clock, status)
    return status, new and _is_from_this_request(status.job, job)


async def _job_of_earlier_release(
    controller: Controller, job: Job, scraper: Scraper, items: list[NewItem]
) -> JobStatus | None:
    """The job that an earlier release made of the same order. Of another order it is somebody else's, and no matter."""
    try:
        return await _store_with_items(controller, job, scraper, items, new=False)
    except Conflict:
        return None


def _job_of(body: NewJob, scraper: Scraper, job_id: str | None, now: float) -> Job:
    return Job(
        job_id=job_id or f"{scraper.id}-{secrets.token_hex(8)}",
        scraper_id=scraper.id,
        scraper_version=scraper.version,
        sites=sites_of(scraper),
        name=body.name,
        labels=body.labels,
        callback_url=body.callback_url,
        priority=body.priority,
        layout=body.layout,
        policy=body.execution_policy,
        created_at=now,
        request_id=request_id(),
    )


async def check_callback_address(controller: Controller, url: str) -> None:
    """Raises ApiError when nothing may be sent there."""
    try:
        await check_callback_url(controller.outside.callback_guard, url)
    except BadInput as error:
        raise invalid_fields([FieldError("callback_url", str(error))]) from None


def _is_from_this_request(stored: Job, job: Job) -> bool:
    """Of many who order the same at once the store keeps one order, with the request that brought it."""
    return (stored.request_id, stored.created_at) == (job.request_id, job.created_at)


async def _exists(controller: Controller, job_id: str) -> bool:
    try:
        await controller.services.store.status(job_id)
    except UnknownName:
        return False
    return True


async def _store_with_items(
    controller: Controller, job: Job, scraper: Scraper, items: list[NewItem], *, new: bool
) -> JobStatus:
    store, checker = controller.services.store, RowChecker(scraper.Input, wrapped=True)
    source, batches = await asyncio.to_thread(_check_items, items, scraper, checker)
    if new:
        await _check_robots(controller, job, scraper, batches)
    if len(batches) == 1:
        return await store.order(job, batches[0].batch)
    report = await load(store, job, source, checker)
    return report.status or await store.status(job.job_id)


def _check_items(
    items: list[NewItem], scraper: Scraper, checker: RowChecker
) -> tuple[RowsInMemory, list[CheckedBatch]]:
    """In a thread: there may be 50,000. Raises ApiError with the paths of what is wrong."""
    large = [at for at, item in enumerate(items) if has_more_values(item.input, VALUES_LIMIT)]
    if large:
        told = f"has more than {VALUES_LIMIT:,} values"
        raise invalid_fields([FieldError(f"items[{at}].input", told) for at in large[:MAX_LISTED]], len(large))
    rows = [_row_of(item) for item in items]
    source = RowsInMemory("items", rows)
    batches = list(checked_batches(source, checker))
    _refuse_bad_rows(batches, rows, scraper)
    return source, batches


def _row_of(item: NewItem) -> dict[str, Any]:
    return {"input": item.input} if item.item_id is None else {"item_id": item.item_id, "input": item.input}


def _refuse_bad_rows(batches: list[CheckedBatch], rows: list[dict[str, Any]], scraper: Scraper) -> None:
    """Raises ApiError with the path of every wrong field, as far as there is room."""
    bad = [row for batch in batches for row in batch.bad]
    problems: list[FieldError] = []
    looked_at = 0
    for row in bad:
        if len(problems) >= MAX_LISTED:
            break
        at = row.number - 1
        problems += _wrong_fields(at, rows[at], scraper) or [FieldError(f"items[{at}]", row.message)]
        looked_at += 1
    problems += _duplicate_ids(batches)
    if problems:
        raise invalid_fields(problems[:MAX_LISTED], len(problems) + len(bad) - looked_at)


def _wrong_fields(at: int, row: dict[str, Any], scraper: Scraper) -> list[FieldError]:
    """What the input model says, field by field; nothing if it is not the model that refuses the row."""
    try:
        scraper.Input.model_validate(row["input"])
    except ValidationError as error:
        found: list[ErrorDetails] = error.errors(include_url=False)
        told = [
            FieldError(field_path(["items", at, "input", *one["loc"]]), describe_problem(one, scraper.Input))
            for one in found[:MAX_LISTED]
        ]
        more = len(found) - len(told)
        return [*told, *([FieldError(f"items[{at}].input", f"{more:,} more fields are wrong")] if more else [])]
    except Exception:  # noqa: BLE001 a scraper's own validator; what it raised is told by the row's message
        return []
    return []


def _duplicate_ids(batches: list[CheckedBatch]) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for item in (item for batch in batches for item in batch.batch.items):
        at = first.setdefault(item.item_id, item.seq)
        if at != item.seq:
            yield FieldError(f"items[{item.seq - 1}].item_id", f"items[{at - 1}] has the same id")


async def _check_robots(controller: Controller, job: Job, scraper: Scraper, batches: list[CheckedBatch]) -> None:
    """Raises BadInput when robots.txt denies all of it, as for a job that was ordered by command."""
    inputs = [item.input for batch in batches for item in batch.batch.items]
    try:
        await refuse_if_robots_deny(
            inputs_in_memory(inputs), job, scraper, lambda: contextlib.nullcontext(controller.outside.network)
        )
    except SwathError:
        raise
    except Exception as error:
        raise BadInput(f"scraper {scraper.id!r} cannot say where the items begin: {one_line_error(error)}") from error
