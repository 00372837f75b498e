"""Limits the time of an attempt. The clock stops while the attempt waits for its turn at a site."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from swath.fetch.http.client.limits import Deadlines

__all__ = ["ItemTimeout"]


class ItemTimeout:
    """One per attempt, made on its event loop. Several requests may wait at once; the time runs again when none does.

    It is the block of `limit` (async) and of `waiting` (not). `deadlines` are those of all attempts of a worker.
    `on_expiry` is called when the attempt has just been told that its time is over.
    """

    __slots__ = (
        *("_cancelling", "_deadlines", "_expired", "_loop", "_since", "_task", "_waiting", "_watched"),
        *("ends_at", "on_expiry"),
    )

    def __init__(self, deadlines: Deadlines | None = None) -> None:
        self.on_expiry: Callable[[], object] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._deadlines = Deadlines() if deadlines is None else deadlines
        self._loop = self._deadlines.loop
        self._watched = False
        self.ends_at = 0.0
        self._expired = False
        self._since = 0.0
        self._waiting = 0

    def limit(self, seconds: float) -> ItemTimeout:
        """Bounds the attempt, waits apart. Raises TimeoutError out of its block."""
        self.ends_at = self._loop.time() + seconds
        return self

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task(self._loop)
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._watch()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self.on_expiry = None
        self._deadlines.forget(self)
        # Somebody else may have cancelled the attempt too, which then stays so.
        is_ours = self._expired and task is not None and task.uncancel() <= self._cancelling
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def waiting(self) -> AbstractContextManager[None]:
        """The attempt waits for its turn."""
        return self

    def __enter__(self) -> None:
        self._waiting += 1
        if self._waiting == 1:
            self._since = self._loop.time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.ends_at += self._loop.time() - self._since
            if not self._watched and self._task is not None and not self._expired:
                self._watch()

    def _watch(self) -> None:
        self._watched = True
        self._deadlines.watch(self)

    def time_is_over(self) -> None:
        """See Timed. The end of the last wait moves it, and has it watched again."""
        self._watched = False
        if self._waiting or self._task is None:
            return
        self._expired = True
        self._task.cancel()
        if self.on_expiry is not None:
            self.on_expiry()
