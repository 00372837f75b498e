"""The ways out of a process: to the sites, and to the receivers of webhooks, past one guard. Before: services.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from swath import __version__
from swath.backends.embedded.site_book import EmbeddedSiteBook
from swath.backends.host.listening import ListeningPorts
from swath.bootstrap.browsers import Browsers
from swath.bootstrap.services import Services, new_worker_id
from swath.domain.errors import Failed
from swath.integrations.webhook.courier import Courier, CourierOptions
from swath.integrations.webhook.payload import Payload
from swath.kit.shipped import DEMO_SCRAPERS
from swath.proxies.ways import Ways
from swath.settings import Settings, SqlitePlace
from swath.sites.circuits import SiteCircuits
from swath.sites.pacer import Pacer
from swath.web.address import canonical
from swath.web.demo_proof import DemoProof
from swath.web.direct_transport import DirectTransport
from swath.web.egress.guard import Guard
from swath.web.egress.resolver import SystemResolver
from swath.web.passage import DemoSite, Network
from swath.web.proxied_transport import ProxiedTransport, RoutedTransport
from swath.web.robots import Robots

__all__ = ["Outside", "listening_ports", "make_guard", "make_network", "open_outside"]

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """The ways out of one process: to the sites, over HTTP and in browsers, and to those who want to hear of the ends
    of jobs."""

    worker_id: str
    callback_guard: Guard
    network: Network
    courier: Courier
    browsers: Browsers


@asynccontextmanager
async def open_outside(services: Services) -> AsyncIterator[Outside]:
    """All of them, under a worker id of their own."""
    settings, worker_id, demo = services.settings, new_worker_id(), _demo_site(services.settings)
    guard = make_guard(services, demo=demo)
    options = CourierOptions(
        secrets=settings.webhook_secret,
        retry_seconds=settings.webhook_retry_seconds,
        timeout_seconds=settings.webhook_timeout_seconds,
        lease_seconds=settings.lease_seconds,
        agent=f"swath/{__version__}",
    )
    async with make_network(services, worker_id, guard, demo) as network:
        payload = Payload(services.store, services.storage, settings.public_url)
        callback_guard = make_guard(services)
        to_callbacks = DirectTransport(callback_guard)
        courier = Courier(services.store, payload, to_callbacks, services.clock, options)
        browsers = Browsers(settings, services.clock, guard, network.transport)
        try:
            yield Outside(
                worker_id=worker_id, callback_guard=callback_guard, network=network, courier=courier, browsers=browsers
            )
        finally:
            await browsers.close()
            await courier.close()
            await to_callbacks.close()


def make_guard(services: Services, *, demo: DemoSite | None = None) -> Guard:
    """Says where this process may connect to. The demo site is for attempts alone, which ask `demo` besides."""
    settings, clock = services.settings, services.clock
    allowed = [*settings.allow_private, *([] if demo is None else [demo.place])]
    return Guard(SystemResolver(clock), clock, allow_private=allowed, own_ports=listening_ports(settings))


def listening_ports(settings: Settings) -> ListeningPorts:
    """Where controllers of this machine that share the store listen."""
    place = settings.places.store
    folder = place.folder if isinstance(place, SqlitePlace) else settings.data
    return ListeningPorts(folder / "controllers")


@asynccontextmanager
async def make_network(
    services: Services, worker_id: str, guard: Guard | None = None, demo: DemoSite | None = None
) -> AsyncIterator[Network]:
    """The way from this process to the sites, with everything that stands in between."""
    settings, clock = services.settings, services.clock
    if isinstance(services.sites, EmbeddedSiteBook):
        services.sites.check()
    if guard is None:
        demo = _demo_site(settings)
        guard = make_guard(services, demo=demo)
    proxied = ProxiedTransport(guard)
    direct = DirectTransport(guard)
    for policy in [services.directory.default, *(site.policy for site in services.directory.sites.values())]:
        if policy.impersonate is not None:
            direct.check_impersonation(policy.impersonate)
    transport = RoutedTransport(direct, proxied)
    pacer, circuits = Pacer(services.sites, clock, worker_id), SiteCircuits(services.sites, clock, worker_id)
    try:
        yield Network(
            transport=transport,
            directory=services.directory,
            pacer=pacer,
            circuits=circuits,
            robots=Robots(services.sites, clock, settings.robots_agent),
            ways=Ways(settings.proxies, clock, proxied.knock, services.sites),
            clock=clock,
            demo=demo,
        )
    finally:
        await circuits.close()
        await pacer.close()
        await transport.close()


def _demo_site(settings: Settings) -> DemoSite | None:
    """Where the demo site may be reached: on this very machine. None if all scrapers may reach it."""
    try:
        parts = urlsplit(canonical(settings.demo_url))
        allowed = {urlsplit(canonical(f"http://{entry}/")).netloc for entry in settings.allow_private}
    except Failed:
        return None
    if parts.hostname not in _LOOPBACK or parts.port is None or parts.netloc in allowed:
        return None
    return DemoSite(parts.netloc, str(parts.port), DEMO_SCRAPERS, DemoProof(parts.hostname, parts.port))
