"""C3: trying a job out before all of it runs: --limit, --sample, --dry-run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("C3")


def _numbers(shell: Shell, rows: int) -> None:
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(rows)))


def _run(shell: Shell, *options: str) -> dict[str, Any]:
    done = shell.swath("run", "example-mock", "--items", "items.csv", *options, "--json")
    assert done.returncode == 0, done.stderr
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def _items(shell: Shell, job_id: str) -> set[str]:
    return {path.name for path in (shell.folder / "data" / "results" / job_id / "items").iterdir()}


def test_a_part_of_a_file_is_a_job_of_its_own_and_the_same_each_time(shell: Shell) -> None:
    _numbers(shell, 200)
    first, sample = _run(shell, "--limit", "7"), _run(shell, "--sample", "9")
    assert _items(shell, first["job_id"]) == {str(n) for n in range(7)}
    sampled = _items(shell, sample["job_id"])
    assert len(sampled) == 9
    assert max(int(name) for name in sampled) > 50  # from all over the file
    assert _run(shell, "--sample", "9") == sample  # found again, not run again
    of_the_first = _run(shell, "--limit", "20", "--sample", "5")
    assert all(int(name) < 20 for name in _items(shell, of_the_first["job_id"]))
    whole = _run(shell)
    assert whole["counts"]["success"] == 200
    ids = [one["job_id"] for one in (first, sample, of_the_first, whole)]
    assert len(set(ids)) == 4
    for job_id in ids:
        assert shell.swath("jobs", "verify", job_id).returncode == 0


def test_a_dry_run_plans_everything_and_stores_nothing(shell: Shell) -> None:
    _numbers(shell, 2_500)
    done = shell.swath("run", "example-mock", "--items", "items.csv", "--dry-run", "--concurrency", "3", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["rows"], plan["items"], plan["bad_rows"], plan["duplicates"]) == (2_500, 2_500, 0, 0)
    assert (plan["concurrency"], plan["cost"]) == (3, 0)
    assert (plan["eta_seconds"], plan["eta_from"], plan["status"]) == (None, None, None)
    assert not (shell.folder / "data").exists()
    told = shell.swath("run", "example-mock", "--items", "items.csv", "--dry-run").stdout
    assert "--limit 20" in told  # how to find out


def test_a_dry_run_estimates_from_the_last_job_of_the_scraper_and_its_concurrency(shell: Shell) -> None:
    _numbers(shell, 400)
    model = _run(shell, "--limit", "40", "--concurrency", "2")
    pace = 40 / (model["ended_at"] - model["started_at"]) / 2
    plans = {}
    for concurrency in ("2", "8"):
        done = shell.swath(
            "run", "example-mock", "--items", "items.csv", "--dry-run", "--concurrency", concurrency, "--json"
        )
        plans[concurrency] = json.loads(done.stdout)
    assert plans["2"]["eta_from"] == model["job_id"]
    assert plans["2"]["eta_seconds"] == pytest.approx(400 / pace / 2, rel=0.1, abs=0.1)
    assert plans["8"]["eta_seconds"] == pytest.approx(plans["2"]["eta_seconds"] / 4, rel=0.1, abs=0.1)
    assert [one["job_id"] for one in json.loads(shell.swath("jobs", "list", "--json").stdout)] == [model["job_id"]]


def test_a_dry_run_refuses_what_the_run_would_refuse(shell: Shell) -> None:
    shell.write("items.csv", "parcel_id\n100-10-000\nnonsense\n100-10-000\n")
    done = shell.swath("run", "demo-county", "--items", "items.csv", "--dry-run")
    assert done.returncode == 2
    assert "rows:         3, of which 1 bad and 1 duplicates" in done.stdout
    assert "line 3" in done.stderr
    lenient = ("--bad-rows", "skip", "--duplicates", "keep-first")
    kept = shell.swath("run", "demo-county", "--items", "items.csv", "--dry-run", "--json", *lenient)
    assert kept.returncode == 0, kept.stderr
    assert json.loads(kept.stdout)["items"] == 1
    assert not (shell.folder / "data").exists()


def test_a_dry_run_reports_the_conflict_that_the_run_would(shell: Shell) -> None:
    _numbers(shell, 5)
    assert _run(shell, "--job-id", "same")["status"] == "completed"
    command = ("run", "example-mock", "--items", "items.csv", "--job-id", "same")
    ended = shell.swath(*command, "--dry-run", "--json")
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert (plan["status"], plan["items"], plan["eta_seconds"], plan["eta_from"]) == ("completed", 5, None, None)
    assert "none: the job has ended" in shell.swath(*command, "--dry-run").stdout
    before = shell.swath("jobs", "list", "--json").stdout
    _refused_alike(shell, *command, "--concurrency", "3")
    _refused_alike(shell, "run", "example-fail", *command[2:])
    for rows in (4, 6):
        _numbers(shell, rows)
        _refused_alike(shell, *command)
    shell.write("items.csv", "n\n0\n1\n9\n3\n4\n")
    _refused_alike(shell, *command)
    assert shell.swath("jobs", "list", "--json").stdout == before


def _refused_alike(shell: Shell, *command: str) -> None:
    planned, run = shell.swath(*command, "--dry-run"), shell.swath(*command)
    assert (planned.returncode, run.returncode) == (2, 2)
    assert planned.stdout == ""
    assert planned.stderr.splitlines()[-1] == run.stderr.splitlines()[-1]
