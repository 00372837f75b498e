from __future__ import annotations

import subprocess
import sys

import pytest

# A signal that comes while a line is being written to stderr: its buffer cannot be entered a second time.
SCRIPT = """
import asyncio, io, os, signal, sys
from swath.entrypoints.cli.runtime import run_async, stop_on_signals

class Interrupted(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        signal.raise_signal(signal.SIGINT)
        return len(data)

async def work():
    stop = asyncio.Event()
    stop_on_signals(stop, "stopping", 30.0)
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(Interrupted()))
    print("waiting for items.csv", file=sys.stderr, flush=True)
    await asyncio.wait_for(stop.wait(), 60)

run_async(work())
os._exit(0)
"""


@pytest.mark.req("W2", "C2")
def test_a_signal_in_the_middle_of_a_line_on_stderr_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert done.stderr == b"\nswath: stopping\n"
