"""Creates, inspects and removes the table, queues and results bucket on AWS (`swath aws init|status|destroy`)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import click
import msgspec

from swath.backends.aws.client.client import PATIENCE_SECONDS, AwsClients
from swath.backends.aws.client.errors import TableMissing
from swath.backends.aws.client.metering import GB, PRICES
from swath.backends.aws.provisioning import (
    QueueNames,
    QueueState,
    SetupStep,
    TableState,
    drop_queue,
    drop_table,
    find_table,
    keep_backups,
    make_queues,
    make_table,
    read_queue_states,
    read_table_state,
)
from swath.backends.aws.s3.bucket import Bucket, drop_results, make_bucket, try_bucket
from swath.bootstrap.services import open_services
from swath.domain.errors import BadInput, UserError
from swath.domain.fair_scheduling import JobBacklog, count_workers
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import GAP, command, duration_text, plural, print_bold, print_json, print_table
from swath.settings import DynamoLocation, S3Location, Settings

__all__ = ["AwsResources", "create_resources", "destroy_resources", "open_resources", "show_status"]


class AwsResources(msgspec.Struct, frozen=True, kw_only=True):
    """Names and clients. Without a table, the store is not on AWS; without a bucket, the results are not."""

    table: str | None
    queues: QueueNames | None
    bucket: Bucket | None
    bucket_region: str | None
    of_table: AwsClients
    of_queues: AwsClients
    of_bucket: AwsClients

    @property
    def name(self) -> str:
        """What a person types to be sure that this is meant."""
        return self.table or (self.bucket.url if self.bucket else "")


@asynccontextmanager
async def open_resources(settings: Settings, patience_seconds: float = PATIENCE_SECONDS) -> AsyncIterator[AwsResources]:
    """Connects at the first request, not now."""
    places = settings.places
    store, results, queue = places.store, places.results, places.queue
    made: dict[str | None, AwsClients] = {}
    async with AsyncExitStack() as stack:

        def clients(region: str | None) -> AwsClients:
            if region not in made:
                made[region] = AwsClients(region, patience_seconds=patience_seconds)
                stack.push_async_callback(made[region].close)
            return made[region]

        bucket_region = results.region if isinstance(results, S3Location) else None
        yield AwsResources(
            table=store.table if isinstance(store, DynamoLocation) else None,
            queues=None if queue is None else QueueNames.of(queue.name),
            bucket=Bucket(results.bucket, results.prefix) if isinstance(results, S3Location) else None,
            bucket_region=bucket_region,
            of_table=clients(store.region if isinstance(store, DynamoLocation) else None),
            of_queues=clients(None if queue is None else queue.region),
            of_bucket=clients(bucket_region),
        )


_HEADER: Final = SetupStep("what", "name", "state")


async def create_resources(settings: Settings, *, recovery: bool, create_bucket: bool, as_json: bool) -> ExitCode:
    """Makes what is missing, and says of each thing what was done, also when a later one could not be."""
    async with open_resources(settings) as there:
        steps = _creation_steps(settings, there, recovery=recovery, create_bucket=create_bucket)
        await _print_steps(steps, there, as_json=as_json)
    if (doubt := settings.places.doubt) is not None:
        click.echo(f"note: {doubt}", err=True)
    return ExitCode.COMPLETE


async def _creation_steps(
    settings: Settings, there: AwsResources, *, recovery: bool, create_bucket: bool
) -> AsyncIterator[SetupStep]:
    if there.table is not None:
        yield await make_table(there.of_table, there.table)
    if there.queues is not None:
        for step in await make_queues(there.of_queues, there.queues, settings.lease_seconds):
            yield step
    if there.bucket is not None:
        if create_bucket:
            yield await make_bucket(there.of_bucket, there.bucket, there.bucket_region)
        yield await try_bucket(there.of_bucket, there.bucket)
    if there.table is not None and recovery:
        yield await keep_backups(there.of_table, there.table)


async def destroy_resources(settings: Settings, said: str | None, *, results: bool, as_json: bool) -> ExitCode:
    """Asks for the name first, unless it was said. Nothing is removed before it is known to be right."""
    async with open_resources(settings) as there:
        if not _confirmed(there, said, results=results):
            click.echo("nothing was removed", err=True)
            return ExitCode.COMPLETE
        if there.table is not None:
            with suppress(TableMissing):
                await find_table(there.of_table, there.table)  # somebody else's: then the queues are hardly ours
        await _print_steps(_removal_steps(there, results=results), there, as_json=as_json)
    return ExitCode.COMPLETE


async def _removal_steps(there: AwsResources, *, results: bool) -> AsyncIterator[SetupStep]:
    if results and there.bucket is not None:
        yield await drop_results(there.of_bucket, there.bucket)
    for name in () if there.queues is None else there.queues.all:
        yield await drop_queue(there.of_queues, name)
    if there.table is not None:
        yield await drop_table(there.of_table, there.table)


def _confirmed(there: AwsResources, said: str | None, *, results: bool) -> bool:
    if results and there.bucket is None:
        raise BadInput("--results removes what is in S3, and SWATH_RESULTS names no s3:// place")
    if results and there.bucket is not None and not there.bucket.prefix:
        raise BadInput(f"{there.bucket.url} has no prefix, so all of the bucket would go; empty it by other means")
    if there.table is None and not results:
        raise BadInput("only results are on AWS, and they are removed with --results alone")
    if said is not None:
        if said != there.name:
            raise BadInput(f"--yes names {said!r}, but the settings name {there.name!r}; nothing was removed")
        return True
    if not sys.stdin.isatty():
        again = command("aws", "destroy", "--yes", there.name)
        raise BadInput(f"this cannot be undone, and nobody is here to ask; say `{again}`")
    parts = [
        *([] if there.table is None else [f"the table {there.table} with all jobs, and its queues"]),
        *([f"everything under {there.bucket.url}"] if results and there.bucket else []),
    ]
    question = f"Remove {' and '.join(parts)}? Type {there.name} to do so"
    typed: str = click.prompt(question, default="", show_default=False, err=True)
    return typed.strip() == there.name


async def _print_steps(steps: AsyncIterator[SetupStep], there: AwsResources, *, as_json: bool) -> None:
    """A line for each step as soon as it is done: whoever reads it knows how far it came when the next one fails."""
    names = [_HEADER.name, there.table or "", *(there.queues.all if there.queues else ())]
    width = max(map(len, [*names, there.bucket.url if there.bucket else ""]))
    told: list[SetupStep] = []
    async for step in steps:
        if not as_json:
            for line in (step,) if told else (_HEADER, step):
                text = GAP.join((line.kind.ljust(len("results")), line.name.ljust(width), line.what))
                (print_bold if line is _HEADER else click.echo)(text)
        told.append(step)
    if as_json:
        print_json({"steps": msgspec.to_builtins(told)})


_MIB: Final = 1 << 20


class _ResourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found. `trouble` has a line for each thing that somebody should see to."""

    table: TableState | None
    queues: list[QueueState]
    results: str
    results_state: str
    backlog: list[JobBacklog]
    trouble: list[str]

    @property
    def per_worker(self) -> float | None:
        """Items that wait, for each worker that is at one of their jobs."""
        workers = count_workers(self.backlog)
        return sum(job.pending for job in self.backlog) / workers if workers else None

    @property
    def table_dollars_a_month(self) -> float:
        """For keeping the rows; requests come on top."""
        return 0.0 if self.table is None else self.table.bytes / GB * PRICES.table_gb_month


