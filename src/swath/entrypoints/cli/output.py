"""How commands print: JSON for machines, tables and one-line summaries for people."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from swath.domain.job import Counts, JobStatus

__all__ = ["command", "describe", "print_json", "print_table", "span", "troubles"]


def command(*words: str) -> str:
    """A command line that works where this one did: with the path to `swath` if it is not on the search path."""
    called = Path(sys.argv[0])
    found = shutil.which("swath")
    known = called.name != "swath" or (found is not None and Path(found).resolve() == called.resolve())
    return shlex.join(["swath" if known else str(called), *words])


def print_json(value: Any) -> None:
    """One JSON document on stdout, readable by people too."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their contents; the last one takes what is left of the terminal."""
    from rich.console import Console  # slow to import, and `--json` does without
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold", no_wrap=name == header[0])
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    Console(file=sys.stdout, highlight=False).print(table)


def _plain(cell: str) -> str:
    """Text from files and sites must not be read as markup, nor move the cursor."""
    return "".join(c if c.isprintable() else "·" for c in cell).replace("[", "\\[")


def describe(status: JobStatus) -> str:
    """One line on where a job stands."""
    counts = status.counts
    parts = [f"{status.state.value}: {counts.ended:,} of {counts.total:,} done", _successes(counts)]
    if counts.failed:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(status.failures.items(), key=lambda kv: -kv[1]))
        parts.append(f"{counts.failed:,} failed ({kinds})")
    parts += [f"{n:,} {word}" for n, word in ((counts.skipped, "skipped"), (counts.cancelled, "cancelled")) if n]
    return ", ".join([*parts, *troubles(status)])


def troubles(status: JobStatus) -> list[str]:
    """What keeps a job from going on as it should, in a few words each."""
    found = []
    if status.generation > 1:
        found.append(f"generation {status.generation}")
    if status.circuit_opened is not None:
        found.append(f"circuit open: {status.circuit_opened}")
    elif status.stopping is not None and not status.state.terminal:
        found.append("stopping")
    if status.waiting_for is not None:
        found.append(f"waiting for the {status.waiting_for}")
    if status.deleting:
        found.append("being deleted")
    return found


def _successes(counts: Counts) -> str:
    found = f"{counts.success:,} success"
    return f"{found} ({counts.not_found:,} not found)" if counts.not_found else found


def span(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
