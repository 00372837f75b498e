"""`swath recording import` converts a recorder's file into a recording, with inputs where something was typed;
`swath recording suggest` proposes which columns of a sample row to bind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from swath.domain.errors import BadInput
from swath.entrypoints.cli.options import complete_files, json_option
from swath.entrypoints.cli.output import command, print_json, print_table
from swath.entrypoints.cli.recording.show import print_steps, read_any, read_text, steps_json, summary, write_recording
from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.sources.rows import BadRow
from swath.recordings.document import check_recording, dump_yaml
from swath.recordings.importers import BoundRecording, Remark, Suggestion, bind, import_recording, read_mapping
from swath.recordings.importers import suggest as suggested
from swath.recordings.importers.json_reader import read_json
from swath.recordings.importers.remarks import without_bound_passwords
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.steps import Extract

__all__ = ["import_", "suggest"]

_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class ImportArgs(msgspec.Struct, frozen=True):
    """The options, as given."""

    mapping: str | None
    binds: tuple[str, ...]
    bind_parts: tuple[str, ...]
    output: str | None
    force: bool
    recording_id: str | None


@click.command("import")
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@click.option(
    "--mapping", metavar="FILE", shell_complete=complete_files, help="Says how another recorder's steps are ours."
)
@click.option(
    "--bind",
    "binds",
    metavar="NAME=LITERAL",
    multiple=True,
    help="The input NAME takes the place of what was typed, wherever it stands. May be repeated.",
)
@click.option(
    "--bind-part",
    "bind_parts",
    metavar="NAME=TEXT",
    multiple=True,
    help="Where TEXT was typed it is a part of the input NAME; a note proposes it. May be repeated.",
)
@click.option("--output", metavar="FILE", shell_complete=complete_files, help="Where to write it; else to stdout.")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@click.option("--id", "recording_id", metavar="ID", help="What the scraper is called; else made of the title.")
@json_option
def import_(as_json: bool, file: str, **options: Any) -> None:
    """Make a recording of ours out of FILE, which Chrome's Recorder panel has exported as JSON, or another recorder."""
    wanted = ImportArgs(**options)
    made, remarks = _import_file(file, wanted)
    if wanted.output is None:
        if as_json:
            raise BadInput("--json prints the report, so the recording needs a file: name it with --output")
        click.echo(dump_yaml(made), nl=False)
        _print_remarks(remarks, err=True)
        return
    write_recording(made, wanted.output, force=wanted.force)
    if as_json:
        print_json(
            {"file": wanted.output, "id": made.id, "steps": steps_json(made), "remarks": list(map(str, remarks))}
        )
        return
    print_steps(made)
    _print_remarks(remarks)
    click.echo(f"{wanted.output} has {summary(made)}")
    _print_next_steps(made, wanted.output)


def _import_file(file: str, wanted: ImportArgs) -> tuple[Recording, Sequence[Remark]]:
    """Raises BadInput, also for what could never be played."""
    literals = _parse_binds(wanted.binds)
    mapping = None if wanted.mapping is None else read_mapping(wanted.mapping)
    imported = import_recording(read_text(file), file, mapping=mapping)
    parts = _parse_bind_parts(wanted.bind_parts)
    bound = bind(imported.recording, literals, parts) if literals or parts else BoundRecording(imported.recording)
    made = bound.recording
    if wanted.recording_id is not None:
        if not _ID.fullmatch(wanted.recording_id):
            raise BadInput(f"--id {wanted.recording_id}: take small letters, digits, dots and dashes, as in my-county")
        made = made.model_copy(update={"id": wanted.recording_id})
    check_recording(made, file, javascript=True)
    return made, (*map(bound.renumbered, without_bound_passwords(imported.remarks, made)), *bound.remarks)


def _parse_binds(binds: Sequence[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for given in binds:
        name, equals, literal = given.partition("=")
        if not equals:
            raise BadInput(f"--bind {given}: write NAME=LITERAL, as in parcel_id=200-14-030")
        if name in made:
            raise BadInput(f"--bind {given}: {name} is bound already")
        made[name] = literal
    return made


def _parse_bind_parts(given: Sequence[str]) -> dict[str, set[str]]:
    made: dict[str, set[str]] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadInput(f"--bind-part {one}: write NAME=TEXT, as in parcel_id=030")
        made.setdefault(name, set()).add(text)
    return made


def _print_remarks(remarks: Sequence[Remark], *, err: bool = False) -> None:
    for remark in remarks:
        click.echo(f"note: {remark}", err=err)


def _print_next_steps(made: Recording, output: str) -> None:
    if not any(isinstance(placed.step, Extract) for placed in walk(made)):
        click.echo("it reads nothing yet: add extract steps to get fields, or keep the pages")
    if not made.inputs:
        click.echo("it has no input, so every item would be the same: bind what was typed with --bind NAME=LITERAL")
    click.echo(f"try it: {command('recording', 'try', output)}")


@click.command()
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@click.option(
    "--row",
    "row",
    metavar="SAMPLE",
    required=True,
    shell_complete=complete_files,
    help="A CSV, JSON or JSON Lines file; its first row has what was typed when it was recorded.",
)
@click.option("--mapping", metavar="FILE", shell_complete=complete_files, help="As for `swath recording import`.")
@json_option
def suggest(file: str, row: str, mapping: str | None, as_json: bool) -> None:
    """Propose which columns of a row to bind in the recording FILE, the surest first."""
    found = suggested(read_any(file, mapping), _first_row(row))
    if as_json:
        print_json([_suggestion_json(one) for one in found])
        return
    if not found:
        raise BadInput(
            f"{row}: nothing of its first row stands in {file}; take the row that was typed when it was recorded"
        )
    print_table(
        ("input", "column", "value", "found"),
        [(one.name, ", ".join([one.column, *one.also]), one.literal, _places_text(one)) for one in found],
        shorten=("value", "found"),
    )
    click.echo(" ".join(one.flag for one in found))


def _first_row(path: str) -> dict[str, str]:
    if path.lower().endswith(".json"):
        document = read_json(read_text(path), path)
        data = document[0] if isinstance(document, list) and document else document
    else:
        with FileSource(path).open() as opened:
            row = next(opened.rows, None)
        if row is None or isinstance(row, BadRow):
            raise BadInput(f"{path}: {'has no row' if row is None else row}")
        data = row.data
    if isinstance(data, Mapping) and isinstance(data.get("input"), Mapping):
        data = data["input"]
    if not isinstance(data, Mapping) or not data:
        raise BadInput(f"{path}: its first row is no object with names and values")
    return {str(name): str(value) for name, value in data.items() if isinstance(value, (str, int, float))}


def _places_text(one: Suggestion) -> str:
    """`typed in step 4; part of the address in step 2`."""
    words = {"exact": "", "form": " in another form", "split": " in pieces", "beginning": " in part", "part": ""}
    told: dict[str, list[str]] = {}
    for place in one.places:
        told.setdefault(f"{_FIELD_TEXT.get(place.field, place.field)}{words[place.how]}", []).append(place.step)
    return "; ".join(f"{what}: {', '.join(dict.fromkeys(steps))}" for what, steps in told.items())


_FIELD_TEXT = {"text": "text", "option": "picked", "url": "address", "target": "window", "on": "selector"}


def _suggestion_json(one: Suggestion) -> dict[str, Any]:
    return {
        "input": one.name,
        "column": one.column,
        "also": list(one.also),
        "literal": one.literal,
        "flag": one.flag,
        "places": [
            {"step": place.step, "field": place.field, "how": place.how, "text": place.text} for place in one.places
        ],
    }
