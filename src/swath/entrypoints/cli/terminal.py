"""What a terminal may be sent: no control characters and none that turn the direction of text, wherever they come from.

Values of items, pages, recordings, settings and arguments end up in what commands print. On a terminal a few bytes of
them could move the cursor, hide lines or show them in another order. So both standard streams are guarded where they
are terminals: such a character is written as `\\uXXXX`, which leaves JSON valid. Files and pipes get what there is.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, TextIO

import click

__all__ = ["bold_line", "clean", "cleaned", "guard_terminals", "unguarded_stderr"]

# C0 without tab and line feed, DEL, C1, and what sets a direction. A carriage return may end a line.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def clean(text: str) -> str:
    """The text with each unsafe character as `\\uXXXX`."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def guard_terminals() -> None:
    """Guards stdout and stderr, each if it is a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            guarded = _Guarded(stream.buffer, stream.encoding)
            text = io.TextIOWrapper(
                guarded, encoding=stream.encoding, errors="backslashreplace", newline="\n", write_through=True
            )
            setattr(sys, name, text)


def bold_line(text: str) -> None:
    """A line on stdout, bold on a terminal."""
    buffer = getattr(sys.stdout, "buffer", None)
    if not isinstance(buffer, _Guarded):
        click.echo(text)
        return
    buffer.style(b"\x1b[1m")
    click.echo(text, nl=False)
    buffer.style(b"\x1b[0m")
    click.echo()


def unguarded_stderr() -> TextIO:
    """For a progress bar, which moves the cursor itself; whoever writes to it cleans what it is told."""
    return sys.stderr if sys.__stderr__ is None else sys.__stderr__


@contextmanager
def cleaned() -> Iterator[None]:
    """While a progress bar has taken the place of the standard streams: what is printed above it."""
    former = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Cleaned(former[0]), _Cleaned(former[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = former


class _Guarded(io.BufferedIOBase):
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
        self._inner.write(clean(text.removesuffix(self._held)).encode(self._encoding, "backslashreplace"))
        self._inner.flush()
        return len(data)

    def style(self, sequence: bytes) -> None:
        """A sequence of ours."""
        self._inner.write(sequence)

    def flush(self) -> None:
        self._inner.flush()


class _Cleaned:
    """A text stream to which nothing unsafe is written."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        self._inner.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
