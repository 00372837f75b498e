"""What users do to a job meanwhile, by the real command line: pause, resume, cancel, retry, change its policy."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.chaos import expected
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import JOB_ID, ChaosJob
from harness.chaos.store_reader import JobProgress, StoreReader

__all__ = ["ENDING_PATIENCE_SECONDS", "LOCKED_MESSAGE", "UserActionPlan", "UserActions"]

COMMAND_SECONDS: Final = (
    1_200.0  # a cancel writes all manifests, while workers are killed beside it; what hangs takes longer
)
PAUSE_SECONDS: Final = (0.2, 1.2)
RETRIED_SHARE: Final = 0.03
# The status of a job whose ending was killed again and again says `swath jobs resume`: longer than this nobody waits.
ENDING_PATIENCE_SECONDS: Final = 15.0
_RESUME_ENDING: Final = "resume of an ending"
# A process that is frozen inside a commit keeps all others from writing until it wakes; commands then say this, and
# that they may be given again.
LOCKED_MESSAGE: Final = "is locked by "


@dataclass(frozen=True, kw_only=True)
class UserActionPlan:
    """How many of each. A cancelled job is always taken up again; `retries` come after it has ended by itself."""

    pauses: int = 0
    policies: int = 0
    cancels: int = 0
    retries: int = 0


@dataclass
class UserActions:
    """`turn` is called again and again; `over` says that the job has ended and nothing is planned for it any more."""

    job: ChaosJob
    plan: UserActionPlan
    watch: StoreReader
    luck: random.Random
    findings: Findings
    given: Counter[str] = field(default_factory=Counter)
    over: bool = False

    def __post_init__(self) -> None:
        plan, last = self.plan, self.job.items * 95 // 100
        kinds = ["pause"] * plan.pauses + ["policy"] * plan.policies + ["cancel"] * plan.cancels
        self._ahead = sorted(((self.luck.randrange(last), kind) for kind in kinds), reverse=True)
        self._retries_left = plan.retries
        self._resume_at: float | None = None
        self._cancelled = False
        self._command: subprocess.Popen[bytes] | None = None
        self._what = ""
        self._arguments: tuple[str, ...] = ()
        self._began = 0.0
        self._log = self.job.folder / "orders.log"

    @property
    def disturbing(self) -> bool:
        """Whether the job stands still on somebody's order, so that nothing can be said about its pace."""
        return self._what in {"pause", "cancel", "retry"} and (self._command is not None or self._resume_at is not None)

    def turn(self, now: float, seen: JobProgress) -> None:
        """Gives the next order if its time has come."""
        if self._command is not None:
            self._await_command(now)
        elif seen.over:
            self._resume_at = None  # it ended while it was paused: what ran was all there was
            self._go_on_after_the_end(now, seen)
        elif self._resume_at is not None:
            if now >= self._resume_at:
                self._resume_at = None
                self._give("resume", now, "resume", JOB_ID)
        elif seen.put_off_seconds > ENDING_PATIENCE_SECONDS:
            self._give(_RESUME_ENDING, now, "resume", JOB_ID)
        elif seen.state == "running" and not self._cancelled and self._ahead and seen.done >= self._ahead[-1][0]:
            self._give_planned(self._ahead.pop()[1], now)

    def _give_planned(self, what: str, now: float) -> None:
        if what == "policy":
            self._give(what, now, "policy", JOB_ID, "--concurrency", str(self.luck.randrange(4, 48)))
        else:
            self._cancelled = what == "cancel"
            self._give(what, now, what, JOB_ID)

    def _go_on_after_the_end(self, now: float, seen: JobProgress) -> None:
        self._cancelled = False
        cancelled = self.watch.seqs_in_state(4)
        if cancelled:
            self.job.note_retry(seen.generation + 1, cancelled)
            self._give("retry", now, "retry", JOB_ID, "--not-run")
        elif self._retries_left:
            self._retries_left -= 1
            self._retry_some(now, seen)
        else:
            self.over = True

    def _retry_some(self, now: float, seen: JobProgress) -> None:
        """Found, not found and failed alike; all of them come to the same end again."""
        ids = expected.item_ids(self.job.items)
        chosen = sorted(self.luck.sample(range(len(ids)), max(1, int(len(ids) * RETRIED_SHARE))))
        file = self.job.folder / "again.txt"
        file.write_text("".join(f"{ids[n]}\n" for n in chosen), encoding="utf-8")
        self.job.note_retry(seen.generation + 1, [n + 1 for n in chosen])
        self._give("retry", now, "retry", JOB_ID, "--items", str(file))

    def _give(self, what: str, now: float, *arguments: str) -> None:
        self._what, self._began, self._arguments = what, now, arguments
        with self._log.open("ab") as log:
            self._command = subprocess.Popen(
                self.job.command(["jobs", *arguments]),
                env=self.job.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _await_command(self, now: float) -> None:
        if self._command is None:
            return
        code = self._command.poll()
        if code is None:
            if now - self._began > COMMAND_SECONDS:
                self.findings.add(Kind.WRONG, f"jobs {self._what}", f"it took more than {COMMAND_SECONDS:g} s")
                self._command.kill()
            return
        self._command = None
        if code == 1 and LOCKED_MESSAGE in _last_line(self._log):
            self.given["told that the store is locked"] += 1
            self._give(self._what, now, *self._arguments)  # as a person would, who was told so
            return
        self.given[self._what] += code == 0
        # A job may have ended before its pause arrives; everything else must succeed.
        fine = code == 0 or (self._what in {"pause", "resume", _RESUME_ENDING} and code == 2)
        self.findings.expect(fine, Kind.WRONG, f"jobs {self._what}", f"code {code}: {_last_line(self._log)}")
        if self._what == "pause" and code == 0:
            self._resume_at = now + self.luck.uniform(*PAUSE_SECONDS)

    def close(self) -> None:
        """Ends a command that is still under way."""
        if self._command is not None:
            self._command.kill()
            self._command.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return json.dumps(lines[-1] if lines else "")
