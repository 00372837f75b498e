"""Adds the state of its sites to a job's status: closed hours, open circuits, reduced rates; and corrects its ETA."""

from __future__ import annotations

import msgspec

from swath.domain.circuit_breaker import CircuitState, SiteCircuit, open_until
from swath.domain.job import Job, JobStatus, SiteOutlook, WaitingFor
from swath.domain.proxy_products import ProxyType
from swath.domain.site_policy import SitePolicy
from swath.domain.token_bucket import rate_factor
from swath.fetch.sites.policies import Site, SiteDirectory
from swath.ports.clock import Clock
from swath.ports.site_state import SiteHold, SiteSnapshot, SiteState

__all__ = ["with_site_outlook"]


async def with_site_outlook(status: JobStatus, directory: SiteDirectory, book: SiteState, clock: Clock) -> JobStatus:
    """The same status with its sites, and an end that knows when they are closed. Raises StoreUnavailable."""
    if status.state.terminal:
        return status
    known = await book.states()
    sites = {site.name: site for site in map(directory.of, status.job.sites)}
    if not sites:  # it does not say, so those are shown that may keep it waiting
        troubled = [
            name
            for name, state in known.items()
            if state.circuit.state is not CircuitState.CLOSED or _active_hold(state, clock) is not None
        ]
        sites = {name: directory.sites.get(name) or directory.of(name) for name in troubled}
    if not sites:
        return status
    views = tuple(_outlook_of(status.job, site, known.get(site.name), clock) for site in sites.values())
    seconds = status.eta_seconds or 0.0
    ends = [_end(site, clock.now(), seconds) for site in sites.values()]
    if status.waiting_for is None and status.job.sites and all(view.by_proxy for view in views):
        status = msgspec.structs.replace(status, waiting_for=WaitingFor.PROXY, waiting_reason=views[0].why)
    return msgspec.structs.replace(status, sites=views, closed_seconds=max(0.0, max(ends) - clock.now() - seconds))


def _end(site: Site, now: float, seconds: float) -> float:
    hours = site.policy.allowed_hours
    return now + seconds if hours is None else hours.finish_of(now, seconds)


def _active_hold(state: SiteSnapshot | None, clock: Clock) -> SiteHold | None:
    """What keeps it waiting besides its circuit and hours, unless that is over."""
    hold = None if state is None else state.hold
    return hold if hold is not None and hold.until > clock.boot() else None


def _goes_by_proxy(job: Job, policy: SitePolicy) -> bool:
    proxy = job.policy.proxy
    return bool(proxy.ladder or policy.proxy_ladder) or proxy.type is not ProxyType.NONE


def _outlook_of(job: Job, site: Site, state: SiteSnapshot | None, clock: Clock) -> SiteOutlook:
    policy, now = site.policy, clock.now()
    circuit = SiteCircuit() if state is None else state.circuit
    factor = 1.0 if state is None else rate_factor(state.bucket, clock.boot(), policy.slow_down_seconds)
    waits, why, by_proxy = None, None, False
    until = open_until(circuit, policy.breaker, clock.boot())
    if policy.allowed_hours is not None and not policy.allowed_hours.may_start(now):
        waits, why = policy.allowed_hours.next_start(now) - now, "it is closed at this hour"
    elif until is not None or circuit.state is CircuitState.OPEN:
        waits, why = max(0.0, (until or 0.0) - clock.boot()), "its circuit is open"
    elif (hold := _active_hold(state, clock)) is not None and _goes_by_proxy(job, policy):
        waits, why, by_proxy = hold.until - clock.boot(), hold.why, True
    return SiteOutlook(
        name=site.name,
        circuit=circuit.state.value,
        requests_per_second=policy.rate.per_second * factor,
        slowed_down=factor < 1,
        open_requests=0 if state is None else state.open_requests,
        waits_seconds=waits,
        why=why,
        by_proxy=by_proxy,
    )
