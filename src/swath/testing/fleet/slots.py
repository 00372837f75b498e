"""With pages that take 200 ms: whether more workers do more, and whether few use what they may (slot_use.py).

Measured at the site. What the workers asked of AWS meanwhile is counted beside it: this is the usual case, in which a
commit brings only as many items as have ended since the last. Asked by __main__.py.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swath.testing.aws_servers import Endpoints
from swath.testing.fleet.meters import Asked, read_meters
from swath.testing.slot_use import SlotPlan, Used, measure

__all__ = ["Slow", "scale", "use_slots"]

AT_ONCE: Final = 8  # items that each worker takes on, and the limit of the job that two share


@dataclass(frozen=True)
class Slow:
    """One run."""

    used: Used
    asked: Asked


def scale(folder: Path, endpoints: Endpoints, processes: int, items_each: int) -> Slow:
    """A job that allows more than all workers take on: each is bounded by itself, so they should add up."""
    plan = SlotPlan(
        workers=processes,
        items=processes * items_each,
        limit=processes * AT_ONCE,
        max_items=AT_ONCE,
        worker_command=_metered(folder),
    )
    return _measured(folder, endpoints, plan)


def use_slots(folder: Path, endpoints: Endpoints, items: int) -> Slow:
    """Two workers of which each alone could use all that the job allows."""
    return _measured(
        folder, endpoints, SlotPlan(workers=2, items=items, limit=AT_ONCE, worker_command=_metered(folder))
    )


def _metered(folder: Path) -> list[str]:
    return [sys.executable, "-m", "swath.testing.fleet.metered", str(folder / "meters")]


def _measured(folder: Path, endpoints: Endpoints, plan: SlotPlan) -> Slow:
    (folder / "meters").mkdir(parents=True)
    used = asyncio.run(measure(folder, plan, endpoints.environment))
    return Slow(used, read_meters(folder / "meters", plan.items))
