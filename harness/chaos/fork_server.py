"""Runs commands to their end, each in a process forked from one that has imported Swath already.

`python -m harness.chaos.fork_server` is the process that forks: a JSON line on stdin per command, exit codes on
stdout.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import json
import os
import runpy
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from harness.processes import dying_with_parent

__all__ = ["ForkServer"]

_COMMAND: Final = "swath.entrypoints.cli.main"
_IMPORTED: Final = (  # none of them starts a thread, so that forking is safe
    "swath.bootstrap.workers",
    "swath.entrypoints.cli.jobs.commands",
    "swath.entrypoints.cli.jobs.local_client",
    "swath.entrypoints.cli.run",
    _COMMAND,
)


class ForkServer:
    """Use it as a context; commands that still run at its end are killed."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[int | None]] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "harness.chaos.fork_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._reading
        await self._process.wait()

    async def run(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int | None:
        """The exit code of `swath` with these arguments, or None when nobody is there any more to tell it."""
        number, told = next(self._numbers), asyncio.get_running_loop().create_future()
        order = {"number": number, "arguments": [*arguments], "environment": {**environment}, "log": str(log)}
        stdin = self._process.stdin
        if stdin is None or self._reading.done():
            return None
        self._waiting[number] = told
        stdin.write(json.dumps(order).encode() + b"\n")
        try:
            code: int | None = await told
        finally:
            self._waiting.pop(number, None)
        return code

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            number, code = map(int, line.split())
            if (told := self._waiting.get(number)) is not None and not told.done():
                told.set_result(code)
        for told in self._waiting.values():
            if not told.done():
                told.set_result(None)


def _serve() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # what is never looked at again stays shared with those who are forked
    heard, wake = os.pipe()
    for end in (heard, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    running, rest = dict[int, int](), b""
    while True:
        ready, _, _ = select.select([0, heard], [], [])
        if heard in ready:
            os.read(heard, 4096)
            _tell_ended(running)
        if 0 in ready:
            told = os.read(0, 1 << 16)
            if not told:
                return
            *lines, rest = (rest + told).split(b"\n")
            for order in map(json.loads, lines):
                running[_forked(order)] = order["number"]


def _tell_ended(running: dict[int, int]) -> None:
    for pid, number in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del running[pid]
            os.write(1, f"{number} {os.waitstatus_to_exitcode(status)}\n".encode())


def _forked(order: dict[str, Any]) -> int:
    """The process of the command; in that process it does not come back."""
    die_with_us = dying_with_parent()
    if pid := os.fork():
        return pid
    die_with_us()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["swath", *order["arguments"]]
    runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    _serve()
