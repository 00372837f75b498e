"""`swath aws status`: how table, queues and results stand, what waits in them, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from swath.backends.aws.prices import GB, PRICES
from swath.backends.aws.results.bucket import try_bucket
from swath.backends.aws.survey import QueueState, TableState, look_at_queues, look_at_table
from swath.bootstrap.services import open_services
from swath.domain.backlog import Backlog, workers_at
from swath.domain.errors import UserError
from swath.entrypoints.cli.aws.reach import Reach, reach
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import counted, print_json, print_table, span
from swath.settings import Settings

__all__ = ["show_status"]

_MIB: Final = 1 << 20


class _Standing(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found. `trouble` has a line for each thing that somebody should see to."""

    table: TableState | None
    queues: list[QueueState]
    results: str
    results_state: str
    backlog: list[Backlog]
    trouble: list[str]

    @property
    def per_worker(self) -> float | None:
        """Items that wait, for each worker that is at one of their jobs."""
        workers = workers_at(self.backlog)
        return sum(job.pending for job in self.backlog) / workers if workers else None

    @property
    def table_dollars_a_month(self) -> float:
        """For keeping the rows; requests come on top."""
        return 0.0 if self.table is None else self.table.bytes / GB * PRICES.table_gb_month


async def show_status(settings: Settings, *, as_json: bool) -> ExitCode:
    """Answers with 1 when something is missing, cannot be used, or lies among the dead letters."""
    async with reach(settings) as there:
        standing = await _look(settings, there)
    if as_json:
        print_json(_as_json(standing))
    else:
        _tell(standing)
    return ExitCode.INTERNAL if standing.trouble else ExitCode.COMPLETE


async def _look(settings: Settings, there: Reach) -> _Standing:
    table = None if there.table is None else await look_at_table(there.of_table, there.table)
    queues = [] if there.queues is None else await look_at_queues(there.of_queues, there.queues)
    results, trouble = "can be written", list(_troubles(table, queues))
    if there.bucket is not None:
        try:
            await try_bucket(there.of_bucket, there.bucket)
        except UserError as error:
            results = "cannot be used"
            trouble.append(str(error))
    backlog: list[Backlog] = []
    if table is not None and table.usable:
        async with open_services(settings, only_looks=True) as services:
            backlog = await services.store.backlog()
    return _Standing(
        table=table,
        queues=queues,
        results=str(settings.places.results),
        results_state=results if there.bucket is not None else "a folder of this machine",
        backlog=backlog,
        trouble=trouble,
    )


def _troubles(table: TableState | None, queues: Sequence[QueueState]) -> Iterator[str]:
    if table is not None and not table.usable:
        hint = "; `swath aws init` makes it" if table.state == "missing" else ""
        yield table.why or f"the table {table.name!r} is {table.state.lower()}{hint}"
    for queue in queues:
        if queue.state == "missing":
            yield f"the queue {queue.name!r} is missing; `swath aws init` makes it"
    if queues and (dead := queues[-1].waiting + queues[-1].taken):
        yield (
            f"{counted(dead, 'hint')} that no worker could settle: {queues[-1].name!r} has them; "
            "nothing is lost, but look at the workers' logs"
        )


def _tell(standing: _Standing) -> None:
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
        oldest = "" if job.oldest_seconds is None else f", the oldest for {span(job.oldest_seconds)}"
        click.echo(
            f"job {job.job_id}: {counted(job.pending, 'item')} waiting{oldest}; "
            f"{counted(job.workers, 'worker')} of at most {job.limit}"
        )
    click.echo(f"backlog: {_backlog(standing)}")
    for line in standing.trouble:
        click.echo(f"trouble: {line}", err=True)


def _backlog(standing: _Standing) -> str:
    items = sum(job.pending for job in standing.backlog)
    if not items:
        return "nothing waits"
    each = "no worker at them" if standing.per_worker is None else f"{standing.per_worker:,.1f} for each worker"
    return f"{counted(items, 'item')}, {each}"


def _figures(job: Backlog) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(job).items() if name != "worker_ids"}


def _as_json(standing: _Standing) -> dict[str, Any]:
    waits = [{**_figures(job), "workers": job.workers, "wanted": job.wanted} for job in standing.backlog]
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
