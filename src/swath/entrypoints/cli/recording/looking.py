"""`swath recording check|show|schema`: what a recording is, and whether it can be played."""

from __future__ import annotations

import click

from swath.actions.document import read_recording
from swath.actions.language.recording import Recording
from swath.actions.schema import recording_schema
from swath.entrypoints.cli.options import complete_files, json_option
from swath.entrypoints.cli.output import print_json
from swath.entrypoints.cli.recording.files import read_any
from swath.entrypoints.cli.recording.table import print_steps, steps_json, summary
from swath.entrypoints.cli.session import begin

__all__ = ["check", "schema", "show"]

file_argument = click.argument("file", metavar="FILE", shell_complete=complete_files)


@click.command()
@file_argument
@json_option
def check(file: str, as_json: bool) -> None:
    """Check the recording FILE from end to end. Exits 2 with what is wrong, else says what it takes and gives."""
    recording = read_recording(file, javascript=begin().allow_javascript)
    if as_json:
        print_json(_about(recording))
        return
    click.echo(f"{file} can be played: {summary(recording)}")
    for note in recording.notes:
        click.echo(f"note: {note}")


@click.command()
@file_argument
@json_option
def show(file: str, as_json: bool) -> None:
    """Show the steps of the recording FILE, ours or Chrome's: what each does, on what, and by which inputs."""
    recording = read_any(file)
    if as_json:
        print_json({**_about(recording), "steps": steps_json(recording)})
        return
    click.echo(summary(recording))
    print_steps(recording)
    for note in recording.notes:
        click.echo(f"note: {note}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of recordings, by which editors complete and check them."""
    print_json(recording_schema())


def _about(recording: Recording) -> dict[str, object]:
    steps = steps_json(recording)
    return {
        "id": recording.id,
        "name": recording.name,
        "version": recording.version,
        "sites": list(recording.sites),
        "step_count": len(steps),
        "inputs": {
            name: field.model_dump(mode="json", exclude_defaults=True) for name, field in recording.inputs.items()
        },
        "fields": list(dict.fromkeys(row["what"].rpartition(" ")[2] for row in steps if row["do"] == "extract")),
        "notes": list(recording.notes),
    }
