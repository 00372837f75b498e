"""Heartbeat: renews a worker's leases from a thread of its own, so that work on the event loop cannot lose them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping

from swath.domain.errors import StoreReplaced, StoreUnavailable, SwathError
from swath.domain.lease import Directive
from swath.pipeline.dispatch.waits import RETRY_STORE_SECONDS, Waits
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
        waits: Waits,
        worker_id: str,
        fences: Callable[[], Collection[int]],
        answer: Callable[[Mapping[int, Directive], float], None],
    ) -> None:
        self._book = book
        self._clock = clock
        self._waits = waits
        self._worker_id = worker_id
        self._fences = fences
        self._answer = answer
        self._told = ""
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
        wait_seconds = interval_seconds
        with asyncio.Runner() as runner:
            while not self._stop.wait(wait_seconds):
                answered = runner.run(self._beat())
                wait_seconds = interval_seconds if answered else min(RETRY_STORE_SECONDS, interval_seconds)

    async def _beat(self) -> bool:
        """Whether the book answered. Whatever happens, the next beat comes."""
        try:
            await self.run_once()
        except StoreUnavailable as error:
            self._waits.met("heartbeat", error)
            return False
        except StoreReplaced:  # the worker's other loops meet it within a second, and end the worker with one line
            return False
        except SwathError as error:
            if str(error) != self._told:  # said once, until it changes or is over
                self._told = str(error)
                _log.error("leases could not be renewed: %s", self._told)
            return False
        except Exception:  # noqa: BLE001 a thread that ends would lose every lease, without a word
            _log.exception("leases could not be renewed")
            return False
        self._waits.over("heartbeat")
        self._told = ""
        return True

    async def run_once(self) -> None:
        """Renews everything held now."""
        fences = self._fences()
        if fences:
            asked_at = self._clock.boot()
            self._answer(await self._book.renew(self._worker_id, fences), asked_at)
