"""`swath worker`: runs items of any job in the store until told to stop, in one process or in several (W4).

A worker process that dies is restarted. With `--metrics-port` a worker serves `/metrics` and `/live` (W5, O2) from
its
own event loop, so that a blocked worker does not answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import click

from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, check_services, open_services, store_watch
from swath.bootstrap.workers import make_worker
from swath.domain.errors import StoreReplaced, UserError
from swath.entrypoints.cli.options import complete_jobs
from swath.entrypoints.cli.runtime import (
    begin,
    exit_when_blocked,
    no_server_option,
    refuse_server,
    run_async,
    stop_on_signals,
)
from swath.observability.counters import FIGURES
from swath.settings import Settings

__all__ = ["MetricsAddress", "serve_metrics", "stop_with_parent", "supervise_workers", "worker"]

REQUEST_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 50  # connections; the one that has waited longest makes room, so that a probe always gets in
_MAX_LINE_BYTES: Final = 4_096
_MAX_HEADERS: Final = 100
_TEXT: Final = "text/plain; charset=utf-8"


class MetricsAddress(NamedTuple):
    """Where to listen. Without a port: nowhere; 0 is a free one."""

    host: str = "127.0.0.1"
    port: int | None = None


@asynccontextmanager
async def serve_metrics(place: MetricsAddress) -> AsyncIterator[int | None]:
    """Serves them while the block lasts, and gives the port. Raises UserError when it cannot be had."""
    if place.port is None:
        yield None
        return
    waiting: dict[asyncio.StreamWriter, None] = {}
    try:
        server = await asyncio.start_server(partial(_let_in, waiting), place.host, place.port, limit=_MAX_LINE_BYTES)
    except OSError as error:
        told = f"--metrics-port: cannot listen on {place.host}:{place.port}"
        raise UserError(f"{told}: {error.strerror or error}; choose another") from None
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _let_in(
    waiting: dict[asyncio.StreamWriter, None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    if len(waiting) >= MOST_AT_ONCE:
        oldest = next(iter(waiting))
        del waiting[oldest]
        oldest.transport.abort()
    waiting[writer] = None
    try:
        await _handle_request(reader, writer)
    finally:
        waiting.pop(writer, None)


async def _handle_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, then the end."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            method, path = await _read_request(reader)
            status, kind, body = _response(method, path)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + (b"" if method == "HEAD" else body))
            await writer.drain()
    except (TimeoutError, OSError, ValueError):  # too slow, gone, or no HTTP
        pass
    finally:
        writer.close()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    method, path, _ = (await reader.readline()).decode("latin-1").split(" ", 2)
    for _ in range(_MAX_HEADERS):
        if (await reader.readline()).strip() == b"":
            return method, path.partition("?")[0]
    raise ValueError("too many headers")


def _response(method: str, path: str) -> tuple[str, str, bytes]:
    if method not in ("GET", "HEAD"):
        return "405 Method Not Allowed", _TEXT, b"only GET\n"
    if path == "/live":
        return "200 OK", _TEXT, b"alive\n"
    if path == "/metrics":
        from swath.observability.prometheus import CONTENT_TYPE, render_metrics

        return "200 OK", CONTENT_TYPE, render_metrics(FIGURES)
    return "404 Not Found", _TEXT, b"there are /metrics and /live\n"


# -P: nothing is imported from the current folder, where others may have put a module.
WORKER_COMMAND: Final = (sys.executable, "-P", "-m", "swath.entrypoints.cli.main", "worker", "--with-parent")
MIN_RESTART_SECONDS: Final = 0.1
MAX_RESTART_SECONDS: Final = 5.0
STABLE_SECONDS: Final = 30.0  # one that lived so long is started again without delay
STOP_MARGIN_SECONDS: Final = 15.0  # beyond the grace period, within which a worker ends by itself


async def supervise_workers(
    processes: int,
    stop: asyncio.Event,
    *,
    job_id: str | None = None,
    grace_seconds: float = 30.0,
    metrics: MetricsAddress | None = None,
    check_store: Callable[[], None] = lambda: None,
) -> None:
    """Keeps so many workers alive until `stop` is set, then asks them to stop and returns when all are gone.

    `check_store` is asked before one is started again. If it raises StoreReplaced, `stop` is set and that is raised
    when all are gone: another one would begin a new store, and nobody would know.
    """

    async def keep(number: int) -> None:
        arguments = [*([] if job_id is None else ["--job", job_id]), *_metrics_arguments(metrics, number)]
        try:
            await _supervise_worker(f"worker {number}", stop, arguments, grace_seconds, check_store)
        except StoreReplaced as error:  # not raised at once: that would kill the others
            replaced.append(error)
            stop.set()

    replaced: list[StoreReplaced] = []
    async with asyncio.TaskGroup() as group:
        for number in range(1, processes + 1):
            group.create_task(keep(number))
    if replaced:
        raise replaced[0]


def _metrics_arguments(metrics: MetricsAddress | None, number: int) -> list[str]:
    """Each has a port of its own, counted from the one that was given."""
    if metrics is None or metrics.port is None:
        return []
    port = metrics.port + number - 1 if metrics.port else 0
    return ["--metrics-port", str(port), "--metrics-host", metrics.host]


async def _supervise_worker(
    name: str, stop: asyncio.Event, arguments: Sequence[str], grace_seconds: float, check_store: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    delay_seconds = MIN_RESTART_SECONDS
    while not stop.is_set():
        started_at = loop.time()
        process = await _start_process(arguments)
        try:
            await _wait_for_first(process.wait(), stop.wait())
            if stop.is_set():
                await _stop_process(process, name, grace_seconds)
                return
        finally:
            if process.returncode is None:
                process.kill()
        check_store()
        if loop.time() - started_at >= STABLE_SECONDS:
            delay_seconds = MIN_RESTART_SECONDS
        how = _exit_reason(process)
        click.echo(f"swath: {name} (process {process.pid}) {how}; starting another in {delay_seconds:g} s", err=True)
        await _wait_for_first(stop.wait(), asyncio.sleep(delay_seconds))
        check_store()
        delay_seconds = min(2 * delay_seconds, MAX_RESTART_SECONDS)


async def _start_process(arguments: Sequence[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *WORKER_COMMAND,
        *arguments,
        stdin=PIPE,  # never written to: it is closed when this process is gone, however it went
        stdout=DEVNULL,
        start_new_session=True,  # Ctrl-C is for us: a worker that hears of it twice would leave at once
    )


async def _stop_process(process: Process, name: str, grace_seconds: float) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), grace_seconds + STOP_MARGIN_SECONDS)
    except TimeoutError:
        click.echo(f"swath: {name} (process {process.pid}) did not stop and was killed", err=True)
        process.kill()
        await process.wait()
        return
    if process.returncode not in (0, -signal.SIGTERM):  # so ends one that had not begun yet
        click.echo(f"swath: {name} (process {process.pid}) {_exit_reason(process)} while it stopped", err=True)


def _exit_reason(process: Process) -> str:
    code = process.returncode or 0
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with status {code}"


async def _wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
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


@click.command()
@click.option("--job", "job_id", metavar="JOB", help="Work on this job only.", shell_complete=complete_jobs)
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N", help="Work in N processes, to use more than one core."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="Serve /metrics and /live here; 0 takes a free one. With --processes each takes the next one.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when stdin is closed.")
@no_server_option
def worker(
    job_id: str | None, processes: int | None, metrics_port: int | None, metrics_host: str, with_parent: bool
) -> None:
    """Work on jobs of the store until told to stop.

    SIGTERM or SIGINT: takes nothing more, finishes what fits in the grace period, hands back the rest, exits 0.
    With --processes a process that dies is replaced.
    """
    refuse_server("a worker", "give it the store that the controller has: SWATH_STORE, or SWATH_DATA")
    settings, metrics = begin(serves=True), MetricsAddress(metrics_host, metrics_port)
    if processes is None:
        run_async(_run_worker(settings, job_id, metrics, with_parent=with_parent))
    else:
        run_async(_run_processes(settings, job_id, processes, metrics))


async def _run_worker(settings: Settings, job_id: str | None, metrics: MetricsAddress, *, with_parent: bool) -> None:
    stop = asyncio.Event()
    # A parent speaks for all of its processes.
    stop_on_signals(stop, None if with_parent else _stop_notice(settings), settings.grace_seconds)
    if with_parent:
        stop_with_parent()
    # The parent has opened the store before: a worker that finds none must not begin a new one.
    async with serve_metrics(metrics) as port, open_services(settings, must_exist=with_parent) as services:
        if metrics.port == 0:
            click.echo(f"swath: metrics on http://{metrics.host}:{port}/metrics", err=True)
        await _check_before_start(services, job_id)
        async with make_worker(services, make_registry(settings), job_id, on_standstill=exit_when_blocked) as one:
            await one.run(stop)


async def _run_processes(settings: Settings, job_id: str | None, processes: int, metrics: MetricsAddress) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop, _stop_notice(settings), settings.grace_seconds + STOP_MARGIN_SECONDS)
    async with open_services(settings) as services:
        await _check_before_start(services, job_id)
        check_store = store_watch(settings)
    await supervise_workers(
        processes,
        stop,
        job_id=job_id,
        grace_seconds=settings.grace_seconds,
        metrics=metrics,
        check_store=check_store,
    )


async def _check_before_start(services: Services, job_id: str | None) -> None:
    """A name that is not there is said before anything is started, as is a place that cannot be used."""
    if job_id is not None:
        await services.store.status(job_id)
    await check_services(services)


def _stop_notice(settings: Settings) -> str:
    return f"stopping; what runs has {settings.grace_seconds:g} s to finish"
