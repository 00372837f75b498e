"""Runs the blocks of one page in order, in a folder of its own, as a reader would, and compares what is shown.

Before: pages.py has read them. The real `swath` is used; the demo county is served on a free port, controllers listen
on others, and the addresses in the page are replaced by them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.docs.pages import Block

__all__ = ["PageRun", "demo_site", "matches"]

SHOWN_SITE: Final = "http://127.0.0.1:8010"
# Where pages have their controllers; the first is what SWATH_PORT is by default.
_SHOWN_PORT: Final = re.compile(r"(?<=127\.0\.0\.1:)800[01]\b|(?<=--port )800[01]\b")
BIN: Final = Path(sys.executable).parent
_BLOCK_SECONDS: Final = 120  # of a machine that is busy with other tests
# On a terminal progress is a bar that leaves nothing behind; here it is lines, which no page shows.
_PROGRESS: Final = re.compile(r"loading: [\d,]+ rows|\w+: .* items/s, ETA .*")
_EXPORT: Final = re.compile(r"^export (\w+=\S+(?: \w+=\S+)*)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\d[\d,.]*")


class PageRun:
    """One page being followed. `site` is where the demo county is served; `variables` are there besides."""

    def __init__(self, folder: Path, site: str, variables: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._site = site
        self._variables = dict(variables or {})
        self._started: list[int] = []
        self._ports = {"8000": _free_port(), "8001": _free_port()}

    def follow(self, blocks: list[Block]) -> None:
        """Does what the page says; an AssertionError names the line and shows both sides."""
        output: str | None = None
        loose = False
        for block in blocks:
            if block.mark("not run") is not None or block.language == "mermaid":
                output = None
            elif (name := block.mark("file")) is not None:
                self._write(name, block)
            elif block.language in {"text", "json"}:
                assert output is not None, f"line {block.line}: shows the output of nothing that is run"
                problem = matches(self._here(block.text), output, any_number=loose)
                assert problem is None, f"line {block.line}: {problem}"
                output = None
            else:
                loose = block.mark("run as") is not None
                output = self._run(block)

    def _write(self, name: str, block: Block) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._here(block.text), encoding="utf-8")

    def _run(self, block: Block) -> str:
        wanted = int(block.mark("exits") or 0)
        text = self._here(block.mark("run as") or block.text)
        code, output = self._execute(text, block.language)
        for line in _EXPORT.findall(text):  # what a reader exports is there in the next block, too
            self._variables |= dict(word.split("=", 1) for word in line.split())
        assert code == wanted, f"line {block.line}: exits {code}, not {wanted}:\n{output}"
        return output

    def _execute(self, text: str, language: str) -> tuple[int, str]:
        programs: dict[str, list[str | Path]] = {
            "sh": ["sh", "-e", "-c", text],
            "python": [sys.executable, "-W", "error", "-c", text],
        }
        assert language in programs, f"a block of {language or 'no language'} is neither run nor written: {text!r}"
        log = self._folder.with_suffix(".log")
        with log.open("w+b") as file:
            # A file and not a pipe: what is left running in the background must not keep us waiting.
            process = subprocess.Popen(
                programs[language],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._started.append(process.pid)
            try:
                code = process.wait(timeout=_BLOCK_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = -signal.SIGKILL
        return code, log.read_text(encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "SWATH_DEMO_URL": self._site,
            "SWATH_PORT": self._ports["8000"],
            **self._variables,
        }

    def _here(self, text: str) -> str:
        """The page for where it is run: other addresses, and `swath` on the path, then named without folder."""
        text = _SHOWN_PORT.sub(lambda found: self._ports[found[0]], text)
        text = text.replace(SHOWN_SITE.removeprefix("http://"), self._site.removeprefix("http://"))
        return text.replace(".venv/bin/swath", "swath")

    def end(self) -> None:
        """Stops what the page left running, by the process groups that were started here."""
        for group in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def _free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def matches(shown: str, output: str, *, any_number: bool = False) -> str | None:
    """What is wrong, or None. `…` stands for the rest of a word or line, alone on a line for any lines.

    `any_number` lets every number stand for any other.
    """
    lines = [line.rstrip() for line in output.splitlines() if not _PROGRESS.fullmatch(line.strip())]
    pattern = "".join(_line_pattern(line.rstrip(), any_number=any_number) for line in shown.splitlines())
    found = "".join(f"{line}\n" for line in lines)
    if re.fullmatch(pattern, found):
        return None
    return f"the page shows\n{shown}\nand there came\n{found}"


def _line_pattern(line: str, *, any_number: bool) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    pieces = []
    for piece in line.split("…"):
        parts = _NUMBER.split(piece) if any_number else [piece]
        pieces.append(_NUMBER.pattern.join(re.escape(part) for part in parts))
    return ".*".join(pieces) + r"\n"


@contextlib.contextmanager
def demo_site() -> Iterator[str]:
    """The real `swath demo-site`, a little slow so that a job can be killed in the middle on any machine."""
    command = [str(BIN / "swath"), "demo-site", "--port", "0", "--latency-ms", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        announced = re.search(r"http://\S+", process.stdout.readline())
        assert announced is not None
        yield announced[0]
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
        if process.stdout is not None:
            process.stdout.close()
