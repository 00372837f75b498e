"""Measures how many items per second a job ends. Pure.

Recent commits weigh more than old ones. The figure falls by itself when nothing ends any more.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

__all__ = ["Throughput", "average_rate", "current_rate", "record_ended_items", "start_measuring"]

WINDOW_SECONDS: Final = 5.0  # about how far back a fast job looks
WINDOW_ITEMS: Final = 4  # a slow one looks back so many items, or one of each slot,
MAX_WINDOW_SECONDS: Final = 60.0  # but for the sake of slots, which may be idle, no further than this
STALL_FACTOR: Final = 2.0  # silence of so many times that length says that the job stands still
COMMIT_GAP_SECONDS: Final = 1.0  # workers gather ends for about that long, so silence that is shorter says nothing


class Throughput(msgspec.Struct, frozen=True):
    """`items` ended in `seconds`, of both of which the older part counts for less. Without seconds nothing is known.

    `at` is when items last ended or the measuring began, on the boot clock.
    """

    items: float = 0.0
    seconds: float = 0.0
    at: float = 0.0


def start_measuring(boot: float) -> Throughput:
    """Measured from now on: a start, or a break of which the time says nothing."""
    return Throughput(at=boot)


def record_ended_items(pace: Throughput, boot: float, items: int, slots: int) -> Throughput:
    """Some items have ended. The first after a standstill only begin anew: its length is no part of any pace."""
    passed, known = boot - pace.at, _measured_rate(pace)
    if passed < 0:  # the machine was started again
        return start_measuring(boot)
    if not known:
        return Throughput(items, max(passed, COMMIT_GAP_SECONDS), boot)
    span = _window_seconds(known, slots)
    if passed > STALL_FACTOR * span:
        return start_measuring(boot)
    kept = math.exp(-passed / span)
    return Throughput(pace.items * kept + items, pace.seconds * kept + passed, boot)


def current_rate(pace: Throughput, boot: float, slots: int) -> float:
    """The pace as it looks now; 0 when nothing is known, or when nothing has ended for long.

    It begins to fall when the next item is overdue, so that it does not swing between one end and the next.
    """
    silence, known = boot - pace.at, _measured_rate(pace)
    if silence < 0 or not known:
        return 0.0
    span = _window_seconds(known, slots)
    if silence > STALL_FACTOR * span:
        return 0.0
    overdue = max(0.0, silence - max(COMMIT_GAP_SECONDS, 1 / known))
    kept = math.exp(-overdue / span)
    return pace.items * kept / (pace.seconds * kept + overdue)


def average_rate(items: int, started_at: float | None, ended_at: float) -> float:
    """The pace of a job that has ended: what it has run, by the time from its start to its end."""
    if started_at is None or ended_at <= started_at:
        return 0.0
    return max(0, items) / (ended_at - started_at)


def _measured_rate(pace: Throughput) -> float:
    return pace.items / pace.seconds if pace.seconds > 0 else 0.0


def _window_seconds(known: float, slots: int) -> float:
    """How far back to look: slots that began together end together, and the silence between is no standstill."""
    return max(WINDOW_SECONDS, WINDOW_ITEMS / known, min(slots / known, MAX_WINDOW_SECONDS))
