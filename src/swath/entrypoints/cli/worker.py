"""`swath worker`: takes leases of any job in the store until it is told to stop, in one process or in several."""

from __future__ import annotations

import asyncio

import click

from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, check_services, open_services, store_watch
from swath.bootstrap.workers import make_worker
from swath.entrypoints.cli.metrics_port import MetricsPlace, serve_metrics
from swath.entrypoints.cli.options import complete_jobs
from swath.entrypoints.cli.processes import LATE_SECONDS, keep_workers, stop_with_parent
from swath.entrypoints.cli.server_options import no_server_option, refuse_server
from swath.entrypoints.cli.session import begin, leave_at_a_standstill, run_async, stop_on_signals
from swath.settings import Settings

__all__ = ["worker"]


@click.command()
@click.option("--job", "job_id", metavar="JOB", help="Work on this job only.", shell_complete=complete_jobs)
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N", help="Work in N processes, to use more than one core."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="Serve /metrics and /live here; 0 takes a free one. With --processes each takes the next one.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when stdin is closed.")
@no_server_option
def worker(
    job_id: str | None, processes: int | None, metrics_port: int | None, metrics_host: str, with_parent: bool
) -> None:
    """Work on jobs of the store until told to stop.

    SIGTERM or SIGINT: takes nothing more, finishes what fits in the grace period, hands back the rest, exits 0.
    With --processes a process that dies is replaced.
    """
    refuse_server("a worker", "give it the store that the controller has: SWATH_STORE, or SWATH_DATA")
    settings, metrics = begin(serves=True), MetricsPlace(metrics_host, metrics_port)
    if processes is None:
        run_async(_work(settings, job_id, metrics, with_parent=with_parent))
    else:
        run_async(_supervise(settings, job_id, processes, metrics))


async def _work(settings: Settings, job_id: str | None, metrics: MetricsPlace, *, with_parent: bool) -> None:
    stop = asyncio.Event()
    # A parent speaks for all of its processes.
    stop_on_signals(stop, None if with_parent else _notice(settings), settings.grace_seconds)
    if with_parent:
        stop_with_parent()
    # The parent has opened the store before: a worker that finds none must not begin a new one.
    async with serve_metrics(metrics) as port, open_services(settings, must_exist=with_parent) as services:
        if metrics.port == 0:
            click.echo(f"swath: metrics on http://{metrics.host}:{port}/metrics", err=True)
        await _check(services, job_id)
        async with make_worker(services, make_registry(settings), job_id, on_standstill=leave_at_a_standstill) as one:
            await one.run(stop)


async def _supervise(settings: Settings, job_id: str | None, processes: int, metrics: MetricsPlace) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop, _notice(settings), settings.grace_seconds + LATE_SECONDS)
    async with open_services(settings) as services:
        await _check(services, job_id)
        check_store = store_watch(settings)
    await keep_workers(
        processes,
        stop,
        job_id=job_id,
        grace_seconds=settings.grace_seconds,
        metrics=metrics,
        check_store=check_store,
    )


async def _check(services: Services, job_id: str | None) -> None:
    """A name that is not there is said before anything is started, as is a place that cannot be used."""
    if job_id is not None:
        await services.store.status(job_id)
    await check_services(services)


def _notice(settings: Settings) -> str:
    return f"stopping; what runs has {settings.grace_seconds:g} s to finish"
