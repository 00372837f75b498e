"""The circuit breaker of each site, and its allowed hours.

Asked when an attempt comes to a site and before each of its requests; told how the attempt went at its end. State is
shared through the site store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from swath.domain.circuit_breaker import CircuitState, SiteCircuit, open_until
from swath.domain.errors import SiteUnavailable, StoreUnavailable, UserError
from swath.fetch.sites.policies import Site
from swath.ports.clock import Clock
from swath.ports.site_state import SiteState

__all__ = ["CircuitTicket", "SiteCircuitBreaker"]

_FIRST_CHECK_SECONDS: Final = 0.25  # while a probe is under way: it is mostly over long before its time is
_SPREAD: Final = 0.1  # by how much waits are lengthened at most, so that not everybody comes back at once
_LONGEST_SPREAD_SECONDS: Final = 10.0
_MOST_KEPT: Final = 10_000  # sites; a crawl of the whole web must not fill the memory with good outcomes


class CircuitTicket(msgspec.Struct, frozen=True):
    """One attempt may visit one site, in the circuit's epoch in which it came.

    `decides`: a good outcome changes something too, because it is a probe's or because traffic is coming back. The
    outcome of `probe` decides whether the circuit closes.
    """

    site: Site
    epoch: int
    decides: bool = False
    probe: bool = False


class _UnwrittenOutcomes(msgspec.Struct):
    """What has not been written yet. `writing` is the last write that was begun."""

    epoch: int
    kept: list[bool] = []
    writing: asyncio.Task[None] | None = None


class SiteCircuitBreaker:
    """One per process. `chance` gives numbers from 0 to 1."""

    def __init__(
        self,
        book: SiteState,
        clock: Clock,
        worker_id: str,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._book = book
        self._clock = clock
        self._worker_id = worker_id
        self._chance = chance
        self._outcomes: dict[str, _UnwrittenOutcomes] = {}
        self._probes: dict[str, tuple[int, float]] = {}  # of others: their epoch, and since when this process knows

    # -- circuit -------------------------------------------------------------------------------------------------------

    async def enter(self, site: Site, probe_seconds: float) -> CircuitTicket:
        """Lets an attempt come to the site, or raises SiteHeld.

        While the circuit is closed the book is only glanced at. An attempt that is let through an open one is the
        probe, and must be over within `probe_seconds`.
        """
        outcomes = self._outcomes.get(site.name)
        if outcomes is not None and outcomes.writing is not None:
            await asyncio.wait({outcomes.writing})  # it may be the failure that opens the circuit
        circuit = self._book.glance(site.name)
        if circuit.state is CircuitState.CLOSED:
            return CircuitTicket(site, circuit.epoch, circuit.ramp is not None)
        if open_until(circuit, site.policy.breaker, self._clock.boot()) is not None:
            raise self._held(site, circuit)
        admission = await self._book.admit(site.name, self._worker_id, site.policy.breaker, probe_seconds)
        if admission.wait_seconds is not None:
            raise self._held(site, admission.circuit)
        decides = admission.probe or admission.circuit.ramp is not None
        return CircuitTicket(site, admission.circuit.epoch, decides, admission.probe)

    def check(self, ticket: CircuitTicket) -> None:
        """Raises SiteHeld if the circuit has opened since, or another probe has taken this one's place."""
        circuit = self._book.glance(ticket.site.name)
        if circuit.state is not CircuitState.CLOSED and circuit.epoch != ticket.epoch:
            raise self._held(ticket.site, circuit)

    def leave(self, ticket: CircuitTicket, good: bool | None) -> None:
        """The attempt is over. None: it says nothing of the site.

        Failures are written at once, in the background. Good outcomes wait for the next failure unless they decide
        something. A probe that says nothing leaves its place to the next one at once.
        """
        if good is None:
            if ticket.probe:
                outcomes = self._outcomes_of(ticket)
                outcomes.writing = asyncio.create_task(self._withdraw(ticket, outcomes, outcomes.writing))
            return
        outcomes = self._outcomes_of(ticket)
        if outcomes.epoch > ticket.epoch:
            return  # what was sent before the circuit last changed decides nothing
        outcomes.kept.append(good)
        del outcomes.kept[: -ticket.site.policy.breaker.window]
        if ticket.decides or False in outcomes.kept:
            outcomes.writing = asyncio.create_task(self._write(ticket, outcomes, outcomes.writing))

    def failed_probes(self, site_name: str) -> int:
        """How many have failed in a row."""
        return self._book.glance(site_name).failed_probes

    async def close(self) -> None:
        """Waits until what was left has been written."""
        under_way = {kept.writing for kept in self._outcomes.values() if kept.writing is not None}
        if under_way:
            await asyncio.wait(under_way)

    def _outcomes_of(self, ticket: CircuitTicket) -> _UnwrittenOutcomes:
        outcomes = self._outcomes.get(ticket.site.name)
        if outcomes is None or outcomes.epoch < ticket.epoch:
            if len(self._outcomes) >= _MOST_KEPT:
                self._outcomes = {name: kept for name, kept in self._outcomes.items() if kept.writing is not None}
            writing = None if outcomes is None else outcomes.writing
            outcomes = self._outcomes[ticket.site.name] = _UnwrittenOutcomes(ticket.epoch, [], writing)
        return outcomes

    async def _write(
        self, ticket: CircuitTicket, outcomes: _UnwrittenOutcomes, earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        told, outcomes.kept = outcomes.kept, []
        if told:
            try:
                await self._book.record(ticket.site.name, ticket.site.policy.breaker, told, ticket.epoch)
            except (StoreUnavailable, UserError):  # the worker meets the latter too, and says so
                outcomes.kept = [*told, *outcomes.kept][-ticket.site.policy.breaker.window :]
        if outcomes.writing is asyncio.current_task():
            outcomes.writing = None

    async def _withdraw(
        self, ticket: CircuitTicket, outcomes: _UnwrittenOutcomes, earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        with suppress(StoreUnavailable, UserError):  # then its time runs out
            await self._book.withdraw(ticket.site.name, ticket.epoch)
        if outcomes.writing is asyncio.current_task():
            outcomes.writing = None

    # -- allowed hours -------------------------------------------------------------------------------------------------

    def may_start(self, site: Site, now: float) -> None:
        """Raises SiteHeld outside the site's hours, and shortly before they end. `now` is in Unix seconds."""
        hours = site.policy.allowed_hours
        if hours is not None and not hours.may_start(now):
            raise self._closed(site, hours.next_start(now) - now)

    def may_send(self, site: Site, now: float) -> None:
        """Raises SiteHeld outside the site's hours, for an item that has started."""
        hours = site.policy.allowed_hours
        if hours is not None and not hours.is_open(now):
            raise self._closed(site, hours.next_start(now) - now)

    # -- words ---------------------------------------------------------------------------------------------------------

    def _closed(self, site: Site, wait_seconds: float) -> SiteUnavailable:
        return SiteUnavailable(site.name, "it is outside its allowed hours", self._spread(wait_seconds))

    def _held(self, site: Site, circuit: SiteCircuit) -> SiteUnavailable:
        now = self._clock.boot()
        wait_seconds = max(0.0, (open_until(circuit, site.policy.breaker, now) or now) - now)
        why = "its circuit is open"
        if circuit.state is CircuitState.HALF_OPEN:
            why, wait_seconds = "a probe is under way", min(wait_seconds, self._look_again_seconds(site.name, circuit))
        return SiteUnavailable(site.name, why, self._spread(wait_seconds), circuit_open=True)

    def _look_again_seconds(self, name: str, circuit: SiteCircuit) -> float:
        """Soon at first, then as long as the probe has taken so far."""
        now = self._clock.boot()
        epoch, since = self._probes.get(name, (-1, now))
        if epoch != circuit.epoch:
            since = now
            if len(self._probes) >= _MOST_KEPT:
                self._probes.clear()
            self._probes[name] = circuit.epoch, now
        return min(max(now - since, _FIRST_CHECK_SECONDS), self._book.tempo.probe_seconds)

    def _spread(self, wait_seconds: float) -> float:
        return wait_seconds + min(_LONGEST_SPREAD_SECONDS, wait_seconds * _SPREAD) * self._chance()
