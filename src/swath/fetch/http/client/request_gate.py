"""The gate that every request of an attempt passes.

Checks, in order: the site's hours, the proxy route, robots.txt, the site's circuit, its concurrency and rate, and
the
lease. Reports the attempt's outcome to the sites it visited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from swath.domain.errors import Failed, LeaseLost
from swath.domain.execution_policy import ProxyType
from swath.domain.failure import Culprit, Failure, FailureKind
from swath.domain.item import NO_COST, SuccessOutcome
from swath.domain.job import Job
from swath.domain.site_policy import RobotsMode, SitePolicy
from swath.fetch.http.client.cache import ResponseCache
from swath.fetch.http.client.demo_proof import DemoProof
from swath.fetch.http.client.robots import MOST_HOPS, RobotsCache
from swath.fetch.http.messages import Request, Response, Transport, next_request, send_with_retry
from swath.fetch.proxies.route import Route
from swath.fetch.proxies.selector import ProxySelector
from swath.fetch.sites.circuit_breaker import CircuitTicket, SiteCircuitBreaker
from swath.fetch.sites.policies import Site, SiteDirectory
from swath.fetch.sites.rate_limiter import Permit, RateLimiter
from swath.fetch.url import canonical, host_of, redacted
from swath.observability.counters import FIGURES
from swath.ports.clock import Clock

__all__ = ["DemoSite", "Network", "SiteRequestGate"]


_log = logging.getLogger("swath.robots")


class DemoSite(msgspec.Struct, frozen=True):
    """The demo site on this machine, a private address: open to the scrapers that come with Swath for it.

    `place` is its host and port in canonical spelling.
    """

    place: str
    port: str
    scrapers: frozenset[str]
    proof: DemoProof

    async def prove(self, url: str) -> None:
        """Raises Failed when somebody else listens there now."""
        if self.port in url and urlsplit(canonical(url)).netloc == self.place:
            await self.proof.check()

    def check(self, job: Job, url: str) -> None:
        """Raises Failed when an address is the demo site and the job's scraper is another. Asked before every request,
        so the address is only taken apart if the port stands in it."""
        if self.port not in url or (job.scraper_id in self.scrapers and job.scraper_source is None):
            return
        if urlsplit(canonical(url)).netloc == self.place:
            told = f"{self.place} is open to the demo scrapers only; SWATH_ALLOW_PRIVATE={self.place} opens it to all"
            raise Failed(Failure.of(FailureKind.EGRESS_DENIED, told))


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """All that stands between the items of a process and the sites; shared by all of them."""

    transport: Transport
    directory: SiteDirectory
    pacer: RateLimiter
    circuits: SiteCircuitBreaker
    robots: RobotsCache
    ways: ProxySelector
    clock: Clock
    cache: ResponseCache = msgspec.field(default_factory=ResponseCache)
    demo: DemoSite | None = None


class _OpenRequest(NamedTuple):
    """A request under way. `sent_at` is on the boot clock."""

    site: Site
    permit: Permit
    sent_at: float


class SiteRequestGate:
    """Implements Gate. One per attempt.

    `before_request` is called last, right before a request leaves, and may raise to stop the attempt. `waiting` is
    entered while the attempt waits for its turn, which does not count as its own time. `blocked` are the ways out on
    which the item was blocked before. `url` is what it was asked to let out last.
    One that only `looks` at robots.txt before the job uses up no proxy's turn.
    """

    def __init__(
        self,
        network: Network,
        job: Job,
        before_request: Callable[[], None],
        waiting: Callable[[], AbstractContextManager[None]],
        blocked: Collection[ProxyType] = (),
        *,
        looks: bool = False,
    ) -> None:
        self._network = network
        self._job = job
        self._before_request = before_request
        self._waiting = waiting
        self._blocked = blocked
        self._looks = looks
        self._tickets: dict[str, CircuitTicket] = {}
        self._routes: dict[str, Route | None] = {}
        self._open: dict[int, _OpenRequest] = {}
        self.url: str | None = None
        self._looked_up: tuple[str | None, Site | None] = (None, None)
        self._last: str | None = None
        self._blamed: list[tuple[Failure, str]] = []  # with the name of the site
        self._over = False

    @property
    def tier(self) -> ProxyType:
        """The way out that the attempt took to the site it ended at."""
        route = None if self._last is None else self._routes.get(self._last)
        return ProxyType.NONE if route is None else route.tier

    @property
    def cost(self) -> float:
        """What all its ways out cost, by the operator's prices."""
        ways = self._network.ways
        cost = NO_COST
        for route in self._routes.values():
            if route is not None:
                cost += ways.price(route.tier, route.meter.bytes, route.meter.requests)
        return cost or NO_COST

    def policy(self, url: str) -> SitePolicy:
        """See Gate."""
        return self._site(url).policy

    def route(self, url: str) -> Route | None:
        """See Gate."""
        self._check_demo(url)
        return self._route(self._site(url))

    async def enter(self, request: Request) -> Request:
        """See Gate."""
        self.url = request.url
        await self._prove_demo(request.url)
        site = self._site(request.url)
        self._check_hours(site)
        self._route(site)
        with self._waiting():
            rate = await self._ask_robots(site, request)
            ticket = await self._ticket(site)
            permit = await self._network.pacer.acquire(site, rate=rate, job=self._job_bucket())
            return self._let_out(site, ticket, permit, request)

    def _let_out(self, site: Site, ticket: CircuitTicket, permit: Permit, request: Request) -> Request:
        """Nothing is waited for from here on, so what was true a moment ago is true when the request leaves."""
        try:
            if self._over:  # a task that the author left behind
                raise LeaseLost("the attempt is over")
            self._check_hours(site)  # again: it may have waited beyond them
            self._network.circuits.check(ticket)
            self._before_request()
        except BaseException:
            permit.release()
            raise
        self._last = site.name
        FIGURES.site_requests[self._label(site.name)] += 1
        FIGURES.domain_requests.add(host_of(request.url))
        sent = msgspec.structs.replace(request, route=self._route(site), impersonate=site.policy.impersonate)
        self._open[id(sent)] = _OpenRequest(site, permit, self._network.clock.boot())
        return sent

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        """See Gate. What a failure means is settled at the attempt's end."""
        site, permit, sent_at = self._open.pop(id(request))
        permit.release()
        if failure is not None:
            self._blamed.append((failure, site.name))
        if response is not None:
            FIGURES.received_bytes[self._label(site.name)] += response.wire_bytes
        if response is not None and response.status in {429, 503}:
            self._network.pacer.slow_down(site, sent_at)

    def end(self, finding: SuccessOutcome | None, failure: Failure | None) -> None:
        """The attempt is over: the circuits of the sites it met and its ways out hear what came of it, if anything."""
        self._over = True
        told = finding is not None or failure is not None
        at_fault = None if failure is None else self._at_fault(failure)
        for name, ticket in self._tickets.items():
            verdict = _site_outcome(failure if name == at_fault else None)
            self._network.circuits.leave(ticket, verdict if told else None)
        for name, route in self._routes.items() if told else ():
            kind = failure.kind if failure is not None and name == at_fault else None
            self._network.ways.tried(self._job.job_id, name, route, kind)
        self._tickets.clear()

    def received(self, byte_count: int) -> None:
        """What a browser has loaded, of which no exchange tells: it counts for the site that the attempt came to."""
        if self._last is not None:
            FIGURES.received_bytes[self._label(self._last)] += byte_count

    def blame(self, url: str, failure: Failure) -> None:
        """See Gate."""
        self._blamed.append((failure, self._site(url).name))

    def _at_fault(self, failure: Failure) -> str | None:
        """The site whose answer the failure was; of one that the scraper found by itself, the site it came to last."""
        return next((name for known, name in reversed(self._blamed) if known == failure), self._last)

    # -- one question each ---------------------------------------------------------------------------------------------

    def _site(self, url: str) -> Site:
        """Asked several times for each request, mostly of the same address."""
        known, site = self._looked_up
        if site is None or known != url:
            site = self._network.directory.of(url)
            self._looked_up = url, site
        return site

    def _check_demo(self, url: str) -> None:
        if self._network.demo is not None:
            self._network.demo.check(self._job, url)

    async def _prove_demo(self, url: str) -> None:
        self._check_demo(url)
        if self._network.demo is not None:
            await self._network.demo.prove(url)

    def _label(self, name: str) -> str:
        """What figures are counted under: the policies are few, the domains that share the default need not be."""
        return name if name in self._network.directory.sites else "default"

    def _check_hours(self, site: Site) -> None:
        if site.policy.allowed_hours is None:
            return
        now = self._network.clock.now()
        if self._tickets:
            self._network.circuits.may_send(site, now)
        else:
            self._network.circuits.may_start(site, now)

    async def _ticket(self, site: Site) -> CircuitTicket:
        ticket = self._tickets.get(site.name)
        if ticket is None:
            ticket = await self._network.circuits.enter(site, self._job.policy.timeouts.item_seconds)
            self._tickets[site.name] = ticket
        return ticket

    def _job_bucket(self) -> tuple[str, float] | None:
        rate = self._job.policy.throttling.requests_per_second
        return None if rate is None else (self._job.job_id, rate)

    def _route(self, site: Site) -> Route | None:
        """One for each site, kept while the attempt lasts: a session that changes its address is a suspicious one."""
        if site.name not in self._routes:
            ways, proxy = self._network.ways, self._job.policy.proxy
            if self._looks:
                self._routes[site.name] = ways.look(proxy, site.name, site.policy)
            else:
                self._routes[site.name] = ways.choose(self._job.job_id, proxy, site.name, site.policy, self._blocked)
        return self._routes[site.name]

    async def robots_allow(self, url: str) -> bool:
        """Whether the site's robots.txt lets the address be fetched, or need not be asked. Raises as `enter` does."""
        try:
            await self._ask_robots(self._site(url), Request(url=url))
        except Failed as failed:
            if failed.failure.kind is FailureKind.ROBOTS_DENIED:
                return False
            raise
        return True

    # -- robots.txt ----------------------------------------------------------------------------------------------------

    async def _ask_robots(self, site: Site, request: Request) -> float | None:
        """The rate that the site's robots.txt asks for, if it does. Raises Failed when it denies the address."""
        if site.policy.robots is RobotsMode.IGNORE:
            return None
        rules = await self._network.robots.rules(request.url, lambda url: self._fetch_robots(request, url))
        if not rules.allow(request.url):
            message = f"robots.txt denies {redacted(request.url)}"
            if site.policy.robots is RobotsMode.OBEY:
                raise Failed(Failure.of(FailureKind.ROBOTS_DENIED, message))
            if not rules.warned:
                rules.warned = True  # once for each site and process
                _log.warning("%s, and more; the policy of site %s says to go on", message, site.name)
        return 1 / rules.interval_seconds if rules.interval_seconds else None

    async def _fetch_robots(self, asked_for: Request, url: str) -> Response:
        """Under the same limits as any other request, and by the same way out."""
        request = Request(
            url=url,
            headers=asked_for.headers,
            connect_timeout_seconds=asked_for.connect_timeout_seconds,
            request_timeout_seconds=asked_for.request_timeout_seconds,
        )
        response = await send_with_retry(self._send, request)
        for _ in range(MOST_HOPS):
            following = next_request(request, response)
            if following is None:
                break
            request = following
            response = await send_with_retry(self._send, request)
        return response

    async def _send(self, request: Request) -> Response:
        await self._prove_demo(request.url)
        site = self._site(request.url)
        self._check_hours(site)
        self._route(site)
        ticket = await self._ticket(site)
        sent = self._let_out(site, ticket, await self._network.pacer.acquire(site, job=self._job_bucket()), request)
        response: Response | None = None
        try:
            response = await self._network.transport.send(sent)
        finally:
            self.leave(sent, response, None)
        return response


def _site_outcome(failure: Failure | None) -> bool | None:
    """What an attempt says of the site it ended at: well, badly, or nothing."""
    if failure is None:
        return True
    rule = failure.rule
    if rule.site_circuit:
        return False
    # A site that answers in a way we do not like is up; one that asks us to slow down says nothing of its health.
    return True if rule.culprit is Culprit.SITE and failure.kind is not FailureKind.RATE_LIMITED else None
