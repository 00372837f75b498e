"""One thread with an event loop of its own, on which this process talks to AWS.

Work of a scraper on the main loop cannot delay a heartbeat this way, and any event loop may call. Clients and tables
live on that loop; the store, the queue and the site state cross over to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import WaitingFor

__all__ = ["EventLoopThread"]

T = TypeVar("T")

_CLOSE_SECONDS: Final = 5.0


class EventLoopThread:
    """Runs coroutines on its own loop for callers on any other. `close` it last, from outside of that loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="swath-aws", daemon=True)
        self._thread.start()

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Makes the coroutine on the bridge's loop and returns what it does. Cancelling the caller cancels it too.

        Raises StoreUnavailable when the bridge is closed before or meanwhile.
        """
        if asyncio.get_running_loop() is self._loop:
            return await make()
        with self._closing:
            if self._closed.is_set():
                raise _closed_error()
            future = asyncio.run_coroutine_threadsafe(_run(make), self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if not self._closed.is_set() or asking is None or asking.cancelling():
                raise
            raise _closed_error() from None

    def post(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Has the coroutine run when the loop comes to it. Nobody hears what came of it, nor that AWS is away."""
        with self._closing:
            if not self._closed.is_set():
                asyncio.run_coroutine_threadsafe(_run_quietly(make), self._loop)

    def close(self) -> None:
        """Cancels what still runs, and returns when the thread is gone. May be called again."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await make()


async def _run_quietly(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with contextlib.suppress(StoreUnavailable, UserError):
        await make()


def _closed_error() -> StoreUnavailable:
    return StoreUnavailable("the connection to AWS is closed", WaitingFor.STORE)
