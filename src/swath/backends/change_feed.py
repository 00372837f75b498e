"""Tells subscribers in this process which jobs have changed.

A commit on any thread publishes the ids of its jobs; each subscriber receives them on its own event loop. Where
changes
by other processes cannot be observed, the polling feed reports once a second that any job may have changed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

__all__ = ["POLL_SECONDS", "ChangeBroadcaster", "LocalChangeFeed", "PollingChangeFeed"]

MOST_NAMED: Final = 1_000  # jobs that a listener which does not ask is told by name; beyond, any may have changed


class ChangeBroadcaster:
    """`tell` may be called from any thread. `on_first` and `on_last` are called when listening begins and ends."""

    def __init__(self, on_first: Callable[[], None] = lambda: None, on_last: Callable[[], None] = lambda: None) -> None:
        self._listeners: set[LocalChangeFeed] = set()
        self._lock = threading.Lock()
        self._on_first = on_first
        self._on_last = on_last

    def listen(self) -> LocalChangeFeed:
        """A new listener, which hears what is told from now on."""
        listener = LocalChangeFeed(self._leave)
        with self._lock:
            self._listeners.add(listener)
            if len(self._listeners) == 1:
                self._on_first()
        return listener

    def _leave(self, listener: LocalChangeFeed) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
                if not self._listeners:
                    self._on_last()

    def tell(self, job_ids: Collection[str] | None) -> None:
        """These jobs have changed; None: any may have."""
        if not self._listeners or (job_ids is not None and not job_ids):
            return
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.tell(job_ids)


class LocalChangeFeed:
    """Implements News."""

    def __init__(self, leave: Callable[[LocalChangeFeed], None]) -> None:
        self._leave = leave
        self._lock = threading.Lock()
        self._changed: set[str] | None = set()  # None: any job
        self._waiter: asyncio.Future[None] | None = None

    def tell(self, job_ids: Collection[str] | None) -> None:
        """Called from any thread."""
        with self._lock:
            if job_ids is None or self._changed is None:
                self._changed = None
            else:
                self._changed.update(job_ids)
                self._changed = self._changed if len(self._changed) <= MOST_NAMED else None
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    async def hear(self, seconds: float) -> Collection[str] | None:
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._changed is None or self._changed:
                return self._take()
            self._waiter = waiter
        await asyncio.wait([waiter], timeout=seconds)
        with self._lock:
            self._waiter = None
            return self._take()

    def _take(self) -> Collection[str] | None:
        changed, self._changed = self._changed, set()
        return changed

    def close(self) -> None:
        self._leave(self)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


POLL_SECONDS: Final = 1.0
_EARLY_SECONDS: Final = 0.01  # by which a timer may be


class PollingChangeFeed:
    """Implements News. While nobody waits in `hear` nothing runs."""

    def __init__(self, listener: LocalChangeFeed) -> None:
        self._listener = listener
        self._any_at = time.monotonic() + POLL_SECONDS

    async def hear(self, seconds: float) -> Collection[str] | None:
        changed = await self._listener.hear(max(0.0, min(seconds, self._any_at - time.monotonic())))
        late_seconds = time.monotonic() - self._any_at + _EARLY_SECONDS
        # Names come first, but not for ever: else a busy process would never hear of what others change.
        if late_seconds < 0 or (changed and late_seconds < POLL_SECONDS):
            return changed
        self._any_at = time.monotonic() + POLL_SECONDS
        return None

    def close(self) -> None:
        self._listener.close()