async def show_status(settings: Settings, *, as_json: bool) -> ExitCode:
    """Answers with 1 when something is missing, cannot be used, or lies among the dead letters."""
    async with open_resources(settings) as there:
        standing = await _read_status(settings, there)
    if as_json:
        print_json(_as_json(standing))
    else:
        _print_status(standing)
    return ExitCode.INTERNAL if standing.trouble else ExitCode.COMPLETE


async def _read_status(settings: Settings, there: AwsResources) -> _ResourceStatus:
    table = None if there.table is None else await read_table_state(there.of_table, there.table)
    queues = [] if there.queues is None else await read_queue_states(there.of_queues, there.queues)
    results, trouble = "can be written", list(_problems(table, queues))
    if there.bucket is not None:
        try:
            await try_bucket(there.of_bucket, there.bucket)
        except UserError as error:
            results = "cannot be used"
            trouble.append(str(error))
    backlog: list[JobBacklog] = []
    if table is not None and table.usable:
        async with open_services(settings, only_looks=True) as services:
            backlog = await services.store.backlog()
    return _ResourceStatus(
        table=table,
        queues=queues,
        results=str(settings.places.results),
        results_state=results if there.bucket is not None else "a folder of this machine",
        backlog=backlog,
        trouble=trouble,
    )


