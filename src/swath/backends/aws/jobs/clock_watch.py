"""What the AWS store remembers of the clocks of its hosts, in one row for all of them.

Hosts have boot clocks of their own, so each is a start of the machine to the others. As long as one of them has a wall
clock that is far behind another's, nothing is confirmed, and so nothing is deleted by its retention. The rules are in
domain/clock_watch.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from swath.backends.aws.calls.rows import ABSENT, Put, decoded
from swath.backends.aws.table.layout import CLOCK
from swath.domain.clock_watch import JUMPED, ClockWatch, observe

if TYPE_CHECKING:
    from swath.backends.aws.jobs.ledger import Ledger

__all__ = ["glance", "look"]

_log = logging.getLogger("swath.clock")

_TRIES: Final = 5

_decoder: Final = msgspec.json.Decoder(ClockWatch)


async def glance(ledger: Ledger) -> ClockWatch:
    """What would be remembered after this look at the clocks. Writes nothing."""
    former, _ = await _saved(ledger)
    return observe(former, ledger.clock_reading())


async def look(ledger: Ledger) -> ClockWatch:
    """The same, and remembers it, as seldom as will do. Who loses against another host looks again."""
    for _ in range(_TRIES):
        former, version = await _saved(ledger)
        watch = observe(former, ledger.clock_reading())
        if not watch.worth_saving_after(former):
            return watch
        expected = version or ABSENT
        if await ledger.table.commit(Put(CLOCK, msgspec.json.encode(watch), (version or 0) + 1, expected)):
            jumped = watch.jump_after(former)
            if jumped is not None:
                _log.warning(JUMPED, jumped)
            return watch
    return observe(None, ledger.clock_reading())  # too many write it at once: nothing is confirmed this time


async def _saved(ledger: Ledger) -> tuple[ClockWatch | None, int | None]:
    row = (await ledger.table.get(CLOCK)).get(CLOCK)
    if row is None:
        return None, None
    return decoded(_decoder, row), row.version
