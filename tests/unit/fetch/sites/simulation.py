"""Time for tests of pacing: an event loop on a FakeClock goes from one wake-up to the next, so hours cost nothing."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from swath.domain.site_policy import Rate, SitePolicy
from swath.fetch.sites.policies import Site
from swath.fetch.sites.rate_limiter import RateLimiter
from tests.support.clock import FakeClock

__all__ = ["Visits", "excess", "play", "settle", "site"]

_TURNS = 12  # of the loop, after which everybody who can go on has


def site(name: str = "county", rate: float = 10.0, concurrency: int = 8, slow_down_seconds: float = 60.0) -> Site:
    policy = SitePolicy(
        rate=Rate(tokens=rate, per_seconds=1), concurrency=concurrency, slow_down_seconds=slow_down_seconds
    )
    return Site(name, policy)


async def settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def play(clock: FakeClock, seconds: float) -> None:
    """Lets that much time pass, stopping wherever somebody wakes up."""
    end = clock.boot() + seconds
    await settle()
    while clock.boot() < end:
        wakes = [at for at, _, awake in clock._sleepers if not awake.done()]
        clock.advance(max(1e-7, min([*wakes, end]) - clock.boot()))
        await settle()


def excess(sent: Sequence[float], rate: float, slack_seconds: float = 0.05) -> float:
    """By how many requests the worst window of a second or more exceeds Z3's rate · T + 1 + rate · 50 ms."""
    times = sorted(sent)
    windows = [(i, end) for i in range(len(times)) for end in {times[i] + 1.0, *times[i:]} if end >= times[i] + 1.0]
    most = max(
        (bisect_right(times, end) - i - (rate * (end - times[i]) + 1 + rate * slack_seconds) for i, end in windows),
        default=0.0,
    )
    return round(most, 6)  # times are sums of floats


class Visits:
    """Requests as the site sees them."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.sent: list[float] = []
        self.open = 0
        self.most_open = 0

    async def visit(
        self, pacer: RateLimiter, where: Site, page_seconds: float, job: tuple[str, float] | None = None
    ) -> None:
        permit = await pacer.acquire(where, job=job)
        self.sent.append(self.clock.boot())
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            await self.clock.sleep(page_seconds)
        finally:
            self.open -= 1
            permit.release()

    async def keep_visiting(
        self, pacer: RateLimiter, where: Site, page_seconds: float, job: tuple[str, float] | None = None
    ) -> None:
        while True:
            await self.visit(pacer, where, page_seconds, job)
