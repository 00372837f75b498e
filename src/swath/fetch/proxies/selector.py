"""Selects the proxy route of each attempt and site, or none, and learns from how the attempt went. One per process.

A job's own proxy type or ladder wins over the site's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Failed, SiteUnavailable
from swath.domain.execution_policy import Proxy
from swath.domain.failure import RULES, Failure, FailureKind, ProxyEffect
from swath.domain.proxy_products import ProxyLocation, ProxyType
from swath.domain.site_policy import SitePolicy
from swath.fetch.proxies.config import ZONED, ProxyConfig, missing_settings
from swath.fetch.proxies.ladder import LadderState, begin_attempt, record_attempt, step_for_item
from swath.fetch.proxies.pool import EndpointHealth, ProxyPool
from swath.fetch.proxies.providers.bright_data import BrightData
from swath.fetch.proxies.providers.custom import CustomProxy, parse_proxies
from swath.fetch.proxies.route import Route
from swath.ports.clock import Clock
from swath.ports.site_state import SiteHold, SiteState

__all__ = ["ProbeProxy", "ProxySelector", "check_proxy_request"]

ProbeProxy = Callable[[str, str, int], Awaitable[bool]]  # scheme, host, port: does anybody answer there?

_MOST_LADDER_STATES: Final = 4_096  # jobs times sites whose steps are kept in mind
_DIRECT: Final = (ProxyType.NONE,)
_FAILURES_ALLOWED: Final = 5  # failures in a row of an endpoint behind which there are many exits


class _Endpoint(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: int
    custom: CustomProxy | None = None

    def objection(self, place: ProxyLocation) -> str | None:
        """Why it cannot be asked for such a place; the provider's endpoint takes what its products offer."""
        return None if self.custom is None else self.custom.objection(place)


