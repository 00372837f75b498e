"""What a program cost: CPU of it and all its children, wall time, and the most memory it had, looked at from outside.

Comes after contestants.py, which says what is run; figures.py makes costs per item of it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.processes import dying_with_parent

__all__ = ["Cost", "cpu_seconds_of", "measured", "measured_until", "with_disk"]

LOOK_SECONDS: Final = 0.02
LEAVE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Cost:
    """Of one run. `peak_bytes` is the most that its largest process had; the last two are what it left on disk."""

    cpu_seconds: float
    seconds: float
    peak_bytes: int
    disk_bytes: int = 0
    files: int = 0

    def __add__(self, other: Cost) -> Cost:
        """One after the other."""
        return Cost(
            self.cpu_seconds + other.cpu_seconds,
            self.seconds + other.seconds,
            max(self.peak_bytes, other.peak_bytes),
        )


def measured(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Cost:
    """Runs a program to its end. Raises SystemExit when that is a bad one; what it said is in the log."""
    return measured_until(command, environment, log, lambda: False)


def measured_until(
    command: Sequence[str], environment: Mapping[str, str], log: Path, is_done: Callable[[], bool]
) -> Cost:
    """The same for a program that goes on until it is told to stop: SIGTERM, as soon as its work is done.

    The time is until then; the CPU is all of it, its end included.
    """
    before, began, peak_bytes = _children_cpu_seconds(), time.perf_counter(), 0
    with log.open("ab") as said, _started(command, environment, said.fileno()) as process:
        while process.poll() is None and not is_done():
            peak_bytes = max(peak_bytes, _peak_bytes(process.pid))
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - began
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            process.wait(LEAVE_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … ended with code {process.returncode}: see {log}")
    return Cost(_children_cpu_seconds() - before, seconds, peak_bytes)


def with_disk(cost: Cost, folder: Path) -> Cost:
    """The same with what lies in the folder: whole blocks, and how many files and folders."""
    found = [Path(path, name).lstat() for path, folders, files in os.walk(folder) for name in (*folders, *files)]
    return replace(cost, disk_bytes=sum(one.st_blocks * 512 for one in found), files=len(found))


def cpu_seconds_of(pid: int) -> float:
    """What a running process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


def _children_cpu_seconds() -> float:
    """Of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_bytes(pid: int) -> int:
    """Of the largest of a process and its children, so far.

    Not what getrusage says: that begins with the memory of whoever forked the process.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:  # it has just ended, or the kernel does not tell
        children = []
    return max(_peak_bytes_alone(number) for number in (pid, *map(int, children)))


def _peak_bytes_alone(pid: int) -> int:
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
