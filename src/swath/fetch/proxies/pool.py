"""Round robin over healthy proxies with a cool-down per proxy and site.

A proxy that failed is left out until a later check reaches it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from swath.ports.clock import Clock

__all__ = ["EndpointHealth", "PoolChoice", "ProxyPool"]

T = TypeVar("T")


class EndpointHealth(msgspec.Struct):
    """What is known of one proxy. `marked_at` is when it was left out, on the boot clock; None while it is well."""

    successes: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    marked_at: float | None = None

    @property
    def well(self) -> bool:
        """Whether it takes part."""
        return self.marked_at is None


class PoolChoice(msgspec.Struct, frozen=True):
    """Whose turn it is; `name` is None when nobody's, and `wait_seconds` is set when somebody's will come."""

    name: str | None = None
    wait_seconds: float | None = None


class ProxyPool(Generic[T]):
    """By name. `patience`: so many failures in a row mark a proxy as unwell; more than one for an endpoint behind which
    there are many exits.
    """

    def __init__(
        self, proxies: Mapping[str, T], clock: Clock, *, cooldown_seconds: float = 30.0, patience: int = 1
    ) -> None:
        self._proxies = dict(proxies)
        self._clock = clock
        self._cooldown_seconds = cooldown_seconds
        self._patience = patience
        self._order = list(self._proxies)
        self._next = 0
        self._last_at: dict[tuple[str, str], float] = {}
        self.health = {name: EndpointHealth() for name in self._order}

    def __getitem__(self, name: str) -> T:
        return self._proxies[name]

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[T]:
        return iter(self._proxies.values())

    @property
    def well(self) -> list[str]:
        """Those that take part, in their order."""
        return [name for name in self._order if self.health[name].well]

    def take(self, site: str, fits: Callable[[T], bool] = lambda _: True) -> PoolChoice:
        """The next one that fits, is well and has not met this site within its cool-down; it meets it now."""
        now = self._clock.boot()
        soonest: float | None = None
        for offset in range(len(self._order)):
            at = (self._next + offset) % len(self._order)
            name = self._order[at]
            if not self.health[name].well or not fits(self._proxies[name]):
                continue
            wait_seconds = self._wait_seconds(name, site, now)
            if wait_seconds <= 0:
                self._next = at + 1
                self._meets(name, site, now)
                return PoolChoice(name)
            soonest = wait_seconds if soonest is None else min(soonest, wait_seconds)
        return PoolChoice(wait_seconds=soonest)

    def look(self, fits: Callable[[T], bool] = lambda _: True) -> PoolChoice:
        """One that fits and is well, for a request before the job: it uses up no turn and waits for none."""
        fitting = [name for name in self._order if self.health[name].well and fits(self._proxies[name])]
        return PoolChoice(fitting[0] if fitting else None)

    def succeeded(self, name: str) -> None:
        """It brought an answer, whatever that was."""
        health = self.health[name]
        health.successes += 1
        health.failures_in_a_row = 0

    def failed(self, name: str) -> None:
        """It failed by its own fault."""
        health = self.health[name]
        health.failures += 1
        health.failures_in_a_row += 1
        if health.failures_in_a_row >= self._patience:
            health.marked_at = self._clock.boot()

    async def run_once(self, recheck_seconds: float, answers: Callable[[T], Awaitable[bool]]) -> None:
        """Looks again at those that were left out so long ago. One that answers takes part again, on trial."""
        now = self._clock.boot()
        for name in self._order:
            health = self.health[name]
            if health.marked_at is None or now - health.marked_at < recheck_seconds:
                continue
            if await answers(self._proxies[name]):
                health.marked_at = None
                health.failures_in_a_row = self._patience - 1
            else:
                health.marked_at = now

    def _wait_seconds(self, name: str, site: str, now: float) -> float:
        last = self._last_at.get((name, site))
        return 0.0 if last is None else last + self._cooldown_seconds - now

    def _meets(self, name: str, site: str, now: float) -> None:
        if not self._cooldown_seconds:
            return
        if len(self._last_at) > _MOST_COOLDOWNS:
            self._last_at = {key: at for key, at in self._last_at.items() if now - at < self._cooldown_seconds}
        self._last_at[name, site] = now


_MOST_COOLDOWNS = 10_000
