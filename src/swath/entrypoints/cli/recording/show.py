"""`swath recording check|show|schema`, and how recordings are read, written and printed as a table of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from swath.domain.errors import BadInput
from swath.entrypoints.cli.options import complete_files, json_option
from swath.entrypoints.cli.output import plural, print_json, print_table
from swath.entrypoints.cli.runtime import begin
from swath.pipeline.ingest.sources.decoding import open_bytes, read_chunks
from swath.recordings.document import dump_json, dump_yaml, parse_recording, read_recording, recording_schema
from swath.recordings.importers import import_recording, read_mapping
from swath.recordings.importers.json_reader import MOST_CHARS
from swath.recordings.schema.models import parts_of, texts_of
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.selectors import selector_label
from swath.recordings.schema.steps import AnyStep, Extract
from swath.recordings.schema.template import parse_template

__all__ = [
    "check",
    "inputs_of",
    "print_steps",
    "read_any",
    "read_text",
    "schema",
    "show",
    "steps_json",
    "summary",
    "write_recording",
]

_PIPES: Final = ("/dev/stdin", "/dev/fd/")


def read_text(path: str) -> str:
    """The text of a file. Raises BadInput, in one line."""
    place = Path(path)
    if not path.startswith(_PIPES) and place.exists() and not (place.is_file() or place.is_dir()):
        raise BadInput(f"{path}: is a pipe or a device, not a file; name a file")
    raw = bytearray()
    with open_bytes(path, None) as file:
        for chunk in read_chunks(path, file):
            raw += chunk
            if len(raw) > MOST_CHARS:
                raise BadInput(f"{path}: is larger than 16 MiB, which no recording is; name the right file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}: line {line}: is not UTF-8 text; save it as UTF-8") from None


def read_any(path: str, mapping: str | None = None) -> Recording:
    """A recording of ours, or one that Chrome, a plug-in or a mapping file knows. JavaScript may be in it: it is only
    looked at."""
    text = read_text(path)
    if mapping is not None:
        return import_recording(text, path, mapping=read_mapping(mapping)).recording
    if "swath_recording" in text or not text.lstrip().startswith("{"):
        return parse_recording(text, path, javascript=True)
    return import_recording(text, path).recording


def write_recording(recording: Recording, path: str, *, force: bool) -> None:
    """As JSON if the name ends so, else as YAML. Raises BadInput when there is something and `force` is not given."""
    text = dump_json(recording) if path.lower().endswith(".json") else dump_yaml(recording)
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path}: is there already; --force replaces it") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


_SHOWN_FIELDS: Final = ("url", "text", "option", "key", "file", "code", "seconds", "most", "outcome", "page")


def print_steps(recording: Recording) -> None:
    """A line for each step, those inside others too."""
    rows = [
        (row["step"], row["do"], row["on"] or "", row["what"] or "", ", ".join(row["inputs"]))
        for row in steps_json(recording)
    ]
    print_table(("step", "action", "on", "what", "inputs"), rows, shorten=("on", "what"))


def steps_json(recording: Recording) -> list[dict[str, Any]]:
    """What the table has, for programs."""
    return [
        {
            "step": placed.place,
            "do": placed.step.do,
            "name": placed.step.name,
            "on": selector_label(on) if (on := getattr(placed.step, "on", None)) else None,
            "what": _step_text(placed.step),
            "inputs": inputs_of(placed.step),
        }
        for placed in walk(recording)
    ]


def inputs_of(step: AnyStep) -> list[str]:
    """The inputs that a step depends on itself, without the steps inside it."""
    references = (
        reference
        for part in parts_of(step)
        for _, text in texts_of(part)
        for reference in parse_template(text).references
    )
    return list(dict.fromkeys(one.name for one in references if one.root == "input" and one.name is not None))


def summary(recording: Recording) -> str:
    """One line: what it takes, does and gives."""
    steps = [placed.step for placed in walk(recording)]
    fields = list(dict.fromkeys(step.field for step in steps if isinstance(step, Extract)))
    inputs = f"{plural(len(recording.inputs), 'input')}{_names(list(recording.inputs))}"
    gives = f"{plural(len(fields), 'field')}{_names(fields)}" if fields else "no fields: it collects pages only"
    return f"{recording.id} {recording.version}: {plural(len(steps), 'step')}, {inputs}, {gives}"


def _names(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _step_text(step: AnyStep) -> str | None:
    if isinstance(step, Extract):
        return f"{step.kind} → {step.field}"
    told = (getattr(step, name, None) for name in _SHOWN_FIELDS)
    return next((str(value) for value in told if value is not None), None)


file_argument = click.argument("file", metavar="FILE", shell_complete=complete_files)


@click.command()
@file_argument
@json_option
def check(file: str, as_json: bool) -> None:
    """Check the recording FILE from end to end. Exits 2 with what is wrong, else says what it takes and gives."""
    recording = read_recording(file, javascript=begin().allow_javascript)
    if as_json:
        print_json(_recording_json(recording))
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
        print_json({**_recording_json(recording), "steps": steps_json(recording)})
        return
    click.echo(summary(recording))
    print_steps(recording)
    for note in recording.notes:
        click.echo(f"note: {note}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of recordings, by which editors complete and check them."""
    print_json(recording_schema())


def _recording_json(recording: Recording) -> dict[str, object]:
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
