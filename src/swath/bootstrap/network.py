"""Builds the outgoing connections of a process, to sites and to webhook receivers, behind one egress guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from swath import __version__
from swath.backends.local_presence.listening_ports import ListeningPorts
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.bootstrap.browsers import LazyBrowsers
from swath.bootstrap.services import Services, new_worker_id
from swath.domain.errors import Failed
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.client.demo_proof import DemoProof
from swath.fetch.http.client.request_gate import DemoSite, Network
from swath.fetch.http.client.robots import RobotsCache
from swath.fetch.http.client.transport import DirectTransport, ProxiedTransport, RoutedTransport
from swath.fetch.proxies.selector import ProxySelector
from swath.fetch.sites.circuit_breaker import SiteCircuitBreaker
from swath.fetch.sites.rate_limiter import RateLimiter
from swath.fetch.url import canonical
from swath.integrations.webhooks.courier import Courier, CourierOptions, WebhookPayload
from swath.sdk.registry import DEMO_SCRAPERS
from swath.settings import Settings, SqliteLocation

__all__ = ["OutboundAccess", "listening_ports", "make_guard", "make_network", "open_outbound"]

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class OutboundAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The ways out of one process: to the sites, over HTTP and in browsers, and to those who want to hear of the ends
    of jobs."""

    worker_id: str
    callback_guard: EgressGuard
    network: Network
    courier: Courier
    browsers: LazyBrowsers


@asynccontextmanager
async def open_outbound(services: Services) -> AsyncIterator[OutboundAccess]:
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
        payload = WebhookPayload(services.store, services.storage, settings.public_url)
        callback_guard = make_guard(services)
        to_callbacks = DirectTransport(callback_guard)
        courier = Courier(services.store, payload, to_callbacks, services.clock, options)
        browsers = LazyBrowsers(settings, services.clock, guard, network.transport)
        try:
            yield OutboundAccess(
                worker_id=worker_id, callback_guard=callback_guard, network=network, courier=courier, browsers=browsers
            )
        finally:
            await browsers.close()
            await courier.close()
            await to_callbacks.close()


def make_guard(services: Services, *, demo: DemoSite | None = None) -> EgressGuard:
    """Says where this process may connect to. The demo site is for attempts alone, which ask `demo` besides."""
    settings, clock = services.settings, services.clock
    allowed = [*settings.allow_private, *([] if demo is None else [demo.place])]
    return EgressGuard(SystemResolver(clock), clock, allow_private=allowed, own_ports=listening_ports(settings))


def listening_ports(settings: Settings) -> ListeningPorts:
    """Where controllers of this machine that share the store listen."""
    place = settings.places.store
    folder = place.folder if isinstance(place, SqliteLocation) else settings.data
    return ListeningPorts(folder / "controllers")


@asynccontextmanager
async def make_network(
    services: Services, worker_id: str, guard: EgressGuard | None = None, demo: DemoSite | None = None
) -> AsyncIterator[Network]:
    """The way from this process to the sites, with everything that stands in between."""
    settings, clock = services.settings, services.clock
    if isinstance(services.sites, SqliteSiteState):
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
    pacer, circuits = (
        RateLimiter(services.sites, clock, worker_id),
        SiteCircuitBreaker(services.sites, clock, worker_id),
    )
    try:
        yield Network(
            transport=transport,
            directory=services.directory,
            pacer=pacer,
            circuits=circuits,
            robots=RobotsCache(services.sites, clock, settings.robots_agent),
            ways=ProxySelector(settings.proxies, clock, proxied.knock, services.sites),
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
