"""What every command needs around its work: settings, logging, an event loop and signal handling.

Also the options `--server` and `--insecure`, by which a command asks a controller in place of a store.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from swath.domain.errors import BadInput, UserError
from swath.domain.secret import Secret
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.settings import Settings, load, parse_server

__all__ = [
    "begin",
    "begin_jobs",
    "exit_when_blocked",
    "no_server_option",
    "refuse_server",
    "run_async",
    "server_options",
    "stop_on_signals",
]

T = TypeVar("T")

CANCEL_SECONDS = 2.0
FORCED_EXIT_SECONDS = 10.0
GARBAGE_OBJECTS = 10_000  # new ones between two looks for cycles; pages are freed without
MIN_SECRET_CHARS = 12  # shorter parts of an address are words that lines may well have
SAME_SIGNAL_SECONDS = 0.5  # `timeout` signals the process and its group: one wish, heard twice


def begin(*, serves: bool = False) -> Settings:
    """Reads the settings and sets up log and traces, once per command.

    What `serves` writes its log for programs, and tells of every item in it. For a person at a terminal it is text, and
    items are on the progress bar, unless the settings ask for them.
    """
    reading = load()
    settings, chosen = reading.settings, {name for name, at in reading.origins.items() if at.source != "default"}
    from swath.observability import logs

    form = settings.log_format if serves or "log_format" in chosen else "text"
    logs.set_up_logging(settings.log_level, form, _secrets(settings), items=serves or "log_level" in chosen)
    if settings.traces:
        _trace()
    return settings


def _secrets(settings: Settings) -> Iterator[Secret]:
    """All that must never be in a line. Of a webhook's address any long part behind the host may be one, too."""
    for value in msgspec.structs.astuple(settings):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Secret):
                yield part
    if settings.webhook_url is not None:
        _, _, behind = settings.webhook_url.partition("://")[2].partition("/")
        yield from (Secret(part) for part in re.split(r"[/?&=]", behind) if len(part) >= MIN_SECRET_CHARS)


def _trace() -> None:
    try:
        from swath.observability import tracing
    except ImportError as error:  # another package may have brought a part of OpenTelemetry
        raise UserError(
            f"SWATH_TRACES=1 needs the extra otel ({error.name} is missing): pip install 'swath[otel]'"
        ) from error

    tracing.set_up_tracing("swath")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's work on the fastest loop there is.

    Not asyncio.run, which waits for every task in the end: one of a scraper that does not stop would hold us for ever.
    """
    gc.freeze()  # modules stay; looking through them again and again would cost each item some 30 µs
    gc.set_threshold(GARBAGE_OBJECTS, 20, 20)
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(work)
    except (SystemExit, KeyboardInterrupt) as error:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise  # no handlers of our own, so no scraper runs here: it was a person
        _exit_at_once(error)
    finally:
        if not loop.run_until_complete(_cancel_remaining_tasks()):
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


def _exit_at_once(error: BaseException) -> NoReturn:
    """A task of a scraper called exit. Nothing is tidied up: the worker's notes of what it runs must outlive it, or the
    item that did it would never be found out."""
    code = f"({error.code})" if isinstance(error, SystemExit) else ""
    click.echo(f"swath: internal error: a scraper's task ended the process by {type(error).__name__}{code}", err=True)
    os._exit(ExitCode.INTERNAL)


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop  # not needed for `--version`

    return uvloop.new_event_loop()


async def _cancel_remaining_tasks() -> set[asyncio.Task[Any]]:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
        # There is no public way to say that we know of it: its item was accounted for when the attempt was given up.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
    return (await asyncio.wait(others, timeout=CANCEL_SECONDS))[1] if others else set()


def stop_on_signals(stop: asyncio.Event, notice: str | None, grace_seconds: float) -> None:
    """The first SIGINT or SIGTERM asks to stop; a second one does not wait, unless it comes with the first.

    Handlers of the loop's own would not run while a scraper keeps the loop busy, so these are plain ones, and a thread
    sees to it that a loop which never comes back costs no more than the grace period and a margin.
    """
    loop = asyncio.get_running_loop()
    heard_at: list[float] = []

    def leave() -> None:
        _write_stderr("swath: stopped at once; what it held is taken up by others or by the next run\n")
        os._exit(ExitCode.INTERRUPTED)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        heard_at.append(time.monotonic())
        if heard_at[-1] - heard_at[0] >= SAME_SIGNAL_SECONDS:
            leave()
        if len(heard_at) > 1:
            return
        if notice is not None:
            _write_stderr(f"\nswath: {notice}\n")
        last_resort = threading.Timer(grace_seconds + FORCED_EXIT_SECONDS, leave)
        last_resort.daemon = True
        last_resort.start()
        loop.call_soon_threadsafe(stop.set)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, on_signal)


def _write_stderr(words: str) -> None:
    """To stderr, but past its buffer: a signal may come while that is being written to, and then a second write to it
    raises, so that the signal would be lost."""
    with contextlib.suppress(OSError):
        os.write(2, words.encode())


def exit_when_blocked() -> None:
    """Ends the process when a scraper keeps it from doing anything: others take up what it held, and whichever item did
    it is tried alone from now on and given up after three times."""
    click.echo(
        "swath: an item has kept this process from doing anything else for too long, so it ends; run it again to go on",
        err=True,
    )
    os._exit(ExitCode.INTERNAL)


F = TypeVar("F", bound=Callable[..., Any])

_SERVER: Final = "swath.server"
_INSECURE: Final = "swath.insecure"


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        del param
        ctx.meta[name] = value
        return value

    return callback


_SERVER_OPTION: Final[dict[str, Any]] = {"metavar": "URL", "expose_value": False, "callback": _remember(_SERVER)}


def server_options(command: F) -> F:
    """Where the jobs are; the command reads it by `begin_jobs`."""
    insecure = click.option(
        "--insecure",
        is_flag=True,
        expose_value=False,
        callback=_remember(_INSECURE),
        help="Send the key to it even where others could read it.",
    )
    return click.option("--server", **_SERVER_OPTION, help="Ask this controller. Default: SWATH_SERVER.")(
        insecure(command)
    )


def no_server_option(command: F) -> F:
    """For a command that works on a store: what was given is refused by `refuse_server`."""
    return click.option("--server", **_SERVER_OPTION, hidden=True)(command)


def begin_jobs() -> Settings:
    """`begin`, with the controller that was named. Raises BadInput where its key could be read on the way."""
    meta = click.get_current_context().meta
    settings, given = begin(), meta.get(_SERVER)
    if given is not None:
        settings = msgspec.structs.replace(settings, server=parse_server(given, "--server"))
    if settings.server is not None and not meta.get(_INSECURE):
        from swath.entrypoints.cli.remote.http import ControllerAddress, check_key_is_safe

        check_key_is_safe(ControllerAddress.of(settings.server), settings.service_key)
    return settings


def refuse_server(what: str, remedy: str) -> None:
    """Raises BadInput when a controller was named on the command line."""
    given = click.get_current_context().meta.get(_SERVER)
    if given is not None:
        raise BadInput(f"{what} works on a store, not on the controller {given}; {remedy}")
