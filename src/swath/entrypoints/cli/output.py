"""How commands print: JSON for machines, tables and one-line summaries for people."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from swath.entrypoints.cli.terminal import bold_line

if TYPE_CHECKING:
    from swath.domain.ending import Ending
    from swath.domain.job import Counts, JobStatus

__all__ = ["command", "counted", "describe", "print_json", "print_table", "span", "status_json", "troubles", "waiting"]

GAP: Final = "  "
SHORTEST: Final = 12  # what is left of a column that gives way: less would name nothing


def command(*words: str) -> str:
    """A command line that works where this one did: with the path to `swath` if it is not on the search path."""
    called = Path(sys.argv[0])
    found = shutil.which("swath")
    known = called.name != "swath" or (found is not None and Path(found).resolve() == called.resolve())
    return shlex.join(["swath" if known else str(called), *words])


def counted(number: int, what: str) -> str:
    """So many of something: 1 item, 2 items."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One JSON document on stdout, readable by people too."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def status_json(status: JobStatus) -> dict[str, Any]:
    """A job for machines, without what may be secret in its `callback_url`: the same that a controller tells of it."""
    told = status.as_json()
    if told["callback_url"] is not None:
        from swath.web.address import shown  # slow to import, and few jobs have one

        told["callback_url"] = shown(told["callback_url"])
    return told


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], shorten: Sequence[str] = ()) -> None:
    """A line for each row. Where a terminal is too narrow, columns of `shorten` give way, then the last ones go."""
    from rich.cells import cell_len  # slow to import, and `--json` does without

    lines = [tuple(header), *(tuple(_plain(cell) for cell in row) for row in rows)]
    natural = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    widths = natural
    if sys.stdout.isatty():
        widths = _fitted(natural, frozenset(map(header.index, shorten)), shutil.get_terminal_size().columns)
    for number, line in enumerate(lines):
        cells = zip(line, widths, strict=False)  # what does not fit has no width
        text = GAP.join(_cell(cell, width) for cell, width in cells).rstrip()
        (bold_line if number == 0 else click.echo)(text)


def _fitted(natural: Sequence[int], elastic: frozenset[int], room: int) -> list[int]:
    """Widths of as many columns as fit, from the left; all of them if none may give way."""
    if not elastic:
        return list(natural)
    widths = list(natural)
    while len(widths) > 1 and _least(widths, elastic) > room:
        widths.pop()
    while _length(widths) > room:
        widest = max((at for at in elastic if at < len(widths)), key=lambda at: widths[at])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def _least(widths: Sequence[int], elastic: frozenset[int]) -> int:
    return _length([min(width, SHORTEST) if at in elastic else width for at, width in enumerate(widths)])


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _cell(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _plain(cell: str) -> str:
    """Text from files and sites must not move the cursor."""
    return "".join(c if c.isprintable() else "·" for c in cell)


def describe(status: JobStatus) -> str:
    """One line on where a job stands."""
    counts = status.counts
    parts = [f"{status.state.value}: {counts.ended:,} of {counts.total:,} done", _successes(counts)]
    if counts.failed:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(status.failures.items(), key=lambda kv: -kv[1]))
        parts.append(f"{counts.failed:,} failed ({kinds})")
    parts += [f"{n:,} {word}" for n, word in ((counts.skipped, "skipped"), (counts.cancelled, "cancelled")) if n]
    if status.cache_hits:
        parts.append(f"{counted(status.cache_hits, 'answer')} from the cache")
    return ", ".join([*parts, *troubles(status)])


def troubles(status: JobStatus) -> list[str]:
    """What keeps a job from going on as it should, in a few words each."""
    found = []
    if status.generation > 1:
        found.append(f"generation {status.generation}")
    if len(status.scraper_versions) > 1:
        found.append(f"read by versions {', '.join(status.scraper_versions)} of the scraper")
    if status.circuit_opened is not None:
        found.append(f"circuit open: {status.circuit_opened}")
    elif status.stopping is not None and not status.state.terminal:
        found.append("stopping")
    if status.missing_items:
        from swath.domain.manifest import MISSING_KEY

        them = counted(status.missing_items, "item")
        found.append(f"files of {them} are gone: `jobs retry --items` takes {MISSING_KEY} of its results")
    if status.waiting_for is not None:
        found.append(waiting(status))
    if status.ending is not None:
        found.append(_ending(status.job.job_id, status.ending))
    found += [
        f"site {site.name} is left alone, {site.why}: {span(site.waits_seconds)}" for site in status.sites if site.why
    ]
    found += [
        f"site {site.name} asked us to slow down: {site.requests_per_second:.3g}/s"
        for site in status.sites
        if site.slowed_down
    ]
    if status.deleting:
        found.append("being deleted")
    return found


def waiting(status: JobStatus) -> str:
    """What a job waits for, and which process it has to wait for."""
    held = f", which is held by {status.held_by}" if status.held_by is not None else ""
    why = f": {_plain(status.waiting_reason)}" if status.waiting_reason else ""
    return f"waiting for the {status.waiting_for}{held}{why}"


def _ending(job_id: str, ending: Ending) -> str:
    """What its last steps are doing."""
    from swath.domain.ending import TELL_DEATHS  # most commands never come here

    if ending.retry_seconds is None:
        far = f" {ending.done:,} of {ending.total:,}" if ending.total else ""
        return f"ending: {ending.step.value.replace('_', ' ')}{far}"
    told = f"its ending has killed a worker {counted(ending.deaths, 'time')}, next try in {span(ending.retry_seconds)}"
    return f"{told}; to try at once: `{command('jobs', 'resume', job_id)}`" if ending.deaths >= TELL_DEATHS else told


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
