"""`swath recording import`: a recorder's file becomes a recording of ours, with inputs where something was typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from swath.actions.document import check_recording, dump_yaml
from swath.actions.importing import Bound, Remark, bind, import_recording, read_mapping
from swath.actions.importing.passwords import still_told
from swath.actions.language.recording import Recording
from swath.actions.language.steps import Extract
from swath.actions.language.walk import walk
from swath.domain.errors import BadInput
from swath.entrypoints.cli.options import complete_files, json_option
from swath.entrypoints.cli.output import command, print_json
from swath.entrypoints.cli.recording.files import read_text, write_recording
from swath.entrypoints.cli.recording.table import print_steps, steps_json, summary

__all__ = ["import_"]

_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class Wanted(msgspec.Struct, frozen=True):
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
    wanted = Wanted(**options)
    made, remarks = _made(file, wanted)
    if wanted.output is None:
        if as_json:
            raise BadInput("--json prints the report, so the recording needs a file: name it with --output")
        click.echo(dump_yaml(made), nl=False)
        _tell(remarks, err=True)
        return
    write_recording(made, wanted.output, force=wanted.force)
    if as_json:
        print_json(
            {"file": wanted.output, "id": made.id, "steps": steps_json(made), "remarks": list(map(str, remarks))}
        )
        return
    print_steps(made)
    _tell(remarks)
    click.echo(f"{wanted.output} has {summary(made)}")
    _tell_next(made, wanted.output)


def _made(file: str, wanted: Wanted) -> tuple[Recording, Sequence[Remark]]:
    """Raises BadInput, also for what could never be played."""
    literals = _literals(wanted.binds)
    mapping = None if wanted.mapping is None else read_mapping(wanted.mapping)
    imported = import_recording(read_text(file), file, mapping=mapping)
    parts = _parts(wanted.bind_parts)
    bound = bind(imported.recording, literals, parts) if literals or parts else Bound(imported.recording)
    made = bound.recording
    if wanted.recording_id is not None:
        if not _ID.fullmatch(wanted.recording_id):
            raise BadInput(f"--id {wanted.recording_id}: take small letters, digits, dots and dashes, as in my-county")
        made = made.model_copy(update={"id": wanted.recording_id})
    check_recording(made, file, javascript=True)
    return made, (*map(bound.renumbered, still_told(imported.remarks, made)), *bound.remarks)


def _literals(binds: Sequence[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for given in binds:
        name, equals, literal = given.partition("=")
        if not equals:
            raise BadInput(f"--bind {given}: write NAME=LITERAL, as in parcel_id=200-14-030")
        if name in made:
            raise BadInput(f"--bind {given}: {name} is bound already")
        made[name] = literal
    return made


def _parts(given: Sequence[str]) -> dict[str, set[str]]:
    made: dict[str, set[str]] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadInput(f"--bind-part {one}: write NAME=TEXT, as in parcel_id=030")
        made.setdefault(name, set()).add(text)
    return made


def _tell(remarks: Sequence[Remark], *, err: bool = False) -> None:
    for remark in remarks:
        click.echo(f"note: {remark}", err=err)


def _tell_next(made: Recording, output: str) -> None:
    if not any(isinstance(placed.step, Extract) for placed in walk(made)):
        click.echo("it reads nothing yet: add extract steps to get fields, or keep the pages")
    if not made.inputs:
        click.echo("it has no input, so every item would be the same: bind what was typed with --bind NAME=LITERAL")
    click.echo(f"try it: {command('recording', 'try', output)}")
