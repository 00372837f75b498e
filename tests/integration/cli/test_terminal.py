"""Z5: what a job, a site or an argument holds cannot move a terminal's cursor or turn its text; files get it all."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing.connection
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.warm import SERVER, run_warm

pytestmark = pytest.mark.req("Z5")

# One of each kind: C0, DEL, C1 (the 8-bit CSI among them), marks, embeddings, overrides, isolates.
EVIL = "".join(map(chr, [0x07, 0x08, 0x1B, 0x7F, 0x85, 0x9B, 0x61C, 0x200E, 0x200F, 0x202A, 0x202E, 0x2066, 0x2069]))
TITLE = f"a\x1b]0;owned\x07\x1b[2Jb\rc{EVIL}d"
SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
BOLD = ("\x1b[1m", "\x1b[0m")  # our own header, and nothing that came from elsewhere
BAR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")  # a bar moves the cursor by itself
SCRIPT = """\
swath_recording: 1
name: "evil {evil} recording"
id: evil
sites: [127.0.0.1]
steps:
  - do: goto
    url: http://127.0.0.1/
"""


class Place:
    """Two jobs with hostile values in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.item = ""
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SWATH_")},
            "SWATH_DATA": str(folder / "data"),
            "SWATH_ROBOTS_AGENT": f"agent{EVIL}",
            "COLUMNS": "200",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    def plain(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_warm(words, self.folder, self.environment, None, 90)

    def on_terminal(self, *words: str, errors: bool = True) -> tuple[int, str]:
        """Exit code and what came out of stdout, and of stderr if asked, on a terminal that changes nothing."""
        ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # or each line feed would get a carriage return
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        names = (os.ttyname(theirs), os.ttyname(theirs) if errors else os.devnull)
        process = SERVER.Process(target=_on_terminal, args=([*words], self.folder, self.environment, names))
        process.start()
        came = b""
        while multiprocessing.connection.wait([ours, process.sentinel], 120) != [process.sentinel]:
            came += os.read(ours, 65_536)
        process.join(60)
        os.close(theirs)
        os.close(ours)
        assert process.exitcode is not None
        return process.exitcode, came.decode()


def _on_terminal(words: list[str], folder: Path, environment: dict[str, str], names: tuple[str, str]) -> None:
    for number, name in enumerate((names[0], *names)):
        os.dup2(os.open(name, os.O_RDWR | os.O_NOCTTY), number)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), _text(1), _text(2)  # noqa: SIM115 as an interpreter has
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["swath", *words]
    from swath.entrypoints.cli.main import main

    main()


def _text(number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(open(number, "wb", closefd=False), encoding="utf-8", line_buffering=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("evil"))
    for job, last in (("a", "1"), ("b", "2")):
        rows = [{"id": "one", "note": TITLE + last}, {"id": f"two{EVIL}", "note": "plain"}]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place.folder / f"{job}.jsonl").write_text(text)
        ran = place.plain("run", "example-mock", "--items", f"{job}.jsonl", "--job-id", job, "--quiet")
        assert ran.returncode == 0, ran.stderr
    escaped = "".join(f"\\u{ord(c):04x}" for c in EVIL)
    (place.folder / "evil.yaml").write_text(SCRIPT.replace("{evil}", escaped))
    line = place.plain("jobs", "export", "a", "--output", "-", "--format", "jsonl").stdout.split("\n")[0]
    place.item = re.search(r'"_?item_id": ?"([0-9a-f]+)"', line)[1]  # type: ignore[index] # it has one
    return place


def _raw(text: str) -> list[str]:
    for sequence in BOLD:
        text = text.replace(sequence, "")
    return [hex(ord(found)) for found in SHOWN.findall(text.replace("\r\n", "\n"))]


def _value_of(text: str) -> Any:
    return json.loads(text)


