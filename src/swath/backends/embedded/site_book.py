"""EmbeddedSiteBook: what all workers of this machine know together of sites, on a SQLite file beside the store.

This file only joins the parts: what a transaction does is in site_rows.py and site_circuits.py, how it is run in
site_file.py. Asked by sites/ before requests are sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.embedded import site_circuits, site_rows
from swath.backends.embedded.site_file import SITES_FILE, SiteFile
from swath.domain.bucket import Bucket
from swath.domain.site import Breaker
from swath.domain.site_circuit import Admission, SiteCircuit
from swath.ports.clock import Clock
from swath.ports.site_book import NEAR, Ask, Hold, KeptRobots, SiteState, Tempo, Terms

__all__ = ["EmbeddedSiteBook"]

_CIRCUIT: Final = "SELECT circuit FROM sites WHERE name = ?"
_UNKNOWN: Final = SiteCircuit()


class EmbeddedSiteBook:
    """Implements SiteBook; see ports/site_book.py for what each method promises."""

    tempo: Tempo = NEAR

    def __init__(self, folder: Path, clock: Clock) -> None:
        """The folder must be there when the book is first used."""
        self._file = SiteFile(folder / SITES_FILE, clock)
        self._seen: dict[str, SiteCircuit] = {}  # of sites that have had trouble

    def check(self) -> None:
        """Raises UserError for a file that is damaged or of another version: before work begins, not in its midst."""
        self._file.check()

    async def ask(self, name: str, worker_id: str, ask: Ask) -> Terms:
        return await self._file.write(site_rows.ask, name, worker_id, ask)

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> Bucket:
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

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> Admission:
        return await self._file.write(site_circuits.admit, name, worker_id, breaker, probe_seconds)

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        return await self._file.write(site_circuits.withdraw, name, epoch)

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        return await self._file.write(site_circuits.record, name, breaker, outcomes, epoch)

    async def robots(self, origin: str, fetch_seconds: float) -> KeptRobots | None:
        return await self._file.write(site_circuits.robots, origin, fetch_seconds)

    async def keep_robots(self, origin: str, kept: KeptRobots, seconds: float) -> None:
        await self._file.write(site_circuits.keep_robots, origin, kept, seconds)

    async def forget(self, worker_ids: Collection[str]) -> None:
        await self._file.write(site_circuits.forget, worker_ids)

    async def remember_tier(self, name: str, tier: str) -> None:
        await self._file.write(site_circuits.remember_tier, name, tier)

    async def hold(self, name: str, hold: Hold) -> None:
        await self._file.write(site_circuits.hold, name, hold)

    async def states(self) -> Mapping[str, SiteState]:
        return await self._file.read(site_rows.states)

    async def close(self) -> None:
        """Lets go of the file; what is in it stays for the others."""
        await self._file.close()
