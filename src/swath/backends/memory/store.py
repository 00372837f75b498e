"""MemoryStore: all parts of the store in plain dicts; the executable form of the ports' docstrings.

What it keeps is in records.py and shelves.py; what its methods do is in loading.py and jobs.py (JobStore), control.py
(JobControl), claims.py, finishing.py and leases.py (LeaseBook), endings.py (Endings), and outbox.py (WebhookOutbox and
KeyRing).
"""

from __future__ import annotations

from swath.backends.memory.control import MemoryControl
from swath.backends.memory.endings import MemoryEndings
from swath.backends.memory.jobs import MemoryJobs
from swath.backends.memory.leases import MemoryLeases
from swath.backends.memory.outbox import MemoryKeys, MemoryOutbox
from swath.backends.memory.shelves import Shelves
from swath.ports.clock import Clock

__all__ = ["MemoryStore"]


class MemoryStore(MemoryJobs, MemoryControl, MemoryLeases, MemoryEndings, MemoryOutbox, MemoryKeys):
    """Lives as long as its process. All workers of a test may share one."""

    def __init__(self, clock: Clock, lease_seconds: float = 15.0) -> None:
        self._shelves = Shelves(clock, lease_seconds)

    def kill(self, worker_id: str) -> None:
        """For tests, which cannot kill a part of their own process: from now on the worker counts as dead."""
        self._shelves.dead.add(worker_id)
