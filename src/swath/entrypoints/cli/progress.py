"""Progress of a job or an export: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from swath.domain.job import JobStatus
from swath.entrypoints.cli.output import (
    describe,
    duration_text,
    escape_control,
    escaped_streams,
    raw_stderr,
    status_notes,
)

__all__ = ["ProgressDisplay", "StepCounter", "show_progress", "show_steps"]

LINE_SECONDS = 5.0


class ProgressDisplay(Protocol):
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
            f"ETA {duration_text(status.eta_seconds)}  {counts.queued + counts.in_progress} running"
        )
        if failed:
            detail += f"  [red]failed: {escape(escape_control(failed))}[/red]"
        detail += "".join(f"  [yellow]{escape(escape_control(trouble))}[/yellow]" for trouble in status_notes(status))
        self._progress.update(
            self._task, description=status.state.value, total=counts.total, completed=counts.ended, detail=detail
        )

    def note(self, text: str) -> None:
        self._progress.console.print(escape_control(text), markup=False, highlight=False)


class _Lines:
    """For logs: one line every few seconds, and only when something changed."""

    def __init__(self) -> None:
        self._last_at = -LINE_SECONDS
        self._last = ""

    def loading(self, rows: int) -> None:
        self._say(f"loading: {rows:,} rows")

    def show(self, status: JobStatus) -> None:
        pace = f"{status.items_per_second:,.1f} items/s, ETA {duration_text(status.eta_seconds)}"
        self._say(f"{describe(status)}; {pace}")

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def _say(self, line: str) -> None:
        now = asyncio.get_running_loop().time()
        if line != self._last and now - self._last_at >= LINE_SECONDS:
            self._last, self._last_at = line, now
            click.echo(line, err=True)


class _NoProgress:
    def loading(self, rows: int) -> None:
        pass

    def show(self, status: JobStatus) -> None:
        pass

    def note(self, text: str) -> None:
        click.echo(text, err=True)


@asynccontextmanager
async def show_progress(*, quiet: bool) -> AsyncIterator[ProgressDisplay]:
    """The display that fits where stderr goes; stdout is left to results."""
    if quiet:
        yield _NoProgress()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        columns = (TextColumn("{task.description:>10}"), BarColumn(None), TextColumn("{task.fields[detail]}"))
        with (
            Progress(*columns, console=Console(file=raw_stderr()), refresh_per_second=8, transient=True) as progress,
            escaped_streams(),
        ):
            yield _Bar(progress)


class StepCounter(Protocol):
    """Hears of each step."""

    def add(self, steps: int) -> None:
        """So many more are done."""
        ...


class _StepLines:
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
            click.echo(f"{self._what}: {share:.0%}, ETA {duration_text(left)}", err=True)


@contextmanager
def show_steps(total: int, what: str = "exporting") -> Iterator[StepCounter]:
    """The display that fits where stderr goes; stdout is left to what is exported."""
    if not sys.stderr.isatty():
        yield _StepLines(total, what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(None), TaskProgressColumn(), TextColumn("ETA"), TimeRemainingColumn())
    with (
        Progress(*columns, console=Console(file=raw_stderr()), refresh_per_second=8, transient=True) as progress,
        escaped_streams(),
    ):
        task = progress.add_task("", total=total)

        class Bar:
            def add(self, steps: int) -> None:
                progress.advance(task, steps)

        yield Bar()
