"""RobotsShelf: robots.txt of origins in the table, fetched by one worker of the fleet and read by all.

Lives on the loop of bridge.py, beside site_shelf.py; site_book.py is the port.
"""

from __future__ import annotations

import contextlib

import msgspec

from swath.backends.aws.calls.formats import SITE_FORMAT
from swath.backends.aws.calls.rows import ABSENT, Key, Put
from swath.backends.aws.calls.time import SharedTime
from swath.backends.aws.table.table import Table
from swath.domain.errors import BadInput, StoreDamaged
from swath.ports.clock import Clock
from swath.ports.site_book import KeptRobots

__all__ = ["RobotsShelf"]


class _Robots(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Until when it is kept, or somebody fetches it, in shared time."""

    kept: KeptRobots = KeptRobots(0)
    keep_until: float = 0.0
    fetch_until: float = 0.0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Robots).decode


class RobotsShelf:
    """See SiteBook for both methods."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._time = SharedTime(clock)

    async def robots(self, origin: str, fetch_seconds: float) -> KeptRobots | None:
        known, version = await self._read(origin)
        now = self._time.now()
        if known.keep_until > now:
            return known.kept
        if known.fetch_until > now:
            return None
        claim = _Robots(fetch_until=now + fetch_seconds)
        # Who is not the first learns at its next look what the first one does.
        mine = await self._table.commit(Put(_key(origin), _encode(claim), version + 1, version or ABSENT, SITE_FORMAT))
        return KeptRobots(0) if mine else None

    async def keep_robots(self, origin: str, kept: KeptRobots, seconds: float) -> None:
        known = _Robots(kept, self._time.now() + seconds)
        _, version = await self._read(origin)
        with contextlib.suppress(BadInput):  # larger than a row may be, even packed: then everybody fetches it
            await self._table.commit(Put(_key(origin), _encode(known), version + 1, format=SITE_FORMAT))

    async def _read(self, origin: str) -> tuple[_Robots, int]:
        found = (await self._table.get(_key(origin))).get(_key(origin))
        if found is None:
            return _Robots(), 0
        try:
            return _decode(found.body), found.version
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the row of robots.txt of {origin} in the table cannot be read: {error}") from error


def _key(origin: str) -> Key:
    return Key(f"robots/{origin}", "robots")
