"""T3, O4, C2: what is around the jobs: settings shown, the installation checked, words completed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.conftest import SWATH
from tests.support.bounds import HANGING_SECONDS

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell


@pytest.mark.req("C1", "T1")
def test_the_demo_tells_programs_how_it_went(shell: Shell) -> None:
    done = shell.swath("demo", "--parcels", "5", "--concurrency", "2", "--json")
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["status"], status["counts"]["success"], status["counts"]["total"]) == ("completed", 5, 5)
    assert shell.swath("jobs", "verify", status["job_id"]).returncode == 0


@pytest.mark.req("T3", "Z7")
def test_settings_are_shown_with_where_they_came_from_and_without_secrets(shell: Shell) -> None:
    shell.write("swath.toml", "max_items = 12\nlease_seconds = 40\n")
    shell.environment |= {"SWATH_ETL_KEY": "hunter2", "SWATH_MAX_ITEM": "3"}
    done = shell.swath("config", "show", "--json")
    shown = json.loads(done.stdout)
    assert shown["file"] == "swath.toml"
    assert shown["settings"]["max_items"] == {"value": 12, "source": "file", "name": "swath.toml: max_items"}
    assert shown["settings"]["lease_seconds"]["value"] == 3  # the variable wins
    assert shown["settings"]["lease_seconds"]["name"] == "SWATH_LEASE_SECONDS"
    assert shown["settings"]["grace_seconds"]["source"] == "default"
    assert shown["unknown"] == {"SWATH_ETL_KEY": "********", "SWATH_MAX_ITEM": "3"}
    table = shell.swath("config", "show")
    assert "did you mean SWATH_MAX_ITEMS?" in table.stderr
    assert "hunter2" not in done.stdout + table.stdout + table.stderr


@pytest.mark.req("T3")
def test_the_settings_file_counts_for_every_command(shell: Shell) -> None:
    del shell.environment["SWATH_DATA"]
    shell.write("swath.toml", 'data = "elsewhere"\ndefault_scraper = "example-mock"\n')
    shell.write("items.csv", "n\n1\n")
    assert shell.swath("run", "--items", "items.csv", "--job-id", "j").returncode == 0
    assert (shell.folder / "elsewhere" / "results" / "j").is_dir()


@pytest.mark.req("O4")
def test_the_doctor_finds_a_sound_installation_sound_and_changes_nothing(shell: Shell) -> None:
    done = shell.swath("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert not (shell.folder / "data").exists()
    checks = {one["check"]: one["level"] for one in json.loads(done.stdout)["checks"]}
    assert {"settings", "data folder", "disk space", "store", "clock", "dead workers"} <= checks.keys()
    assert {"sites", "proxies"} <= checks.keys()
    shell.write("items.csv", "n\n1\n")
    assert shell.swath("run", "example-mock", "--items", "items.csv").returncode == 0
    again = shell.swath("doctor")
    assert again.returncode == 0, again.stdout
    assert "fail" not in again.stdout


@pytest.mark.req("O4", "T3")
def test_the_doctor_goes_on_when_the_settings_cannot_be_read(shell: Shell) -> None:
    shell.write("swath.toml", "max_item = 12\n")
    done = shell.swath("doctor")
    assert done.returncode == 1
    assert "did you mean 'max_items'?" in done.stdout
    assert "clock" in done.stdout
    assert "Traceback" not in done.stderr


def _completed(shell: Shell, *words: str, kind: str = "plain") -> list[str]:
    environment = {
        **shell.environment,
        "COMP_WORDS": " ".join(["swath", *words]),
        "COMP_CWORD": str(len(words)),
        "_SWATH_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [str(SWATH)], cwd=shell.folder, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.stderr == ""
    found = [line.partition(",") for line in done.stdout.splitlines() if line]
    assert {answer[0] for answer in found} <= {kind}
    return [answer[2] for answer in found]


@pytest.mark.req("C2")
def test_shells_complete_commands_options_scrapers_and_jobs(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    for job_id in ("maricopa-1", "maricopa-2", "other"):
        create = ("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", job_id)
        assert shell.swath(*create).returncode == 0
    assert _completed(shell, "do") == ["doctor"]
    assert _completed(shell, "jobs", "re") == ["reextract", "resume", "retry"]
    assert _completed(shell, "jobs", "retry", "--not") == ["--not-run"]
    assert _completed(shell, "run", "example-h") == ["example-http"]
    assert _completed(shell, "jobs", "status", "mari") == ["maricopa-2", "maricopa-1"]
    assert _completed(shell, "worker", "--job", "oth") == ["other"]
    assert _completed(shell, "completion", "") == ["bash", "zsh", "fish"]
    assert _completed(shell, "jobs", "retry", "other", "--kind", "bl") == ["blocked"]
    assert _completed(shell, "jobs", "status", "\udcff") == []
    assert _completed(shell, "run", "example-mock", "--items", "it", kind="file") == ["it"]
    assert _completed(shell, "jobs", "retry", "other", "--items", "it", kind="file") == ["it"]


@pytest.mark.req("C2")
def test_completion_makes_no_store_and_survives_one_that_cannot_be_read(shell: Shell) -> None:
    assert _completed(shell, "jobs", "status", "") == []
    assert not (shell.folder / "data").exists()
    (shell.folder / "data").mkdir()
    (shell.folder / "data" / "swath.db").write_bytes(b"no database" * 1_000)
    assert _completed(shell, "jobs", "status", "") == []


@pytest.mark.req("C2")
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_for_each_shell_is_printed(shell: Shell, name: str) -> None:
    done = shell.swath("completion", name)
    assert done.returncode == 0
    assert "_SWATH_COMPLETE" in done.stdout


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Of processes that it starts and waits for; the least of three tries."""
    taken = []
    for _ in range(3):
        before = os.times()
        work()
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(taken)


