import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.wall_clocks import NoCompilerError, ShiftedClock, compiler

DAY = 86_400.0

# Answers each line with how far the wall clock is from the test's, by each way to ask, and with the boot clock.
PROGRAM = """
import datetime, sys, time
for line in sys.stdin:
    true = float(line)
    ways = [time.time(), time.time_ns() / 1e9, datetime.datetime.now().timestamp()]
    steady = [time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)]
    print(*[way - true for way in ways], *steady, flush=True)
"""


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path / "clock")


def ask(process: subprocess.Popen[str]) -> tuple[list[float], list[float]]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{time.time()}\n")
    process.stdin.flush()
    answers = [float(word) for word in process.stdout.readline().split()]
    return answers[:3], answers[3:]


@pytest.mark.req("Z10")
def test_the_wall_clock_of_a_running_process_jumps_and_its_boot_clock_does_not(clock: ShiftedClock) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=clock.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        last = [0.0, 0.0]
        for offset in (0.0, 400 * DAY, -3 * DAY, 0.25, 0.0):
            clock.set(offset)
            wall, steady = ask(process)
            assert wall == pytest.approx([offset] * 3, abs=60)
            assert all(0 <= new - old < 3_600 for old, new in zip(last, steady, strict=True)) or last == [0.0, 0.0]
            last = steady
        assert process.stdin is not None
        process.stdin.close()


def test_a_process_started_later_begins_with_the_offset(clock: ShiftedClock) -> None:
    clock.set(-400 * DAY)
    command = [sys.executable, "-c", "import time; print(time.time())"]
    there, here = (
        float(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
        for env in (clock.environment(), None)
    )
    assert there - here == pytest.approx(-400 * DAY, abs=60)
    assert clock.offset == -400 * DAY


def test_two_clocks_are_two_hosts(tmp_path: Path) -> None:
    first, second = ShiftedClock(tmp_path / "first"), ShiftedClock(tmp_path / "second")
    first.set(20)
    assert (first.offset, second.offset) == (20, 0)
    assert ShiftedClock(tmp_path / "first").offset == 20, "opened again, it keeps its offset"


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError, match="no C compiler"):
        compiler()
