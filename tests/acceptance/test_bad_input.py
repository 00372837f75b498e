"""Z5: files that no person should have, and that somebody will give us: one line, exit code 2, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("Z5", "J2", "C2")

# name → (what the file holds, what the message must say)
CORPUS: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "unclosed quote": (lambda: b'n\n1\n"2\n' + b"3\n" * 5_000, ["line 3", "quote", "never closed"]),
    "unclosed quote that swallows much": (lambda: b'n\n"' + b"x\n" * 1_500_000, ["line 2", "quote", "not closed"]),
    "NUL": (lambda: b"n\n1\n2\x003\n", ["line 3", "NUL"]),
    "UTF-16 without a mark": (lambda: "n\n1\n2\n".encode("utf-16-le"), ["UTF-16", "iconv"]),
    "empty": (lambda: b"", ["empty"]),
    "only white space": (lambda: b"\n\n  \n", ["no rows"]),
    "header only": (lambda: b"n\n", ["no rows"]),
    "10 MB cell": (lambda: b"n\n1\n" + b"x" * 10_000_000 + b"\n", ["line 3", "longer than 1,048,576 characters"]),
    "10 MB header": (lambda: b"x" * 10_000_000 + b"\n1\n", ["line 1", "header"]),
    "100,000 columns": (
        lambda: b",".join(b"c%d" % n for n in range(100_000)) + b"\n" + b"," * 99_999 + b"\n",
        ["line 1", "100,000 columns", "at most 10,000"],
    ),
    "a zip archive": (lambda: b"PK\x03\x04" + bytes(1_000), ["zip"]),
    "cut gzip": (lambda: b"\x1f\x8b\x08\x00", ["gzip"]),
}


def _one_line(err: str) -> str:
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("swath: ")]
    assert len(lines) == 1, err
    assert len(lines[0]) < 1_000, "a line that nobody can read"
    return lines[0]


@pytest.mark.parametrize("name", CORPUS)
def test_a_file_that_cannot_be_used_costs_one_line(shell: Shell, name: str) -> None:
    make, expected = CORPUS[name]
    (shell.folder / "items.csv").write_bytes(make())
    done = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "bad")
    assert done.returncode == 2, done.stderr
    message = _one_line(done.stderr)
    assert all(part in message for part in ["items.csv", *expected]), message
    assert shell.swath("jobs", "status", "bad").returncode == 7  # nothing was begun, and the id is free


def test_a_directory_is_no_file(shell: Shell) -> None:
    (shell.folder / "items.csv").mkdir()
    done = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "bad")
    assert done.returncode == 2
    assert "directory" in _one_line(done.stderr)


async def _line_with(reader: asyncio.StreamReader, part: str) -> str:
    while line := (await asyncio.wait_for(reader.readline(), 60)).decode():
        if part in line:
            return line
    raise AssertionError(f"no line has {part!r}")


@pytest.mark.parametrize("command", [("run",), ("jobs", "create")])
async def test_a_pipe_that_nobody_writes_to_is_told_and_can_be_left(shell: Shell, command: tuple[str, ...]) -> None:
    os.mkfifo(shell.folder / "items.csv")
    process = await shell.start(*command, "example-mock", "--items", "items.csv", "--job-id", "pipe")
    assert process.stderr is not None
    assert "items.csv" in await _line_with(process.stderr, "waiting for")
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 60) == 130


async def test_a_pipe_that_is_written_to_late_is_read(shell: Shell) -> None:
    os.mkfifo(shell.folder / "items.csv")
    process = await shell.start("run", "example-mock", "--items", "items.csv", "--job-id", "pipe", "--quiet")
    assert process.stderr is not None
    await _line_with(process.stderr, "waiting for")
    await asyncio.to_thread((shell.folder / "items.csv").write_text, "n\n1\n2\n")
    assert await asyncio.wait_for(process.wait(), 60) == 0


def test_an_empty_stdin_is_told(shell: Shell) -> None:
    done = shell.swath("run", "example-mock", "--items", "-", stdin="")
    assert done.returncode == 2
    assert "stdin: is empty" in _one_line(done.stderr)
