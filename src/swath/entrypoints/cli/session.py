"""What every command needs around its work: settings, a log, an event loop, and signals that stop it in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import click

from swath.entrypoints.cli.exit_codes import ExitCode
from swath.settings import Settings, read_settings

__all__ = ["begin", "run_async", "stop_on_signals"]

T = TypeVar("T")

LEAVE_SECONDS = 2.0


def begin() -> Settings:
    """Reads the settings and sets up the log, once per command."""
    settings = read_settings()
    logging.basicConfig(
        level=settings.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return settings


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's work on the fastest loop there is.

    Not asyncio.run, which waits for every task in the end: one of a scraper that does not stop would hold us for ever.
    """
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        if not loop.run_until_complete(_tasks_that_go_on()):
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop  # not needed for `--version`

    return uvloop.new_event_loop()


async def _tasks_that_go_on() -> set[asyncio.Task[Any]]:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
        # There is no public way to say that we know of it: its item was accounted for when the attempt was given up.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
    return (await asyncio.wait(others, timeout=LEAVE_SECONDS))[1] if others else set()


def stop_on_signals(stop: asyncio.Event, notice: str) -> None:
    """The first SIGINT or SIGTERM asks to stop; a second one does not wait."""

    def heard() -> None:
        if stop.is_set():
            click.echo("swath: stopped at once", err=True)
            os._exit(ExitCode.INTERRUPTED)
        click.echo(f"\nswath: {notice}", err=True)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)
