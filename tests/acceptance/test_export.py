"""`swath jobs export` from a shell: every format, killed at any moment, and the mistakes that people make."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from swath.observability.crash_points import EXPORT_POINTS
from tests.acceptance.conftest import Shell

KILLED = 137


@pytest.fixture(params=["files", "warc"])
def job(request: pytest.FixtureRequest, shell: Shell) -> str:
    """A job of 1,200 items, so that there are several batches."""
    shell.write("items.csv", "parcel\n" + "".join(f"i{n}\n" for n in range(1, 1_201)))
    done = shell.swath(
        "run", "example-mock", "--items", "items.csv", "--job-id", "job", "--layout", request.param, "--quiet"
    )
    assert done.returncode == 0, done.stderr
    return "job"


def armed(shell: Shell, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.armed_cli", "--", *arguments],
        cwd=shell.folder,
        env=shell.environment | variables,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith((".", "out")))


@pytest.mark.req("R5", "Z2")
@pytest.mark.parametrize("job", ["warc"], indirect=True)
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".sqlite", ""])
def test_a_killed_export_has_no_name_and_the_next_one_tidies_up(shell: Shell, job: str, ending: str) -> None:
    words = ["jobs", "export", job, "--output", f"out{ending}", *([] if ending else ["--format", "files"])]
    for point in EXPORT_POINTS:
        died = armed(shell, {"SWATH_CRASH_AT": f"{point}:1"}, *words)
        assert died.returncode == KILLED, died.stderr
        (part,) = left(shell.folder)  # and what the one before left is gone
        assert part.startswith(f".out{ending}.")
    done = shell.swath(*words)
    assert done.returncode == 0, done.stderr
    assert left(shell.folder) == [f"out{ending}"]
    assert ("1,200 records, " if ending else "1,200 items, ") in done.stderr


@pytest.mark.req("R5", "C2")
def test_what_people_see(shell: Shell, job: str) -> None:
    done = shell.swath("jobs", "export", job, "--output", "-", "--format", "csv")
    assert done.returncode == 0
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["_item_id"] for row in rows] == [f"i{n}" for n in range(1, 1_201)]
    assert [row["_input.parcel"] for row in rows][:2] == ["i1", "i2"]
    assert "1,200 records" in done.stderr
    assert "stdout" in done.stderr
    told = shell.swath("jobs", "export", job, "--output", "out.db", "--json")
    assert json.loads(told.stdout)["records"] == 1_200
    with sqlite3.connect(shell.folder / "out.db") as db:
        assert db.execute("SELECT count(DISTINCT _item_id) FROM records").fetchone() == (1_200,)
    db.close()


MISTAKES = {
    "job --output records": "Give --format",
    "job --output -": "Give --format",
    "job --output - --format sqlite": "cannot be written to stdout",
    "job --output items.csv": "exists already",
    "job --output no/such/out.csv": "there is no folder",
    "job --output /proc/out.csv": "cannot be written",
    "jib --output out.csv": "did you mean 'job'",
}


@pytest.mark.req("R5", "C2")
@pytest.mark.parametrize("job", ["warc"], indirect=True)
def test_mistakes_are_told_in_one_line(shell: Shell, job: str) -> None:
    for arguments, told in MISTAKES.items():
        done = shell.swath("jobs", "export", *arguments.split())
        assert done.returncode == (7 if arguments.startswith("jib") else 2), done.stderr
        assert told in done.stderr
        assert done.stderr.count("\n") == 1
        assert left(shell.folder) == []


@pytest.mark.req("R5")
def test_a_job_that_has_not_ended_is_refused(shell: Shell) -> None:
    shell.write("items.csv", "item_id\na\n")
    made = shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "job")
    assert made.returncode == 0, made.stderr
    refused = shell.swath("jobs", "export", "job", "--output", "out.csv")
    assert (refused.returncode, "--partial" in refused.stderr) == (2, True)
    done = shell.swath("jobs", "export", "job", "--output", "out.csv", "--partial")
    assert done.returncode == 0, done.stderr
    assert "1 item had not ended" in done.stderr


@pytest.mark.req("R5", "Z7")
def test_a_build_that_lets_formulas_through_is_found_out(shell: Shell) -> None:
    """`example-mock` mirrors its input, as a page mirrors what somebody wrote into it."""
    shell.write("items.csv", "parcel\n=1+1\n")
    assert shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "job", "--quiet").returncode == 0
    words = ["jobs", "export", "job", "--output", "-", "--format", "csv"]
    assert formulas_in(shell.swath(*words).stdout) == []
    broken = armed(shell, {"SWATH_BROKEN": "formulas"}, *words)
    assert set(formulas_in(broken.stdout)) == {"=1+1"}, broken.stderr


def formulas_in(text: str) -> list[str]:
    return [cell for row in csv.reader(text.splitlines()) for cell in row if cell.startswith("=")]
