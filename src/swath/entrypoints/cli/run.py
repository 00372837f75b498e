"""`swath run`: a whole job on this machine. What it does is in run_job.py, imported when it is called."""

from __future__ import annotations

import click

from swath.entrypoints.cli.order import Order, job_options
from swath.entrypoints.cli.server_options import no_server_option, refuse_server
from swath.entrypoints.cli.session import begin, run_async

__all__ = ["run"]


@click.command()
@job_options
@no_server_option
def run(order: Order) -> int:
    """Run SCRAPER on every item of a file, with a live progress bar.

    SCRAPER is the id of a scraper (see `swath scraper list`) or a Python file; without it SWATH_DEFAULT_SCRAPER counts.
    The same command goes on where it was. With --job-id and without --items: goes on with a job of the store.
    """
    refuse_server("run", "`swath jobs create … --server` loads a job there, and its workers run it")
    settings = begin()
    if order.dry_run:
        from swath.entrypoints.cli.plan import show_plan

        return run_async(show_plan(settings, order))
    from swath.entrypoints.cli.run_job import run_job

    return run_async(run_job(settings, order))
