"""Reads and changes the rows of sites and of robots.txt in the table, under optimistic locking, and caches them.

Lives on the event loop of the AWS thread; only `seen` may be called from elsewhere. robots.txt of an origin is
fetched
by one worker of the fleet and read by all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.client.rows import ABSENT, SITE_FORMAT, Key, Put, Row
from swath.backends.aws.client.shared_clock import WIDE_SECONDS, ServerClock, SharedClock
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.sites import site_rows
from swath.backends.aws.sites.site_rows import SiteRow
from swath.domain.circuit_breaker import SiteCircuit
from swath.domain.errors import BadInput, StoreDamaged, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.clock import Clock
from swath.ports.site_state import CachedRobots

__all__ = ["CachedSiteRow", "RobotsTable", "SiteTable", "on_boot_clock"]


class _RobotsRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Until when it is kept, or somebody fetches it, in shared time."""

    kept: CachedRobots = CachedRobots(0)
    keep_until: float = 0.0
    fetch_until: float = 0.0


_encode_robots = msgspec.msgpack.Encoder().encode
_decode_robots = msgspec.msgpack.Decoder(_RobotsRow).decode


class RobotsTable:
    """See SiteBook for both methods."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._time = SharedClock(clock)

    async def robots(self, origin: str, fetch_seconds: float) -> CachedRobots | None:
        known, version = await self._read(origin)
        now = self._time.now()
        if known.keep_until > now:
            return known.kept
        if known.fetch_until > now:
            return None
        claim = _RobotsRow(fetch_until=now + fetch_seconds)
        # Who is not the first learns at its next look what the first one does.
        mine = await self._table.commit(
            Put(_robots_key(origin), _encode_robots(claim), version + 1, version or ABSENT, SITE_FORMAT)
        )
        return CachedRobots(0) if mine else None

    async def keep_robots(self, origin: str, kept: CachedRobots, seconds: float) -> None:
        known = _RobotsRow(kept, self._time.now() + seconds)
        _, version = await self._read(origin)
        with contextlib.suppress(BadInput):  # larger than a row may be, even packed: then everybody fetches it
            await self._table.commit(Put(_robots_key(origin), _encode_robots(known), version + 1, format=SITE_FORMAT))

    async def _read(self, origin: str) -> tuple[_RobotsRow, int]:
        found = (await self._table.get(_robots_key(origin))).get(_robots_key(origin))
        if found is None:
            return _RobotsRow(), 0
        try:
            return _decode_robots(found.body), found.version
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the row of robots.txt of {origin} in the table cannot be read: {error}") from error


def _robots_key(origin: str) -> Key:
    return Key(f"robots/{origin}", "robots")


T = TypeVar("T")
Decide = Callable[[SiteRow, float], tuple[SiteRow | None, T]]

FRESH_SECONDS: Final = 1.5  # what was seen so short ago is good enough to find that there is nothing to write
_SITES: Final = "sites"  # the names of all sites, for people to look at
_TRIES: Final = 40  # with the pauses between them some ten seconds
_PAUSE_SECONDS: Final = (0.005, 0.4)
_TURN_SECONDS: Final = 15.0  # as long as a request may take: while the table is out of reach nobody waits for long
_REMEMBERED: Final = 10_000
_STATES_AT_ONCE: Final = 100
_TOLD_SECONDS: Final = 0.5  # a clock that is behind by more is worth a word

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SiteRow).decode
_log = logging.getLogger("swath.sites")


class CachedSiteRow(NamedTuple):
    """A row as it was last read or written. `shift` leads from the boot clock to the row's time."""

    row: SiteRow
    version: int
    shift: float
    at: float  # on the boot clock
    circuit: SiteCircuit  # on the boot clock


def on_boot_clock(circuit: SiteCircuit, shift: float) -> SiteCircuit:
    """Times of a row on the boot clock; one that is 0 was never set."""
    if not circuit.opened_at and not circuit.probe_until:
        return circuit
    return msgspec.structs.replace(
        circuit,
        opened_at=circuit.opened_at and circuit.opened_at - shift,
        probe_until=circuit.probe_until and circuit.probe_until - shift,
    )


