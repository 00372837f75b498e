"""`swath recording suggest`: which columns of a sample row stand in a recording, as flags for `import`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swath.actions.importing import Suggestion
from swath.actions.importing import suggest as suggested
from swath.actions.importing.strict_json import read_json
from swath.domain.errors import BadInput
from swath.entrypoints.cli.options import complete_files, json_option
from swath.entrypoints.cli.output import print_json, print_table
from swath.entrypoints.cli.recording.files import read_any, read_text
from swath.pipeline.accept.file_source import FileSource
from swath.pipeline.accept.rows import BadRow

__all__ = ["suggest"]


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
        print_json([_as_json(one) for one in found])
        return
    if not found:
        raise BadInput(
            f"{row}: nothing of its first row stands in {file}; take the row that was typed when it was recorded"
        )
    print_table(
        ("input", "column", "value", "found"),
        [(one.name, ", ".join([one.column, *one.also]), one.literal, _where(one)) for one in found],
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


def _where(one: Suggestion) -> str:
    """`typed in step 4; part of the address in step 2`."""
    words = {"exact": "", "form": " in another form", "split": " in pieces", "beginning": " in part", "part": ""}
    told: dict[str, list[str]] = {}
    for place in one.places:
        told.setdefault(f"{_FIELDS.get(place.field, place.field)}{words[place.how]}", []).append(place.step)
    return "; ".join(f"{what}: {', '.join(dict.fromkeys(steps))}" for what, steps in told.items())


_FIELDS = {"text": "text", "option": "picked", "url": "address", "target": "window", "on": "selector"}


def _as_json(one: Suggestion) -> dict[str, Any]:
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
