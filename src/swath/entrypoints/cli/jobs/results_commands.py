"""The commands of `swath jobs` for what a job has brought, with their arguments: to trace, read again, export, compare
and check it. Before: commands.py, which has the group and what is done with the job itself.

What each does is in a file of its own, imported when it is called.
"""

from __future__ import annotations

from typing import Any

import click

from swath.entrypoints.cli.options import complete_files, complete_jobs, complete_scrapers, job_argument, json_option
from swath.entrypoints.cli.server_options import begin_jobs, server_options
from swath.entrypoints.cli.session import run_async

__all__ = ["RESULTS_COMMANDS"]


@click.command()
@job_argument
@click.argument("item_id", metavar="ITEM")
@click.option("--field", metavar="NAME", help="Only the values of this field, and the pages.")
@json_option
@server_options
def item(job_id: str, item_id: str, field: str | None, as_json: bool) -> int:
    """Show one item: how it ended, each attempt, its files, its ends in earlier generations, and for each value the
    pages that it comes from."""
    from swath.entrypoints.cli.jobs.item import show_item

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
    from swath.entrypoints.cli.jobs.reextract import Asked, reextract_job

    return run_async(reextract_job(begin_jobs(), job_id, Asked(**asked), as_json=as_json))


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
    from swath.entrypoints.cli.jobs.export import Order, export_job

    return run_async(export_job(begin_jobs(), job_id, Order(**order)))


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
    from swath.entrypoints.cli.jobs.compare import Wanted, compare_jobs

    return run_async(compare_jobs(begin_jobs(), a, b, Wanted(**wanted)))


@click.command("verify")
@job_argument
@json_option
@server_options
def verify_(job_id: str, as_json: bool) -> int:
    """Check that store, counters, manifest and artifacts agree. Exits 8 and lists what does not."""
    from swath.entrypoints.cli.jobs.verify import verify_job

    return verify_job(begin_jobs(), job_id, as_json=as_json)


RESULTS_COMMANDS: tuple[click.Command, ...] = (item, reextract, versions_, use, export, compare, verify_)
