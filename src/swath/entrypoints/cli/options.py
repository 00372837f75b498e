"""Arguments and options that several commands share, shell completion of their values, and `swath completion`.

Light to import, so that completion is quick: expensive modules are imported when a value is completed.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from swath.domain.errors import UserError
from swath.settings import Settings, SqliteLocation, load_settings

__all__ = [
    "complete_files",
    "complete_jobs",
    "complete_kinds",
    "complete_scrapers",
    "completion",
    "job_argument",
    "json_option",
]


def _settings() -> Settings | None:
    try:
        return load_settings()
    except UserError:  # said by the command itself when it is run; a shell wants words
        return None


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of jobs in the store, the newest first; none of a store on AWS or of a controller: a shell must not
    wait for a network."""
    del ctx, param
    from swath.backends.sqlite.read_only import job_ids

    settings = _settings()
    place = None if settings is None or settings.server is not None else settings.places.store
    return job_ids(place.folder, incomplete) if isinstance(place, SqliteLocation) else []


def complete_scrapers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[click.shell_completion.CompletionItem]:
    """Ids of scrapers, and files."""
    del ctx, param
    from swath.sdk.registry import Registry

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


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: bash, zsh or fish."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"this version of click knows no completion for {shell}")
    click.echo(found(ctx.find_root().command, {}, "swath", "_SWATH_COMPLETE").source())
