"""Compares the wall clock with the boot clock, so that no deletion rests on a wall clock that has jumped. Pure.

The boot clock cannot be set but starts anew with the machine; the wall clock goes on but may jump. While both
advance
alike the wall clock is believed.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

__all__ = [
    "CLOCK_JUMP_MESSAGE",
    "CONFIRM_SECONDS",
    "TOLERANCE_SECONDS",
    "ClockReading",
    "ClockSpan",
    "ClockWatch",
    "observe",
]

CONFIRM_SECONDS: Final = 3_600.0  # for which both clocks must have advanced alike before a deletion
TOLERANCE_SECONDS: Final = 300.0  # by which they may differ over that time: what a time server corrects is less
_DRIFT: Final = 0.001  # and of what passed between two looks; a bad quartz has a tenth of it
_UNWATCHED_SECONDS: Final = 600.0  # of a start of the machine that are believed without having been watched
_SAVE_SECONDS: Final = 60.0
CLOCK_JUMP_MESSAGE: Final = (  # for the log of a store
    "the wall clock jumped by %+.0f s; no job is deleted by its retention until it has run evenly for an hour"
)
_MAX_SPANS: Final = 400


class ClockReading(msgspec.Struct, frozen=True):
    """Both clocks at one moment. `boot_id` names the start of the machine from which `boot` counts."""

    boot_id: str
    boot: float
    wall: float


class ClockSpan(msgspec.Struct, frozen=True, array_like=True):
    """Seconds of one start of the machine over which both clocks advanced alike; `wall` is the time when they began."""

    wall: float
    seconds: float


class ClockWatch(msgspec.Struct, frozen=True, kw_only=True):
    """The last reading, an older one of the same start to compare the next with, and what both clocks have agreed on.

    `spans` reach back until they add up to an hour, over several starts of the machine if need be, and end where the
    wall clock jumped. `uptime` counts seconds of the boot clock over all starts; it never goes back. `believed` is the
    last wall time of which both clocks had agreed for an hour; a jump leaves it as it was.
    """

    boot_id: str
    boot: float
    wall: float
    anchor_boot: float
    anchor_wall: float
    spans: tuple[ClockSpan, ...]
    uptime: float = 0.0
    jumps: int = 0
    believed: float = 0.0

    def not_before(self, wall: float) -> float:
        """When something happened that is to be remembered: a wall clock that has just jumped back is not believed."""
        return max(wall, self.believed)

    @property
    def confirmed_wall(self) -> float:
        """What was due at this wall time has been due for an hour on which both clocks agree; -inf if nothing was."""
        left = CONFIRM_SECONDS
        for span in reversed(self.spans):
            if span.seconds >= left:
                return min(span.wall + span.seconds, self.wall) - left
            left -= span.seconds
        return -math.inf

    def jump_after(self, former: ClockWatch | None) -> float | None:
        """The seconds by which the wall clock has jumped since the former look; None when it has not."""
        if former is None or former.jumps == self.jumps:
            return None
        passed = self.boot - former.boot if self.boot_id == former.boot_id else 0.0
        return self.wall - former.wall - passed

    def worth_saving_after(self, former: ClockWatch | None) -> bool:
        """Whether it says something that the saved one does not; the next reading makes up for less than a minute."""
        if former is None or (former.boot_id, former.jumps) != (self.boot_id, self.jumps):
            return True
        return not 0 <= self.boot - former.boot < _SAVE_SECONDS


def observe(former: ClockWatch | None, reading: ClockReading) -> ClockWatch:
    """What is remembered after one more look at the clocks."""
    if former is None:
        return _first_observation(reading, uptime=0.0, jumps=0)
    after = _observe_again(former, reading)
    confirmed = after.confirmed_wall > -math.inf
    return msgspec.structs.replace(after, believed=after.wall if confirmed else former.believed)


def _observe_again(former: ClockWatch, reading: ClockReading) -> ClockWatch:
    if reading.boot_id == former.boot_id and reading.boot >= former.boot - TOLERANCE_SECONDS:
        return former if reading.boot < former.boot else _observe_same_boot(former, reading)
    return _observe_new_boot(former, reading)


def _first_observation(reading: ClockReading, *, uptime: float, jumps: int) -> ClockWatch:
    return ClockWatch(
        boot_id=reading.boot_id,
        boot=reading.boot,
        wall=reading.wall,
        anchor_boot=reading.boot,
        anchor_wall=reading.wall,
        spans=(ClockSpan(reading.wall, 0.0),),
        uptime=uptime,
        jumps=jumps,
    )


def _observe_same_boot(former: ClockWatch, reading: ClockReading) -> ClockWatch:
    """A later look in the same start of the machine."""
    uptime = former.uptime + (reading.boot - former.boot)  # in this order no rounding takes it back
    passed = reading.boot - former.anchor_boot
    apart = abs(reading.wall - former.anchor_wall - passed)
    if apart > TOLERANCE_SECONDS + _DRIFT * passed:
        return _first_observation(reading, uptime=uptime, jumps=former.jumps + 1)
    roll = passed > CONFIRM_SECONDS
    *earlier, span = former.spans
    span = ClockSpan(span.wall, span.seconds + (reading.boot - former.boot))
    return ClockWatch(
        boot_id=reading.boot_id,
        boot=reading.boot,
        wall=reading.wall,
        anchor_boot=former.boot if roll else former.anchor_boot,
        anchor_wall=former.wall if roll else former.anchor_wall,
        spans=_spans_of_last_hour((*earlier, span)),
        uptime=uptime,
        jumps=former.jumps,
    )


def _observe_new_boot(former: ClockWatch, reading: ClockReading) -> ClockWatch:
    """The first look after the machine has started anew, or of another machine.

    How long it was off nobody knows. What has passed since its start counts, up to a bound, if the wall clock has
    advanced by as much: a machine that never stays up for an hour reaches it too.
    """
    passed = min(max(0.0, reading.boot), max(0.0, reading.wall - former.wall))
    if reading.wall < former.wall - TOLERANCE_SECONDS:
        return _first_observation(reading, uptime=former.uptime, jumps=former.jumps + 1)
    believed = min(passed, _UNWATCHED_SECONDS)
    begun = _first_observation(reading, uptime=former.uptime + passed, jumps=former.jumps)
    span = ClockSpan(reading.wall - believed, believed)
    return msgspec.structs.replace(begun, spans=_spans_of_last_hour((*former.spans, span)))


def _spans_of_last_hour(spans: tuple[ClockSpan, ...]) -> tuple[ClockSpan, ...]:
    """Without those before the last hour; so many short ones that they are too many are put together."""
    while sum(span.seconds for span in spans[1:]) >= CONFIRM_SECONDS:
        spans = spans[1:]
    if len(spans) > _MAX_SPANS:
        first, second, *others = spans
        spans = (ClockSpan(first.wall, first.seconds + second.seconds), *others)
    return spans
