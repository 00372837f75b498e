"""The commands of `swath recording` by name; each is imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from swath.entrypoints.cli.lazy_group import LazyGroup

__all__ = ["recording"]

_HERE: Final = "swath.entrypoints.cli.recording"
COMMANDS: Final = {
    "import": (f"{_HERE}.import_:import_", "Make a recording of ours out of one of Chrome's, or of another recorder."),
    "check": (f"{_HERE}.show:check", "Check a recording from end to end, and say what it takes and gives."),
    "try": (f"{_HERE}.try_:try_", "Play a recording on one input, and show each step with its time."),
    "show": (f"{_HERE}.show:show", "Show the steps of a recording."),
    "suggest": (f"{_HERE}.import_:suggest", "Propose which columns of a row to bind."),
    "schema": (f"{_HERE}.show:schema", "Print the JSON Schema of recordings."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def recording() -> None:
    """Import, check, try and show recordings: one click-through that a job repeats for each item."""
