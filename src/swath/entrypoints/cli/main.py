"""The root of the command line: the table of commands, and the exit code and one-line message of each error (C2)."""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from swath import __version__
from swath.domain.errors import StoreUnavailable, SwathError, UnknownName, UserError
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.lazy_group import LazyGroup
from swath.entrypoints.cli.output import escape_terminal_output
from swath.settings import is_shell_completion

__all__ = ["main"]

COMMANDS: Final = {
    "run": ("swath.entrypoints.cli.run:run", "Run a job on this machine, with a live progress bar."),
    "worker": ("swath.entrypoints.cli.worker:worker", "Work on jobs of the store until told to stop."),
    "serve": ("swath.entrypoints.cli.serve:serve", "Serve the REST API, and work on the jobs that it takes."),
    "jobs": ("swath.entrypoints.cli.jobs.commands:jobs", "Create, watch, manage and verify jobs."),
    "scraper": ("swath.entrypoints.cli.scrapers:scraper", "List and show scrapers."),
    "recording": ("swath.entrypoints.cli.recording:recording", "Import, check, try and show recordings."),
    "keys": ("swath.entrypoints.cli.keys:keys", "Make, list and revoke the keys of the API."),
    "config": ("swath.entrypoints.cli.config:config", "Show the settings, and where each came from."),
    "aws": ("swath.entrypoints.cli.aws:aws", "Set up, look at and remove what Swath keeps on AWS."),
    "doctor": ("swath.entrypoints.cli.doctor.command:doctor", "Check this installation, and say what to do."),
    "completion": ("swath.entrypoints.cli.options:completion", "Print the script that completes words in a shell."),
    "demo": ("swath.entrypoints.cli.demo:demo", "Scrape a county of our own, end to end."),
    "demo-site": ("swath.entrypoints.cli.demo:demo_site", "Only serve the demo county."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="swath")
def root() -> None:
    """Runs bulk web-scraping jobs and proves that nothing was lost."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with one of the codes of C2."""
    _open_standard_files()
    escape_terminal_output()
    if is_shell_completion():
        root.main(prog_name="swath")  # answers the shell and exits
    stdout = sys.stdout
    words = [_as_text(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    try:
        code = root.main(args=words, prog_name="swath", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = ExitCode.BAD_INPUT
    except BaseException as error:  # noqa: BLE001 the last net: one line for people, the rest on request
        if isinstance(error, BrokenPipeError) or sys.stdout is not stdout:
            sys.exit(ExitCode.INTERNAL)  # whoever read our output has gone, and click has put stdout out of harm's way
        code, message = _exit_code_and_message(error)
        click.echo(f"swath: {message}", err=True)
    sys.exit(code if isinstance(code, int) else ExitCode.COMPLETE)


def _exit_code_and_message(error: BaseException) -> tuple[ExitCode, str]:
    """Exit code and one line. An exit that is not ours is an error: a script must not take it for the job's."""
    match error:
        case click.exceptions.Abort() | KeyboardInterrupt():
            return ExitCode.INTERRUPTED, "interrupted"
        case click.ClickException():
            return ExitCode.BAD_INPUT, error.format_message()
        case UnknownName():
            return ExitCode.UNKNOWN_NAME, str(error)
        case UserError():
            return ExitCode.BAD_INPUT, str(error)
        case StoreUnavailable():
            return ExitCode.INTERNAL, f"{error}; nothing is lost: run the same command again when that is over"
        case SwathError():
            return ExitCode.INTERNAL, str(error)
    return _unexpected_error(error)


def _unexpected_error(error: BaseException) -> tuple[ExitCode, str]:
    """The same for what is not of our own making."""
    match error:
        case OSError() if _is_output_error(error):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try again at exit, and complain
            return ExitCode.INTERNAL, f"stdout cannot be written: {error.strerror}"
        case UnicodeEncodeError() if "\ud800" <= error.object[error.start] <= "\udfff":
            return ExitCode.BAD_INPUT, f"{error.object!r} is not UTF-8 text, and only --items may be; rename it"
        case SystemExit():
            return ExitCode.INTERNAL, f"internal error: something called exit({error.code})"
    logging.getLogger("swath").debug("internal error", exc_info=error)
    from swath.observability.logs import mask_text  # for a command that went wrong, not for each

    shown = mask_text(f"internal error: {type(error).__name__}: {error}")  # whoever wrote it did not know our secrets
    return ExitCode.INTERNAL, f"{shown} (SWATH_LOG_LEVEL=debug shows where)"


def _as_text(word: str) -> str:
    """A word that is not UTF-8 names a file, or nothing that we have: no store can hold it."""
    if word.isprintable() or not any("\ud800" <= character <= "\udfff" for character in word):
        return word
    if any(os.path.lexists(path) for path in (word, word.partition("=")[2])):
        return word
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_output_error(error: OSError) -> bool:
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _open_standard_files() -> None:
    """A caller may have closed them (`>&-`), and the event loop would then take their numbers for its own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: a path need not be text
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
