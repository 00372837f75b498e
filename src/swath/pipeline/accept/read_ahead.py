"""ReadAhead: runs a blocking generator in a thread of its own, a few values ahead of the coroutine that takes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from types import TracebackType
from typing import Generic, TypeVar

__all__ = ["ReadAhead"]

T = TypeVar("T")


class _End:
    """Comes after the last value, with the error if one ended the iteration."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class ReadAhead(Generic[T]):
    """An asynchronous iterator over what `produce()` yields; used as a context, so that the thread is told to stop.

    The thread is a daemon and not from asyncio's pool: one that waits for a silent stdin must not keep the process.
    """

    def __init__(self, produce: Callable[[], Generator[T, None, None]], depth: int = 2) -> None:
        self._produce = produce
        self._room = threading.Semaphore(depth)
        self._stopped = threading.Event()
        self._taken: asyncio.Queue[T | _End] = asyncio.Queue()

    async def __aenter__(self) -> ReadAhead[T]:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(loop,), name="read-ahead", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._room.release()  # the thread may be waiting for room

    def __aiter__(self) -> ReadAhead[T]:
        return self

    async def __anext__(self) -> T:
        value = await self._taken.get()
        if isinstance(value, _End):
            self._taken.put_nowait(value)  # whoever asks again gets the same answer
            raise value.error or StopAsyncIteration
        self._room.release()
        return value

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        end = _End(None)
        try:
            # Closed here, so that a file is closed now and not when its generator is collected.
            with closing(self._produce()) as values:
                for value in values:
                    self._room.acquire()
                    if self._stopped.is_set():
                        break
                    self._hand_over(loop, value)
        except BaseException as error:  # noqa: BLE001 raised again where the values are taken
            end = _End(error)
        self._hand_over(loop, end)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, value: T | _End) -> None:
        try:
            loop.call_soon_threadsafe(self._taken.put_nowait, value)
        except RuntimeError:  # the loop has closed; nobody waits any more
            self._stopped.set()