class ProxySelector:
    """`knock` dials a proxy that was left out, to see whether it is back. Without a `book` no step is remembered."""

    def __init__(self, setup: ProxyConfig, clock: Clock, knock: ProbeProxy, book: SiteState | None = None) -> None:
        self._setup = setup
        self._knock = knock
        self._book = book
        self._provider = BrightData(setup)
        custom = parse_proxies(setup.custom_urls)
        listed = {proxy.name: _Endpoint(proxy.scheme, proxy.host, proxy.port, proxy) for proxy in custom}
        self._pools = {ProxyType.CUSTOM: ProxyPool(listed, clock, cooldown_seconds=setup.cooldown_seconds)}
        for tier in ZONED:  # each route has an exit of its own there, so there is nobody to be cooled down
            one = {self._provider.name(tier): _Endpoint(*self._provider.address)}
            self._pools[tier] = ProxyPool(one, clock, cooldown_seconds=0, patience=_FAILURES_ALLOWED)
        self._climbs: dict[tuple[str, str], LadderState] = {}
        self._remembering: set[str] = set()
        self._remembered: dict[str, str] = {}
        self._to_remember: dict[str, str] = {}
        self._clock = clock
        self._cooling: dict[str, SiteHold] = {}  # by site: what is to be told of it
        self._told: dict[str, SiteHold] = {}

    # -- while it runs -------------------------------------------------------------------------------------------------

    def look(self, proxy: Proxy, site_name: str, policy: SitePolicy) -> Route | None:
        """A way out for a look before the job, at robots.txt: no proxy's turn is used up by it. Raises Failed."""
        tier = next(iter(self._steps(proxy, policy)))
        return None if tier is ProxyType.NONE else self._route(tier, proxy.place, site_name, turn=False)

    def choose(
        self, job_id: str, proxy: Proxy, site_name: str, policy: SitePolicy, blocked: Collection[ProxyType] = ()
    ) -> Route | None:
        """The way out for one attempt at one site, to be kept while it lasts; None is the direct one.

        `blocked` are those on which the item was blocked before (ladder.blocked_on). Raises Failed proxy when no proxy
        is well, and SiteHeld while all that are well cool down.
        """
        steps = self._steps(proxy, policy)
        if steps == _DIRECT:  # there is nothing to climb, and nothing to remember
            self._climbs.pop((job_id, site_name), None)
            return None
        climb = self._climb(job_id, site_name, policy, steps)
        if policy.remember_tier:
            self._remembering.add(site_name)
        climb, start = begin_attempt(climb, probing=policy.remember_tier)
        self._climbs[job_id, site_name] = climb
        tier = steps[step_for_item(steps, start, blocked)]
        return None if tier is ProxyType.NONE else self._route(tier, proxy.place, site_name)

    def tried(self, job_id: str, site_name: str, route: Route | None, kind: FailureKind | None) -> None:
        """What came of an attempt, told once at its end for the way that was chosen; None as the kind is a success."""
        tier = ProxyType.NONE if route is None else route.tier
        before = self._climbs.get((job_id, site_name))
        if before is not None:
            after = self._climbs[job_id, site_name] = record_attempt(before, tier, kind)
            if site_name in self._remembering and after.tier is not before.tier:
                self._to_remember[site_name] = after.tier.value
        effect = ProxyEffect.NONE if kind is None else RULES[kind].proxy
        if route is None or effect is ProxyEffect.TRY_ANOTHER:  # a time that ran out blames nobody for sure
            return
        if effect is ProxyEffect.MARK_UNHEALTHY:
            self._pools[tier].failed(route.name)
        else:
            self._pools[tier].succeeded(route.name)

    def price(self, tier: ProxyType, byte_count: int, requests: int) -> float:
        """What that costs by the operator's own prices; 0 where he has given none."""
        return self._setup.price(tier).of(byte_count, requests)

    def health(self) -> Mapping[ProxyType, Mapping[str, EndpointHealth]]:
        """The proxies that are set up, as people may see them."""
        return {tier: pool.health for tier, pool in self._pools.items() if not missing_settings(self._setup, tier)}

    def any_well(self, proxy: Proxy, policy: SitePolicy) -> bool:
        """Whether there is any way out for a job that asks for this proxy, at a site of this policy."""
        return any(tier is ProxyType.NONE or self._pools[tier].well for tier in self._steps(proxy, policy))

    # -- in the background ---------------------------------------------------------------------------------------------

    async def run_once(self) -> None:
        """Looks again at proxies that were left out, and exchanges with the book which step each site needs."""
        for pool in self._pools.values():
            await pool.run_once(self._setup.recheck_seconds, lambda one: self._knock(one.scheme, one.host, one.port))
        if self._book is None:
            return
        changed, self._to_remember = self._to_remember, {}
        for name, tier in changed.items():
            await self._book.remember_tier(name, tier)
        await self._tell_cooling(self._book)
        self._remembered = {name: state.tier for name, state in (await self._book.states()).items() if state.tier}

    async def _tell_cooling(self, book: SiteState) -> None:
        """Once for each cool-down, so that people see why items wait."""
        now, cooling = self._clock.boot(), self._cooling
        self._cooling = {}
        self._told = {name: hold for name, hold in self._told.items() if hold.until > now}
        for name, hold in cooling.items():
            if hold.until > now and name not in self._told:
                await book.hold(name, hold)
                self._told[name] = hold

    # -- one question each ---------------------------------------------------------------------------------------------

    def _steps(self, proxy: Proxy, policy: SitePolicy) -> tuple[ProxyType, ...]:
        """A site's ladder is a wish: steps of it that are not set up here are left out."""
        wanted = _requested_tiers(proxy)
        if wanted or not policy.proxy_ladder:
            return wanted or _DIRECT
        return tuple(tier for tier in policy.proxy_ladder if not missing_settings(self._setup, tier)) or _DIRECT

    def _climb(self, job_id: str, site_name: str, policy: SitePolicy, steps: tuple[ProxyType, ...]) -> LadderState:
        known = self._climbs.get((job_id, site_name))
        if known is not None and known.steps == steps:
            return known
        if len(self._climbs) >= _MOST_LADDER_STATES:
            del self._climbs[next(iter(self._climbs))]
        remembered = self._remembered.get(site_name) if policy.remember_tier else None
        return LadderState(steps, next((at for at, tier in enumerate(steps) if tier.value == remembered), 0))

    def _route(self, tier: ProxyType, place: ProxyLocation, site_name: str, *, turn: bool = True) -> Route:
        missing = missing_settings(self._setup, tier)
        if missing:
            message = f"proxy type {tier} is not set up where this worker runs: set {' and '.join(missing)}"
            raise Failed(Failure.of(FailureKind.ACCESS_POLICY, message))
        pool = self._pools[tier]
        objections = [one.objection(place) for one in pool]
        if None not in objections:
            raise Failed(Failure.of(FailureKind.ACCESS_POLICY, f"no {tier} proxy fits: {objections[0]}"))

        def fits(one: _Endpoint) -> bool:
            return one.objection(place) is None

        taken = pool.take(site_name, fits) if turn else pool.look(fits)
        if taken.name is None and taken.wait_seconds is not None:
            why = f"all {tier} proxies have met it just now"
            self._cooling[site_name] = SiteHold(why, self._clock.boot() + taken.wait_seconds)
            raise SiteUnavailable(site_name, why, taken.wait_seconds)
        if taken.name is None:
            message = f"no healthy proxy of type {tier}: all {objections.count(None)} failed and are looked at again"
            raise Failed(Failure.of(FailureKind.PROXY, message, self._setup.recheck_seconds))
        custom = pool[taken.name].custom
        return self._provider.route(tier, place) if custom is None else custom.route(place)


def check_proxy_request(setup: ProxyConfig, proxy: Proxy) -> None:
    """Raises BadInput when a job asks for what is not set up, and says which variables to set. Before a job is made."""
    for tier in _requested_tiers(proxy):
        missing = missing_settings(setup, tier)
        if missing:
            raise BadInput(f"proxy type {tier} is not set up: set {' and '.join(missing)}")
        if tier is ProxyType.CUSTOM:
            objections = [one.objection(proxy.place) for one in parse_proxies(setup.custom_urls)]
            if None not in objections:
                raise BadInput(f"no custom proxy fits: {objections[0]}")
        elif tier in ZONED and setup.ca_file is not None and not setup.ca_file.is_file():
            raise BadInput(f"SWATH_PROXY_CA_FILE: there is no file {setup.ca_file}")


def _requested_tiers(proxy: Proxy) -> tuple[ProxyType, ...]:
    """What the job itself says; nothing when it leaves the way to the site."""
    return proxy.ladder or ((proxy.type,) if proxy.type is not ProxyType.NONE else ())
