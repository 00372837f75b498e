"""What all workers of a fleet share about sites, as one row per site in the table.

Crosses over to the AWS thread, and converts times to this host's boot clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.shared_clock import ServerClock
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.sites import site_rows
from swath.backends.aws.sites.site_rows import SiteRow
from swath.backends.aws.sites.site_table import CachedSiteRow, Decide, RobotsTable, SiteTable, T, on_boot_clock
from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.errors import SwathError
from swath.domain.site_policy import Breaker
from swath.domain.token_bucket import RateSlice, TokenBucket
from swath.ports.clock import Clock
from swath.ports.site_state import (
    REMOTE_SYNC,
    CachedRobots,
    SiteHold,
    SiteShareGrant,
    SiteShareRequest,
    SiteSnapshot,
    SyncIntervals,
)

__all__ = ["AwsSiteState"]

GLANCE_SECONDS: Final = 2.0  # older than this, what is seen at a glance is read again in the background
_UNKNOWN: Final = SiteCircuit()


class AwsSiteState:
    """Implements SiteBook; see ports/site_book.py for what each method promises. The bridge stays open at its end."""

    tempo: SyncIntervals = REMOTE_SYNC

    def __init__(self, bridge: EventLoopThread, table: Table, clock: Clock, time: ServerClock | None = None) -> None:
        """Without the store's `time` hosts share a rate by their own clocks, which then have to agree."""
        self._bridge = bridge
        self._clock = clock
        self._shelf = SiteTable(table, clock, time)
        self._robots = RobotsTable(table, clock)
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        def decide(row: SiteRow, now: float) -> tuple[SiteRow | None, SiteShareGrant]:
            shift = now - self._clock.boot()
            returned = tuple(_moved(each, shift) for each in ask.returned)
            return site_rows.ask(row, now, worker_id, msgspec.structs.replace(ask, returned=returned))

        terms, shift = await self._bridge.run(lambda: self._shelf.change_on_time(name, decide))
        return msgspec.structs.replace(
            terms,
            slice=terms.slice and _moved(terms.slice, -shift),
            more=tuple(_moved(taken, -shift) for taken in terms.more),
            round_end=terms.round_end - shift,
            halved_from=terms.halved_from and terms.halved_from - shift,
        )

    async def slow_down(self, name: str, sent_at: float, quiet_seconds: float) -> TokenBucket:
        def complain(row: SiteRow, now: float) -> tuple[SiteRow, TokenBucket]:
            after = site_rows.slow_down(row, now, now - (self._clock.boot() - sent_at), quiet_seconds)
            return after, after.bucket

        bucket, shift = await self._change(name, complain)
        return _bucket_on_boot(bucket, shift)

    def glance(self, name: str) -> SiteCircuit:
        seen = self._shelf.seen(name)
        if seen is None:
            return _UNKNOWN  # whoever sends there asks first, and sees it then
        if self._clock.boot() - seen.at > GLANCE_SECONDS and name not in self._looking:
            self._looking[name] = asyncio.get_running_loop().create_task(self._look(name))
        return seen.circuit

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> CircuitAdmission:
        admission, shift = await self._change(
            name, lambda row, now: site_rows.admit(row, now, worker_id, breaker, probe_seconds)
        )
        return msgspec.structs.replace(admission, circuit=on_boot_clock(admission.circuit, shift))

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        def let_go(row: SiteRow, _: float) -> tuple[SiteRow | None, SiteCircuit]:
            after = site_rows.withdraw(row, epoch)
            return after, (after or row).circuit

        circuit, shift = await self._change(name, let_go)
        return on_boot_clock(circuit, shift)

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        def count(row: SiteRow, now: float) -> tuple[SiteRow | None, SiteCircuit]:
            after = site_rows.record(row, now, breaker, outcomes, epoch)
            return after, (after or row).circuit

        circuit, shift = await self._change(name, count)
        return on_boot_clock(circuit, shift)

    async def robots(self, origin: str, fetch_seconds: float) -> CachedRobots | None:
        return await self._bridge.run(lambda: self._robots.robots(origin, fetch_seconds))

    async def keep_robots(self, origin: str, kept: CachedRobots, seconds: float) -> None:
        await self._bridge.run(lambda: self._robots.keep_robots(origin, kept, seconds))

    async def forget(self, worker_ids: Collection[str]) -> None:
        """Where this process has met them; elsewhere their shares run out, which takes no longer than the port says."""
        await self._bridge.run(lambda: self._shelf.forget(worker_ids))

    async def remember_tier(self, name: str, tier: str) -> None:
        await self._change(name, lambda row, _: (site_rows.tier(row, tier), None))

    async def hold(self, name: str, hold: SiteHold) -> None:
        left_seconds = hold.until - self._clock.boot()
        await self._change(name, lambda row, now: (site_rows.hold(row, hold.why, now + left_seconds), None))

    async def states(self) -> Mapping[str, SiteSnapshot]:
        async def read() -> dict[str, CachedSiteRow]:
            return {name: seen async for name, seen in self._shelf.every() if seen.row.is_site}

        return {name: self._state(name, seen) for name, seen in (await self._bridge.run(read)).items()}

    async def close(self) -> None:
        """Looks at nothing any more; what is in the table stays for the others."""
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def _change(self, name: str, decide: Decide[T]) -> tuple[T, float]:
        return await self._bridge.run(lambda: self._shelf.change(name, decide))

    async def _look(self, name: str) -> None:
        try:
            await self._bridge.run(lambda: self._shelf.refresh(name))
        except SwathError:
            await self._clock.sleep(GLANCE_SECONDS)  # it stays as it was last seen; the next ask will say what is wrong
        finally:
            del self._looking[name]

    def _state(self, name: str, seen: CachedSiteRow) -> SiteSnapshot:
        shares = site_rows.live(seen.row, self._clock.boot() + seen.shift)
        return SiteSnapshot(
            name=name,
            bucket=_bucket_on_boot(seen.row.bucket, seen.shift),
            circuit=seen.circuit,
            open_requests=sum(min(share.slots, share.demand) for share in shares.values()),
            tier=seen.row.tier,
            hold=seen.row.hold and SiteHold(seen.row.hold.why, seen.row.hold.until - seen.shift),
        )


def _moved(taken: RateSlice, seconds: float) -> RateSlice:
    return RateSlice(taken.first + seconds, taken.interval, taken.count)


def _bucket_on_boot(bucket: TokenBucket, shift: float) -> TokenBucket:
    """Without its round, which is for workers and not for people."""
    return msgspec.structs.replace(
        bucket,
        next_free=bucket.next_free and bucket.next_free - shift,
        slowed_at=bucket.slowed_at and bucket.slowed_at - shift,
        halved_from=bucket.halved_from and bucket.halved_from - shift,
        round=None,
    )
