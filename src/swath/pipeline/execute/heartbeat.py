"""Heartbeat: renews a worker's leases from a thread of its own, so that work on the event loop cannot lose them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping

from swath.domain.errors import SwathError
from swath.domain.lease import Directive
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook

__all__ = ["Heartbeat"]

_log = logging.getLogger("swath.heartbeat")


class Heartbeat:
    """`answer` is called in the heartbeat's thread with what the book said and when it was asked."""

    def __init__(
        self,
        book: LeaseBook,
        clock: Clock,
        worker_id: str,
        fences: Callable[[], Collection[int]],
        answer: Callable[[Mapping[int, Directive], float], None],
    ) -> None:
        self._book = book
        self._clock = clock
        self._worker_id = worker_id
        self._fences = fences
        self._answer = answer
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, interval_seconds: float) -> None:
        """Begins to beat."""
        self._thread = threading.Thread(
            target=self._loop, args=(interval_seconds,), name="swath-heartbeat", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Stops beating; returns when the thread has ended."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _loop(self, interval_seconds: float) -> None:
        with asyncio.Runner() as runner:
            while not self._stop.wait(interval_seconds):
                try:
                    runner.run(self.run_once())
                except SwathError as error:
                    _log.warning("leases could not be renewed: %s", error)

    async def run_once(self) -> None:
        """Renews everything held now."""
        fences = self._fences()
        if fences:
            asked_at = self._clock.boot()
            self._answer(await self._book.renew(self._worker_id, fences), asked_at)
