"""A network for tests: any transport behind the real gate, at sites that set no limits unless a test says so."""

from __future__ import annotations

from typing import Any

from swath.backends.memory.site_book import MemorySiteBook
from swath.domain.site import SitePolicy
from swath.ports.clock import Clock
from swath.ports.site_book import SiteBook
from swath.proxies.setup import ProxySetup
from swath.proxies.ways import Ways
from swath.sites.circuits import SiteCircuits
from swath.sites.directory import Site, SiteDirectory
from swath.sites.pacer import Pacer, Permit
from swath.sites.policy_file import PolicyFile
from swath.web.passage import Network
from swath.web.robots import Robots
from swath.web.transport import Transport

__all__ = ["FreePacer", "open_network"]

_NO_LIMITS = {"robots": "ignore", "breaker": {"window": 1_000, "failures": 1_000}}


class FreePacer(Pacer):
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
    book: SiteBook | None = None,
    *,
    pacer: type[Pacer] = FreePacer,
    worker_id: str = "worker",
    **policy: Any,
) -> Network:
    """`policy` is that of every site, where it differs from no limits at all; give a real `pacer` to have it obeyed."""
    book = MemorySiteBook(clock) if book is None else book
    default = SitePolicy.model_validate(_NO_LIMITS | policy)
    return Network(
        transport=transport,
        directory=SiteDirectory(PolicyFile(default, {})),
        pacer=pacer(book, clock, worker_id),
        circuits=SiteCircuits(book, clock, worker_id),
        robots=Robots(book, clock),
        ways=Ways(ProxySetup(), clock, _nobody_answers),
        clock=clock,
    )


async def _nobody_answers(scheme: str, host: str, port: int) -> bool:
    del scheme, host, port
    return False
