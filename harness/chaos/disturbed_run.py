"""A chaos run with wrong clocks, missing presence files, damaged results and frozen finishers beside the signals."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from harness.chaos.chaos_run import FREEZE, ChaosRun, ending_span
from harness.chaos.disturbances import Schedule, remove_presence
from harness.chaos.job import LEASE_SECONDS
from harness.chaos.point_freezes import PointFreezes
from harness.chaos.side_jobs import LocalSideJobs, SideJobs, SideJobState, slow_items
from harness.chaos.step_scripts import RunningScripts, Script, until
from harness.chaos.store_reader import JobProgress
from harness.processes import RigProcess, log_errors
from harness.wall_clocks import WallClocks

__all__ = ["DisturbancePlan", "DisturbedRun"]

FREEZE_SECONDS: Final = LEASE_SECONDS + 1.0
SETTLE_SECONDS: Final = 1.0  # for what a woken process still does before all are sent home
FREEZES_SECONDS: Final = 20.0  # by then somebody has taken the lease away, or will not
PRESENCE_REMOVAL_SECONDS: Final = 120.0
PRESENCE_REMOVED: Final = 4  # once as a suspect, and as often alone as deaths make poison
SLOW_SECONDS: Final = 2.0
SLOW_A_REMOVAL: Final = 5  # items that run long enough to be taken from workers whose presence files are gone
CLOCKS: Final = 3
RETRIES_A_FREEZE: Final = 12


@dataclass(frozen=True, kw_only=True)
class DisturbancePlan:
    """How many of each. `points`: processes that freeze at a named point. `poison`: items whose workers are frozen
    again and again. `folders`: jobs whose results are damaged."""

    points: int = 0
    presence: int = 0
    clocks: int = 0
    poison: int = 0
    folders: int = 0

    @property
    def neighbours(self) -> int:
        """Jobs beside the large one, at most."""
        return 2 + 2 * self.folders


@dataclass
class DisturbedRun(ChaosRun):
    """One run; `made` counts the disturbances, for report.py."""

    disturbed: DisturbancePlan = field(kw_only=True)
    mean_seconds: float = field(kw_only=True)
    made: Counter[str] = field(default_factory=Counter, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self.disturbed
        self._luck = random.Random(self.plan.seed + 1)  # noqa: S311 chaos must be repeatable, not secret
        self._clocks = WallClocks(self.job.folder / "clocks", self._luck, (0.0,) * CLOCKS) if plan.clocks else None
        counts = {"presence": plan.presence, "clock": plan.clocks, "folder": plan.folders}
        self._schedule = Schedule(counts, self.job.items * 60 // 100, self._luck)
        self.place = LocalSideJobs(self.job, self._luck, self.findings)
        self._neighbours = SideJobs(self.place, self.findings)
        self._points = PointFreezes(plan.points, FREEZE_SECONDS, self._luck, self.made, self._standings)
        self._scripts = RunningScripts()
        self._attempts = self.job.attempts_log.open(encoding="utf-8")
        self._endings: set[int] = set()
        self._settled_at: float | None = None
        self._set_paces()

    def _set_paces(self) -> None:
        """Makes the items slow that must be met while they run."""
        early = self.job.item_ids[: self.job.items // 2]
        self._haunted = self._luck.sample([name for name in early if "item-" in name], self.disturbed.poison)
        self._begun: dict[str, list[int]] = {name: [] for name in self._haunted}
        met = self._luck.sample(self.job.item_ids, SLOW_A_REMOVAL * self.disturbed.presence)
        slow = slow_items(self.job.items, self.disturbed.neighbours) | dict.fromkeys(self._haunted + met, SLOW_SECONDS)
        self.job.set_pace(self.mean_seconds, slow)

    def run(self) -> None:
        if self.disturbed.clocks:
            self._scripts.begin(self._neighbours.keep_one())
        if self.disturbed.points:
            most = RETRIES_A_FREEZE * self.disturbed.points
            self._scripts.begin(self._neighbours.retry_one(lambda: self._points.enough, most))
        for name in self._haunted:
            self._scripts.begin(self._haunt(name))
        try:
            super().run()
        finally:
            self._scripts.close()
            self.place.close()
            self._attempts.close()
        self.made.update(self._neighbours.made)
        if self._clocks is not None:
            self.made.update({f"clock {name}": count for name, count in self._clocks.made.items()})

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        now, seen = time.monotonic(), self._watch.look()
        self._read_attempts()
        self._scripts.turn()
        if seen is not None:
            self._freeze_amid_the_ending(now, seen)
        self._points.turn(now, self._pack.alive)
        for process in self._points.to_wake(now):
            process.send(signal.SIGCONT)
        if self._clocks is not None:
            self._clocks.turn(now)
        for kind in self._schedule.due(0 if seen is None else seen.done):
            self._disturb(kind, now)
        return super()._over()

    def _quiet(self, now: float) -> bool:
        """Whether nothing is under way any more. Who was woken last has some time to do harm."""
        if not self._scripts.over or self._points.asleep:
            return False
        if self._clocks is not None:
            self._clocks.set_right()
        if self._settled_at is None:
            self._settled_at = now + SETTLE_SECONDS
        return now >= self._settled_at

    def _disturb(self, kind: str, now: float) -> None:
        if kind == "presence":
            removed = remove_presence(self.job.data / "workers", self._luck)
            self.made[f"presence {removed or 'not there'}"] += 1
        elif kind == "clock" and self._clocks is not None:
            self._clocks.jump(now)
        elif kind == "folder":
            self._scripts.begin(self._neighbours.damage_one())

    def _log_errors(self) -> list[str]:
        """That a damaged folder is named is right."""
        damaged = self._neighbours.damaged
        return [line for line in log_errors(self.log) if not any(job_id in line for job_id in damaged)]

    # -- freezes -------------------------------------------------------------------------------------------------------

    def _launch(self, role: str) -> RigProcess:
        """Workers have one of the clocks, and some of them stop at a named point."""
        environment = {} if self._clocks is None else self._clocks.environment(self._luck.randrange(CLOCKS))
        planned = None if role != "worker" else self._points.draw(self._pack.alive, self.plan.workers - 2)
        if planned is None:
            return self._pack.start(role, environment)
        process = self._pack.start(role, environment | planned.environment, self.job.command(["worker"], armed=True))
        self._points.started(process, planned)
        return process

    def _standings(self) -> dict[str, SideJobState]:
        """Of all jobs that are retried."""
        seen = self._watch.look()
        own = {} if seen is None else {self.job.job_id: SideJobState(seen.done, seen.over, seen.generation)}
        return own | self._neighbours.standings()

    def _freeze_amid_the_ending(self, now: float, seen: JobProgress) -> None:
        """Whoever ends the large job stands still at any moment of it, as often as the job will be retried."""
        for fence, pid in seen.ending:
            process = self._pack.by_pid(pid)
            if fence in self._endings or process is None or len(self._endings) >= self.plan.orders.retries:
                continue
            self._endings.add(fence)
            self._scripts.begin(self._freeze_at(process, now + self._luck.uniform(0.0, ending_span(self.job.items))))

    def _freeze_at(self, process: RigProcess, at: float) -> Script:
        yield from until(lambda: time.monotonic() >= at, FREEZES_SECONDS)
        seen = self._watch.look()
        ending = seen is not None and process.pid in (pid for _, pid in seen.ending)
        if ending and process in self._pack.alive and not (process.frozen or process.struck):
            process.send(FREEZE)
            self._points.stopped(process, time.monotonic(), "frozen amid the ending", in_the_ending=True)

    # -- false poison --------------------------------------------------------------------------------------------------

    def _read_attempts(self) -> None:
        """Notes in which processes the haunted items began."""
        for line in self._attempts:
            item_id, pid, _ = line.split("\t")
            if item_id in self._begun:
                self._begun[item_id].append(int(pid))

    def _haunt(self, name: str) -> Script:
        """Whoever begins the item stands still beyond its lease, more often than an item may kill workers."""
        begun, number = self._begun[name], self.job.item_ids.index(name) + 1

        def has_ended() -> bool:  # what was cancelled will be retried
            return any(state in (1, 2, 3) for _, state in self._watch.items([number]).values())

        frozen = 0
        while frozen < PRESENCE_REMOVED and not has_ended():
            before = len(begun)
            if not (yield from until(lambda: len(begun) > before or has_ended(), PRESENCE_REMOVAL_SECONDS)):  # noqa: B023 used at once
                return
            yield from until(has_ended, self._luck.uniform(0.2, SLOW_SECONDS / 2))
            process = self._pack.by_pid(begun[-1]) if begun else None
            if process is None or process.frozen or process.struck:
                continue
            process.send(FREEZE)
            frozen += 1
            self.made["frozen over one item"] += 1
            held = self._watch.held_by(process.pid).fences
            yield from until(lambda: not self._watch.open_leases(held), FREEZES_SECONDS)  # noqa: B023 used at once
            if process in self._pack.alive:
                process.send(signal.SIGCONT)