COMMANDS: list[tuple[tuple[str, ...], Callable[[str], Any] | None]] = [
    (("jobs", "status", "a", "--json"), _value_of),
    (("jobs", "item", "a", "ITEM", "--json"), _value_of),
    (("jobs", "item", "a", "ITEM"), None),
    (("jobs", "list", "--json"), _value_of),
    (("jobs", "watch", "a", "--json"), _value_of),
    (
        ("jobs", "export", "a", "--output", "-", "--format", "jsonl"),
        lambda t: [*map(json.loads, t.strip().split("\n"))],
    ),
    (("jobs", "export", "a", "--output", "-", "--format", "csv"), None),
    (("jobs", "compare", "a", "b", "--key", "fields.id", "--json"), _value_of),
    (("jobs", "compare", "a", "b", "--key", "fields.id", "--format", "csv"), None),
    (("jobs", "compare", "a", "b", "--key", "fields.id"), None),
    (("config", "show"), None),
    (("config", "show", "--json"), _value_of),
    (("recording", "show", "evil.yaml"), None),
    (("recording", "show", "evil.yaml", "--json"), _value_of),
    (("jobs", "status", f"no{EVIL}"), None),
    (("run", f"no{EVIL}.py"), None),
    ((f"no{EVIL}",), None),
    (("jobs", "list", f"--no{EVIL}"), None),
    (("jobs", "export", "a", "--output", f"/no{EVIL}/x.csv"), None),
]


@pytest.mark.parametrize(
    ("words", "value_of"),
    COMMANDS,
    ids=lambda one: " ".join(one)[:40].encode("ascii", "replace").decode() if isinstance(one, tuple) else "",
)
def test_a_terminal_gets_no_raw_control_character(
    place: Place, words: tuple[str, ...], value_of: Callable[[str], Any] | None
) -> None:
    words = tuple(place.item if word == "ITEM" else word for word in words)
    piped = place.plain(*words)
    code, shown = place.on_terminal(*words, errors=not piped.stdout)
    assert code == piped.returncode
    assert shown.strip()
    assert _raw(BAR.sub("", shown) if {"run", "export"} & {*words} and not piped.stdout else shown) == []
    if value_of is not None:  # escaped, it is the same value
        assert value_of(shown) == value_of(piped.stdout)


def test_a_pipe_gets_the_values_as_they_are(place: Place) -> None:
    text = place.plain("jobs", "export", "a", "--output", "-", "--format", "csv").stdout
    assert any(EVIL in "".join(row) for row in csv.reader(io.StringIO(text, newline="")))
    line = place.plain("jobs", "export", "a", "--output", "-", "--format", "jsonl").stdout.split("\n")[0]
    assert "\x9b" in line
    assert "\u202e" in line
    shown = place.plain("config", "show", "--json").stdout
    assert "\x9b" in shown


def test_the_progress_bar_tells_what_it_knows_without_raw_characters(place: Place) -> None:
    """A bar moves the cursor by itself, so what it may send is known; its texts are made of nothing else."""
    from rich.console import Console
    from rich.progress import Progress

    from swath.entrypoints.cli import progress

    code, shown = place.on_terminal("run", "example-mock", "--items", "a.jsonl", "--job-id", "bar")
    assert code == 0
    assert _raw(BAR.sub("", shown)) == []
    out = io.StringIO()
    bar = progress._Bar(Progress(console=Console(file=out, force_terminal=True)))
    bar.note(f"site {TITLE} is left alone")
    assert _raw(BAR.sub("", out.getvalue())) == []
    assert "\\u202e" in out.getvalue()


def test_pieces_that_are_cut_anywhere_come_out_the_same() -> None:
    from swath.entrypoints.cli import output

    text = f"one\r\ntwo ü {EVIL}\r\nthree\rfour\r\n"
    whole = io.BytesIO()
    guarded = output._EscapingBuffer(whole, "utf-8")
    for byte in text.encode():
        guarded.write(bytes([byte]))
    assert whole.getvalue().decode() == output.escape_control(text)
    assert _raw(whole.getvalue().decode()) == []
    assert whole.getvalue().count(b"\r\n") == 3
