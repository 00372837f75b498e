"""PointFreezes: workers that stop themselves at a named point, and are woken when they can do the most harm.

Who stops in an ending is woken only when a job that it may have been ending was retried and has ended again. Shared by
the storms on SQLite and on AWS.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from harness.chaos.side_jobs import SideJobState
from harness.processes import PlannedFreeze, RigProcess, draw_freeze, is_stopped

__all__ = ["PointFreezes"]

LONGEST_SECONDS: Final = 60.0  # who waits for a retry that does not come is woken anyway
FROZEN: Final = "frozen at a point"
WOKEN: Final = "woken after a retry"


@dataclass(frozen=True)
class _Frozen:
    """`generations`: those of the jobs when it stopped, if it may have been ending one."""

    process: RigProcess
    since: float
    generations: dict[str, int] | None


class PointFreezes:
    """At least `count` that are woken after a retry, and some others. `standings` looks at the jobs that are retried,
    `nap_seconds` is beyond a lease."""

    def __init__(
        self,
        count: int,
        nap_seconds: float,
        luck: random.Random,
        made: Counter[str],
        standings: Callable[[], Mapping[str, SideJobState]],
    ) -> None:
        self._count = count
        self._nap_seconds = nap_seconds
        self._luck = luck
        self._made = made
        self._standings = standings
        self._armed: dict[RigProcess, PlannedFreeze] = {}
        self._frozen: list[_Frozen] = []

    @property
    def enough(self) -> bool:
        """Whether as many have been woken after a retry."""
        return self._made[WOKEN] >= self._count and not self._frozen

    @property
    def asleep(self) -> bool:
        """Whether one of them stands still."""
        return bool(self._frozen)

    def draw(self, alive: Collection[RigProcess], most: int) -> PlannedFreeze | None:
        """Where the next worker shall stop; None when it shall not. `most` may be armed at once."""
        waiting = [planned for process, planned in self._armed.items() if process in alive]
        asleep = sum(frozen.process in alive for frozen in self._frozen)
        if self._made[WOKEN] >= self._count or len(waiting) + asleep >= most:
            return None
        return draw_freeze(self._luck, anywhere=any(planned.in_the_ending for planned in waiting))

    def started(self, process: RigProcess, planned: PlannedFreeze) -> None:
        """It was armed so."""
        self._armed[process] = planned

    def stopped(self, process: RigProcess, now: float, what: str, *, in_the_ending: bool) -> None:
        """It stands still now, by itself or by us."""
        process.frozen = True
        generations = {job_id: look.generation for job_id, look in self._standings().items()}
        self._frozen.append(_Frozen(process, now, generations if in_the_ending else None))
        self._made[what] += 1

    def turn(self, now: float, alive: Collection[RigProcess]) -> list[RigProcess]:
        """Notices who has stopped, and answers with them."""
        stopped = []
        for process, planned in list(self._armed.items()):
            if process not in alive:
                del self._armed[process]
            elif not process.frozen and signal.SIGSTOP not in process.signals and is_stopped(process.pid):
                del self._armed[process]
                self.stopped(process, now, FROZEN, in_the_ending=planned.in_the_ending)
                self._made[f"armed for {planned.point}"] += 1
                stopped.append(process)
        for frozen in list(self._frozen):
            if frozen.process not in alive:
                self._frozen.remove(frozen)
        return stopped

    def to_wake(self, now: float) -> list[RigProcess]:
        """Those whose time has come; whoever asks wakes them."""
        due = [frozen for frozen in self._frozen if self._may_wake(frozen, now)]
        self._frozen = [frozen for frozen in self._frozen if frozen not in due]
        return [frozen.process for frozen in due]

    def _may_wake(self, frozen: _Frozen, now: float) -> bool:
        if frozen.generations is None:
            return now - frozen.since > self._nap_seconds
        former = frozen.generations
        retried = any(look.over and look.generation > former.get(job, 0) for job, look in self._standings().items())
        self._made[WOKEN] += retried
        return retried or now - frozen.since > LONGEST_SECONDS
