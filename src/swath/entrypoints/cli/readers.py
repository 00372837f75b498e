"""Which version of a job's results readers get, as people are told when one has ended.

Before: `swath jobs reextract` has made it, or `swath run --job-id` or `swath jobs retry --run` has gone on with it.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from swath.domain.job import JobStatus
from swath.domain.versions import is_sample, version_of
from swath.entrypoints.cli.output import command
from swath.pipeline.results.diff import Diff

__all__ = ["tell_readers"]


def tell_readers(scraped: JobStatus, made: JobStatus, diff: Diff | None, command: Callable[..., str] = command) -> None:
    """Which version of the job's results readers get now that this one has ended, and how to change that. `command`
    writes a command line."""
    job_id, number, current = scraped.job.job_id, version_of(made.job), scraped.current_version
    still = f"readers still get version {current}"
    use = f"to use it: {command('jobs', 'use', job_id, '--version', str(number))}"
    if current == number:
        back = command("jobs", "use", job_id, "--version", str(1 if diff is None else diff.former_version))
        click.echo(f"readers get version {number} from now on; to go back: {back}")
    elif is_sample(made.job):
        click.echo(f"a sample never replaces all results; {still}")
    elif made.counts.success == made.counts.not_found:
        click.echo(f"it has no records, so {still}")
    elif diff is not None and diff.loses_records:
        click.echo(f"it lacks records, so {still}; {use}")
    else:
        click.echo(f"{still}; {use}")