class SiteTable:
    """One for each process."""

    def __init__(self, table: Table, clock: Clock, time: ServerClock | None = None) -> None:
        self._table = table
        self._clock = clock
        self._time = SharedClock(clock) if time is None else time
        self._behind_seconds: dict[str, float] = {}  # by site
        self._seen: OrderedDict[str, CachedSiteRow] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    def seen(self, name: str) -> CachedSiteRow | None:
        """What was last seen of a site, for anybody on any thread."""
        return self._seen.get(name)

    async def forget(self, worker_ids: Collection[str]) -> None:
        """Frees the shares and the probes of these workers, as far as any were seen."""
        for name, seen in list(self._seen.items()):
            if not {*seen.row.shares, seen.row.circuit.probe_by}.isdisjoint(worker_ids):
                await self.change(name, lambda row, _: (site_rows.forget(row, worker_ids), None))

    async def refresh(self, name: str) -> None:
        """Looks at a site, unless somebody is just about it."""
        if not self._lock(name).locked():
            async with self._turn(name):
                await self._read(name)

    async def change(self, name: str, decide: Decide[T], *, fresh: bool = True) -> tuple[T, float]:
        """What was decided, with the shift from the boot clock to the time in which it speaks.

        `decide(row, now)` gives the row to be written, or None. With `fresh` off it may be asked first about what was
        seen a moment ago, and is believed when it has nothing to write.
        """
        async with self._turn(name):
            seen = self._seen.get(name)
            if seen is None or fresh or self._clock.boot() - seen.at > FRESH_SECONDS:
                seen = await self._read(name)
            elif decide(seen.row, self._now(seen))[0] is not None and len(seen.row.shares) > 1:
                seen = await self._read(name)  # where others are about, a look is cheaper than a write that fails
            for tries in range(_TRIES):
                after, answer = decide(seen.row, self._now(seen))
                if after is None or await self._write(name, seen, after):
                    return answer, seen.shift
                await asyncio.sleep(_pause_seconds(tries))
                seen = await self._read(name)
        raise _busy(name)

    async def change_on_time(self, name: str, decide: Decide[T]) -> tuple[T, float]:
        """The same for instants and slots, which are given only when the time is known well; not necessarily fresh."""
        if isinstance(self._time, ServerClock):
            await self._time.settle(lambda: self._table.get(_key(name)))
        return await self.change(name, decide, fresh=False)

    async def every(self) -> AsyncIterator[tuple[str, CachedSiteRow]]:
        """All sites that anybody has met."""
        names = [row.key.s async for row in self._table.query(_SITES)]
        for start in range(0, len(names), _STATES_AT_ONCE):
            some = names[start : start + _STATES_AT_ONCE]
            rows = await self._table.get(*map(_key, some))
            for name in some:
                if _key(name) in rows:
                    yield name, self._understood(name, rows[_key(name)])

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        """Changes of this process go one by one: they would only get in each other's way."""
        lock = self._lock(name)
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await lock.acquire()
        except TimeoutError:
            raise _busy(name) from None
        try:
            yield
        finally:
            lock.release()

    def _lock(self, name: str) -> asyncio.Lock:
        if len(self._locks) >= _REMEMBERED:
            self._locks = {known: lock for known, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(name, asyncio.Lock())

    async def _read(self, name: str) -> CachedSiteRow:
        found = (await self._table.get(_key(name))).get(_key(name))
        return self._remember(name, self._understood(name, found))

    def _understood(self, name: str, found: Row | None) -> CachedSiteRow:
        now = self._clock.boot()
        if found is None:
            # Before the present, so that times that were never set are told from all others.
            row = SiteRow(zero=math.floor(self._time.from_boot(now)) - 1)
            return CachedSiteRow(row, 0, self._shift(name, row), now, row.circuit)
        try:
            row = _decode(found.body)
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the row of site {name!r} in the table cannot be read: {error}") from error
        self._keep_up(name, row.at - (now + self._shift(name, row)))
        shift = self._shift(name, row)
        return CachedSiteRow(row, found.version, shift, now, on_boot_clock(row.circuit, shift))

    def _shift(self, name: str, row: SiteRow) -> float:
        return self._time.from_boot(0.0) + self._behind_seconds.get(name, 0.0) - row.zero

    def _keep_up(self, name: str, seconds: float) -> None:
        """A row that was written in the future comes from a host whose clock is ahead: at this site its time counts.

        Otherwise the site would stand still for as long as that host is ahead. Only hosts with an older version of
        Swath go by their own clocks; those that know the store's time differ by no more than its error.
        """
        if seconds > (2 * WIDE_SECONDS if isinstance(self._time, ServerClock) else 0.0):
            self._behind_seconds[name] = self._behind_seconds.get(name, 0.0) + seconds
            if seconds > _TOLD_SECONDS:
                _log.warning("this host's clock is %.1f s behind that of another worker; have it set by NTP", seconds)

    def _now(self, seen: CachedSiteRow) -> float:
        return max(seen.row.at, self._clock.boot() + seen.shift)

    async def _write(self, name: str, seen: CachedSiteRow, after: SiteRow) -> bool:
        row = msgspec.structs.replace(after, at=self._now(seen))
        put = Put(_key(name), _encode(row), seen.version + 1, seen.version or ABSENT, SITE_FORMAT)
        listed = [Put(Key(_SITES, name), b"", format=SITE_FORMAT)] if row.is_site and not seen.row.is_site else []
        if not await self._table.commit(put, *listed):
            return False
        circuit = on_boot_clock(row.circuit, seen.shift)
        self._remember(name, CachedSiteRow(row, seen.version + 1, seen.shift, self._clock.boot(), circuit))
        return True

    def _remember(self, name: str, seen: CachedSiteRow) -> CachedSiteRow:
        self._seen[name] = seen
        self._seen.move_to_end(name)
        if len(self._seen) > _REMEMBERED:
            forgotten, _ = self._seen.popitem(last=False)
            self._behind_seconds.pop(forgotten, None)
        return seen


def _busy(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"too many write of site {name!r} at once", WaitingFor.STORE)


def _key(name: str) -> Key:
    return Key(f"site/{name}", "state")


def _pause_seconds(tries: int) -> float:
    shortest, longest = _PAUSE_SECONDS
    return random.uniform(shortest, min(longest, shortest * 2 ** (tries + 1)))  # noqa: S311 jitter needs no crypto
