"""What a program with a browser cost: CPU of everything that it started, and the memory of all of it at once.

cost.py looks at a program and its children. A browser's processes come and go below others that do not wait for them,
so here the supervisor inherits those, and nothing that has run is left out.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from harness.bench.cost import Cost
from harness.processes import dying_with_parent

__all__ = ["inherit_orphans", "measured_tree"]

LOOK_SECONDS: Final = 0.02
WEIGH_SECONDS: Final = 1.0  # reading what a browser's processes share takes some milliseconds
ORPHANS_SECONDS: Final = 10.0
_SET_CHILD_SUBREAPER: Final = 36


def inherit_orphans() -> None:
    """Processes whose parents end become this one's children, and their CPU is told when they end."""
    if not sys.platform.startswith("linux") or ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("only Linux tells what the processes of a browser have used")


def measured_tree(
    command: Sequence[str], environment: Mapping[str, str], log: Path, fine: Collection[int] = (0,)
) -> Cost:
    """Runs a program to its end. Raises SystemExit unless its exit code is `fine`, or when processes of it stay."""
    before, began, peak_bytes, weighed = _ended_cpu_seconds(), time.perf_counter(), 0, 0.0
    others = {child.pid for child in psutil.Process().children()}
    with log.open("ab") as said, _started(command, environment, said.fileno()) as process:
        while process.poll() is None:
            if time.perf_counter() - weighed > WEIGH_SECONDS:
                peak_bytes = max(peak_bytes, _tree_bytes(process.pid))
                weighed = time.perf_counter()
            time.sleep(LOOK_SECONDS)
    seconds = time.perf_counter() - began
    left = _bury(others)
    if process.returncode not in fine:
        raise SystemExit(f"{' '.join(command[:4])} … ended with code {process.returncode}: see {log}")
    if left:
        raise SystemExit(f"{' '.join(command[:4])} … left processes behind: {left}")
    return Cost(_ended_cpu_seconds() - before, seconds, peak_bytes)


def _started(command: Sequence[str], environment: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=Path(environment["PWD"]),
        preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
    )


def _ended_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree_bytes(pid: int) -> int:
    """Memory that several processes share is counted once: each has its part of it."""
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        return sum(_own_bytes(process.pid) for process in (root, *root.children(recursive=True)))
    return 0


def _own_bytes(pid: int) -> int:
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _bury(others: set[int]) -> list[int]:
    """Waits for what the program has left to us; whoever does not end in time is named, and killed."""
    deadline = time.monotonic() + ORPHANS_SECONDS
    while left := [child for child in psutil.Process().children() if child.pid not in others]:
        for child in left:
            with suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        if time.monotonic() > deadline:
            for child in left:
                child.kill()
                child.wait()
            break
        time.sleep(LOOK_SECONDS)
    return [child.pid for child in left]
