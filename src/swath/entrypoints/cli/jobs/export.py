"""`swath jobs export`: a job's records as a file that other tools read (R5). What it does is in pipeline/results."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing
from pathlib import Path

import click
import msgspec

from swath.bootstrap.services import Services, open_services
from swath.domain.errors import BadInput
from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.export_progress import Steps, steps
from swath.entrypoints.cli.output import counted, print_json
from swath.pipeline.results.export import Export, Exported, Format, Wish
from swath.settings import Settings

__all__ = ["Order", "export_job"]

STDOUT = "-"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    output: str
    format: str | None = None
    raw: bool = False
    state: str = "success"
    partial: bool = False
    force: bool = False
    as_json: bool = False

    @property
    def wish(self) -> Wish:
        """Raises BadInput when nothing says which format it is to be, or it cannot go to stdout."""
        found = Format(self.format) if self.format is not None else Format.of_name(self.output)
        if found is None:
            known = ", ".join(Format)
            raise BadInput(f"what is {self.output!r} to be? Give --format ({known}), or a name such as records.csv")
        if self.output == STDOUT and not found.streams:
            raise BadInput(f"{found.value} cannot be written to stdout; name a file with --output")
        if self.output == STDOUT and self.as_json:
            raise BadInput(
                "--json tells of the export on stdout, where the records would be; name a file with --output"
            )
        return Wish(found, raw=self.raw, everything=self.state == "all", partial=self.partial)


async def export_job(settings: Settings, job_id: str, order: Order) -> ExitCode:
    """Writes the file, and tells what is in it."""
    wish = order.wish
    if settings.server is not None:
        return await _export_there(settings, job_id, order)
    async with open_services(settings, only_looks=True) as services:
        status = await services.store.status(job_id)
        started = time.monotonic()
        with steps(status.counts.total * wish.format.passes) as shown:
            done = await _export(services, status, order, shown)
    _tell(status, order, done, time.monotonic() - started)
    return ExitCode.COMPLETE


async def _export_there(settings: Settings, job_id: str, order: Order) -> ExitCode:
    from swath.entrypoints.cli.remote.address import Address
    from swath.entrypoints.cli.remote.answers import Client
    from swath.entrypoints.cli.remote.export import export_there, status_there

    assert settings.server is not None  # noqa: S101 the caller has looked
    client, started = Client(Address.of(settings.server), settings.service_key), time.monotonic()
    status = await status_there(client, job_id)
    target = None if order.output == STDOUT else Path(order.output)
    size = await export_there(client, job_id, order.wish, target, replace=order.force)
    _tell(status, order, Exported(None, size), time.monotonic() - started)
    return ExitCode.COMPLETE


async def _export(services: Services, status: JobStatus, order: Order, shown: Steps) -> Exported:
    export = Export(services.store, services.storage, status, order.wish, shown.add)
    if order.output != STDOUT:
        return await export.to_file(Path(order.output), replace=order.force)
    size = 0
    async with aclosing(export.pieces()) as pieces:
        async for piece in pieces:
            size += len(piece)
            await asyncio.to_thread(click.echo, piece, nl=False)
    return Exported(export.records, size)


def _tell(status: JobStatus, order: Order, done: Exported, seconds: float) -> None:
    whole = status.state.terminal
    if order.as_json:
        told = msgspec.to_builtins(done) | {"output": order.output, "format": order.wish.format.value}
        print_json(told | {"complete": whole, "seconds": round(seconds, 3)})
        return
    what = "item" if order.wish.format is Format.FILES else "record"
    where = f"{done.bytes:,} bytes in {'stdout' if order.output == STDOUT else order.output}"
    if done.records is not None:
        where = f"{counted(done.records, what)}, {where} ({done.records / max(seconds, 0.001):,.0f}/s)"
    click.echo(where, err=True)
    if not whole:
        left = counted(status.counts.remaining, "item")
        click.echo(
            f"job {status.job.job_id} is {status.state.value}: {left} had not ended and may be missing", err=True
        )
    sys.stderr.flush()
