"""A fleet on a fake clock: hosts whose clocks differ, and a table that takes its time. Hours of pacing cost nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, TypeVar

from swath.backends.aws.client.rows import ABSENT, ANY, Delete, Key, Put, Row
from swath.backends.aws.client.shared_clock import ServerClock
from swath.backends.aws.sites.site_state import AwsSiteState
from tests.support.clock import FakeClock

__all__ = ["HostClock", "SlowTable", "host_book"]

T = TypeVar("T")


class HostClock:
    """The clock of one host: started at another time, and its wall clock wrong by `skew_seconds`."""

    def __init__(self, true: FakeClock, boot_seconds: float, skew_seconds: float = 0.0) -> None:
        self._true = true
        self._boot_seconds = boot_seconds
        self._skew_seconds = skew_seconds

    def now(self) -> float:
        return self._true.now() + self._skew_seconds

    def boot(self) -> float:
        return self._true.boot() + self._boot_seconds

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)


class SlowTable:
    """As much of Table as a site book uses. A request takes effect in the middle of its time."""

    def __init__(self, clock: FakeClock, round_trip_seconds: float) -> None:
        self._clock = clock
        self.round_trip_seconds = round_trip_seconds
        self._rows: dict[Key, Row] = {}
        self.requests: Counter[str] = Counter()

    async def get(self, *keys: Key, time: ServerClock | None = None) -> dict[Key, Row]:
        sent_at, date = await self._reached(time)
        self.requests["read"] += len(keys)
        found = {key: self._rows[key] for key in keys if key in self._rows}
        await self._on_the_way()
        if time is not None:
            time.heard(date, sent_at)
        return found

    async def commit(self, *changes: Put | Delete, time: ServerClock | None = None) -> bool:
        sent_at, date = await self._reached(time)
        self.requests["write"] += len(changes)
        made = all(self._holds(change) for change in changes)
        self.requests["conflict"] += not made
        for change in changes if made else ():
            assert isinstance(change, Put)
            self._rows[change.key] = Row(change.key, change.body, change.version)
        await self._on_the_way()
        if time is not None:
            time.heard(date, sent_at)
        return made

    async def _reached(self, time: ServerClock | None) -> tuple[float, str]:
        sent_at = 0.0 if time is None else time.boot()
        await self._on_the_way()
        return sent_at, formatdate(self._clock.now(), usegmt=True)

    def _holds(self, change: Put | Delete) -> bool:
        if isinstance(change, Delete) or change.expected is ANY:
            return True
        stored = self._rows.get(change.key)
        return (ABSENT if stored is None else stored.version) == change.expected

    async def _on_the_way(self) -> None:
        await self._clock.sleep(self.round_trip_seconds / 2)


class TimedTable:
    """The same as one host sees it, which learns the time from its answers."""

    def __init__(self, table: SlowTable, time: ServerClock) -> None:
        self._table = table
        self._time = time

    async def get(self, *keys: Key) -> dict[Key, Row]:
        return await self._table.get(*keys, time=self._time)

    async def commit(self, *changes: Put | Delete) -> bool:
        return await self._table.commit(*changes, time=self._time)


class _Bridge:
    """All of it is on one loop."""

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await make()


def host_book(table: SlowTable, clock: HostClock, *, by_store_time: bool = False) -> AwsSiteState:
    """The book of one process on that host, which goes by the table's clock or by its own."""
    if not by_store_time:
        return AwsSiteState(_Bridge(), table, clock)  # type: ignore[arg-type]  # they have what a book uses
    time = ServerClock(clock)
    return AwsSiteState(_Bridge(), TimedTable(table, time), clock, time)  # type: ignore[arg-type]  # the same
