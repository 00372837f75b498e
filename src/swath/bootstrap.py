"""The one place where implementations are chosen and joined, by plain constructor calls."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from swath.backends.clock import SystemClock
from swath.backends.embedded.results import FolderResults
from swath.backends.embedded.site_book import EmbeddedSiteBook
from swath.backends.embedded.store import EmbeddedStore
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import JobStatus
from swath.kit.registry import Registry
from swath.pipeline.dispatch.outlook import with_outlook
from swath.pipeline.execute.parts import Parts, WorkerOptions
from swath.pipeline.execute.worker import Worker
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.ending import Finisher
from swath.ports.clock import Clock
from swath.proxies.ways import Ways
from swath.settings import Settings
from swath.sites.circuits import SiteCircuits
from swath.sites.directory import SiteDirectory
from swath.sites.pacer import Pacer
from swath.web.egress.guard import Guard
from swath.web.egress.resolver import SystemResolver
from swath.web.passage import Network
from swath.web.proxied_transport import ProxiedTransport, RoutedTransport
from swath.web.robots import Robots
from swath.web.wreq_transport import WreqTransport

__all__ = [
    "Services",
    "make_finisher",
    "make_network",
    "make_registry",
    "make_remover",
    "make_worker",
    "new_worker_id",
    "open_services",
]


_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The back end of one process."""

    settings: Settings
    clock: Clock
    store: EmbeddedStore
    storage: FolderResults
    sites: EmbeddedSiteBook
    directory: SiteDirectory

    async def status(self, job_id: str) -> JobStatus:
        """Where a job stands, with what its sites mean for it, if that can be told."""
        status = await self.store.status(job_id)
        try:
            return await with_outlook(status, self.directory, self.sites, self.clock)
        except (StoreUnavailable, UserError):
            return status


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """The store, the results folder and the site policies named by the settings."""
    clock = SystemClock()
    directory = make_directory(settings)
    store = EmbeddedStore.open(settings.data, clock, settings.lease_seconds)
    storage = FolderResults(settings.data / "results", fsync=settings.fsync)
    sites = EmbeddedSiteBook(settings.data, clock)
    try:
        yield Services(settings=settings, clock=clock, store=store, storage=storage, sites=sites, directory=directory)
    finally:
        await sites.close()
        await storage.close()
        await store.close()


def make_directory(settings: Settings) -> SiteDirectory:
    """Shipped and own site policies; the demo site is where the settings say it is. Raises BadInput."""
    return SiteDirectory.load(settings.sites, {"demo-county": [urlsplit(settings.demo_url).netloc]})


def make_registry(settings: Settings) -> Registry:
    """Shipped, installed and local scrapers, found when they are asked for."""
    return Registry(settings.scrapers, default=settings.default_scraper)


@asynccontextmanager
async def make_network(services: Services, worker_id: str) -> AsyncIterator[Network]:
    """The way from this process to the sites, with everything that stands in between."""
    settings, clock = services.settings, services.clock
    services.sites.check()
    guard = Guard(SystemResolver(clock), clock, allow_private=[*settings.allow_private, *_demo_sites(settings)])
    proxied = ProxiedTransport(guard)
    direct = WreqTransport(guard)
    for policy in [services.directory.default, *(site.policy for site in services.directory.sites.values())]:
        if policy.impersonate is not None:
            direct.check_impersonation(policy.impersonate)
    transport = RoutedTransport(direct, proxied)
    pacer, circuits = Pacer(services.sites, clock, worker_id), SiteCircuits(services.sites, clock)
    try:
        yield Network(
            transport=transport,
            directory=services.directory,
            pacer=pacer,
            circuits=circuits,
            robots=Robots(services.sites, clock, settings.robots_agent),
            ways=Ways(settings.proxies, clock, proxied.knock, services.sites),
            clock=clock,
        )
    finally:
        await circuits.close()
        await pacer.close()
        await transport.close()


def _demo_sites(settings: Settings) -> list[str]:
    """The demo site may be reached where it is ours: on this very machine."""
    parts = urlsplit(settings.demo_url)
    return [parts.netloc] if parts.hostname in _LOOPBACK and parts.port is not None else []


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
    async with make_network(services, worker_id) as network:
        yield Worker(
            Parts(
                book=services.store,
                storage=services.storage,
                sites=services.sites,
                clock=services.clock,
                registry=registry,
                network=network,
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
