"""C2, Z5: a person's mistake gets one line that says what to do, the right exit code, and no traceback."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

GOOD = "parcel_id\n123-45-678\n"

# name → (file content, what the message must say)
FILES = {
    "ragged": (b"parcel_id,owner\n123-45-678,A\n123-45-679\n", ["line 3", "--bad-rows skip"]),
    "missing-column": (b"apn\n123-45-678\n", ["parcel_id", "apn", "--map parcel_id=COLUMN"]),
    "latin-1": ("parcel_id,owner\n123-45-678,Müller\n".encode("latin-1"), ["UTF-8", "line 2", "iconv"]),
    "utf-16": (GOOD.encode("utf-16"), ["UTF-16", "iconv"]),
    "bad-value": (b"parcel_id\n123-45-678\nnonsense\n", ["line 3", "parcel_id", "--bad-rows skip"]),
    "duplicate": (b"parcel_id\n123-45-678\n123-45-678\n", ["line 3", "line 2", "--duplicates keep-first"]),
    "empty": (b"", ["empty"]),
    "header-only": (b"parcel_id\n", ["no rows"]),
}


def _one_line(err: str) -> str:
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("swath: ")]
    assert len(lines) == 1, err
    return lines[0]


@pytest.mark.req("C2", "Z5", "J2", "K2", "J6")
@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_refused_with_its_line_and_runs_nothing(shell: Shell, name: str) -> None:
    content, expected = FILES[name]
    (shell.folder / "items.csv").write_bytes(content)
    done = shell.swath("run", "demo-county", "--items", "items.csv", "--job-id", "wrong")
    assert done.returncode == 2, done.stderr
    message = _one_line(done.stderr)
    assert all(part in message for part in expected), message
    assert shell.swath("jobs", "status", "wrong").returncode == 7  # the id can be used again


@pytest.mark.req("C2", "K3")
def test_an_unknown_scraper_is_met_with_near_matches(shell: Shell) -> None:
    shell.write("items.csv", GOOD)
    done = shell.swath("run", "demo-conty", "--items", "items.csv")
    assert done.returncode == 7
    assert "demo-county" in _one_line(done.stderr)


@pytest.mark.req("C2")
def test_an_unknown_job_is_met_with_near_matches(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    assert (
        shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "maricopa-1").returncode == 0
    )
    for command in (
        *(
            ("jobs", verb, "maricopa-2")
            for verb in ("status", "verify", "watch", "pause", "resume", "cancel", "policy")
        ),
        ("jobs", "item", "maricopa-2", "1"),
        ("jobs", "retry", "maricopa-2", "--failed"),
        ("jobs", "delete", "maricopa-2", "--yes"),
        ("run", "--job-id", "maricopa-2"),
        ("worker", "--job", "maricopa-2"),
    ):
        done = shell.swath(*command)
        assert done.returncode == 7, (command, done.stderr)
        assert "maricopa-1" in _one_line(done.stderr)


@pytest.mark.req("C2", "Z5", "S4")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("throttling: {max_concurrent_workers: 0}", ["throttling.max_concurrent_workers", "at least 1"]),
        ("throttling: {max_concurent_workers: 3}", ["max_concurent_workers", "max_concurrent_workers"]),
        ("circuit_breaker: {failure_threshold_percentage: 80}", ["fraction", "0.8"]),
        ("retries: {backoff: sometimes}", ["retries.backoff", "exponential"]),
        ("circuit_breaker: {min_requests: 0}", ["circuit_breaker.min_requests", "at least 1"]),
        ("circuit_breaker: {on_open: explode}", ["circuit_breaker.on_open", "pause"]),
        ("retention_days: -1", ["retention_days", "more than 0"]),
        ("timeouts: {item_seconds: .inf}", ["timeouts.item_seconds"]),
        ("throttling: [", ["policy.yaml"]),
    ],
)
def test_a_wrong_policy_names_the_field_and_what_is_allowed(shell: Shell, policy: str, expected: list[str]) -> None:
    shell.write("items.csv", "n\n1\n")
    shell.write("policy.yaml", policy)
    done = shell.swath("run", "example-mock", "--items", "items.csv", "--policy", "policy.yaml")
    assert done.returncode == 2
    message = _one_line(done.stderr)
    assert all(part in message for part in expected), message


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "example-mock"],
        ["run"],
        ["run", "example-mock", "--items", "items.csv", "--limit", "0"],
        ["run", "example-mock", "--items", "items.csv", "--sample", "some"],
        ["run", "example-mock", "--items", "."],
        ["jobs", "create", "example-mock"],
        ["jobs", "retry", "any"],
        ["jobs", "retry", "any", "--kind", "bloked"],
        ["jobs", "retry", "any", "--since", "yesterday"],
        ["jobs", "retry", "any", "--items", "nowhere.txt"],
        ["jobs", "policy", "any", "--policy", "nowhere.yaml"],
        ["completion", "csh"],
        ["run", "example-mock", "--items", "nowhere.csv"],
        ["run", "example-mock", "--items", "items.csv", "--concurrency", "0"],
        ["run", "example-mock", "--items", "items.csv", "--concurrency", "many"],
        ["run", "example-mock", "--items", "items.csv", "--map", "nonsense"],
        ["run", "example-mock", "--items", "items.csv", "--policy", "nowhere.yaml"],
        ["run", "example-mock", "--items", "items.csv", "--job-id", ""],
        ["run", "./broken.py", "--items", "items.csv"],
        ["run", "./nowhere.py", "--items", "items.csv"],
        ["rum"],
        ["jobs", "statsu"],
    ],
)
def test_wrong_options_exit_2_with_one_line(shell: Shell, arguments: list[str]) -> None:
    shell.write("items.csv", "n\n1\n")
    shell.write("broken.py", "def (:\n")
    done = shell.swath(*arguments)
    assert done.returncode in {2, 7}, done.stderr
    _one_line(done.stderr)


@pytest.mark.req("C2", "T3")
def test_a_data_folder_that_cannot_be_used_is_said_in_one_line(shell: Shell) -> None:
    shell.environment["SWATH_DATA"] = str(shell.write("a-file", "not a folder"))
    done = shell.swath("jobs", "list")
    assert done.returncode == 2
    assert "SWATH_DATA" in _one_line(done.stderr)


@pytest.mark.req("J6", "J2")
def test_other_content_under_the_same_id_is_a_conflict_that_names_the_row(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n2\n3\n")
    first = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "same")
    assert first.returncode == 0, first.stderr
    again = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "same", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["counts"]["success"] == 3
    shell.write("items.csv", "n\n1\n9\n3\n")
    changed = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "same")
    assert changed.returncode == 2
    message = _one_line(changed.stderr)
    assert "row 2 differs" in message
    assert "line 3" in message


@pytest.mark.req("P1", "Z5")
def test_a_way_out_that_is_not_set_up_is_refused_before_anything_is_read(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    shell.write("policy.yaml", "proxy: {type: datacenter}\n")
    done = shell.swath("run", "example-mock", "--items", "items.csv", "--policy", "policy.yaml", "--job-id", "j")
    assert done.returncode == 2
    assert "SWATH_PROXY_DATACENTER_ZONE" in _one_line(done.stderr)
    assert shell.swath("jobs", "status", "j").returncode == 7


@pytest.mark.req("C2", "J2")
def test_a_file_whose_name_is_no_text_loads(shell: Shell) -> None:
    shell.write("od\udcff d.csv", "n\n1\n2\n")
    for items in (["--items", "od\udcff d.csv"], ["--items=od\udcff d.csv"]):
        done = shell.swath("run", "example-mock", *items, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["counts"]["success"] == 2


@pytest.mark.req("C2", "Z5")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "example-mock", "--items", "no\udcff.csv"], 2),
        (["run", "./no\udcff.py", "--items", "items.csv"], 2),
        (["run", "example-mock", "--items", "items.csv", "--policy", "no\udcff.yaml"], 2),
        (["run", "--job-id", "\udcff"], 7),
        (["jobs", "status", "\udcff\udcfe"], 7),
        (["jobs", "status", "here\udcff"], 2),  # a file has that name, but no job can
        (["jobs", "item", "named", "\udcff"], 7),
        (["worker", "--job", "\udcff"], 7),
    ],
)
def test_a_name_that_is_no_text_is_nobodys(shell: Shell, arguments: list[str], code: int) -> None:
    shell.write("items.csv", "n\n1\n")
    shell.write("here\udcff", "")
    named = ("--job-id", "named", "--name", "a\udcff", "--label", "b=\udcff")
    assert shell.swath("jobs", "create", "example-mock", "--items", "items.csv", *named).returncode == 0
    done = shell.swath(*arguments)
    assert done.returncode == code, done.stderr
    assert "internal" not in _one_line(done.stderr)


@pytest.mark.req("C2", "Z5")
def test_a_pipe_in_place_of_a_policy_or_settings_is_refused_and_not_waited_for(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    os.mkfifo(shell.folder / "pipe")
    command = ("run", "example-mock", "--items", "items.csv", "--policy")
    for path in ("pipe", "/dev/zero"):
        done = shell.swath(*command, path)
        assert done.returncode == 2
        assert f"{path}: is a pipe or a device" in _one_line(done.stderr)
    for path in ("-", "/dev/stdin"):
        assert shell.swath(*command, path, "--job-id", f"by{path[-1]}", stdin="keep: data\n").returncode == 0
    shell.environment["SWATH_CONFIG"] = "pipe"
    refused = shell.swath("jobs", "list")
    assert refused.returncode == 2
    assert "SWATH_CONFIG" in _one_line(refused.stderr)


@pytest.mark.req("C2")
def test_near_matches_do_not_mind_capitals(shell: Shell) -> None:
    assert "'demo-county'" in _one_line(shell.swath("scraper", "show", "DEMO-COUNTY").stderr)


@pytest.mark.req("C2")
@pytest.mark.parametrize("arguments", [[], ["jobs"]])
def test_no_command_at_all_shows_how_to_use_it(shell: Shell, arguments: list[str]) -> None:
    done = shell.swath(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: swath ")
