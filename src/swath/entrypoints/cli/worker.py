"""`swath worker`: takes leases of any job in the store until it is told to stop, in one process or in several."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click

from swath.bootstrap import Services, check_results, make_registry, make_worker, new_worker_id, open_services
from swath.domain.errors import StoreUnavailable
from swath.entrypoints.cli.options import complete_jobs
from swath.entrypoints.cli.processes import LATE_SECONDS, keep_workers, stop_with_parent
from swath.entrypoints.cli.session import begin, leave_at_a_standstill, run_async, stop_on_signals
from swath.settings import Settings

__all__ = ["worker"]


@click.command()
@click.option("--job", "job_id", metavar="JOB", help="Work on this job only.", shell_complete=complete_jobs)
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N", help="Work in N processes, to use more than one core."
)
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when stdin is closed.")
def worker(job_id: str | None, processes: int | None, with_parent: bool) -> None:
    """Work on jobs of the store until told to stop.

    SIGTERM or SIGINT: takes nothing more, finishes what fits in the grace period, hands back the rest, exits 0.
    With --processes a process that dies is replaced.
    """
    settings = begin()
    if processes is None:
        run_async(_work(settings, job_id, with_parent=with_parent))
    else:
        run_async(_supervise(settings, job_id, processes))


async def _work(settings: Settings, job_id: str | None, *, with_parent: bool) -> None:
    stop = asyncio.Event()
    # A parent speaks for all of its processes.
    stop_on_signals(stop, None if with_parent else _notice(settings), settings.grace_seconds)
    if with_parent:
        stop_with_parent()
    async with open_services(settings) as services:
        await _check(services, job_id)
        async with make_worker(services, make_registry(settings), job_id, on_standstill=leave_at_a_standstill) as one:
            await one.run(stop)


async def _supervise(settings: Settings, job_id: str | None, processes: int) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop, _notice(settings), settings.grace_seconds + LATE_SECONDS)
    async with open_services(settings) as services:
        await _check(services, job_id)
    await keep_workers(processes, stop, job_id=job_id, grace_seconds=settings.grace_seconds)


async def _check(services: Services, job_id: str | None) -> None:
    """A mistake is said once, before anything is started: a name that is not there, a folder that is only for reading,
    a table or a bucket that was never made.

    A full disk or a locked store is no mistake: a worker waits for them.
    """
    if job_id is not None:
        await services.store.status(job_id)
    with suppress(StoreUnavailable):
        await services.store.backlog()
        await services.store.renew(new_worker_id(), [])  # changes nothing, but could
    await check_results(services)


def _notice(settings: Settings) -> str:
    return f"stopping; what runs has {settings.grace_seconds:g} s to finish"
