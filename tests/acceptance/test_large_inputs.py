"""Memory does not follow the bytes of the inputs: real processes on a job of large ones, by what the system counted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.acceptance.conftest import SWATH, Shell

pytestmark = pytest.mark.req("Z8", "Z10")

ITEMS = 70
INPUT_BYTES = 1_000_000
MOST_MIB = 300  # a process that does nothing has some 50; with all inputs at once they had 400 and more


# Linux counts what the parent had before the command was executed, too: the parent has to be a small process.
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def peak_mib(shell: Shell, *arguments: str) -> float:
    """The most memory that a command had at once."""
    command = [sys.executable, "-c", MEASURE, str(SWATH), *arguments]
    done = subprocess.run(
        command, cwd=shell.folder, env=shell.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=240
    )
    code, peak_kib = done.stdout.split()
    assert code == "0", arguments
    return int(peak_kib) / 1024


def test_a_job_of_large_inputs_is_run_and_checked_in_little_memory(shell: Shell) -> None:
    with (shell.folder / "large.jsonl").open("w", encoding="utf-8") as file:
        for number in range(ITEMS):
            row = {"parcel_id": str(number), "text": chr(97 + number % 26) * INPUT_BYTES}
            file.write(json.dumps(row) + "\n")
    loaded = shell.swath("jobs", "create", "example-mock", "--items", "large.jsonl", "--job-id", "large")
    assert loaded.returncode == 0, loaded.stderr
    peaks = {
        "run": peak_mib(shell, "run", "--job-id", "large", "--quiet"),
        "verify": peak_mib(shell, "jobs", "verify", "large"),
        "export": peak_mib(shell, "jobs", "export", "large", "--format", "jsonl", "--output", "large.out.jsonl"),
    }
    assert max(peaks.values()) < MOST_MIB, peaks
    parts = sorted((shell.folder / "data/results/large/manifests/full").iterdir())
    assert len(parts) > ITEMS * INPUT_BYTES // (17 << 20)
