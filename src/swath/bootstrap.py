"""The one place where implementations are chosen and joined, by plain constructor calls."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from swath.backends.clock import SystemClock
from swath.backends.embedded.results import FolderResults
from swath.backends.embedded.store import EmbeddedStore
from swath.kit.registry import Registry
from swath.pipeline.execute.parts import Parts, WorkerOptions
from swath.pipeline.execute.worker import Worker
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.ending import Finisher
from swath.ports.clock import Clock
from swath.settings import Settings
from swath.web.wreq_transport import WreqTransport

__all__ = [
    "Services",
    "make_finisher",
    "make_registry",
    "make_remover",
    "make_worker",
    "new_worker_id",
    "open_services",
]


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The back end of one process."""

    settings: Settings
    clock: Clock
    store: EmbeddedStore
    storage: FolderResults


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """The store and the results folder named by the settings."""
    clock = SystemClock()
    store = EmbeddedStore.open(settings.data, clock, settings.lease_seconds)
    storage = FolderResults(settings.data / "results", fsync=settings.fsync)
    try:
        yield Services(settings=settings, clock=clock, store=store, storage=storage)
    finally:
        await storage.close()
        await store.close()


def make_registry(settings: Settings) -> Registry:
    """Shipped, installed and local scrapers, found when they are asked for."""
    return Registry(settings.scrapers, default=settings.default_scraper)


@asynccontextmanager
async def make_worker(
    services: Services,
    registry: Registry,
    job_id: str | None = None,
    *,
    on_standstill: Callable[[], None] = lambda: None,
) -> AsyncIterator[Worker]:
    """A worker of this process; for one job only if `job_id` is given."""
    settings, worker_id = services.settings, new_worker_id()
    transport = WreqTransport()
    try:
        yield Worker(
            Parts(
                book=services.store,
                storage=services.storage,
                clock=services.clock,
                registry=registry,
                transport=transport,
                finisher=make_finisher(services, worker_id, job_id),
                remover=make_remover(services, worker_id, job_id),
            ),
            WorkerOptions(
                worker_id=worker_id,
                job_id=job_id,
                max_items=settings.max_items,
                grace_seconds=settings.grace_seconds,
                heartbeat_seconds=settings.heartbeat_seconds,
                report_seconds=min(1.0, settings.lease_seconds / 3),
                standstill_seconds=settings.standstill_seconds,
            ),
            on_standstill,
        )
    finally:
        await transport.close()


def make_finisher(services: Services, worker_id: str, job_id: str | None = None) -> Finisher:
    """Ends jobs that are done; none but `job_id` if that is given."""
    return Finisher(services.store, services.store, services.storage, services.clock, worker_id, job_id=job_id)


def make_remover(services: Services, worker_id: str, job_id: str | None = None) -> Remover:
    """Deletes jobs that are marked or too old; none but `job_id` if that is given."""
    return Remover(services.store, services.storage, services.clock, worker_id, job_id=job_id)


def new_worker_id() -> str:
    """Host, process and a little chance: plain enough to name a file."""
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
