"""The one place where implementations are chosen and joined, by plain constructor calls."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict

from swath import __version__
from swath.backends.clock import SystemClock
from swath.backends.embedded.results import FolderResults
from swath.backends.embedded.site_book import EmbeddedSiteBook
from swath.backends.embedded.store import EmbeddedStore
from swath.backends.host.listening import ListeningPorts
from swath.backends.polling import PollingQueue
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import JobStatus
from swath.integrations.webhook.courier import Courier, CourierOptions
from swath.integrations.webhook.payload import Payload
from swath.kit.registry import Registry
from swath.pipeline.dispatch.outlook import with_outlook
from swath.pipeline.dispatch.sweeper import Sweeper
from swath.pipeline.execute.keeper import Keeper
from swath.pipeline.execute.parts import Parts, WorkerOptions
from swath.pipeline.execute.worker import Worker
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.ending import Finisher
from swath.ports.clock import Clock
from swath.ports.leader import Leader
from swath.ports.result_storage import ResultStorage
from swath.ports.site_book import SiteBook
from swath.ports.store import Store
from swath.ports.work_queue import WorkQueue
from swath.proxies.ways import Ways
from swath.settings import DynamoPlace, S3Place, Settings, SqlitePlace
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
    "Outside",
    "Services",
    "check_services",
    "listening_ports",
    "make_finisher",
    "make_keeper",
    "make_network",
    "make_registry",
    "make_remover",
    "make_worker",
    "new_worker_id",
    "open_outside",
    "open_services",
    "open_sites",
    "require_aws",
]

_log = logging.getLogger("swath")

PATIENCE_SECONDS: Final = 15.0  # with AWS, before a call counts as not answered
LOOK_SECONDS: Final = 3.0
_AWS_LIBRARIES: Final = ("aiobotocore", "obstore")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The back end of one process. `queue` is the end of it that the worker of this process has; `leader` makes a
    candidate of a worker, where one of them has to do something for all."""

    settings: Settings
    clock: Clock
    store: Store
    queue: WorkQueue
    storage: ResultStorage
    sites: SiteBook
    directory: SiteDirectory
    leader: Callable[[str], Leader] | None = None

    async def status(self, job_id: str) -> JobStatus:
        """Where a job stands, with what its sites mean for it, if that can be told."""
        status = await self.store.status(job_id)
        try:
            return await with_outlook(status, self.directory, self.sites, self.clock)
        except (StoreUnavailable, UserError):
            return status


@asynccontextmanager
async def open_services(settings: Settings, *, only_looks: bool = False) -> AsyncIterator[Services]:
    """What the settings name: store, queue, results, and the site policies. The back end is chosen by URL (Q4).

    Who only looks is told soon when AWS does not answer.
    """
    patience_seconds = LOOK_SECONDS if only_looks else PATIENCE_SECONDS
    clock, places = SystemClock(), settings.places
    directory = make_directory(settings)
    if places.uses_aws:
        require_aws()
    async with AsyncExitStack() as stack:
        if isinstance(places.store, DynamoPlace):
            back_end = await _open_aws(stack, settings, places.store, clock, patience_seconds=patience_seconds)
        else:
            back_end = _open_embedded(stack, settings, places.store, clock)
        storage = _open_results(stack, settings, clock)
        yield Services(settings=settings, clock=clock, storage=storage, directory=directory, **asdict(back_end))


