"""`swath completion SHELL`: prints the script by which a shell completes commands, options, scrapers and jobs.

The script calls `swath` again with what was typed so far; main.py sees that and answers with words.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

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
