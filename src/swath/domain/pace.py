"""How fast a job is now: items per second, from its last ends and from the silence since then (J7). Pure.

Told of every commit with ends, asked by every status. What was long ago counts for less and less, and what has not
ended counts too: when nothing ends any more the figure falls by itself, until nothing is known.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

__all__ = ["Pace", "begun", "overall", "per_second", "record"]

SECONDS: Final = 5.0  # about how far back a fast job looks
ITEMS: Final = 4  # a slow one looks back so many items, or one of each slot,
SLOTS_SECONDS: Final = 60.0  # but for the sake of slots, which may be idle, no further than this
LONG: Final = 2.0  # silence of so many times that length says that the job stands still
COMMIT_SECONDS: Final = 1.0  # workers gather ends for about that long, so silence that is shorter says nothing


class Pace(msgspec.Struct, frozen=True):
    """`items` ended in `seconds`, of both of which the older part counts for less. Without seconds nothing is known.

    `at` is when items last ended or the measuring began, on the boot clock.
    """

    items: float = 0.0
    seconds: float = 0.0
    at: float = 0.0


def begun(boot: float) -> Pace:
    """Measured from now on: a start, or a break of which the time says nothing."""
    return Pace(at=boot)


def record(pace: Pace, boot: float, items: int, slots: int) -> Pace:
    """Some items have ended. The first after a standstill only begin anew: its length is no part of any pace."""
    passed, known = boot - pace.at, _known(pace)
    if passed < 0:  # the machine was started again
        return begun(boot)
    if not known:
        return Pace(items, max(passed, COMMIT_SECONDS), boot)
    span = _span(known, slots)
    if passed > LONG * span:
        return begun(boot)
    kept = math.exp(-passed / span)
    return Pace(pace.items * kept + items, pace.seconds * kept + passed, boot)


def per_second(pace: Pace, boot: float, slots: int) -> float:
    """The pace as it looks now; 0 when nothing is known, or when nothing has ended for long.

    It begins to fall when the next item is overdue, so that it does not swing between one end and the next.
    """
    silence, known = boot - pace.at, _known(pace)
    if silence < 0 or not known:
        return 0.0
    span = _span(known, slots)
    if silence > LONG * span:
        return 0.0
    overdue = max(0.0, silence - max(COMMIT_SECONDS, 1 / known))
    kept = math.exp(-overdue / span)
    return pace.items * kept / (pace.seconds * kept + overdue)


def overall(items: int, started_at: float | None, ended_at: float) -> float:
    """The pace of a job that has ended: what it has run, by the time from its start to its end."""
    if started_at is None or ended_at <= started_at:
        return 0.0
    return max(0, items) / (ended_at - started_at)


def _known(pace: Pace) -> float:
    return pace.items / pace.seconds if pace.seconds > 0 else 0.0


def _span(known: float, slots: int) -> float:
    """How far back to look: slots that began together end together, and the silence between is no standstill."""
    return max(SECONDS, ITEMS / known, min(slots / known, SLOTS_SECONDS))
