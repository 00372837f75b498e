"""Runs one job with several processes, and kills, stops and freezes them at random, while users change the job."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from harness import interruption
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import LEASE_SECONDS, ChaosJob
from harness.chaos.recovery import Recovery
from harness.chaos.store_reader import JobProgress, StoreReader
from harness.chaos.user_actions import LOCKED_MESSAGE, UserActionPlan, UserActions
from harness.processes import ProcessGroup, RigProcess, log_errors

__all__ = ["ChaosPlan", "ChaosRun", "ending_span"]

TICK_SECONDS: Final = 0.02
LEASES_ALONE: Final = 4  # times as long as with nothing at all
STOP_SECONDS: Final = 120.0  # against hanging only: a busy machine may take its time
START_SECONDS: Final = 0.6  # about what a process needs before it does anything
LOADED_PER_SECOND: Final = 100_000  # more than it is, so that a load survives only when its strikes are used up
LISTED_PER_SECOND: Final = 10_000

KILL, STOP, FREEZE = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP


def ending_span(items: int) -> float:
    """About the seconds in which a job of so many items is ended."""
    return 0.05 + items / LISTED_PER_SECOND


@dataclass(frozen=True, kw_only=True)
class ChaosPlan:
    """How much of what. `broken` is given to all processes: see harness.armed_cli. After `last_percent` of the items
    nobody is struck at random."""

    kills: int
    stops: int
    freezes: int
    workers: int
    seed: int
    load_kills: int
    ending_kills: int
    stall_seconds: float
    orders: UserActionPlan
    broken: str | None = None
    last_percent: int = 97  # the very end is left for the ending's own strikes


@dataclass
class ChaosRun:
    """One run. What is counted here is shown by report.py."""

    job: ChaosJob
    plan: ChaosPlan
    findings: Findings
    strikes: Counter[str] = field(default_factory=Counter)
    woken_without_lease: int = 0
    seconds: float = 0.0
    working_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.plan.seed)  # noqa: S311 chaos must be repeatable, not secret
        self._watch = StoreReader(self.job.database)
        self.killed = Recovery(self._watch)
        self.killed_pids: set[int] = set()
        self.frozen = Recovery(self._watch)
        environment = {"SWATH_BROKEN": self.plan.broken} if self.plan.broken else {}
        armed = self.plan.broken is not None
        commands = {
            "run": self.job.command(self.job.run_arguments, armed=armed),
            "worker": self.job.command(["worker"], armed=armed),
        }
        self.log = self.job.folder / "processes.log"
        self._pack = ProcessGroup(commands, self.job.environment(**environment), self.log)
        self._due: list[tuple[float, signal.Signals, RigProcess]] = []
        self._ahead = self._planned()
        self._ending_seen: set[int] = set()
        self._ending_left = self.plan.ending_kills
        self._load_left = self.plan.load_kills
        self._progress = (0, 0, time.monotonic())
        self._advanced = (0, time.monotonic())
        self._given_up = False
        self.orders = UserActions(self.job, self.plan.orders, self._watch, self._random, self.findings)

    def _planned(self) -> list[tuple[int, signal.Signals]]:
        """(items done, signal), the last first."""
        plan = self.plan
        kinds = [KILL] * (plan.kills - plan.load_kills) + [STOP] * plan.stops + [FREEZE] * plan.freezes
        last = self.job.items * plan.last_percent // 100
        return sorted(((self._random.randrange(last), kind) for kind in kinds), reverse=True)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Returns when the job has ended or will not, with all processes gone."""
        began = time.monotonic()
        with self._pack:
            for role in ("run", *["worker"] * (self.plan.workers - 1)):
                self._start(role)
                interruption.check()
            while not self._over():
                time.sleep(TICK_SECONDS)
                interruption.check()
            self.working_seconds = time.monotonic() - began
            self.orders.close()
            if not self._given_up:
                self._send_home()
        self._watch.close()
        self.seconds = time.monotonic() - began
        for line in self._log_errors()[:10]:
            self.findings.add(Kind.WRONG, "a process said", line)

    def _log_errors(self) -> list[str]:
        """What no process may say."""
        return log_errors(self.log)

    def _over(self) -> bool:
        """One turn; whether the job has ended, or the run is given up."""
        now = time.monotonic()
        seen = self._watch.look()
        self._restart(seen)
        if self.orders.disturbing:
            self.killed.forget()
            self.frozen.forget()
        self.killed.poll(now)
        self.frozen.poll(now)
        self._strike_due(now, seen)
        if seen is None:
            return self._stalled(0, 0, now)
        self.orders.turn(now, seen)
        if self.orders.over and not self._quiet(now):
            return False
        if self.orders.over:
            kills = sum(kind is KILL for _, kind in self._ahead)  # freezes and stops may find no moment near the end
            self.findings.expect(not kills, Kind.WRONG, "the storm", f"{kills} kills were not made")
            return True
        if seen.state in ("running", "paused"):
            self._strike_planned(now, seen)
        self._aim_at_ending(now, seen)
        return self._stalled(seen.done, seen.fence, now)

    def _quiet(self, now: float) -> bool:
        """Whether the run may end when the job has: nothing else is under way beside it."""
        del now
        return True

    def _stalled(self, done: int, fence: int, now: float) -> bool:
        """Nothing has moved, or for longer only leases, which workers may take from each other for ever."""
        if (done, fence) != self._progress[:2]:
            self._progress = (done, fence, now)
        if done != self._advanced[0] or self.orders.disturbing:
            self._advanced = (done, now)
        stood = max(now - self._progress[2], (now - self._advanced[1]) / LEASES_ALONE)
        if stood < self.plan.stall_seconds:
            return False
        self.findings.add(Kind.WRONG, "the job", f"nothing has moved for {self.plan.stall_seconds:g} s at {done} items")
        self._given_up = True
        return True

    # -- processes -----------------------------------------------------------------------------------------------------

    def _start(self, role: str) -> None:
        process = self._launch(role)
        if role == "run" and self._load_left:
            self._load_left -= 1
            span = START_SECONDS + self.job.items / LOADED_PER_SECOND
            self._due.append((process.started_at + self._random.uniform(0.0, span), KILL, process))

    def _launch(self, role: str) -> RigProcess:
        return self._pack.start(role)

    def _restart(self, seen: JobProgress | None) -> None:
        for process in self._pack.ended():
            self._judge(process)
            if process.role != "run":
                self._start(process.role)
        if not any(process.role == "run" for process in self._pack.alive) and not (seen is not None and seen.over):
            self._start("run")
        for process in self._pack.alive:
            if STOP in process.signals and time.monotonic() - process.stopped_at > STOP_SECONDS:
                self.findings.add(Kind.WRONG, process.role, f"it did not stop within {STOP_SECONDS:g} s")
                self._pack.kill(process)

    def _judge(self, process: RigProcess) -> None:
        code = process.popen.returncode
        fine = {0, 3} if process.role == "run" else set()
        if KILL in process.signals:
            fine |= {-KILL}
        if STOP in process.signals:
            fine |= {0, 130, -STOP}  # before it has a handler of its own, the signal itself ends it
        if code == 1 and LOCKED_MESSAGE in process.last_line:
            self.orders.given["told that the store is locked"] += 1
            return  # and is started again, as it asked for
        self.findings.expect(code in fine, Kind.WRONG, process.role, process.told_end)

    def _send_home(self) -> None:
        """The job has ended: workers stop when asked to, and `run` has seen it."""
        for process in self._pack.alive:
            if process.role == "worker":
                process.send(STOP)
        deadline = time.monotonic() + STOP_SECONDS
        while self._pack.alive and time.monotonic() < deadline:
            self._pack.wake_stopped()
            time.sleep(TICK_SECONDS)
            for process in self._pack.ended():
                self._judge(process)
        for process in self._pack.alive:
            self.findings.add(Kind.WRONG, process.role, f"it was still there {STOP_SECONDS:g} s after the end")

    # -- strikes -------------------------------------------------------------------------------------------------------

    def _strike_planned(self, now: float, seen: JobProgress) -> None:
        later = []
        while self._ahead and seen.done >= self._ahead[-1][0]:
            planned = self._ahead.pop()
            target = self._target(planned[1])
            if target is None:
                later.append(planned)
            else:
                self._strike(target, planned[1], now, seen)
        self._ahead += reversed(later)

    def _target(self, kind: signal.Signals) -> RigProcess | None:
        """Any of them; None when there is nobody to strike now, or when nobody else could move any more."""
        targets = [process for process in self._pack.alive if not (process.frozen or process.struck)]
        if kind is FREEZE:
            if sum(process.frozen for process in self._pack.alive) >= self.plan.workers // 2:
                return None
            # One that holds nothing would wake up to nothing.
            targets = [process for process in targets if self._watch.held_by(process.pid).seqs] or targets
        return self._random.choice(targets) if targets else None

    def _strike_due(self, now: float, seen: JobProgress | None) -> None:
        for due in [due for due in self._due if due[0] <= now]:
            self._due.remove(due)
            _, kind, process = due
            if process in self._pack.alive and not process.struck:
                self._strike(process, kind, now, seen)

    def _aim_at_ending(self, now: float, seen: JobProgress) -> None:
        """Whoever has just begun to end the job dies while it writes the manifests."""
        for fence, pid in seen.ending:
            process = self._pack.by_pid(pid)
            if fence in self._ending_seen or process is None or not self._ending_left:
                continue
            self._ending_seen.add(fence)
            self._ending_left -= 1
            span = ending_span(self.job.items)
            self._due.append((now + self._random.uniform(0.0, span), KILL, process))

    def _strike(self, process: RigProcess, kind: signal.Signals, now: float, seen: JobProgress | None) -> None:
        if kind is signal.SIGCONT:
            self._wake(process)
            return
        self.strikes[kind.name] += 1
        self.strikes[f"{kind.name} {process.role}"] += 1
        if kind is KILL:
            self._pack.kill(process)
            self.killed_pids.add(process.pid)
        else:
            process.send(kind)
        if kind is STOP:
            return
        phase = "loading" if seen is None or seen.state == "loading" else "working"
        if seen is not None and process.pid in (pid for _, pid in seen.ending):
            phase = "ending"
        self.strikes[f"{kind.name} {phase}"] += 1
        held = self._watch.held_by(process.pid)
        self.strikes[f"{kind.name} with lease"] += bool(held.fences)
        (self.killed if kind is KILL else self.frozen).struck(held, now)
        if kind is FREEZE:
            process.held = held.fences
            nap = LEASE_SECONDS + self._random.uniform(0.7, 2.5)
            self._due.append((now + nap, signal.SIGCONT, process))

    def _wake(self, process: RigProcess) -> None:
        if process.held and not self._watch.open_leases(process.held):
            self.woken_without_lease += 1
        process.send(signal.SIGCONT)
