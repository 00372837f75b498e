"""Starts, signals and restarts the processes of a rig, and draws which of them freeze at a named point of the product.

No process outlives the supervisor. Each writes to a log of its own, so that its end can be explained.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from swath.observability.crash_points import ENDING_POINTS, POINTS

__all__ = [
    "FREEZE_AT",
    "WORKER_POINTS",
    "PlannedFreeze",
    "ProcessGroup",
    "RigProcess",
    "draw_freeze",
    "dying_with_parent",
    "is_stopped",
    "log_errors",
    "logs",
]

FREEZE_AT: Final = "SWATH_FREEZE_AT"
# What workers do begins when the job is loaded.
WORKER_POINTS: Final = tuple(dict.fromkeys((*POINTS[POINTS.index("before_seal") + 1 :], *ENDING_POINTS)))
_OF_THE_ENDING: Final = 0.75


class PlannedFreeze(NamedTuple):
    """A process stops when it reaches the point for the `hit`-th time. Not every ending comes by every point of one, so
    whoever has missed it stops at the last, by which all come."""

    point: str
    hit: int

    @property
    def in_the_ending(self) -> bool:
        """Whether the process stops while it ends a job."""
        return self.point in ENDING_POINTS

    @property
    def environment(self) -> dict[str, str]:
        """What arms the process."""
        last = f",{ENDING_POINTS[-1]}:1" if self.in_the_ending else ""
        return {FREEZE_AT: f"{self.point}:{self.hit}{last}"}


def draw_freeze(luck: random.Random, *, anywhere: bool = True) -> PlannedFreeze:
    """Most are in the ending, where a process that wakes up late can do the most harm; all, unless `anywhere`."""
    if not anywhere or luck.random() < _OF_THE_ENDING:
        return PlannedFreeze(luck.choice(ENDING_POINTS), 1)
    others = [point for point in WORKER_POINTS if point not in ENDING_POINTS and point != "after_rescue"]
    return PlannedFreeze(luck.choice(others), luck.randint(1, 3))


def is_stopped(pid: int) -> bool:
    """Whether the process stands still, by its own SIGSTOP or by another's."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


LATELY_BYTES: Final = 4_096
_LEVELS: Final = (" ERROR ", " CRITICAL ", '"level": "ERROR"', '"level": "CRITICAL"')
_OF_ERRORS: Final = (*_LEVELS, "Traceback", "internal error")
_EXPLAINED: Final = ('"logger": "swath.items"', "a worker died while it ended job ")
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dying_with_parent() -> Callable[[], None]:
    """What a child does before it becomes another program, so that the kernel kills it when the supervisor is gone."""
    supervisor = os.getpid()

    def ask() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # too late to ask: it is gone already
            os._exit(1)

    return ask


@dataclass(eq=False)
class RigProcess:
    """One process. `signals` is what was sent to it, so that its end can be judged; `held` its leases when frozen;
    `log` what it alone has written."""

    role: str
    popen: subprocess.Popen[bytes]
    started_at: float
    log: Path
    signals: list[signal.Signals] = field(default_factory=list)
    frozen: bool = False
    stopped_at: float = 0.0
    held: frozenset[int] = frozenset()

    @property
    def pid(self) -> int:
        """Also a part of the name under which it takes leases."""
        return self.popen.pid

    @property
    def struck(self) -> bool:
        """Whether it is on its way out."""
        return signal.SIGKILL in self.signals or signal.SIGTERM in self.signals

    @property
    def last_line(self) -> str:
        """The last line that it has written: why it ended, if it ended by itself."""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - LATELY_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def told_end(self) -> str:
        """What a finding says of an end that was not asked for."""
        return f"it ended by itself with code {self.popen.returncode}: {json.dumps(self.last_line)} ({self.log.name})"

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone."""
        self.signals.append(number)
        if number is signal.SIGSTOP:
            self.frozen = True
        elif number is signal.SIGCONT:
            self.frozen = False
        elif number is signal.SIGTERM:
            self.stopped_at = time.monotonic()
        self.popen.send_signal(number)


class ProcessGroup:
    """Starts processes by role; `ended` gives back those that are gone."""

    def __init__(self, commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], log: Path) -> None:
        """`logs` finds what they write, with `log`."""
        self._commands = commands
        self._environment = dict(environment)
        self._log = log
        self.alive: list[RigProcess] = []
        self.started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.alive:
            process.popen.kill()
        for process in self.alive:
            process.popen.wait()

    def start(
        self, role: str, environment: Mapping[str, str] | None = None, command: Sequence[str] | None = None
    ) -> RigProcess:
        """Starts one with a log of its own. `environment` comes on top, `command` instead."""
        own = _folder(self._log) / f"{self.started:05}-{role}.log"
        own.parent.mkdir(exist_ok=True)
        with own.open("ab") as log:
            popen = subprocess.Popen(
                self._commands[role] if command is None else command,
                env=self._environment | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the supervisor, which then ends them
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
            )
        process = RigProcess(role, popen, time.monotonic(), own)
        self.alive.append(process)
        self.started += 1
        return process

    def ended(self) -> list[RigProcess]:
        """Those that ended since the last call."""
        gone = [process for process in self.alive if process.popen.poll() is not None]
        self.alive = [process for process in self.alive if process not in gone]
        return gone

    def wake_stopped(self) -> None:
        """Lets those go on that stand still. One that is armed may stop itself when nobody expects it any more."""
        for process in self.alive:
            if process.frozen or is_stopped(process.pid):
                process.send(signal.SIGCONT)

    def by_pid(self, pid: int) -> RigProcess | None:
        """The process, if it is one of ours and alive."""
        return next((process for process in self.alive if process.pid == pid), None)

    def kill(self, process: RigProcess) -> None:
        """Waits until it is really gone, and its locks with it."""
        process.send(signal.SIGKILL)
        process.popen.wait()


def logs(log: Path) -> list[Path]:
    """The log that some processes share, if there is one, and those that a pack has given to each of its own."""
    return [*([log] if log.exists() else []), *sorted(_folder(log).glob("*.log"))]


def _folder(log: Path) -> Path:
    return log.with_suffix("")


def log_errors(log: Path) -> list[str]:
    """Lines that say that something went wrong inside a process, as text or as JSON, beyond what chaos explains: items
    fail as it was foretold, and a worker that dies while it ends a job was killed by us, or its exit code is a finding
    of its own."""
    told = []
    for one in logs(log):
        with one.open(encoding="utf-8", errors="replace") as lines:
            told += [line.rstrip() for line in lines if any(word in line for word in _OF_ERRORS)]
    return [line for line in told if not any(word in line for word in _EXPLAINED)]
