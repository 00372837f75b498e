"""How commands print: JSON for programs, tables and one-line summaries for people.

Values of items, pages and recordings end up in the output, so control characters and direction marks are escaped on
terminals as in JSON, which keeps it valid. Files and pipes get the text unchanged.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

import click

if TYPE_CHECKING:
    from swath.domain.job import Counts, JobEnding, JobStatus

__all__ = [
    "command",
    "describe",
    "duration_text",
    "escape_control",
    "escape_terminal_output",
    "escaped_streams",
    "plural",
    "print_bold",
    "print_json",
    "print_table",
    "raw_stderr",
    "status_json",
    "status_notes",
    "waiting_text",
]

# C0 without tab and line feed, DEL, C1, and what sets a direction. A carriage return may end a line.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def escape_control(text: str) -> str:
    """The text with each unsafe character as `\\uXXXX`."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_terminal_output() -> None:
    """Guards stdout and stderr, each if it is a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            guarded = _EscapingBuffer(stream.buffer, stream.encoding)
            text = io.TextIOWrapper(
                guarded, encoding=stream.encoding, errors="backslashreplace", newline="\n", write_through=True
            )
            setattr(sys, name, text)


def print_bold(text: str) -> None:
    """A line on stdout, bold on a terminal."""
    buffer = getattr(sys.stdout, "buffer", None)
    if not isinstance(buffer, _EscapingBuffer):
        click.echo(text)
        return
    buffer.style(b"\x1b[1m")
    click.echo(text, nl=False)
    buffer.style(b"\x1b[0m")
    click.echo()


def raw_stderr() -> TextIO:
    """For a progress bar, which moves the cursor itself; whoever writes to it cleans what it is told."""
    return sys.stderr if sys.__stderr__ is None else sys.__stderr__


@contextmanager
def escaped_streams() -> Iterator[None]:
    """While a progress bar has taken the place of the standard streams: what is printed above it."""
    former = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _EscapingText(former[0]), _EscapingText(former[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = former


class _EscapingBuffer(io.BufferedIOBase):
    """Both ways to print end here: text, encoded by the stream above, and bytes of exports."""

    def __init__(self, inner: BinaryIO, encoding: str) -> None:
        self._inner = inner
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._held = ""  # a carriage return, until it is known what comes after

    @property
    def name(self) -> str:
        return "<terminal>"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._inner.fileno()

    def write(self, data: Any) -> int:
        text = self._held + self._decoder.decode(bytes(data))
        self._held = "\r" if text.endswith("\r") else ""
        self._inner.write(escape_control(text.removesuffix(self._held)).encode(self._encoding, "backslashreplace"))
        self._inner.flush()
        return len(data)

    def style(self, sequence: bytes) -> None:
        """A sequence of ours."""
        self._inner.write(sequence)

    def flush(self) -> None:
        self._inner.flush()


class _EscapingText:
    """A text stream to which nothing unsafe is written."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        self._inner.write(escape_control(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


GAP: Final = "  "
MIN_SHORTENED_WIDTH: Final = 12  # what is left of a column that gives way: less would name nothing


def command(*words: str) -> str:
    """A command line that works where this one did: with the path to `swath` if it is not on the search path."""
    called = Path(sys.argv[0])
    found = shutil.which("swath")
    known = called.name != "swath" or (found is not None and Path(found).resolve() == called.resolve())
    return shlex.join(["swath" if known else str(called), *words])


