"""Worker processes of one command (W4): started, started again when they die, stopped with it. None outlives it.

Each is a plain `swath worker`, so no process is special; the store is all that they share. Used by worker.py, and by
whatever command lets several processes work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import click

from swath.domain.errors import StoreReplaced
from swath.entrypoints.cli.metrics_port import MetricsPlace

__all__ = ["keep_workers", "stop_with_parent"]

# -P: nothing is imported from the current folder, where others may have put a module.
COMMAND: Final = (sys.executable, "-P", "-m", "swath.entrypoints.cli.main", "worker", "--with-parent")
SHORTEST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 5.0
STEADY_SECONDS: Final = 30.0  # one that lived so long is started again without delay
LATE_SECONDS: Final = 15.0  # beyond the grace period, within which a worker ends by itself


async def keep_workers(
    processes: int,
    stop: asyncio.Event,
    *,
    job_id: str | None = None,
    grace_seconds: float = 30.0,
    metrics: MetricsPlace | None = None,
    check_store: Callable[[], None] = lambda: None,
) -> None:
    """Keeps so many workers alive until `stop` is set, then asks them to stop and returns when all are gone.

    `check_store` is asked before one is started again. If it raises StoreReplaced, `stop` is set and that is raised
    when all are gone: another one would begin a new store, and nobody would know.
    """

    async def keep(number: int) -> None:
        arguments = [*([] if job_id is None else ["--job", job_id]), *_metrics_of(metrics, number)]
        try:
            await _keep_worker(f"worker {number}", stop, arguments, grace_seconds, check_store)
        except StoreReplaced as error:  # not raised at once: that would kill the others
            replaced.append(error)
            stop.set()

    replaced: list[StoreReplaced] = []
    async with asyncio.TaskGroup() as group:
        for number in range(1, processes + 1):
            group.create_task(keep(number))
    if replaced:
        raise replaced[0]


def _metrics_of(metrics: MetricsPlace | None, number: int) -> list[str]:
    """Each has a port of its own, counted from the one that was given."""
    if metrics is None or metrics.port is None:
        return []
    port = metrics.port + number - 1 if metrics.port else 0
    return ["--metrics-port", str(port), "--metrics-host", metrics.host]


async def _keep_worker(
    name: str, stop: asyncio.Event, arguments: Sequence[str], grace_seconds: float, check_store: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    delay_seconds = SHORTEST_DELAY_SECONDS
    while not stop.is_set():
        started_at = loop.time()
        process = await _start(arguments)
        try:
            await _first(process.wait(), stop.wait())
            if stop.is_set():
                await _end(process, name, grace_seconds)
                return
        finally:
            if process.returncode is None:
                process.kill()
        check_store()
        if loop.time() - started_at >= STEADY_SECONDS:
            delay_seconds = SHORTEST_DELAY_SECONDS
        how = _how_it_ended(process)
        click.echo(f"swath: {name} (process {process.pid}) {how}; starting another in {delay_seconds:g} s", err=True)
        await _first(stop.wait(), asyncio.sleep(delay_seconds))
        check_store()
        delay_seconds = min(2 * delay_seconds, LONGEST_DELAY_SECONDS)


async def _start(arguments: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=PIPE,  # never written to: it is closed when this process is gone, however it went
        stdout=DEVNULL,
        start_new_session=True,  # Ctrl-C is for us: a worker that hears of it twice would leave at once
    )


async def _end(process: Process, name: str, grace_seconds: float) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), grace_seconds + LATE_SECONDS)
    except TimeoutError:
        click.echo(f"swath: {name} (process {process.pid}) did not stop and was killed", err=True)
        process.kill()
        await process.wait()
        return
    if process.returncode not in (0, -signal.SIGTERM):  # so ends one that had not begun yet
        click.echo(f"swath: {name} (process {process.pid}) {_how_it_ended(process)} while it stopped", err=True)


def _how_it_ended(process: Process) -> str:
    code = process.returncode or 0
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with status {code}"


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Returns when one of them is done, and lets the others go."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def stop_with_parent() -> None:
    """Stops this process in good order when the one that started it is gone: its end of our stdin is closed then."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="swath-parent", daemon=True).start()
