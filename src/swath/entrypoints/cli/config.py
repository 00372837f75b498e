"""`swath config show`: each setting with its source, and SWATH_ variables that are not settings."""

from __future__ import annotations

import difflib
from typing import Any

import click
import msgspec

from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.output import print_json, print_table
from swath.settings import LoadedSettings, Settings, load, mask_setting

__all__ = ["config", "unknown_variables"]


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Show each setting and where it came from; secrets are masked."""
    reading = load()
    if as_json:
        print_json(_as_json(reading))
        return
    print_table(
        ("setting", "value", "from"),
        [(name, display_value(reading, name), reading.origins[name].name) for name in Settings.__struct_fields__],
    )
    click.echo(f"settings file: {reading.file or 'none'}")
    for line in unknown_variables(reading):
        click.echo(f"note: {line}", err=True)


def display_value(reading: LoadedSettings, name: str) -> str:
    """A setting as people may see it."""
    value = getattr(reading.settings, name)
    if value is None or value == ():
        return "none"
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return mask_setting(name, text)


def unknown_variables(reading: LoadedSettings) -> list[str]:
    """A line for each variable that nothing reads."""
    variables = [f"SWATH_{name.upper()}" for name in Settings.__struct_fields__]
    lines = []
    for name, value in reading.unknown.items():
        near = difflib.get_close_matches(name.upper(), variables, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        lines.append(f"{name}={value} is no setting, and nothing reads it{hint}")
    return lines


def _as_json(reading: LoadedSettings) -> dict[str, Any]:
    values = msgspec.structs.asdict(reading.settings)
    return {
        "file": None if reading.file is None else str(reading.file),
        "settings": {
            name: {
                "value": _json_value(name, value),
                "source": reading.origins[name].source,
                "name": reading.origins[name].name,
            }
            for name, value in values.items()
        },
        "unknown": dict(reading.unknown),
    }


def _json_value(name: str, value: object) -> Any:
    """Numbers, lists and nothing as they are, all else as the text that people may see."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, tuple):
        return [_json_value(name, one) for one in value]
    return mask_setting(name, str(value))