def plural(number: int, what: str) -> str:
    """So many of something: 1 item, 2 items."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One JSON document on stdout, readable by people too."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def status_json(status: JobStatus) -> dict[str, Any]:
    """A job for machines, without what may be secret in its `callback_url`: the same that a controller tells of it."""
    told = status.as_json()
    if told["callback_url"] is not None:
        from swath.fetch.url import redacted  # slow to import, and few jobs have one

        told["callback_url"] = redacted(told["callback_url"])
    return told


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], shorten: Sequence[str] = ()) -> None:
    """A line for each row. Where a terminal is too narrow, columns of `shorten` give way, then the last ones go."""
    from rich.cells import cell_len  # slow to import, and `--json` does without

    lines = [tuple(header), *(tuple(_printable(cell) for cell in row) for row in rows)]
    natural = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    widths = natural
    if sys.stdout.isatty():
        widths = _fit_widths(natural, frozenset(map(header.index, shorten)), shutil.get_terminal_size().columns)
    for number, line in enumerate(lines):
        cells = zip(line, widths, strict=False)  # what does not fit has no width
        text = GAP.join(_cell(cell, width) for cell, width in cells).rstrip()
        (print_bold if number == 0 else click.echo)(text)


def _fit_widths(natural: Sequence[int], elastic: frozenset[int], room: int) -> list[int]:
    """Widths of as many columns as fit, from the left; all of them if none may give way."""
    if not elastic:
        return list(natural)
    widths = list(natural)
    while len(widths) > 1 and _min_length(widths, elastic) > room:
        widths.pop()
    while _length(widths) > room:
        widest = max((at for at in elastic if at < len(widths)), key=lambda at: widths[at])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def _min_length(widths: Sequence[int], elastic: frozenset[int]) -> int:
    return _length([min(width, MIN_SHORTENED_WIDTH) if at in elastic else width for at, width in enumerate(widths)])


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _cell(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _printable(cell: str) -> str:
    """Text from files and sites must not move the cursor."""
    return "".join(c if c.isprintable() else "·" for c in cell)


def describe(status: JobStatus) -> str:
    """One line on where a job stands."""
    counts = status.counts
    parts = [f"{status.state.value}: {counts.ended:,} of {counts.total:,} done", _success_text(counts)]
    if counts.failed:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(status.failures.items(), key=lambda kv: -kv[1]))
        parts.append(f"{counts.failed:,} failed ({kinds})")
    parts += [f"{n:,} {word}" for n, word in ((counts.skipped, "skipped"), (counts.cancelled, "cancelled")) if n]
    if status.cache_hits:
        parts.append(f"{plural(status.cache_hits, 'answer')} from the cache")
    return ", ".join([*parts, *status_notes(status)])


def status_notes(status: JobStatus) -> list[str]:
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
        from swath.domain.manifest import MISSING_ITEMS_KEY

        them = plural(status.missing_items, "item")
        found.append(f"files of {them} are gone: `jobs retry --items` takes {MISSING_ITEMS_KEY} of its results")
    if status.waiting_for is not None:
        found.append(waiting_text(status))
    if status.ending is not None:
        found.append(_ending_text(status.job.job_id, status.ending))
    found += [
        f"site {site.name} is left alone, {site.why}: {duration_text(site.waits_seconds)}"
        for site in status.sites
        if site.why
    ]
    found += [
        f"site {site.name} asked us to slow down: {site.requests_per_second:.3g}/s"
        for site in status.sites
        if site.slowed_down
    ]
    if status.deleting:
        found.append("being deleted")
    return found


def waiting_text(status: JobStatus) -> str:
    """What a job waits for, and which process it has to wait for."""
    held = f", which is held by {status.held_by}" if status.held_by is not None else ""
    why = f": {_printable(status.waiting_reason)}" if status.waiting_reason else ""
    return f"waiting for the {status.waiting_for}{held}{why}"


def _ending_text(job_id: str, ending: JobEnding) -> str:
    """What its last steps are doing."""
    from swath.domain.job import ALERT_DEATHS  # most commands never come here

    if ending.retry_seconds is None:
        far = f" {ending.done:,} of {ending.total:,}" if ending.total else ""
        return f"ending: {ending.step.value.replace('_', ' ')}{far}"
    wait = duration_text(ending.retry_seconds)
    told = f"its ending has killed a worker {plural(ending.deaths, 'time')}, next try in {wait}"
    return f"{told}; to try at once: `{command('jobs', 'resume', job_id)}`" if ending.deaths >= ALERT_DEATHS else told


def _success_text(counts: Counts) -> str:
    found = f"{counts.success:,} success"
    return f"{found} ({counts.not_found:,} not found)" if counts.not_found else found


def duration_text(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
