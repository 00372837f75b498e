"""The parts a worker is built from, and its options."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from swath.fetch.http.client.request_gate import Network
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.browser_placement import WorkerBrowsers
from swath.pipeline.worker.outcome_buffer import GROUP_SECONDS
from swath.pipeline.worker.rescue import RescueStore
from swath.pipeline.worker.sweeper import Sweeper
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from swath.ports.site_state import SiteState
from swath.ports.work_queue import WorkQueue
from swath.sdk.registry import Registry

__all__ = ["WebhookSender", "WorkerOptions", "WorkerParts"]


class WebhookSender(Protocol):
    """Sends what has to be told to others of the ends of jobs (integrations/webhook). `wanted`: look again at once."""

    wanted: asyncio.Event

    async def run_once(self) -> object:
        """Begins what is due."""
        ...

    @property
    def rest_seconds(self) -> float:
        """How long there is nothing to do."""
        ...


class WorkerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is built from; chosen in bootstrap. Without a `sweeper` nobody has to be told of work, and
    every worker looks after everything. Without a `courier` webhooks are left to others. `browsers` makes them when
    they are first needed, and raises UserError where there are none; it is told whom to call when a session is free."""

    book: RescueStore
    queue: WorkQueue
    storage: ResultStorage
    sites: SiteState
    clock: Clock
    registry: Registry
    network: Network
    finisher: Finisher
    remover: Remover
    sweeper: Sweeper | None = None
    courier: WebhookSender | None = None
    browsers: Callable[[Callable[[], None]], WorkerBrowsers] | None = None


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`job_id`: work on that job only. `max_items`: at once in this process, whatever the jobs allow.

    `group_seconds`: an end waits no longer for others to be committed with. `busy_seconds`: a worker that has leases,
    and room for more, asks for them at least so often. `spare_seconds`: with a sweeper, a worker that neither leads nor
    has leases looks after the dead, the done and the deleted no more often than this.
    """

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
    group_seconds: float = GROUP_SECONDS
    busy_seconds: float = 0.2
    spare_seconds: float = 0.0
    sweep_seconds: float = 5.0
