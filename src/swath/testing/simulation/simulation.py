"""One simulation from the first order to the last end. `python -m swath.testing.simulation` and the tests call it.

After: report.py makes figures of what is left.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from swath.testing.simulation.broken import Broken, broken_build
from swath.testing.simulation.ideal import Ideal, ideal_of
from swath.testing.simulation.keeper import Keeper
from swath.testing.simulation.plan import Plan
from swath.testing.simulation.world import World

__all__ = ["LONGEST_SECONDS", "Simulated", "simulate"]

LONGEST_SECONDS: Final = 14_400.0  # of fake time: whoever is not done then never will be
PROBLEMS: Final = 1_000  # that are enough to stop for


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `seconds` are of fake time, `wall_seconds` and `cpu_seconds` of ours."""

    world: World
    kills: int
    rescued: int
    finished: bool
    seconds: float
    ideal: Ideal
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
    plan: Plan, broken: Broken | None = None, on_second: Callable[[World], None] = lambda _: None
) -> Simulated:
    """Plays a plan to its end, or until it is plain that it has none."""
    began, cpu_began = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory(prefix="swath-simulation-") as folder, broken_build(broken):
        world = World(plan, Path(folder))
        keeper = Keeper(world, on_second)
        keeper.begin()
        await world.events.play(lambda: keeper.over or _hopeless(world))
    return Simulated(
        world=world,
        kills=keeper.kills,
        rescued=keeper.rescued,
        finished=keeper.over,
        seconds=world.events.elapsed,
        ideal=ideal_of(world.truth, plan),
        wall_seconds=time.monotonic() - began,
        cpu_seconds=time.process_time() - cpu_began,
    )


def _hopeless(world: World) -> bool:
    return world.events.elapsed > LONGEST_SECONDS or len(world.truth.problems) + len(world.turns.problems) > PROBLEMS
