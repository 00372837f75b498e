"""The commands of `swath jobs` with their arguments.

Their bodies are imported when they are called, so that help and completion are quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from swath.entrypoints.cli.options import (
    complete_files,
    complete_jobs,
    complete_kinds,
    complete_scrapers,
    job_argument,
    json_option,
)
from swath.entrypoints.cli.run_args import RunArgs, job_options
from swath.entrypoints.cli.runtime import begin_jobs, run_async, server_options

__all__ = ["RESULTS_COMMANDS", "jobs"]


@click.command()
@job_argument
@click.argument("item_id", metavar="ITEM")
@click.option("--field", metavar="NAME", help="Only the values of this field, and the pages.")
@json_option
@server_options
def item(job_id: str, item_id: str, field: str | None, as_json: bool) -> int:
    """Show one item: how it ended, each attempt, its files, its ends in earlier generations, and for each value the
    pages that it comes from."""
    from swath.entrypoints.cli.jobs.show import show_item

    return run_async(show_item(begin_jobs(), job_id, item_id, field, as_json=as_json))


@click.command()
@job_argument
@click.option(
    "--scraper",
    required=True,
    metavar="SCRAPER[@VERSION]",
    shell_complete=complete_scrapers,
    help="By which scraper: an id or a file.",
)
@click.option("--sample", type=click.IntRange(1, 100_000), metavar="N", help="Only N items from all over the job.")
@click.option("--concurrency", type=int, metavar="N", help="Items at once. Default: 64.")
@click.option("--processes", type=click.IntRange(1, 256), default=1, metavar="N", help="Work in N processes.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
@server_options
def reextract(job_id: str, as_json: bool, **asked: Any) -> int:
    """Read the stored pages of an ended job again, without the network, as a new version of its results.

    Says what is different, field by field. Readers get the new version if it lacks nothing; `swath jobs use` goes back.
    """
    from swath.entrypoints.cli.jobs.versions import ReextractArgs, reextract_job

    return run_async(reextract_job(begin_jobs(), job_id, ReextractArgs(**asked), as_json=as_json))


@click.command("versions")
@job_argument
@click.option("--diff", "number", type=int, metavar="N", help="Show what version N says otherwise than the one before.")
@json_option
@server_options
def versions_(job_id: str, number: int | None, as_json: bool) -> int:
    """List the versions of a job's results, and which of them readers get."""
    from swath.entrypoints.cli.jobs.versions import show_versions

    return run_async(show_versions(begin_jobs(), job_id, number, as_json=as_json))


@click.command()
@job_argument
@click.option("--version", "number", type=int, required=True, metavar="N", help="Which.")
@json_option
@server_options
def use(job_id: str, number: int, as_json: bool) -> int:
    """Let readers get another version of a job's results."""
    from swath.entrypoints.cli.jobs.versions import use_job_version

    return run_async(use_job_version(begin_jobs(), job_id, number, as_json=as_json))


