"""The short form of `make chaos-browser`, the same with browsers that nobody replaces, and its checks by themselves."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.chaos import expected
from harness.chaos.browser.check import Memory, Sample, check_memory
from harness.chaos.browser.pages import sent, stored
from harness.chaos.findings import Findings, Kind

COMMAND = [sys.executable, "-m", "harness.chaos.browser", "--short"]
MIB = 1 << 20


def chaos(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    report = folder / "report.json"
    done = subprocess.run(
        [*COMMAND, "--folder", str(folder), "--json", str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert report.exists(), done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.long
@pytest.mark.req("B1", "W3", "Z1", "Z4")
@pytest.mark.timeout(900)  # mostly for a dozen browsers that are started
def test_browsers_renderers_and_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    code, figures, said = chaos(tmp_path, "--seed", "8")
    assert code == 0, said
    assert figures["problems"] == []
    assert figures["items"] == 50
    assert figures["struck"] == {"browser": 4, "renderer": 2, "driver": 1}
    assert figures["strikes"]["SIGKILL"] == 1
    assert figures["attempts"]["browser_crash"] > 0
    assert figures["verify_exit_code"] == 0


@pytest.mark.long
@pytest.mark.req("B1", "Z1")
@pytest.mark.timeout(900)  # it waits most of the time
def test_browsers_that_are_not_replaced_are_found_out(tmp_path: Path) -> None:
    code, figures, said = chaos(tmp_path, "--seed", "3", "--items", "30", "--broken", "replacement")
    assert code == 1, said
    assert figures["found"]["lost"] + figures["found"]["wrong"] > 0


@pytest.mark.parametrize(
    ("late_mib", "problems"), [(100, 0), (124, 0), (126, 2)], ids=["flat", "a little more", "too much"]
)
@pytest.mark.req("W3")
def test_memory_at_the_end_is_compared_with_that_early_on(late_mib: int, problems: int) -> None:
    early = [Sample(done, 100.0 * MIB, 100 * MIB) for done in (25, 30, 35)]
    late = [Sample(done, late_mib * 1.0 * MIB, late_mib * MIB) for done in (85, 90, 99)]
    findings = Findings()
    growth = check_memory(Memory([*early, *late]), 100, findings)
    assert growth == (late_mib / 100, late_mib / 100)
    assert findings.found[Kind.WRONG] == problems
    assert check_memory(Memory(early), 100, findings) is None


def test_the_site_sends_a_script_and_nothing_that_could_be_read_without_a_browser() -> None:
    for item_id in expected.item_ids(100):
        assert b"<h1>" not in sent(item_id).partition(b"<script>")[0]
        assert expected.record(item_id)["digest"].encode() in stored(item_id)
