"""Pulse: what a worker says of itself with its heartbeat (W5): how much it does, and what that takes of its machine.

A line of the log a minute, written by the heartbeat's thread: a worker whose event loop stands still tells, too. The
same for programs that ask is on its port (entrypoints/cli/metrics_port.py).
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from swath.ports.clock import Clock

__all__ = ["Pulse"]

TELL_SECONDS: Final = 60.0

_log = logging.getLogger("swath.heartbeat")


class Pulse:
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
        if not self._due and passed < TELL_SECONDS:
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