@click.command()
@job_argument
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Where to; - for stdout (csv, jsonl, and files as a tar).",
)
@click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet", "sqlite", "files"]),
    help="Default: what the ending of FILE says. files: a folder with every file of every item.",
)
@click.option("--raw", is_flag=True, help="CSV as it is, not made safe for spreadsheets.")
@click.option(
    "--state",
    type=click.Choice(["success", "all"]),
    default="success",
    show_default=True,
    help="all: a row also for items that have no record.",
)
@click.option("--partial", is_flag=True, help="What is there so far of a job that has not ended.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@json_option
@server_options
def export(job_id: str, **order: Any) -> int:
    """Write a job's records, with where each comes from, to a file that other tools read."""
    from swath.entrypoints.cli.jobs.job_results import ExportArgs, export_job

    return run_async(export_job(begin_jobs(), job_id, ExportArgs(**order)))


@click.command()
@click.argument("a", metavar="A", shell_complete=complete_jobs)
@click.argument("b", metavar="B", shell_complete=complete_jobs)
@click.option(
    "--key",
    multiple=True,
    metavar="FIELD",
    help="By which field records are the same, input.FIELD too; may be repeated. Default: the item.",
)
@click.option("--fields", multiple=True, metavar="A,B", help="Only differences in these fields.")
@click.option("--ignore", multiple=True, metavar="A,B", help="No differences in these fields.")
@click.option("--format", type=click.Choice(["table", "json", "csv"]), help="Default: table, or as FILE ends.")
@click.option("--output", metavar="FILE", shell_complete=complete_files, help="Where to. Default: stdout.")
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="Differences in a table.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@json_option
@server_options
def compare(a: str, b: str, **wanted: Any) -> int:
    """Compare the records of job B with those of the earlier job A: new, changed, vanished. Exits 0 in any case.

    A record that B was asked for and lacks has vanished if B is complete, or if the key is the item or its input and
    the site told B that there is none; otherwise it is unknown.
    """
    from swath.entrypoints.cli.jobs.job_results import CompareArgs, compare_jobs

    return run_async(compare_jobs(begin_jobs(), a, b, CompareArgs(**wanted)))


@click.command("verify")
@job_argument
@json_option
@server_options
def verify_(job_id: str, as_json: bool) -> int:
    """Check that store, counters, manifest and artifacts agree. Exits 8 and lists what does not."""
    from swath.entrypoints.cli.jobs.job_results import verify_job

    return verify_job(begin_jobs(), job_id, as_json=as_json)


RESULTS_COMMANDS: tuple[click.Command, ...] = (item, reextract, versions_, use, export, compare, verify_)


@click.group()
def jobs() -> None:
    """Create, watch, manage and verify jobs."""


@jobs.command()
@job_options
@server_options
def create(order: RunArgs) -> int:
    """Load a job into the store; `swath worker` runs it."""
    settings = begin_jobs()
    if order.dry_run:
        from swath.entrypoints.cli.dry_run import show_dry_run
        from swath.entrypoints.cli.jobs.client import require_local_store

        require_local_store(settings, "--dry-run", "leave out --server to check the file by the scrapers that are here")
        return run_async(show_dry_run(settings, order))
    from swath.entrypoints.cli.jobs.control import create_job

    return run_async(create_job(settings, order))


@jobs.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="The newest so many.")
@json_option
@server_options
def list_(limit: int, as_json: bool) -> int:
    """List jobs, the newest first."""
    from swath.entrypoints.cli.jobs.show import list_jobs

    return run_async(list_jobs(begin_jobs(), limit, as_json=as_json))


@jobs.command("status")
@job_argument
@json_option
@server_options
def status_(job_id: str, as_json: bool) -> int:
    """Show where a job stands."""
    from swath.entrypoints.cli.jobs.show import show_status

    return run_async(show_status(begin_jobs(), job_id, as_json=as_json))


@jobs.command()
@job_argument
@json_option
@server_options
def watch(job_id: str, as_json: bool) -> int:
    """Show a job's progress until it ends, and exit as it ended. Ctrl-C leaves the job alone."""
    from swath.entrypoints.cli.jobs.control import watch_job

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
    from swath.entrypoints.cli.jobs.control import show_or_change_policy

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
    from swath.entrypoints.cli.jobs.control import RetryArgs, retry_job

    return run_async(retry_job(begin_jobs(), job_id, RetryArgs(**chosen), run=run, as_json=as_json))


@jobs.command()
@job_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@server_options
def delete(job_id: str, yes: bool, as_json: bool) -> int:
    """Delete a job with all its results."""
    from swath.entrypoints.cli.jobs.control import delete_job

    return run_async(delete_job(begin_jobs(), job_id, sure=yes, as_json=as_json))


@jobs.command("webhooks")
@job_argument
@click.option("--resend", is_flag=True, help="Send the newest one again, here and now.")
@json_option
@server_options
def webhooks_(job_id: str, resend: bool, as_json: bool) -> int:
    """Show who was told of a job's ends, and how each try went."""
    from swath.entrypoints.cli.jobs.control import show_webhooks

    return run_async(show_webhooks(begin_jobs(), job_id, again=resend, as_json=as_json))


for command in RESULTS_COMMANDS:
    jobs.add_command(command)
