"""`jobs create --server`: creates a job, uploads its items, and starts it.

The job id follows from scraper and file, so the same command resumes the same job: all rows are sent again, and the
controller compares those that it has. The file is compressed and sent as it is read, in bounded memory (J2).
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import click

from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UserError
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.cli.load_job import canonical_callback_url, default_job_id, policy_of
from swath.entrypoints.cli.progress import ProgressDisplay
from swath.entrypoints.cli.remote.client import (
    ControllerBusy,
    ControllerClient,
    RequestRefused,
    status_from_view,
    wait_until_deleted,
)
from swath.entrypoints.cli.run_args import RunArgs
from swath.pipeline.ingest.job_spec import check_job_id
from swath.pipeline.ingest.load import DuplicateRow, LoadReport, RowsRefused
from swath.pipeline.ingest.sources.decoding import STDIN, open_bytes, read_chunks
from swath.pipeline.ingest.sources.file_and_stream import InputFormat, ReadAhead, format_by_name
from swath.pipeline.ingest.sources.rows import BadRow

__all__ = ["compressed_file", "compressed_pieces", "create_remote_job", "source_name"]

BLOCK_BYTES: Final = 1 << 20
FLUSH_SECONDS: Final = 5.0  # a slow pipe is passed on before a block is full: the controller takes silence for death
GZIP_LEVEL: Final = 1  # of the levels of gzip: a network is rarely slower than this
MAX_RATIO: Final = 100  # what packs to less is sent as it is: a controller takes it for a bomb
_GZIP: Final = b"\x1f\x8b"


def source_name(items: str) -> str:
    """What messages call the source."""
    return "stdin" if items == STDIN else items


def compressed_file(items: str) -> ReadAhead[bytes]:
    """The file as gzip, piece by piece; one that is gzip already goes as it is. Raises BadInput when it is read."""
    return ReadAhead(lambda: _read(items))


def _read(items: str) -> Generator[bytes, None, None]:
    with open_bytes(items, None) as file:
        yield from compressed_pieces(read_chunks(source_name(items), file))


def compressed_pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Each block is a gzip of its own, and all of them together are one again."""
    head = next(chunks, b"")
    if head.startswith(_GZIP):
        yield head
        yield from chunks
        return
    held, size, sent_at = [head], len(head), time.monotonic()
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= BLOCK_BYTES or time.monotonic() - sent_at >= FLUSH_SECONDS:
            yield _gzip(b"".join(held))
            held, size, sent_at = [], 0, time.monotonic()
    if size:
        yield _gzip(b"".join(held))


def _gzip(block: bytes) -> bytes:
    small = zlib.compress(block, GZIP_LEVEL, wbits=31)
    return small if len(small) * MAX_RATIO >= len(block) else zlib.compress(block, 0, wbits=31)


POLL_SECONDS: Final = 1.0
BODY_PREFIX: Final = "body: "  # what the controller calls the file


async def create_remote_job(
    client: ControllerClient, order: RunArgs, scraper_id: str, display: ProgressDisplay
) -> JobStatus:
    """The job, started; or as it stands if it was started before with the same items.

    Raises what a load from here would raise; after BadInput the job is gone again, if the key may delete it.
    """
    if order.items is None:
        raise BadInput("say what to run it on with --items FILE")
    if order.limit is not None or order.sample is not None:
        raise BadInput("--limit and --sample do not go with --server: give it a file with just these rows")
    async with compressed_file(order.items) as pieces:
        head = await anext(pieces, b"")  # trouble with the file as a whole shows before there is a job
        status = await _submit(client, order, scraper_id)
        job_id = status.job.job_id
        try:
            report = await _upload(client, order, job_id, _prepend(head, pieces), display)
            for line in report.lines():
                click.echo(f"left out: {line}", err=True)
            view = await client.ask("POST", "jobs", job_id, "start")
        except RequestRefused as refused:
            # What was broken off for another reason than its content goes on by the same command.
            if status.state is JobState.LOADING and ("errors" in refused.details or not _loaded_rows(refused)):
                await _delete_unloaded_job(client, job_id)
            raise _local_error(refused, order) from refused
    with client.understanding():
        return status_from_view(view)


async def _prepend(head: bytes, rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


def _loaded_rows(refused: RequestRefused) -> int:
    return int(refused.details.get("loaded_rows") or 0)


async def _submit(client: ControllerClient, order: RunArgs, scraper_id: str) -> JobStatus:
    job_id = default_job_id(order, scraper_id, None) if order.job_id is None else order.job_id
    check_job_id(job_id, "--job-id")
    body: dict[str, Any] = {
        "job_id": job_id,
        "scraper_id": scraper_id,
        "name": order.name,
        "labels": order.labels,
        "callback_url": None if order.callback_url is None else canonical_callback_url(order.callback_url),
        "priority": order.priority,
        "layout": order.layout,
        "execution_policy": policy_of(order).as_json(),
    }
    view = await client.ask("POST", "jobs", body=body)
    with client.understanding():
        return status_from_view(view)


async def _upload(
    client: ControllerClient, order: RunArgs, job_id: str, pieces: AsyncIterable[bytes], display: ProgressDisplay
) -> LoadReport:
    """Sends the file, and shows how many rows of it are stored. Raises Refused and Conflict."""
    items = order.items or ""
    form = format_by_name(items) if order.form is None else InputFormat(order.form)
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
        raise Conflict(_conflict_message(str(conflict)), conflict.row) from conflict
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    with client.understanding():
        report = _report(view, source_name(items))
        if view["loaded_rows"] != report.rows:  # it was begun with a longer file
            raise Conflict.other_length(job_id, view["loaded_rows"], report.rows)
    return report


async def _show_progress(client: ControllerClient, job_id: str, display: ProgressDisplay) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        with suppress(StoreUnavailable, ControllerBusy):
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


def _local_error(refused: RequestRefused, order: RunArgs) -> BadInput:
    """What a load from here would say; the lines of the rows are told before."""
    message, name = str(refused), source_name(order.items or "")
    if "errors" not in refused.details:
        return BadInput(f"{name}: {_file_message(message)}" if message.startswith(BODY_PREFIX) else message)
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


def _file_message(message: str) -> str:
    """Without the name that only the controller has for it."""
    told, advice, _ = message.removeprefix(BODY_PREFIX).partition("; convert it: ")
    return f"{told}; convert it to UTF-8" if advice else told


def _conflict_message(message: str) -> str:
    """The remedy for somebody who sends rows by program is none for a command."""
    told, semicolon, _ = message.partition("; send the same rows from the start")
    return f"{told}; give another job id" if semicolon else message


async def _delete_unloaded_job(client: ControllerClient, job_id: str) -> None:
    """So that its id can be used again, as it can in a store that is here."""
    try:
        await client.ask("DELETE", "jobs", job_id)
        await wait_until_deleted(client, job_id)
    except UserError:
        click.echo(f"job {job_id} stays as it is, with the rows before: this key may not delete it", err=True)
    except SwathError as error:
        click.echo(f"job {job_id} stays as it is, with the rows before: {error}", err=True)
