"""The commands of `swath jobs` with their arguments; those for results come from results_commands.py.

What each does is in a file of its own, imported when it is called, so that help and completion are quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from swath.entrypoints.cli.jobs.results_commands import RESULTS_COMMANDS
from swath.entrypoints.cli.options import complete_files, complete_kinds, job_argument, json_option
from swath.entrypoints.cli.order import Order, job_options
from swath.entrypoints.cli.server_options import begin_jobs, server_options
from swath.entrypoints.cli.session import run_async

__all__ = ["jobs"]


@click.group()
def jobs() -> None:
    """Create, watch, manage and verify jobs."""


@jobs.command()
@job_options
@server_options
def create(order: Order) -> int:
    """Load a job into the store; `swath worker` runs it."""
    settings = begin_jobs()
    if order.dry_run:
        from swath.entrypoints.cli.jobs.opened import only_here
        from swath.entrypoints.cli.plan import show_plan

        only_here(settings, "--dry-run", "leave out --server to check the file by the scrapers that are here")
        return run_async(show_plan(settings, order))
    from swath.entrypoints.cli.jobs.create import create_job

    return run_async(create_job(settings, order))


@jobs.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="The newest so many.")
@json_option
@server_options
def list_(limit: int, as_json: bool) -> int:
    """List jobs, the newest first."""
    from swath.entrypoints.cli.jobs.look import list_jobs

    return run_async(list_jobs(begin_jobs(), limit, as_json=as_json))


@jobs.command("status")
@job_argument
@json_option
@server_options
def status_(job_id: str, as_json: bool) -> int:
    """Show where a job stands."""
    from swath.entrypoints.cli.jobs.look import show_status

    return run_async(show_status(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@json_option
@server_options
def watch(job_id: str, as_json: bool) -> int:
    """Show a job's progress until it ends, and exit as it ended. Ctrl-C leaves the job alone."""
    from swath.entrypoints.cli.jobs.watch import watch_job

    return run_async(watch_job(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@json_option
@server_options
def pause(job_id: str, as_json: bool) -> int:
    """Start no more items of a job; what runs may finish."""
    from swath.entrypoints.cli.jobs.control import pause_job

    return run_async(pause_job(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@json_option
@server_options
def resume(job_id: str, as_json: bool) -> int:
    """Let a paused job go on, with a closed circuit."""
    from swath.entrypoints.cli.jobs.control import resume_job

    return run_async(resume_job(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@json_option
@server_options
def cancel(job_id: str, as_json: bool) -> int:
    """Stop a job for good: what runs may finish, the rest becomes `cancelled`."""
    from swath.entrypoints.cli.jobs.control import cancel_job

    return run_async(cancel_job(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@click.option("--policy", "file", type=click.Path(path_type=Path), metavar="FILE", help="The new one, YAML or JSON.")
@click.option("--concurrency", type=int, metavar="N", help="Items at once, whatever else the policy says.")
@json_option
@server_options
def policy(job_id: str, file: Path | None, concurrency: int | None, as_json: bool) -> int:
    """Show a job's execution policy, or change it, also while the job runs."""
    from swath.entrypoints.cli.jobs.policy import show_or_change_policy

    return run_async(show_or_change_policy(begin_jobs(), job_id, file, concurrency, as_json=as_json))


@jobs.command()
@job_argument
@click.option("--failed", is_flag=True, help="Items that failed.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    shell_complete=complete_kinds,
    help="Items that failed so; may be repeated.",
)
@click.option("--not-run", is_flag=True, help="Items that were cancelled, by a person or by the circuit.")
@click.option(
    "--items",
    metavar="FILE",
    shell_complete=complete_files,
    help="Items by id: one a line, or a CSV column item_id; - for stdin.",
)
@click.option("--since", metavar="TIME", help="Only what ended since: 2h, 30m, 1d, or 2026-01-31T08:00.")
@click.option("--run", is_flag=True, help="Run them here, now.")
@json_option
@server_options
def retry(job_id: str, run: bool, as_json: bool, **chosen: Any) -> int:
    """Run items of an ended job again, as a new generation; their former ends stay known."""
    from swath.entrypoints.cli.jobs.retry import Choice, retry_job

    return run_async(retry_job(begin_jobs(), job_id, Choice(**chosen), run=run, as_json=as_json))


@jobs.command()
@job_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@server_options
def delete(job_id: str, yes: bool, as_json: bool) -> int:
    """Delete a job with all its results."""
    from swath.entrypoints.cli.jobs.delete import delete_job

    return run_async(delete_job(begin_jobs(), job_id, sure=yes, as_json=as_json))


@jobs.command("webhooks")
@job_argument
@click.option("--resend", is_flag=True, help="Send the newest one again, here and now.")
@json_option
@server_options
def webhooks_(job_id: str, resend: bool, as_json: bool) -> int:
    """Show who was told of a job's ends, and how each try went."""
    from swath.entrypoints.cli.jobs.webhooks import show_webhooks

    return run_async(show_webhooks(begin_jobs(), job_id, again=resend, as_json=as_json))


for command in RESULTS_COMMANDS:
    jobs.add_command(command)
