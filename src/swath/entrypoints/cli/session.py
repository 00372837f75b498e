"""What every command needs around its work: settings, a log, an event loop, and signals that stop it in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from swath.entrypoints.cli.exit_codes import ExitCode
from swath.settings import Settings, read_settings

__all__ = ["begin", "run_async", "stop_on_signals"]

T = TypeVar("T")


def begin() -> Settings:
    """Reads the settings and sets up the log, once per command."""
    settings = read_settings()
    logging.basicConfig(
        level=settings.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return settings


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's work on the fastest loop there is."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        import uvloop  # not needed for `--version`

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


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
