"""A chaos run with wrong and jumping clocks and missing presence files beside kills and freezes."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.chaos.aws.chaos_run import ChaosRun
from harness.chaos.aws.job import HOSTS, LEASE_SECONDS, AwsJob
from harness.chaos.aws.job_feeder import JobFeeder
from harness.chaos.aws.side_jobs import AwsSideJobs
from harness.chaos.aws.site_rate import Strike
from harness.chaos.disturbances import Schedule, remove_presence
from harness.chaos.point_freezes import PointFreezes
from harness.chaos.side_jobs import SideJobs
from harness.chaos.step_scripts import RunningScripts
from harness.processes import RigProcess, log_errors
from harness.wall_clocks import WallClocks

__all__ = ["DisturbancePlan", "DisturbedRun"]

FREEZE_SECONDS: Final = LEASE_SECONDS + 1.0
SETTLE_SECONDS: Final = 2.0  # for what a woken process still does before all are sent home
RETRIES_A_FREEZE: Final = 12
USER_ERROR: Final = 2
WRONG_CLOCK: Final = ("refuses the time of this machine", "AccessDenied: status 403")  # a HEAD has no more to say
NO_ANSWER: Final = ") does not answer: "  # of S3, after it was asked again for a while: the line says that it goes on
SKEW_SECONDS: Final = (20.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class DisturbancePlan:
    """How many of each. `points`: processes that freeze at a named point. `folders`: jobs whose results are refused.
    `skewed`: whether the hosts' clocks disagree from the beginning."""

    points: int = 0
    presence: int = 0
    clocks: int = 0
    folders: int = 0
    skewed: int = 0


@dataclass
class DisturbedRun(ChaosRun):
    """One run; what was done is `counted` with the strikes. `denied` is read by the bucket's forwarder."""

    disturbed: DisturbancePlan = field(kw_only=True)
    denied: Path = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self.disturbed
        self._luck = random.Random(self.plan.seed + 1)  # noqa: S311 chaos must be repeatable, not secret
        self._clocks: WallClocks | None = None
        if plan.clocks or plan.skewed:
            first = self._luck.choice((-1.0, 1.0)) * self._luck.uniform(*SKEW_SECONDS)
            skews = (first, -first) if plan.skewed else (0.0,) * HOSTS
            self._clocks = WallClocks(self.job.folder / "clocks", self._luck, skews)
            self.counted["seconds between the hosts' clocks"] = round(abs(skews[0] - skews[1]))
        counts = {"presence": plan.presence, "clock": plan.clocks, "folder": plan.folders}
        large = sum(part.items for part in self.job.parts if part.large)
        self._schedule = Schedule(counts, large * 60 // 100, self._luck)
        self._place = AwsSideJobs(self.job, self._table, self.denied, self._luck, self.findings)
        self._neighbours = SideJobs(self._place, self.findings)
        self._points = PointFreezes(plan.points, FREEZE_SECONDS, self._luck, self.counted, self._neighbours.standings)
        self._scripts = RunningScripts()
        self._settled_at: float | None = None

    @property
    def all_jobs(self) -> AwsJob:
        """With those that were ordered beside the planned ones."""
        more = tuple(self._place.parts.values())
        items = self.job.items + sum(part.items for part in more)
        return replace(self.job, parts=(*self.job.parts, *more), items=items)

    def run(self) -> None:
        if self.disturbed.clocks:
            self._scripts.begin(self._neighbours.keep_one())
        if self.disturbed.points:
            most = RETRIES_A_FREEZE * self.disturbed.points
            self._scripts.begin(self._neighbours.retry_one(lambda: self._points.enough, most))
        try:
            super().run()
        finally:
            self._scripts.close()
        self.counted.update(self._neighbours.made)
        if self._clocks is not None:
            self.counted.update({f"clock {name}": count for name, count in self._clocks.made.items()})

    def _over(self, feeder: JobFeeder) -> bool:
        now = time.monotonic()
        self._place.feeder = feeder
        self._scripts.turn()
        for process in self._points.turn(now, self._pack.alive):
            self.strikes.append(Strike(process.pid, now))
        for process in self._points.to_wake(now):
            self._wake_struck(process)
        if self._clocks is not None:
            self._clocks.turn(now)
        for kind in self._schedule.due(self._done):
            self._disturb(kind, now)
        return super()._over(feeder)

    def _quiet(self) -> bool:
        if not self._scripts.over or self._points.asleep:
            return False
        now = time.monotonic()
        if self._settled_at is None:
            self._settled_at = now + SETTLE_SECONDS
        return now >= self._settled_at

    def _disturb(self, kind: str, now: float) -> None:
        if kind == "presence":
            host = self._luck.randrange(HOSTS)
            removed = remove_presence(self.job.host(host) / "workers", self._luck)
            self.counted[f"presence {removed or 'not there'}"] += 1
        elif kind == "clock" and self._clocks is not None:
            self._clocks.jump(now)
        elif kind == "folder":
            self._scripts.begin(self._neighbours.damage_one())

    def _launch(self, role: str) -> RigProcess:
        """With the clock of its host; some stop at a named point."""
        environment = {} if self._clocks is None else self._clocks.environment(int(role))
        planned = self._points.draw(self._pack.alive, self.plan.processes // 2)
        process = self._pack.start(role, environment | ({} if planned is None else planned.environment))
        if planned is not None:
            self._points.started(process, planned)
        return process

    def _honest_ends(self, process: RigProcess) -> set[int]:
        """S3 refuses who has a clock that is wrong by more than 15 minutes, and the worker says so in a line."""
        jumped = self._clocks is not None and self._clocks.made.total() > 0
        refused = jumped and any(words in process.last_line for words in WRONG_CLOCK)
        return {USER_ERROR} if refused else set()

    def _log_errors(self) -> list[str]:
        """That damaged results are named is right; so is that S3 refuses a clock that has jumped, or has not answered
        for some seconds, as it is made to, or because the machine is busy."""
        jumped = self._clocks is not None and self._clocks.made.total() > 0
        explained = (*self._neighbours.damaged, NO_ANSWER, *(WRONG_CLOCK if jumped else ()))
        return [line for line in log_errors(self.job.log) if not any(words in line for words in explained)]
