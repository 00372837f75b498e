"""Arguments and options that several commands share, and how a shell completes them.

Light to import, so that completion is quick: what costs time is imported when a word is asked for.
"""

from __future__ import annotations

import click

from swath.domain.errors import UserError
from swath.settings import Settings, SqlitePlace, read_settings

__all__ = ["complete_files", "complete_jobs", "complete_kinds", "complete_scrapers", "job_argument", "json_option"]


def _settings() -> Settings | None:
    try:
        return read_settings()
    except UserError:  # said by the command itself when it is run; a shell wants words
        return None


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of jobs in the store, the newest first; none of a store on AWS or of a controller: a shell must not
    wait for a network."""
    del ctx, param
    from swath.backends.embedded.examine import job_ids

    settings = _settings()
    place = None if settings is None or settings.server is not None else settings.places.store
    return job_ids(place.folder, incomplete) if isinstance(place, SqlitePlace) else []


def complete_scrapers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[click.shell_completion.CompletionItem]:
    """Ids of scrapers, and files."""
    del ctx, param
    from swath.kit.registry import Registry

    settings = _settings()
    infos = [] if settings is None else Registry(settings.scrapers).infos()
    found = [
        click.shell_completion.CompletionItem(info.id, help=info.name)
        for info in infos
        if info.id.startswith(incomplete)
    ]
    return found or [click.shell_completion.CompletionItem(incomplete, type="file")]


def complete_files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[click.shell_completion.CompletionItem]:
    """Whatever the shell finds."""
    del ctx, param
    return [click.shell_completion.CompletionItem(incomplete, type="file")]


def complete_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Failure kinds."""
    del ctx, param
    from swath.domain.failure import FailureKind

    return [kind.value for kind in FailureKind if kind.value.startswith(incomplete.lower())]


job_argument = click.argument("job_id", metavar="JOB", shell_complete=complete_jobs)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