def _problems(table: TableState | None, queues: Sequence[QueueState]) -> Iterator[str]:
    if table is not None and not table.usable:
        hint = "; `swath aws init` makes it" if table.state == "missing" else ""
        yield table.why or f"the table {table.name!r} is {table.state.lower()}{hint}"
    for queue in queues:
        if queue.state == "missing":
            yield f"the queue {queue.name!r} is missing; `swath aws init` makes it"
    if queues and (dead := queues[-1].waiting + queues[-1].taken):
        yield (
            f"{plural(dead, 'hint')} that no worker could settle: {queues[-1].name!r} has them; "
            "nothing is lost, but look at the workers' logs"
        )


def _print_status(standing: _ResourceStatus) -> None:
    rows = []
    if standing.table is not None:
        size = f"{standing.table.rows:,} rows, {standing.table.bytes / _MIB:,.1f} MiB"
        month = f"${standing.table_dollars_a_month:,.2f} a month, and requests"
        rows.append(("table", standing.table.name, standing.table.state.lower(), size, month))
    for queue in standing.queues:
        depth = f"{queue.waiting:,} waiting, {queue.taken:,} taken, {queue.delayed:,} delayed"
        rows.append(("queue", queue.name, queue.state, depth, "requests only"))
    rows.append(("results", standing.results, standing.results_state, "", ""))
    print_table(("what", "name", "state", "holds", "costs"), rows)
    for job in standing.backlog:
        oldest = "" if job.oldest_seconds is None else f", the oldest for {duration_text(job.oldest_seconds)}"
        click.echo(
            f"job {job.job_id}: {plural(job.pending, 'item')} waiting{oldest}; "
            f"{plural(job.workers, 'worker')} of at most {job.limit}"
        )
    click.echo(f"backlog: {_backlog_text(standing)}")
    for line in standing.trouble:
        click.echo(f"trouble: {line}", err=True)


def _backlog_text(standing: _ResourceStatus) -> str:
    items = sum(job.pending for job in standing.backlog)
    if not items:
        return "nothing waits"
    each = "no worker at them" if standing.per_worker is None else f"{standing.per_worker:,.1f} for each worker"
    return f"{plural(items, 'item')}, {each}"


def _backlog_json(job: JobBacklog) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(job).items() if name != "worker_ids"}


def _as_json(standing: _ResourceStatus) -> dict[str, Any]:
    waits = [{**_backlog_json(job), "workers": job.workers, "wanted": job.wanted} for job in standing.backlog]
    return {
        "ok": not standing.trouble,
        "table": msgspec.to_builtins(standing.table),
        "queues": msgspec.to_builtins(standing.queues),
        "results": {"url": standing.results, "state": standing.results_state},
        "backlog": {
            "items": sum(job.pending for job in standing.backlog),
            "per_worker": standing.per_worker,
            "jobs": waits,
        },
        "dollars": {"table_a_month": round(standing.table_dollars_a_month, 4), **msgspec.to_builtins(PRICES)},
        "trouble": standing.trouble,
    }
