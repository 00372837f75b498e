"""How far an export is, with the time to its end: a bar where somebody watches, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from swath.entrypoints.cli.output import span
from swath.entrypoints.cli.terminal import cleaned, unguarded_stderr

__all__ = ["Steps", "steps"]

LINE_SECONDS = 5.0


class Steps(Protocol):
    """Hears of each step."""

    def add(self, steps: int) -> None:
        """So many more are done."""
        ...


class _Lines:
    """Nothing of what is over soon."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._done = 0
        self._began_at = self._told_at = time.monotonic()

    def add(self, steps: int) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._told_at >= LINE_SECONDS and self._done:
            self._told_at = now
            left = (now - self._began_at) * max(0, self._total - self._done) / self._done
            share = min(1.0, self._done / max(1, self._total))
            click.echo(f"{self._what}: {share:.0%}, ETA {span(left)}", err=True)


@contextmanager
def steps(total: int, what: str = "exporting") -> Iterator[Steps]:
    """The display that fits where stderr goes; stdout is left to what is exported."""
    if not sys.stderr.isatty():
        yield _Lines(total, what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(None), TaskProgressColumn(), TextColumn("ETA"), TimeRemainingColumn())
    with (
        Progress(*columns, console=Console(file=unguarded_stderr()), refresh_per_second=8, transient=True) as progress,
        cleaned(),
    ):
        task = progress.add_task("", total=total)

        class Bar:
            def add(self, steps: int) -> None:
                progress.advance(task, steps)

        yield Bar()
