"""What all workers of this machine share about sites, in a SQLite file beside the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.sqlite.sites import site_rows
from swath.backends.sqlite.sites.site_file import SITES_FILE, SiteFile
from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.domain.token_bucket import TokenBucket
from swath.ports.clock import Clock
from swath.ports.site_state import (
    LOCAL_SYNC,
    CachedRobots,
    SiteHold,
    SiteShareGrant,
    SiteShareRequest,
    SiteSnapshot,
    SyncIntervals,
)

__all__ = ["SqliteSiteState"]

_CIRCUIT: Final = "SELECT circuit FROM sites WHERE name = ?"
_UNKNOWN: Final = SiteCircuit()


class SqliteSiteState:
    """Implements SiteBook; see ports/site_book.py for what each method promises."""

    tempo: SyncIntervals = LOCAL_SYNC

    def __init__(self, folder: Path, clock: Clock) -> None:
        """The folder must be there when the book is first used."""
        self._file = SiteFile(folder / SITES_FILE, clock)
        self._seen: dict[str, SiteCircuit] = {}  # of sites that have had trouble

    def check(self) -> None:
        """Raises UserError for a file that is damaged or of another version: before work begins, not in its midst."""
        self._file.check()

    async def ask(self, name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        return await self._file.write(site_rows.ask, name, worker_id, ask)

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> TokenBucket:
        return await self._file.write(site_rows.slow_down, name, sent_at, quiet_seconds)

    def glance(self, name: str) -> SiteCircuit:
        try:
            stored = self._file.glance(_CIRCUIT, name)
            if stored is None:
                self._seen.pop(name, None)
                return _UNKNOWN
            self._seen[name] = circuit = site_rows.circuit_of(stored)
        except (sqlite3.Error, msgspec.MsgspecError):
            return self._seen.get(name, _UNKNOWN)
        return circuit

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> CircuitAdmission:
        return await self._file.write(site_rows.admit, name, worker_id, breaker, probe_seconds)

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        return await self._file.write(site_rows.withdraw, name, epoch)

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        return await self._file.write(site_rows.record, name, breaker, outcomes, epoch)

    async def robots(self, origin: str, fetch_seconds: float) -> CachedRobots | None:
        return await self._file.write(site_rows.robots, origin, fetch_seconds)

    async def keep_robots(self, origin: str, kept: CachedRobots, seconds: float) -> None:
        await self._file.write(site_rows.keep_robots, origin, kept, seconds)

    async def forget(self, worker_ids: Collection[str]) -> None:
        await self._file.write(site_rows.forget, worker_ids)

    async def remember_tier(self, name: str, tier: str) -> None:
        await self._file.write(site_rows.remember_tier, name, tier)

    async def hold(self, name: str, hold: SiteHold) -> None:
        await self._file.write(site_rows.hold, name, hold)

    async def states(self) -> Mapping[str, SiteSnapshot]:
        return await self._file.read(site_rows.states)

    async def close(self) -> None:
        """Lets go of the file; what is in it stays for the others."""
        await self._file.close()