class _BackEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What comes from one hand, because it shares a file or a table."""

    store: Store
    queue: WorkQueue
    sites: SiteBook
    leader: Callable[[str], Leader] | None = None


def _open_embedded(stack: AsyncExitStack, settings: Settings, place: SqlitePlace, clock: Clock) -> _BackEnd:
    store = EmbeddedStore.open(place.folder, clock, settings.lease_seconds)
    stack.push_async_callback(store.close)
    sites = EmbeddedSiteBook(place.folder, clock)
    stack.push_async_callback(sites.close)
    return _BackEnd(store=store, queue=PollingQueue(clock), sites=sites)


async def _open_aws(
    stack: AsyncExitStack,
    settings: Settings,
    place: DynamoPlace,
    clock: Clock,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> _BackEnd:
    from swath.backends.aws.fleet import Names, open_fleet

    queue = settings.places.queue
    names = Names(
        table=place.table,
        table_region=place.region,
        queue=place.table if queue is None else queue.name,
        queue_region=None if queue is None else queue.region,
    )
    fleet = await stack.enter_async_context(
        open_fleet(names, settings.data, clock, settings.lease_seconds, patience_seconds)
    )
    return _BackEnd(store=fleet.store, queue=fleet.queue, sites=fleet.sites, leader=fleet.leader)


def _open_results(stack: AsyncExitStack, settings: Settings, clock: Clock) -> ResultStorage:
    place = settings.places.results
    if isinstance(place, S3Place):
        from swath.backends.aws.results import S3Results

        remote = S3Results.open(str(place), clock)
        stack.callback(lambda: _log.info("asked of S3: %s", dict(remote.meter.requests)))
        stack.push_async_callback(remote.close)
        return remote
    folder = FolderResults(place.folder, fsync=settings.fsync)
    stack.push_async_callback(folder.close)
    return folder


@asynccontextmanager
async def open_sites(settings: Settings) -> AsyncIterator[SiteBook]:
    """The site book alone, for who only looks and does not wait: it can be read when the store cannot be opened."""
    place, clock = settings.places.store, SystemClock()
    async with AsyncExitStack() as stack:
        if isinstance(place, DynamoPlace):
            yield (await _open_aws(stack, settings, place, clock, patience_seconds=LOOK_SECONDS)).sites
        else:
            book = EmbeddedSiteBook(place.folder, clock)
            stack.push_async_callback(book.close)
            yield book


def require_aws() -> None:
    """Raises UserError when the libraries of the AWS back end are not installed."""
    if any(importlib.util.find_spec(name) is None for name in _AWS_LIBRARIES):
        raise UserError("the AWS back end is not installed; get it with: pip install 'swath[aws]'")


def make_directory(settings: Settings) -> SiteDirectory:
    """Shipped and own site policies; the demo site is where the settings say it is. Raises BadInput."""
    return SiteDirectory.load(settings.sites, {"demo-county": [urlsplit(settings.demo_url).netloc]})


def make_registry(settings: Settings) -> Registry:
    """Shipped, installed and local scrapers, found when they are asked for."""
    return Registry(settings.scrapers, default=settings.default_scraper)


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """The ways out of one process: to the sites, and to those who want to hear of the ends of jobs."""

    worker_id: str
    guard: Guard
    network: Network
    courier: Courier


@asynccontextmanager
async def open_outside(services: Services) -> AsyncIterator[Outside]:
    """All of them, under a worker id of their own."""
    settings, worker_id, guard = services.settings, new_worker_id(), make_guard(services)
    options = CourierOptions(
        secrets=settings.webhook_secret,
        retry_seconds=settings.webhook_retry_seconds,
        timeout_seconds=settings.webhook_timeout_seconds,
        lease_seconds=settings.lease_seconds,
        agent=f"swath/{__version__}",
    )
    async with make_network(services, worker_id, guard) as network:
        payload = Payload(services.store, services.storage, settings.public_url)
        courier = Courier(services.store, payload, network.transport, services.clock, options)
        try:
            yield Outside(worker_id=worker_id, guard=guard, network=network, courier=courier)
        finally:
            await courier.close()


def make_guard(services: Services) -> Guard:
    """Says where this process may connect to."""
    settings, clock = services.settings, services.clock
    allowed = [*settings.allow_private, *_demo_sites(settings)]
    return Guard(SystemResolver(clock), clock, allow_private=allowed, own_ports=listening_ports(settings))


def listening_ports(settings: Settings) -> ListeningPorts:
    """Where controllers of this machine that share the store listen."""
    place = settings.places.store
    folder = place.folder if isinstance(place, SqlitePlace) else settings.data
    return ListeningPorts(folder / "controllers")


@asynccontextmanager
async def make_network(services: Services, worker_id: str, guard: Guard | None = None) -> AsyncIterator[Network]:
    """The way from this process to the sites, with everything that stands in between."""
    settings, clock = services.settings, services.clock
    if isinstance(services.sites, EmbeddedSiteBook):
        services.sites.check()
    guard = guard or make_guard(services)
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
    outside: Outside | None = None,
    on_standstill: Callable[[], None] = lambda: None,
) -> AsyncIterator[Worker]:
    """A worker of this process; for one job only if `job_id` is given. It has ways out of its own unless some are
    given, whose worker id it then takes."""
    if (doubt := services.settings.places.doubt) is not None:
        _log.warning("%s", doubt)
    await check_results(services)
    async with AsyncExitStack() as stack:
        if outside is None:
            outside = await stack.enter_async_context(open_outside(services))
        options = _worker_options(services.settings, outside.worker_id, job_id)
        yield Worker(_parts(services, registry, outside, job_id), options, on_standstill)


def make_keeper(services: Services, registry: Registry, outside: Outside) -> Keeper:
    """Keeps house where no worker does."""
    options = _worker_options(services.settings, outside.worker_id, None)
    return Keeper(_parts(services, registry, outside, None), options)


def _parts(services: Services, registry: Registry, outside: Outside, job_id: str | None) -> Parts:
    worker_id, leader = outside.worker_id, services.leader
    return Parts(
        book=services.store,
        queue=services.queue,
        storage=services.storage,
        sites=services.sites,
        clock=services.clock,
        registry=registry,
        network=outside.network,
        finisher=make_finisher(services, worker_id, job_id),
        remover=make_remover(services, worker_id, job_id),
        sweeper=None if leader is None else Sweeper(services.store, services.queue, leader(worker_id), services.clock),
        # Who works for one job only sends its webhook at the end (entrypoints/cli/first_try.py).
        courier=outside.courier if job_id is None else None,
    )


async def check_services(services: Services) -> None:
    """A mistake is said once, before anything is started: a folder that is only for reading, a table or a bucket that
    was never made. Raises UserError.

    A full disk or a locked store is no mistake: a worker waits for them.
    """
    with suppress(StoreUnavailable):
        await services.store.backlog()
        await services.store.renew(new_worker_id(), [])  # changes nothing, but could
    await check_results(services)


async def check_results(services: Services) -> None:
    """Raises UserError when the place for results cannot be used: before work begins, not in its midst."""
    if isinstance(services.settings.places.results, S3Place):
        with suppress(KeyError, StoreUnavailable):  # a worker waits for what does not answer
            await services.storage.get("swath", "job_metadata.json")


def _worker_options(settings: Settings, worker_id: str, job_id: str | None) -> WorkerOptions:
    """A store that is asked over a network, and for money, is asked less often."""
    options = WorkerOptions(
        worker_id=worker_id,
        job_id=job_id,
        max_items=settings.max_items,
        grace_seconds=settings.grace_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        report_seconds=min(1.0, settings.lease_seconds / 3),
        standstill_seconds=settings.standstill_seconds,
    )
    if not isinstance(settings.places.store, DynamoPlace):
        return options
    return msgspec.structs.replace(
        options,
        report_seconds=min(3.0, settings.lease_seconds / 3),
        group_seconds=0.5,
        busy_seconds=1.0,
        housekeeping_seconds=min(2.0, settings.lease_seconds / 3),
        spare_seconds=settings.lease_seconds / 2,
    )


def make_finisher(services: Services, worker_id: str, job_id: str | None = None) -> Finisher:
    """Ends jobs that are done; none but `job_id` if that is given."""
    return Finisher(
        services.store,
        services.store,
        services.storage,
        services.clock,
        worker_id,
        job_id=job_id,
        webhook_url=services.settings.webhook_url,
    )


def make_remover(services: Services, worker_id: str, job_id: str | None = None) -> Remover:
    """Deletes jobs that are marked or too old; none but `job_id` if that is given."""
    return Remover(services.store, services.storage, services.clock, worker_id, job_id=job_id)


def new_worker_id() -> str:
    """Host, process and a little chance: plain enough to name a file."""
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname()).strip("-")[:40] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
