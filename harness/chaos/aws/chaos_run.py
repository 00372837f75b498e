"""Runs `swath worker` on two simulated hosts, and kills and freezes the workers at random until all jobs have ended."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from harness import interruption
from harness.chaos.aws.job import GRACE_SECONDS, HOSTS, LEASE_SECONDS, AwsJob
from harness.chaos.aws.job_feeder import JobFeeder
from harness.chaos.aws.raw_store import PlainTable, TableMoment
from harness.chaos.aws.site_rate import Strike
from harness.chaos.findings import Findings, Kind
from harness.processes import ProcessGroup, RigProcess, log_errors

__all__ = ["ChaosPlan", "ChaosRun"]

TICK_SECONDS: Final = 0.15
STOP_SECONDS: Final = 2 * GRACE_SECONDS + 20.0  # a worker told to stop is gone by then, on a busy machine too
KILL, STOP, FREEZE, WAKE = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT


@dataclass(frozen=True, kw_only=True)
class ChaosPlan:
    """How much of what; `environment` is given to all workers, and to whoever orders jobs."""

    kills: int
    freezes: int
    processes: int
    seed: int
    stall_seconds: float
    environment: dict[str, str]


@dataclass
class ChaosRun:
    """One run. What is counted here is shown by report.py."""

    job: AwsJob
    plan: ChaosPlan
    findings: Findings
    counted: Counter[str] = field(default_factory=Counter)
    strikes: list[Strike] = field(default_factory=list)
    seconds: float = 0.0
    killed_pids: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._random = random.Random(self.plan.seed)  # noqa: S311 chaos must be repeatable, not secret
        self._table = PlainTable(self.job.endpoints, self.job.name)
        commands = {str(host): self.job.command(["worker"], host=host, armed=True) for host in range(HOSTS)}
        self._pack = ProcessGroup(commands, self.job.environment(self.plan.environment), self.job.log)
        kinds = [KILL] * self.plan.kills + [FREEZE] * self.plan.freezes
        self._large = [part for part in self.job.parts if part.large]  # the first one is at work
        last = sum(part.items for part in self._large) * 97 // 100
        self._ahead = sorted(((self._random.randrange(last), kind) for kind in kinds), reverse=True)
        self._coming = list(self.job.parts[1:])
        self._naps: list[tuple[float, RigProcess]] = []
        self._progress: tuple[tuple[int, ...], float] = (), time.monotonic()
        self._given_up = False
        self._done = 0  # items of large jobs, a moment ago
        self._worked: set[int] = set()  # processes that have held a lease

    def run(self) -> None:
        """Returns when all jobs have ended or will not, with all processes gone."""
        began = time.monotonic()
        with JobFeeder(self.job, self.plan.environment) as feeder, self._pack:
            for process in range(self.plan.processes):
                self._launch(str(process % HOSTS))
            while not self._over(feeder):
                time.sleep(TICK_SECONDS)
                interruption.check()
            self.seconds = time.monotonic() - began
            if not self._given_up:
                code = feeder.exit_code
                self.findings.expect(code == 0, Kind.WRONG, "jobs create", f"one of them ended with code {code}")
                self._send_home()
        self._table.close()
        for line in self._log_errors()[:10]:
            self.findings.add(Kind.WRONG, "a process said", line)

    def _log_errors(self) -> list[str]:
        """What no process may say."""
        return log_errors(self.job.log)

    def _over(self, feeder: JobFeeder) -> bool:
        """One turn; whether all jobs have ended, or the run is given up."""
        fed = self._feed(feeder)  # before the look, which then sees the last of them
        now, each = time.monotonic(), self._look()
        seen = TableMoment.together(each)
        self._worked.update(seen.held)
        for process in self._pack.ended():
            self._judge(process)
            self._launch(process.role)
        for due, process in [nap for nap in self._naps if nap[0] <= now]:
            self._naps.remove((due, process))
            self._wake(process, seen)
        if seen.over and fed:
            kills = sum(kind is KILL for _, kind in self._ahead)
            self.findings.expect(not kills, Kind.WRONG, "the storm", f"{kills} kills were not made")
            return True
        self._strike_planned(now, seen)
        return self._stalled((seen.done, len(each), seen.newest), now)

    def _look(self) -> list[TableMoment]:
        """The jobs that have not ended; notes how far the large ones are."""
        number = self._table.number(self._large[0].job_id)
        each = self._table.moments(list({*self._table.active(), *([] if number is None else [number])}))
        if number is not None:
            self._done = self._large[0].due + each[number].done
            if each[number].over and len(self._large) > 1:
                self._large.pop(0)
        return list(each.values())

    def _feed(self, feeder: JobFeeder) -> bool:
        """Orders the jobs that are due; whether all are in, or nobody is there any more who could order them."""
        if feeder.exit_code is not None:
            return True
        while self._coming and self._done >= self._coming[0].due:
            feeder.feed(self._coming.pop(0))
        if not self._coming and self._quiet():
            feeder.finish()
        return False

    def _quiet(self) -> bool:
        """Whether there is nothing to order beside the planned jobs any more."""
        return True

    def _stalled(self, seen: tuple[int, ...], now: float) -> bool:
        if seen != self._progress[0]:
            self._progress = seen, now
        if now - self._progress[1] < self.plan.stall_seconds:
            return False
        told = f"nothing has moved for {self.plan.stall_seconds:g} s at {self._done} items of large jobs"
        self.findings.add(Kind.WRONG, "the jobs", told)
        self._given_up = True
        return True

    # -- strikes -------------------------------------------------------------------------------------------------------

    def _strike_planned(self, now: float, seen: TableMoment) -> None:
        later = []
        while self._ahead and self._done >= self._ahead[-1][0]:
            planned = self._ahead.pop()
            target = self._target(planned[1], seen)
            if target is None:
                later.append(planned)
            else:
                self._strike(target, planned[1], now, seen)
        self._ahead += reversed(later)

    def _target(self, kind: signal.Signals, seen: TableMoment) -> RigProcess | None:
        """None when there is nobody to strike now, or when nobody else could move any more."""
        targets = [process for process in self._pack.alive if not (process.frozen or process.struck)]
        if kind is FREEZE and len(self._naps) >= max(1, self.plan.processes // 2):
            return None
        # One that holds nothing, because it has only just been started, would prove little.
        holders = [process for process in targets if seen.held.get(process.pid)]
        if not holders and self._random.random() < 0.95:
            return None
        return self._random.choice(holders or targets) if targets else None

    def _strike(self, process: RigProcess, kind: signal.Signals, now: float, seen: TableMoment) -> None:
        self.counted[kind.name] += 1
        held = seen.held.get(process.pid, frozenset())
        self.counted[f"{kind.name} with lease"] += bool(held)
        self.counted[f"{kind.name} on host {process.role}"] += 1
        if kind is KILL:
            self.strikes.append(Strike(process.pid, time.monotonic()))
            self._pack.kill(process)
            self.killed_pids.add(process.pid)
            return
        process.held = held
        self.strikes.append(Strike(process.pid, time.monotonic()))
        process.send(kind)
        self._naps.append((now + LEASE_SECONDS + self._random.uniform(0.7, 3.0), process))

    def _wake(self, process: RigProcess, seen: TableMoment) -> None:
        if process not in self._pack.alive:
            return
        self.counted["woken without lease"] += bool(process.held and not process.held & seen.fences)
        self._wake_struck(process)

    def _wake_struck(self, process: RigProcess) -> None:
        at = next(at for at, strike in enumerate(self.strikes) if strike.pid == process.pid and strike.until > 1e300)
        self.strikes[at] = self.strikes[at]._replace(until=time.monotonic())
        process.send(WAKE)

    # -- processes -----------------------------------------------------------------------------------------------------

    def _launch(self, role: str) -> RigProcess:
        return self._pack.start(role)

    def _judge(self, process: RigProcess) -> None:
        code = process.popen.returncode
        fine = {-KILL} if KILL in process.signals else {0} if STOP in process.signals else set()
        if STOP in process.signals and process.pid not in self._worked:
            fine |= {-STOP}  # before it has a handler of its own, the signal itself ends it
        fine |= self._honest_ends(process)
        self.findings.expect(code in fine, Kind.WRONG, "worker", process.told_end)

    def _honest_ends(self, process: RigProcess) -> set[int]:
        """Exit codes with which a worker may give up by itself."""
        del process
        return set()

    def _send_home(self) -> None:
        """The job has ended: workers stop when asked to."""
        for process in self._pack.alive:
            process.send(STOP)
        deadline = time.monotonic() + STOP_SECONDS
        while self._pack.alive and time.monotonic() < deadline:
            self._pack.wake_stopped()
            time.sleep(TICK_SECONDS)
            for process in self._pack.ended():
                self._judge(process)
        for process in self._pack.alive:
            told = f"process {process.pid} was still there {STOP_SECONDS:g} s after the end"
            self.findings.add(Kind.WRONG, "worker", told)
