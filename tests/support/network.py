"""A network for tests: any transport behind the real request gate, at sites without limits unless a test sets some."""

from __future__ import annotations

from typing import Any

from swath.domain.site_policy import SitePolicy
from swath.fetch.http.client.request_gate import Network
from swath.fetch.http.client.robots import RobotsCache
from swath.fetch.http.messages import Transport
from swath.fetch.proxies.config import ProxyConfig
from swath.fetch.proxies.selector import ProxySelector
from swath.fetch.sites.circuit_breaker import SiteCircuitBreaker
from swath.fetch.sites.policies import PolicyFile, Site, SiteDirectory
from swath.fetch.sites.rate_limiter import Permit, RateLimiter
from swath.ports.clock import Clock
from swath.ports.site_state import SiteState
from tests.support.memory.site_state import MemorySiteState

__all__ = ["FreePacer", "open_network"]

_NO_LIMITS = {"robots": "ignore", "breaker": {"window": 1_000, "failures": 1_000}}


class FreePacer(RateLimiter):
    """Lets everything go at once, whatever a clock that stands still makes of a rate."""

    async def acquire(self, site: Site, *, rate: float | None = None, job: tuple[str, float] | None = None) -> Permit:
        """Gives a permit that means nothing."""
        del site, rate, job
        return _FREE


class _FreePermit(Permit):
    def __init__(self) -> None:
        """Belongs to nobody."""

    def release(self) -> None:
        """Nobody waits for it."""


_FREE = _FreePermit()


def open_network(
    transport: Transport,
    clock: Clock,
    book: SiteState | None = None,
    *,
    pacer: type[RateLimiter] = FreePacer,
    worker_id: str = "worker",
    **policy: Any,
) -> Network:
    """`policy` is that of every site, where it differs from no limits at all; give a real `pacer` to have it obeyed."""
    book = MemorySiteState(clock) if book is None else book
    default = SitePolicy.model_validate(_NO_LIMITS | policy)
    return Network(
        transport=transport,
        directory=SiteDirectory(PolicyFile(default, {})),
        pacer=pacer(book, clock, worker_id),
        circuits=SiteCircuitBreaker(book, clock, worker_id),
        robots=RobotsCache(book, clock),
        ways=ProxySelector(ProxyConfig(), clock, _nobody_answers),
        clock=clock,
    )


async def _nobody_answers(scheme: str, host: str, port: int) -> bool:
    del scheme, host, port
    return False
