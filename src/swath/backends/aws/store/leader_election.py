"""Elects the leader of a fleet: one row of the table that its holder renews.

Times are those that hosts have in common, so clocks that differ cost a moment with two leaders or none.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.rows import decode_body
from swath.backends.aws.client.shared_clock import SharedClock
from swath.backends.aws.dynamo.table import ABSENT, Key, Put, Table

__all__ = ["DynamoLeader"]

ROW: Final = Key("fleet", "leader")
RENEW_PART: Final = 0.5  # of the time that it has, a leader lets pass before it writes again


class _LeaderRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Who leads, and until when."""

    worker_id: str
    until: float


_decoder: Final = msgspec.msgpack.Decoder(_LeaderRow)


class DynamoLeader:
    """Implements Leader. Costs a leader four writes a minute, and everybody else as many reads or fewer."""

    def __init__(
        self, bridge: EventLoopThread, table: Table, time: SharedClock, worker_id: str, lease_seconds: float = 30.0
    ) -> None:
        self._bridge = bridge
        self._table = table
        self._time = time
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._until = 0.0  # when our lead is over
        self._look_at = 0.0  # before this we need not look again

    async def lead(self) -> bool:
        if self._time.now() >= self._look_at:
            await self._bridge.run(self._look)
        return self._time.now() < self._until

    async def resign(self) -> None:
        if self._time.now() < self._until:
            self._until = self._look_at = 0.0
            await self._bridge.run(self._give_up)

    async def _look(self) -> None:
        known, version = await self._read()
        now = self._time.now()
        if known.worker_id != self._worker_id and known.until > now:
            self._until = 0.0
            self._look_at = now + min(known.until - now, self._spread(RENEW_PART * self._lease_seconds))
        elif await self._write(_LeaderRow(self._worker_id, now + self._lease_seconds), version):
            self._until, self._look_at = now + self._lease_seconds, now + RENEW_PART * self._lease_seconds
        else:
            self._until = 0.0  # somebody else was faster

    async def _give_up(self) -> None:
        known, version = await self._read()
        if known.worker_id == self._worker_id:
            await self._write(_LeaderRow(self._worker_id, 0.0), version)

    async def _read(self) -> tuple[_LeaderRow, int]:
        row = (await self._table.get(ROW)).get(ROW)
        if row is None:
            return _LeaderRow("", 0.0), ABSENT
        return decode_body(_decoder, row), row.version

    async def _write(self, lead: _LeaderRow, version: int) -> bool:
        body = msgspec.msgpack.encode(lead)
        return await self._table.commit(Put(ROW, body, 1 if version == ABSENT else version + 1, version))

    def _spread(self, seconds: float) -> float:
        return seconds * random.uniform(0.75, 1.0)  # noqa: S311 jitter needs no crypto
