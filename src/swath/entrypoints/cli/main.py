"""The root of the command line: finds commands lazily, so that starting costs nothing, and turns errors into one line
and an exit code (C2)."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from swath import __version__
from swath.domain.errors import SwathError, UnknownName, UserError
from swath.entrypoints.cli.exit_codes import ExitCode

__all__ = ["main"]

COMMANDS: Final = {
    "run": ("swath.entrypoints.cli.run:run", "Run a job on this machine, with a live progress bar."),
    "worker": ("swath.entrypoints.cli.worker:worker", "Work on jobs of the store until told to stop."),
    "jobs": ("swath.entrypoints.cli.jobs:jobs", "Create, list, look at and verify jobs."),
    "scraper": ("swath.entrypoints.cli.scrapers:scraper", "List and show scrapers."),
    "demo": ("swath.entrypoints.cli.demo:demo", "Scrape a county of our own, end to end."),
    "demo-site": ("swath.entrypoints.cli.demo:demo_site", "Only serve the demo county."),
}


class LazyGroup(click.Group):
    """Knows its commands by name and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            raise click.UsageError(str(UnknownName.of("command", args[0], COMMANDS, "see `swath --help`")))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="swath")
def root() -> None:
    """Runs bulk web-scraping jobs and proves that nothing was lost."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with one of the codes of C2."""
    _open_standard_files()
    try:
        code = root.main(args=arguments, prog_name="swath", standalone_mode=False)
    except click.exceptions.Abort:
        _leave(ExitCode.INTERRUPTED, "interrupted")
    except click.ClickException as error:
        _leave(ExitCode.BAD_INPUT, error.format_message())
    except UnknownName as error:
        _leave(ExitCode.UNKNOWN_NAME, str(error))
    except UserError as error:
        _leave(ExitCode.BAD_INPUT, str(error))
    except SwathError as error:
        _leave(ExitCode.INTERNAL, str(error))
    except SystemExit as error:  # nobody of ours: a script must not take somebody's code for the job's
        _leave(ExitCode.INTERNAL, f"internal error: something called exit({error.code})")
    except KeyboardInterrupt:
        _leave(ExitCode.INTERRUPTED, "interrupted")
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        sys.exit(ExitCode.INTERNAL)
    except Exception as error:  # the last net: one line for people, the rest on request
        logging.getLogger("swath").debug("internal error", exc_info=error)
        _leave(
            ExitCode.INTERNAL,
            f"internal error: {type(error).__name__}: {error} (SWATH_LOG_LEVEL=debug shows where)",
        )
    sys.exit(code if isinstance(code, int) else ExitCode.COMPLETE)


def _open_standard_files() -> None:
    """A caller may have closed them (`>&-`), and the event loop would then take their numbers for its own."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _leave(code: ExitCode, message: str) -> None:
    click.echo(f"swath: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
