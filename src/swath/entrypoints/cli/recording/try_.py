"""`swath recording try`: plays a recording on one input in a real browser, and prints each step with its time.

The same site rules apply as in a job. Pages, pictures and files are written into a folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from swath.backends.clock import SystemClock
from swath.backends.private_files import make_folder, make_private_file
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import open_services
from swath.bootstrap.try_session import open_try_session
from swath.domain.errors import BadInput, Failed, NotFound, SiteUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.domain.storage_keys import REFUSED_PAGE, download_file_name, page_file_name
from swath.domain.validation_messages import did_you_mean, quoted_list
from swath.domain.waiting_messages import site_unavailable_message
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.options import complete_files, complete_scrapers, json_option
from swath.entrypoints.cli.output import print_json, print_table
from swath.entrypoints.cli.runtime import begin, run_async
from swath.pipeline.extract.extraction import extract_record
from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.sources.rows import BadRow
from swath.recordings.player.step_times import StepTime
from swath.sdk.action_scraper import ActionScraper
from swath.settings import Settings

if TYPE_CHECKING:
    from swath.fetch.http.page.attempt_output import AttemptOutput

__all__ = ["try_", "write_try_files"]

_LIST_NAME: Final = ".tried"  # names what a try has left, so that the next one can take it away, and nothing else


def write_try_files(folder: Path, collected: AttemptOutput | None, data: Any) -> list[str]:
    """The names of the files, in the place of all that an earlier try has left: a picture of a step that was not
    reached this time would tell a tale."""
    files: dict[str, bytes] = {}
    if collected is not None:
        files |= {page_file_name(name): page.body for name, page in collected.kept.items()}
        files |= {download_file_name(kept.name): kept.page.body for kept in collected.downloads}
        if collected.refused is not None:
            files[page_file_name(REFUSED_PAGE)] = collected.refused.body
    if data is not None:
        files["record.json"] = json.dumps(data, indent=2, ensure_ascii=False).encode()
    try:
        _remove_earlier_files(folder)
        for name, body in files.items():
            path = folder / name
            make_folder(path.parent)
            make_private_file(path)
            path.write_bytes(body)
        if files:
            make_private_file(folder / _LIST_NAME)
            (folder / _LIST_NAME).write_text("\n".join(sorted(files)), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror}; choose another with --output") from None
    return sorted(files)


def _remove_earlier_files(folder: Path) -> None:
    try:
        left = (folder / _LIST_NAME).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return
    root = folder.resolve()
    for name in left:
        path = (folder / name).resolve()
        if path.is_relative_to(root) and path.is_file():
            path.unlink()


_OUTCOMES: Final = {
    "done": "ok",
    "passed_over": "passed over",
    "failed": "FAILED",
    "not_found": "not found",
    "stopped": "stopped",
}

_EXIT_CODES: Final = {"failed": ExitCode.FAILED, "held": ExitCode.CIRCUIT_OPEN}


class _TryResult(NamedTuple):
    """What it came to. `collected` is None when no browser could be opened. `held`: its site may not be visited now."""

    steps: list[StepTime]
    collected: AttemptOutput | None
    outcome: Literal["success", "not_found", "failed", "held"]
    data: Any = None
    message: str | None = None
    kind: str | None = None


@click.command("try")
@click.argument("file", metavar="RECORDING", shell_complete=complete_scrapers)
@click.option("--input", "inputs", metavar="NAME=VALUE", multiple=True, help="A value of the item; may be repeated.")
@click.option("--items", metavar="FILE", shell_complete=complete_files, help="CSV, JSON or JSON Lines to take it from.")
@click.option("--row", type=click.IntRange(1), default=1, show_default=True, help="Which row of --items.")
@click.option("--output", metavar="FOLDER", help="Where pages, pictures and the record go; else <recording>-try.")
@click.option(
    "--screenshots",
    type=click.Choice(["all", "failure"]),
    default="all",
    show_default=True,
    help="A picture of each step, or of a failure only.",
)
@json_option
def try_(
    file: str,
    inputs: tuple[str, ...],
    items: str | None,
    row: int,
    output: str | None,
    screenshots: str,
    as_json: bool,
) -> ExitCode:
    """Play RECORDING, a file or a scraper's id, on one input. Without --items, what is not given is taken from what was
    recorded."""
    settings = begin()
    found, source = make_registry(settings).resolve(file)
    if not isinstance(found, ActionScraper):
        raise BadInput(f"{file} is no recording; `swath recording try` plays recordings only")
    # What a row lacks is never what was recorded: a column with the wrong name would look as if it worked.
    raw = (_examples(found) if items is None else _row_of(items, row)) | _parse_inputs(inputs, found)
    tried = run_async(_play(settings, (found, source), raw, pictures=screenshots == "all"))
    folder = Path(output or f"{found.id}-try")
    written = write_try_files(folder, tried.collected, tried.data)
    if as_json:
        print_json(_as_json(tried, folder, written))
    else:
        _print(tried, folder, written)
    return _EXIT_CODES.get(tried.outcome, ExitCode.COMPLETE)


async def _play(
    settings: Settings, found: tuple[ActionScraper, str | None], raw: dict[str, Any], *, pictures: bool
) -> _TryResult:
    scraper, source = found
    try:
        item = scraper.parse_input(raw)
        start_url = scraper.start_url(item)
    except Failed as failed:
        there = f" (there is {quoted_list(list(raw))})" if raw else ""
        told = f"the input does not fit: {failed.failure.message}{there}"
        raise BadInput(f"{told}; give it with --input NAME=VALUE") from None
    steps: list[StepTime] = []
    session: AttemptOutput | None = None
    try:
        async with (
            open_services(settings) as services,
            open_try_session(services, scraper, source, start_url) as session,
        ):
            await scraper.play(item, session, watch=steps.append, pictures=pictures)
        data = extract_record(scraper, list(session.kept.values()))
    except NotFound as not_found:
        return _TryResult(steps, session, "not_found", message=str(not_found))
    except Failed as failed:
        return _failed_result(steps, session, failed.failure)
    except SiteUnavailable as held:
        return _TryResult(steps, session, "held", message=site_unavailable_message(held, SystemClock().now()))
    return _TryResult(steps, session, "success", data)


def _failed_result(steps: list[StepTime], session: AttemptOutput | None, failure: Failure) -> _TryResult:
    told = failure.message
    if failure.kind is FailureKind.EGRESS_DENIED:  # who tries is at this machine, and may allow it
        told += "; if it is yours, name its host:port in SWATH_ALLOW_PRIVATE"
    return _TryResult(steps, session, "failed", message=told, kind=failure.kind.value)


def _examples(scraper: ActionScraper) -> dict[str, Any]:
    recording = scraper.recording
    if isinstance(recording, str):
        return {}
    return {name: field.example for name, field in recording.inputs.items() if field.example is not None}


def _parse_inputs(given: tuple[str, ...], scraper: ActionScraper) -> dict[str, str]:
    """A column too many is usual in a file; a name that is given by hand and is no input is a mistake."""
    known = [field.alias or name for name, field in scraper.Input.model_fields.items()]
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise BadInput(f"--input {text}: write it as NAME=VALUE")
        if name not in known:
            there = f"its inputs are {quoted_list(known)}" if known else "it has none"
            raise BadInput(f"--input {name}: {scraper.id} has no input {name!r} ({there}){did_you_mean(name, known)}")
        pairs[name] = value
    return pairs


def _row_of(path: str, number: int) -> dict[str, Any]:
    with FileSource(path).open() as opened:
        for row in opened.rows:
            if row.number == number:
                if isinstance(row, BadRow):
                    raise BadInput(f"{path}: {row}")
                data = row.data.get("input", row.data)
                return dict(data) if isinstance(data, dict) else row.data
    raise BadInput(f"{path}: has no row {number}; rows are counted from 1, without the header")


def _print(tried: _TryResult, folder: Path, written: list[str]) -> None:
    rows = [
        (
            step.place + (f" turn {'.'.join(map(str, step.turns))}" if step.turns else ""),
            step.what,
            f"{step.seconds:.2f} s",
            _OUTCOMES[step.outcome] + (f", {step.tries} tries" if step.tries > 1 else ""),
            step.selector or "",
        )
        for step in tried.steps
    ]
    print_table(("step", "what", "time", "outcome", "found by"), rows, shorten=("what", "found by"))
    if tried.outcome == "success":
        if tried.data is not None:
            print_json(tried.data)
        click.echo(f"success in {sum(step.seconds for step in tried.steps):.1f} s; {_files_text(folder, written)}")
    elif tried.outcome == "not_found":
        click.echo(f"not found: {tried.message}; {_files_text(folder, written)}")
    elif tried.outcome == "held":
        click.echo(f"not tried: {tried.message}; {_files_text(folder, written)}")
    else:
        click.echo(f"failed, {tried.kind}: {tried.message}; {_files_text(folder, written)}")


def _files_text(folder: Path, written: list[str]) -> str:
    return f"{len(written)} files are in {folder}" if written else "there was nothing to keep"


def _as_json(tried: _TryResult, folder: Path, written: list[str]) -> dict[str, Any]:
    import msgspec

    return {
        "outcome": tried.outcome,
        "failure_kind": tried.kind,
        "message": tried.message,
        "steps": msgspec.to_builtins(tried.steps),
        "data": tried.data,
        "folder": str(folder),
        "files": written,
    }
