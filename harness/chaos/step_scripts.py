"""Sequences of steps beside a chaos run: generators that yield until their next step is due. Nothing here blocks."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Generator
from typing import Any, Final

from harness.chaos.findings import Findings, Kind
from harness.chaos.job import ChaosJob
from harness.chaos.user_actions import LOCKED_MESSAGE
from harness.processes import dying_with_parent

__all__ = ["RunningScripts", "Script", "run_command", "until"]

Script = Generator[None, None, Any]
COMMAND_SECONDS: Final = 300.0  # generous: it guards against a command that hangs


class RunningScripts:
    """All that have not come to their end."""

    def __init__(self) -> None:
        self._running: list[Script] = []

    def begin(self, script: Script) -> None:
        """Its first step comes with the next turn."""
        self._running.append(script)

    def turn(self) -> None:
        """One look by each."""
        for script in list(self._running):
            try:
                next(script)
            except StopIteration:
                self._running.remove(script)

    def close(self) -> None:
        """Breaks off what is left, with the commands that it has started."""
        for script in self._running:
            script.close()
        self._running.clear()

    @property
    def over(self) -> bool:
        """Whether all have ended."""
        return not self._running


def until(is_so: Callable[[], bool], seconds: float) -> Generator[None, None, bool]:
    """Waits; answers whether it became so in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        yield
    return True


def run_command(job: ChaosJob, arguments: list[str], findings: Findings) -> Generator[None, None, bool]:
    """Runs `swath jobs …`, again while the store is locked; answers whether it succeeded."""
    log = job.folder / f"{job.job_id}.log"
    deadline = time.monotonic() + COMMAND_SECONDS
    while True:
        with log.open("ab") as output:
            command = subprocess.Popen(
                job.command(["jobs", *arguments]),
                env=job.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
            )
        try:
            while (code := command.poll()) is None and time.monotonic() < deadline:
                yield
        finally:
            if command.poll() is None:
                command.kill()
            command.wait()
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        if code == 1 and LOCKED_MESSAGE in "".join(last) and time.monotonic() < deadline:
            continue
        findings.expect(code == 0, Kind.WRONG, f"jobs {arguments[0]} {job.job_id}", f"code {code}: {last}")
        return code == 0