@pytest.mark.req("C2")
def test_a_completion_answers_before_a_person_notices(shell: Shell) -> None:
    """Compared with a Python that imports next to nothing: other work on the machine must not decide."""
    small = _cpu_seconds(lambda: subprocess.run([sys.executable, "-c", "import asyncio, json, sqlite3"], check=True))
    assert _cpu_seconds(lambda: _completed(shell, "jobs", "status", "")) < 10 * small


@pytest.mark.req("C2")
@pytest.mark.parametrize("arguments", [["jobs", "list"], ["jobs", "list", "--json"], ["config", "show"], ["doctor"]])
def test_a_reader_that_has_gone_is_no_news_and_a_full_disk_is_said(shell: Shell, arguments: list[str]) -> None:
    def printed_to(stdout: int) -> tuple[int, str]:
        done = subprocess.run(
            [str(SWATH), *arguments],
            cwd=shell.folder,
            env=shell.environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANGING_SECONDS,
            check=False,
        )
        os.close(stdout)
        return done.returncode, done.stderr

    reader, writer = os.pipe()
    os.close(reader)
    assert printed_to(writer) == (1, "")
    full = printed_to(os.open("/dev/full", os.O_WRONLY))
    assert full == (1, "swath: stdout cannot be written: No space left on device\n")


def _on_terminal(shell: Shell, columns: int, *arguments: str) -> list[str]:
    ours, theirs = pty.openpty()
    environment = shell.environment | {"COLUMNS": str(columns), "NO_COLOR": "1"}
    done = subprocess.run(
        [str(SWATH), *arguments], cwd=shell.folder, env=environment, stdout=theirs, timeout=90, check=True
    )
    assert done.returncode == 0
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 4096):
            text += part
    except OSError:  # the other end is closed, and all has been read
        pass
    os.close(ours)
    return text.decode().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


@pytest.mark.req("C1", "C2")
def test_a_list_of_jobs_has_a_line_for_each_at_any_width(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    long = "a-job-with-a-name-as-long-as-people-make-them-when-they-are-in-the-mood-for-it"
    for job_id in (long, "short"):
        create = ("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", job_id)
        assert shell.swath(*create).returncode == 0
    shell.environment["COLUMNS"] = "40"
    in_a_pipe = [line.split() for line in shell.swath("jobs", "list").stdout.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in in_a_pipe[1:]] == [
        ("short", "pending", "example-mock"),
        (long, "pending", "example-mock"),
    ]
    for columns, last in ((200, "scraper"), (80, "scraper"), (40, "failed"), (24, "status")):
        header, *rows = _on_terminal(shell, columns, "jobs", "list")
        assert header.split()[-1] == last, header
        assert max(map(len, [header, *rows])) <= columns
        assert [row.split()[1] for row in rows] == ["pending", "pending"]
        assert rows[0].split()[0] == "short"
        assert rows[1].startswith(long if columns == 200 else "a-job-with-")
        assert ("…" in rows[1]) == (columns < 200)
