"""`jobs create --server`: orders a job, streams its items, and starts it. After: the workers of the controller.

The job's id follows from scraper and file, so the same command goes on with the same job: all rows are sent again, and
the controller compares those that it has and stores the others. Other rows are a conflict, named by line, as they are
in a store that is here; to send only what is missing would hide that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

import click

from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UserError
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.cli.intake import checked_url, derived_job_id, policy_of
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.progress import Display
from swath.entrypoints.cli.remote.answers import Busy, Client, Refused
from swath.entrypoints.cli.remote.patience import until_gone
from swath.entrypoints.cli.remote.shapes import status_of
from swath.entrypoints.cli.remote.upload import name_of, packed
from swath.pipeline.accept.file_source import Format, format_by_name
from swath.pipeline.accept.new_job import check_job_id
from swath.pipeline.accept.report import DuplicateRow, LoadReport, RowsRefused
from swath.pipeline.accept.rows import BadRow

__all__ = ["create"]

LOOK_SECONDS: Final = 1.0
BODY: Final = "body: "  # what the controller calls the file


async def create(client: Client, order: Order, scraper_id: str, display: Display) -> JobStatus:
    """The job, started; or as it stands if it was started before with the same items.

    Raises what a load from here would raise; after BadInput the job is gone again, if the key may delete it.
    """
    if order.items is None:
        raise BadInput("say what to run it on with --items FILE")
    if order.limit is not None or order.sample is not None:
        raise BadInput("--limit and --sample do not go with --server: give it a file with just these rows")
    async with packed(order.items) as pieces:
        head = await anext(pieces, b"")  # trouble with the file as a whole shows before there is a job
        status = await _ordered(client, order, scraper_id)
        job_id = status.job.job_id
        try:
            report = await _load(client, order, job_id, _joined(head, pieces), display)
            for line in report.lines():
                click.echo(f"left out: {line}", err=True)
            view = await client.ask("POST", "jobs", job_id, "start")
        except Refused as refused:
            # What was broken off for another reason than its content goes on by the same command.
            if status.state is JobState.LOADING and ("errors" in refused.details or not _loaded(refused)):
                await _abandon(client, job_id)
            raise _refusal(refused, order) from refused
    with client.understanding():
        return status_of(view)


async def _joined(head: bytes, rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


def _loaded(refused: Refused) -> int:
    return int(refused.details.get("loaded_rows") or 0)


async def _ordered(client: Client, order: Order, scraper_id: str) -> JobStatus:
    job_id = derived_job_id(order, scraper_id, None) if order.job_id is None else order.job_id
    check_job_id(job_id, "--job-id")
    body: dict[str, Any] = {
        "job_id": job_id,
        "scraper_id": scraper_id,
        "name": order.name,
        "labels": order.labels,
        "callback_url": None if order.callback_url is None else checked_url(order.callback_url),
        "priority": order.priority,
        "layout": order.layout,
        "execution_policy": policy_of(order).as_json(),
    }
    view = await client.ask("POST", "jobs", body=body)
    with client.understanding():
        return status_of(view)


async def _load(
    client: Client, order: Order, job_id: str, pieces: AsyncIterable[bytes], display: Display
) -> LoadReport:
    """Sends the file, and shows how many rows of it are stored. Raises Refused and Conflict."""
    items = order.items or ""
    form = format_by_name(items) if order.form is None else Format(order.form)
    query = {
        "format": None if form is None else form.value,
        "bad_rows": order.bad_rows,
        "duplicates": order.duplicates.replace("-", "_"),
        "id_column": order.id_column,
        "map": [f"{field}={column}" for field, column in order.mapping.items()] or None,
    }
    headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    looking = asyncio.create_task(_show_progress(client, job_id, display))
    try:
        view = await client.send("jobs", job_id, "items", chunks=pieces, query=query, headers=headers)
    except Conflict as conflict:
        raise Conflict(_own_words(str(conflict)), conflict.row) from conflict
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    with client.understanding():
        report = _report(view, name_of(items))
        if view["loaded_rows"] != report.rows:  # it was begun with a longer file
            raise Conflict.other_length(job_id, view["loaded_rows"], report.rows)
    return report


async def _show_progress(client: Client, job_id: str, display: Display) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(StoreUnavailable, Busy):
            display.loading((await client.ask("GET", "jobs", job_id, "status"))["loaded_rows"])


def _report(view: Mapping[str, Any], source: str) -> LoadReport:
    bad = [BadRow(one["line"], one["line"], one["message"]) for one in view["errors"]]
    return LoadReport(
        source=source,
        rows=view["rows"],
        items=view["added"],
        bad_rows=view["error_count"],
        duplicates=view["duplicates"],
        first_bad_rows=tuple(bad),
        first_duplicates=tuple(DuplicateRow(**one) for one in view["first_duplicates"]),
    )


def _refusal(refused: Refused, order: Order) -> BadInput:
    """What a load from here would say; the lines of the rows are told before."""
    message, name = str(refused), name_of(order.items or "")
    if "errors" not in refused.details:
        return BadInput(f"{name}: {_for_a_file(message)}" if message.startswith(BODY) else message)
    report = _report(refused.details, name)
    for line in report.lines():
        click.echo(line, err=True)
    if report.bad_rows and order.bad_rows == "refuse":
        many, first, what = report.bad_rows, str(report.first_bad_rows[0]), "cannot be used"
        remedy = "correct the file, or leave them out with --bad-rows skip"
    else:
        many, first, what = report.duplicates, str(report.first_duplicates[0]), "repeat an item id"
        remedy = "remove them, or keep the first of each with --duplicates keep-first"
    return RowsRefused(f"{name}: {many:,} of the first {report.rows:,} rows {what}, first {first}; {remedy}", report)


def _for_a_file(message: str) -> str:
    """Without the name that only the controller has for it."""
    told, advice, _ = message.removeprefix(BODY).partition("; convert it: ")
    return f"{told}; convert it to UTF-8" if advice else told


def _own_words(message: str) -> str:
    """The remedy for somebody who sends rows by program is none for a command."""
    told, semicolon, _ = message.partition("; send the same rows from the start")
    return f"{told}; give another job id" if semicolon else message


async def _abandon(client: Client, job_id: str) -> None:
    """So that its id can be used again, as it can in a store that is here."""
    try:
        await client.ask("DELETE", "jobs", job_id)
        await until_gone(client, job_id)
    except UserError:
        click.echo(f"job {job_id} stays as it is, with the rows before: this key may not delete it", err=True)
    except SwathError as error:
        click.echo(f"job {job_id} stays as it is, with the rows before: {error}", err=True)
