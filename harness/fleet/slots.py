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

from harness.bench.slot_use import SlotPlan, Used, measure
from harness.fakes.aws import Endpoints
from harness.fleet.meters import MeteredRequests, read_meters

__all__ = ["SlotUse", "scale", "use_slots"]

AT_ONCE: Final = 8  # items that each worker takes on, and the limit of the job that two share


@dataclass(frozen=True)
class SlotUse:
    """One run."""

    used: Used
    asked: MeteredRequests


def scale(folder: Path, endpoints: Endpoints, processes: int, items_each: int) -> SlotUse:
    """A job that allows more than all workers take on: each is bounded by itself, so they should add up."""
    plan = SlotPlan(
        workers=processes,
        items=processes * items_each,
        limit=processes * AT_ONCE,
        max_items=AT_ONCE,
        worker_command=_metered(folder),
    )
    return _measured(folder, endpoints, plan)


def use_slots(folder: Path, endpoints: Endpoints, items: int) -> SlotUse:
    """Two workers of which each alone could use all that the job allows."""
    return _measured(
        folder, endpoints, SlotPlan(workers=2, items=items, limit=AT_ONCE, worker_command=_metered(folder))
    )


def _metered(folder: Path) -> list[str]:
    return [sys.executable, "-m", "harness.fleet.metered_cli", str(folder / "meters")]


def _measured(folder: Path, endpoints: Endpoints, plan: SlotPlan) -> SlotUse:
    (folder / "meters").mkdir(parents=True)
    used = asyncio.run(measure(folder, plan, endpoints.environment))
    return SlotUse(used, read_meters(folder / "meters", plan.items))
