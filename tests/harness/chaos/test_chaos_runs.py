"""The short form of `make chaos`, the same with the fence switched off, and that no process stays behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.chaos.crash_runs import cases, run_cases
from harness.chaos.findings import Findings
from swath.observability.crash_points import PACK_POINTS, POINTS
from tests.support.bounds import HANGING_SECONDS

TEST_SECONDS = 600  # against hanging: about a minute on two idle cores
COMMAND = [sys.executable, "-m", "harness.chaos", "--short"]


def chaos(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    report = folder / "report.json"
    done = subprocess.run(
        [*COMMAND, "--folder", str(folder), "--json", str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS - 20,
        check=False,
    )
    assert report.exists(), done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.long
@pytest.mark.req("Z1", "Z2", "Z10", "S6", "W2", "R2")
@pytest.mark.timeout(TEST_SECONDS)
def test_processes_that_are_killed_stopped_frozen_and_disturbed_lose_nothing(tmp_path: Path) -> None:
    """With packed results, which have more ways to be torn; the named points below are tried with files."""
    code, figures, said = chaos(tmp_path, "--part", "storm", "--seed", "20", "--layout", "warc")
    assert code == 0, said
    assert figures["problems"] == []
    storm = figures["storm"]
    assert storm["strikes"]["SIGKILL"] >= 15
    assert storm["strikes"]["SIGKILL with lease"] >= 1
    assert storm["strikes"]["SIGSTOP"] >= 1
    assert storm["killed_re_leased"]["count"] > 0
    assert storm["verify_exit_code"] == 0
    made = storm["disturbances"]
    assert made["woken after a retry"] >= 1
    assert made["frozen over one item"] >= 1
    for kind, least in (("clock ", 6), ("presence f", 1), ("a file|no .leases|a symbolic|no permission", 1)):
        done = sum(count for name, count in made.items() if re.match(kind, name))
        assert done >= least, kind


@pytest.mark.long
@pytest.mark.req("Z1", "Z2")
@pytest.mark.timeout(TEST_SECONDS)
def test_dying_and_freezing_at_every_named_point_loses_nothing(tmp_path: Path) -> None:
    code, figures, said = chaos(tmp_path, "--part", "points")
    assert code == 0, said
    points = figures["points"]
    assert points["crashes"] == points["freezes"] == len(POINTS)
    assert points["freezes_with_retry"] == 5


@pytest.mark.req("Z1", "Z2", "R2")
@pytest.mark.timeout(240)
async def test_dying_and_freezing_inside_a_pack_leaves_nothing_half_written(tmp_path: Path) -> None:
    findings = Findings()
    points = {*PACK_POINTS, "after_stage", "before_release"}
    chosen = [case for case in cases(1, freeze=True, layout="warc") if case.point in points]
    assert {case.point for case in chosen} == points
    await run_cases(tmp_path, chosen, findings)
    assert [str(problem) for problem in findings.problems] == []


@pytest.mark.long
@pytest.mark.req("Z1")
@pytest.mark.timeout(TEST_SECONDS)
def test_without_the_fence_the_same_run_finds_items_counted_twice(tmp_path: Path) -> None:
    code, figures, said = chaos(tmp_path, "--part", "storm", "--seed", "20", "--freezes", "8", "--broken", "fence")
    assert code == 1, said
    assert figures["storm"]["woken_without_lease"] > 0
    assert figures["found"]["counted_twice"] > 0
    assert figures["storm"]["verify_exit_code"] != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_supervisor(tmp_path: Path, number: signal.Signals) -> None:
    supervisor = subprocess.Popen(
        [*COMMAND, "--part", "storm", "--folder", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        started = wait_for(lambda: children_of(supervisor.pid))
    finally:
        supervisor.send_signal(number)
    assert supervisor.wait(timeout=60) != 0
    assert len(started) > 0
    wait_for(lambda: not any(is_running(pid) for pid in started))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """A zombie is dead, and only waits to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(answer: Any) -> Any:
    deadline = time.monotonic() + HANGING_SECONDS
    while not (value := answer()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def test_the_process_list_is_readable_here() -> None:
    assert is_running(os.getpid())
