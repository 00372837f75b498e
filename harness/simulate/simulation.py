"""One simulation from the first job to the last end; a test may switch a rule of the dispatcher off."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec

from harness.simulate.actual import LowerBound, lower_bound
from harness.simulate.fleet import FleetControl
from harness.simulate.plan import Plan
from harness.simulate.world import World

__all__ = ["LONGEST_SECONDS", "DisabledRule", "Simulated", "broken_build", "simulate"]


class DisabledRule(StrEnum):
    """What is switched off."""

    JOB_LIMITS = "job-limits"
    SITE_LIMITS = "site-limits"
    PATIENCE = "patience"
    DOUBT = "doubt"


def _the_whole(limit: int, *_: int) -> int:
    """Everybody gets all slots there are, whatever the others have."""
    return limit


@contextmanager
def broken_build(what: DisabledRule | None) -> Iterator[None]:
    """Until the block is left."""
    match what:
        case None:
            changes: dict[str, object] = {}
        case DisabledRule.JOB_LIMITS:
            changes = {
                f"swath.backends.aws.store.slot_shares.{name}": _the_whole for name in ("grant_slots", "target_slots")
            }
        case DisabledRule.SITE_LIMITS:
            changes = {f"swath.domain.site_slots.{name}": _the_whole for name in ("grant_slots", "target_slots")}
        case DisabledRule.PATIENCE:
            changes = {"swath.domain.fair_scheduling.PATIENCE": 1_000_000}
        case DisabledRule.DOUBT:
            changes = {"swath.pipeline.worker.slots.JobSlots.in_doubt": False}
    with ExitStack() as stack:
        for name, instead in changes.items():
            stack.enter_context(patch(name, instead))
        yield


LONGEST_SECONDS: Final = 14_400.0  # of fake time: whoever is not done then never will be
PROBLEMS: Final = 1_000  # that are enough to stop for


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `seconds` are of fake time, `wall_seconds` and `cpu_seconds` of ours."""

    world: World
    kills: int
    rescued: int
    finished: bool
    seconds: float
    ideal: LowerBound
    wall_seconds: float
    cpu_seconds: float

    @property
    def problems(self) -> list[str]:
        """What must not be."""
        found = [*self.world.truth.problems, *self.world.turns.problems]
        if not self.finished:
            found.append("not all jobs have ended")
        return found


async def simulate(
    plan: Plan, broken: DisabledRule | None = None, on_second: Callable[[World], None] = lambda _: None
) -> Simulated:
    """Plays a plan to its end, or until it is plain that it has none."""
    began, cpu_began = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory(prefix="swath-simulation-") as folder, broken_build(broken):
        world = World(plan, Path(folder))
        keeper = FleetControl(world, on_second)
        keeper.begin()
        await world.events.play(lambda: keeper.over or _hopeless(world))
    return Simulated(
        world=world,
        kills=keeper.kills,
        rescued=keeper.rescued,
        finished=keeper.over,
        seconds=world.events.elapsed,
        ideal=lower_bound(world.truth, plan),
        wall_seconds=time.monotonic() - began,
        cpu_seconds=time.process_time() - cpu_began,
    )


def _hopeless(world: World) -> bool:
    return world.events.elapsed > LONGEST_SECONDS or len(world.truth.problems) + len(world.turns.problems) > PROBLEMS
