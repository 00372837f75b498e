"""Renews a worker's leases from a thread of its own, logs its state every minute, and detects a blocked event loop.

Time in which the process itself did not run does not count as blocked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from swath.domain.errors import StoreReplaced, StoreUnavailable, SwathError
from swath.domain.lease import LeaseDirective
from swath.pipeline.retrying import RETRY_STORE_SECONDS, WaitingStatus
from swath.ports.clock import Clock
from swath.ports.lease_store import LeaseStore

__all__ = ["EventLoopWatchdog", "Heartbeat", "WorkerStateLog"]

_log = logging.getLogger("swath.heartbeat")


class Heartbeat:
    """`answer` is called in the heartbeat's thread with what the book said and when it was asked."""

    def __init__(
        self,
        book: LeaseStore,
        clock: Clock,
        waits: WaitingStatus,
        worker_id: str,
        fences: Callable[[], Collection[int]],
        answer: Callable[[Mapping[int, LeaseDirective], float], None],
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


STATE_LOG_SECONDS: Final = 60.0


class WorkerStateLog:
    """`leases` and `running` say what the worker has, and how many items of it run now."""

    def __init__(self, clock: Clock, worker_id: str, leases: Callable[[], int], running: Callable[[], int]) -> None:
        self._clock = clock
        self._worker_id = worker_id
        self._leases = leases
        self._running = running
        self._told_at = clock.boot()
        self._cpu_seconds = time.process_time()
        self._due = True  # with the first beat: that it lives is known soon

    def tell(self) -> None:
        """Writes the line, if it is time."""
        now = self._clock.boot()
        passed = now - self._told_at
        if not self._due and passed < STATE_LOG_SECONDS:
            return
        used = time.process_time()
        fields = {
            "worker_id": self._worker_id,
            "leases": self._leases(),
            "items_running": self._running(),
            "cpu_load": round((used - self._cpu_seconds) / passed, 3) if passed > 0 else None,
            "memory_bytes": _memory_bytes(),
        }
        self._told_at, self._cpu_seconds, self._due = now, used, False
        _log.info("worker alive", extra=fields)


def _memory_bytes() -> int:
    """What the process has in memory now; where the system does not tell, the most that it had."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


TICK_SECONDS: Final = 0.2
CHECK_SECONDS: Final = 1.0
MAX_COUNTED_CHECKS: Final = (
    2  # that the time since the last look may count for; if it is longer, the process did not run
)


class EventLoopWatchdog:
    """The event loop ticks, and a thread looks every `look_seconds` whether it still does.

    `on_standstill` is called in that thread, once for each time that the loop is blocked for more than
    `allowed_seconds`.
    """

    def __init__(
        self,
        clock: Clock,
        look_seconds: float,
        allowed_seconds: Callable[[], float],
        on_standstill: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._look_seconds = look_seconds
        self._allowed_seconds = allowed_seconds
        self._on_standstill = on_standstill
        self._ticks = 0
        self._ticks_seen = -1
        self._looked_at = clock.boot()
        self._blocked_seconds = 0.0
        self._stop = threading.Event()
        self.found = False  # read by the heartbeat's thread

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches the running event loop during the block."""
        ticking = asyncio.create_task(self._keep_ticking())
        threading.Thread(target=self._keep_looking, name="swath-standstill", daemon=True).start()
        try:
            yield
        finally:
            self._stop.set()
            ticking.cancel()

    async def _keep_ticking(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(TICK_SECONDS)

    def tick(self) -> None:
        """The loop runs."""
        self._ticks += 1

    def look(self) -> None:
        """Counts the time since the last look if the loop has not ticked since."""
        now, ticks = self._clock.boot(), self._ticks
        gap, self._looked_at = now - self._looked_at, now
        if ticks != self._ticks_seen:  # counting begins with the next look, when the loop has had time to tick
            self._ticks_seen, self._blocked_seconds, self.found = ticks, 0.0, False
            return
        self._blocked_seconds += min(gap, MAX_COUNTED_CHECKS * self._look_seconds)
        if self._blocked_seconds > self._allowed_seconds() and not self.found:
            self.found = True
            self._on_standstill()

    def _keep_looking(self) -> None:
        while not self._stop.wait(self._look_seconds):
            self.look()
