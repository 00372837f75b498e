"""What a worker is built from, and how it is set. Filled in by bootstrap.py, used by worker.py."""

from __future__ import annotations

import msgspec

from swath.kit.registry import Registry
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.ending import Finisher
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook
from swath.ports.result_storage import ResultStorage
from swath.ports.site_book import SiteBook
from swath.web.passage import Network

__all__ = ["Parts", "WorkerOptions"]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is built from; chosen in bootstrap.py."""

    book: LeaseBook
    storage: ResultStorage
    sites: SiteBook
    clock: Clock
    registry: Registry
    network: Network
    finisher: Finisher
    remover: Remover


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`job_id`: work on that job only. `max_items`: at once in this process, whatever the jobs allow."""

    worker_id: str
    job_id: str | None = None
    max_items: int = 256
    max_leases: int = 32
    grace_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    report_seconds: float = 1.0
    standstill_seconds: float = 30.0
    housekeeping_seconds: float = 0.5
    removal_seconds: float = 5.0
