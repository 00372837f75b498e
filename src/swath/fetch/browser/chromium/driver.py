"""The driver process that speaks to one Chromium. Each browser has its own, so both are replaced together.

patchright would start it with our whole environment and in our process group, and a cancelled call would wait for an
answer that a frozen driver never gives. Here it gets its own environment and group, and dies with this process.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import patchright
from patchright._impl._connection import ChannelOwner, Connection, ProtocolCallback
from patchright._impl._errors import TargetClosedError
from patchright._impl._object_factory import create_remote_object
from patchright._impl._transport import PipeTransport
from patchright.async_api import Error, Playwright

__all__ = ["Driver", "driver_files"]

STOP_SECONDS: Final = 2.0
HOME: Final = Path(inspect.getfile(patchright)).parent / "driver"
GONE: Final = "Connection closed: the browser's driver is gone"


def driver_files() -> tuple[Path, Path]:
    """The program and the script that it runs."""
    return HOME / "node", HOME / "package" / "cli.js"


class Driver:
    """Started by `start`, ended by `stop`. `ended` is set when its process is gone, for whatever reason."""

    def __init__(self, connection: _Connection, pipe: _DriverTransport, run: asyncio.Task[None]) -> None:
        self._connection = connection
        self._pipe = pipe
        self._run = run
        self.ended = asyncio.Event()
        run.add_done_callback(self._has_ended)

    @classmethod
    async def start(cls, environment: Mapping[str, str], leash: Sequence[str]) -> tuple[Driver, Playwright]:
        """`leash` begins its command. Wants an outer bound. Leaves no process when it fails or is cancelled."""
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_ignore_driver_errors)
        pipe = _DriverTransport(loop, environment, leash)
        connection = _Connection(None, create_remote_object, pipe, loop)
        # A failure before anybody waits for it would be told as one that nobody looked at.
        pipe.on_error_future.add_done_callback(lambda told: told.cancelled() or told.exception())
        driver = cls(connection, pipe, loop.create_task(connection.run(), name="browser driver"))
        ready = connection.playwright_future
        try:
            await asyncio.wait({ready, pipe.on_error_future}, return_when=asyncio.FIRST_COMPLETED)
            playwright = Playwright(ready.result() if ready.done() else pipe.on_error_future.result())
        except BaseException:
            ready.cancel()
            await driver.stop()
            raise
        return driver, playwright

    @property
    def pid(self) -> int:
        return self._pipe.pid

    async def stop(self) -> None:
        """Kills it with its group, and waits until it is gone. Every call that still waits fails at once. Bounded, and
        may be called again."""
        self._pipe.kill()
        with suppress(Exception):  # what it died of is of no more interest
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.wait({self._run})
        self._run.cancel()
        self._fail_calls()
        self._pipe.let_go()

    def _has_ended(self, run: asyncio.Task[None]) -> None:
        if not run.cancelled():
            run.exception()
        self._fail_calls()
        self.ended.set()

    def _fail_calls(self) -> None:
        self._connection.cleanup()


def _ignore_driver_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """That a browser has died is also told to what nobody waits for any more, which asyncio would call an error."""
    unheard = context.get("future")
    if isinstance(unheard, asyncio.Task) or not isinstance(context.get("exception"), Error):
        loop.default_exception_handler(context)


class _Connection(Connection):
    """patchright's own, but a call that is cancelled ends there and then, so that a bound on it is one."""

    async def _abort(self, object: ChannelOwner, callback: ProtocolCallback, reason: str) -> None:  # noqa: A002 its name
        with suppress(Exception):  # it is told as far as it still listens
            told = {"id": callback.id, "reason": reason}
            guid = object._guid  # noqa: SLF001 as patchright's own
            self._transport.send({"guid": guid, "method": "__abort__", "params": told})
        callback.future.cancel()

    def cleanup(self, cause: str = GONE) -> None:
        for call in self._callbacks.values():
            call.no_reply = call.no_reply or call.future.done()  # those cannot fail any more
        super().cleanup(cause)


class _DriverGoneFuture(asyncio.Future[Any]):
    """patchright's error for a dead driver is no Error of its own, which those who call look for."""

    def set_exception(self, error: type[BaseException] | BaseException, /) -> None:
        super().set_exception(TargetClosedError(f"{GONE}: {error}"))


class _DriverTransport(PipeTransport):
    """patchright's own, but for how the process is started."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str], leash: Sequence[str]) -> None:
        super().__init__(loop)
        self.on_error_future = _DriverGoneFuture(loop=loop)
        self._environment = environment
        self._leash = leash
        self._proc: asyncio.subprocess.Process
        self.pid = 0
        self._unwanted = False

    async def connect(self) -> None:
        self._stopped_future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._proc = await asyncio.create_subprocess_exec(
                *self._leash,
                *map(str, driver_files()),
                "run-driver",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=32_768,
                env=self._environment,
                start_new_session=True,
            )
        except Exception as error:
            self.on_error_future.set_exception(error)
            raise
        self.pid = self._proc.pid
        self._output = self._proc.stdin
        if self._unwanted:
            self.kill()

    def send(self, message: dict[str, Any]) -> None:
        """Whoever still speaks to it after its end is told so; uvloop would tell of a closed handler."""
        try:
            super().send(message)
        except RuntimeError as error:
            raise TargetClosedError(GONE) from error

    def kill(self) -> None:
        """With its group. Frozen or not, and also while it is being started."""
        self._unwanted = True
        if self.pid and self._proc.returncode is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Closes our ends of its pipes."""
        if self.pid:
            self._proc._transport.close()  # type: ignore[attr-defined] # noqa: SLF001 nothing public closes them
