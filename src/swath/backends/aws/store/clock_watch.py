"""Stores the last readings of all hosts' clocks in one row, to detect jumps of a wall clock.

Each host has a boot clock of its own, so to the others it is another start of the machine. While the wall clock of
one
host is far behind that of another, nothing is confirmed, and so nothing is deleted by its retention.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from swath.backends.aws.client.rows import ABSENT, Put, decode_body
from swath.backends.aws.dynamo.layout import CLOCK
from swath.domain.clock_watch import CLOCK_JUMP_MESSAGE, ClockWatch, observe

if TYPE_CHECKING:
    from swath.backends.aws.store.store_context import StoreContext

__all__ = ["peek", "update"]

_log = logging.getLogger("swath.clock")

_TRIES: Final = 5

_decoder: Final = msgspec.json.Decoder(ClockWatch)


async def peek(ledger: StoreContext) -> ClockWatch:
    """What would be remembered after this look at the clocks. Writes nothing."""
    former, _ = await _read(ledger)
    return observe(former, ledger.clock_reading())


async def update(ledger: StoreContext) -> ClockWatch:
    """The same, and remembers it, as seldom as will do. Who loses against another host looks again."""
    for _ in range(_TRIES):
        former, version = await _read(ledger)
        watch = observe(former, ledger.clock_reading())
        if not watch.worth_saving_after(former):
            return watch
        expected = version or ABSENT
        if await ledger.table.commit(Put(CLOCK, msgspec.json.encode(watch), (version or 0) + 1, expected)):
            jumped = watch.jump_after(former)
            if jumped is not None:
                _log.warning(CLOCK_JUMP_MESSAGE, jumped)
            return watch
    return observe(None, ledger.clock_reading())  # too many write it at once: nothing is confirmed this time


async def _read(ledger: StoreContext) -> tuple[ClockWatch | None, int | None]:
    row = (await ledger.table.get(CLOCK)).get(CLOCK)
    if row is None:
        return None, None
    return decode_body(_decoder, row), row.version
