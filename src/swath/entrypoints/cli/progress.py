"""Live progress of a job: a bar where somebody watches, a line now and then where output goes to a file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from swath.domain.job import JobStatus
from swath.entrypoints.cli.output import describe, span, troubles
from swath.entrypoints.cli.terminal import clean, cleaned, unguarded_stderr

__all__ = ["Display", "watching"]

LINE_SECONDS = 5.0


class Display(Protocol):
    """Shows where a job stands, again and again."""

    def show(self, status: JobStatus) -> None:
        """The job as it is now."""
        ...

    def loading(self, rows: int) -> None:
        """Rows of the source read so far."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should know now, once."""
        ...


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("loading", total=None, detail="")

    def loading(self, rows: int) -> None:
        self._progress.update(self._task, description="loading", completed=rows, detail=f"{rows:,} rows")

    def show(self, status: JobStatus) -> None:
        counts = status.counts
        failed = " ".join(f"{kind} {n:,}" for kind, n in sorted(status.failures.items(), key=lambda kv: -kv[1]))
        detail = (
            f"{counts.ended:,}/{counts.total:,}  {status.items_per_second:,.1f}/s  "
            f"ETA {span(status.eta_seconds)}  {counts.queued + counts.in_progress} running"
        )
        if failed:
            detail += f"  [red]failed: {escape(clean(failed))}[/red]"
        detail += "".join(f"  [yellow]{escape(clean(trouble))}[/yellow]" for trouble in troubles(status))
        self._progress.update(
            self._task, description=status.state.value, total=counts.total, completed=counts.ended, detail=detail
        )

    def note(self, text: str) -> None:
        self._progress.console.print(clean(text), markup=False, highlight=False)


class _Lines:
    """For logs: one line every few seconds, and only when something changed."""

    def __init__(self) -> None:
        self._last_at = -LINE_SECONDS
        self._last = ""

    def loading(self, rows: int) -> None:
        self._say(f"loading: {rows:,} rows")

    def show(self, status: JobStatus) -> None:
        pace = f"{status.items_per_second:,.1f} items/s, ETA {span(status.eta_seconds)}"
        self._say(f"{describe(status)}; {pace}")

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def _say(self, line: str) -> None:
        now = asyncio.get_running_loop().time()
        if line != self._last and now - self._last_at >= LINE_SECONDS:
            self._last, self._last_at = line, now
            click.echo(line, err=True)


class _Silence:
    def loading(self, rows: int) -> None:
        pass

    def show(self, status: JobStatus) -> None:
        pass

    def note(self, text: str) -> None:
        click.echo(text, err=True)


@asynccontextmanager
async def watching(*, quiet: bool) -> AsyncIterator[Display]:
    """The display that fits where stderr goes; stdout is left to results."""
    if quiet:
        yield _Silence()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        columns = (TextColumn("{task.description:>10}"), BarColumn(None), TextColumn("{task.fields[detail]}"))
        with (
            Progress(
                *columns, console=Console(file=unguarded_stderr()), refresh_per_second=8, transient=True
            ) as progress,
            cleaned(),
        ):
            yield _Bar(progress)
