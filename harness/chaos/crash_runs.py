"""Dies, and freezes, at every named point of the product (observe/crash_points.py), and lets another process go on.

Each case is a small job of its own: a process armed by harness.armed_cli stops at the point, `swath run` is started
again and completes the job, the frozen one wakes up, and the independent check counts. With `retry` some items run
again as a new generation before it wakes up. A point that is not reached is a failure too, or a renamed one would pass
for ever.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.armed_cli import KILLED
from harness.chaos.check import check
from harness.chaos.findings import Findings, Kind
from harness.chaos.fork_server import ForkServer
from harness.chaos.job import JOB_ID, ChaosJob, make_job
from harness.chaos.store_reader import StoreReader
from harness.chaos.user_actions import ENDING_PATIENCE_SECONDS
from harness.processes import dying_with_parent, log_errors
from swath.domain.manifest import PART_ITEMS
from swath.observability.crash_points import ENDING_POINTS, PACK_POINTS, POINTS
from swath.pipeline.ingest.validate import BATCH_ROWS

__all__ = ["Case", "cases", "retry_cases", "run_cases"]

PROCESS_SECONDS: Final = 240.0
FAST_SECONDS: Final = 0.003
_LOOK_SECONDS: Final = 0.2
AT_ONCE: Final = 4  # most of a case is waiting for processes to start and leases to run out

# Reached once in the life of a process, or of a job; the others are reached again and again by one process.
ONCE_PER_PROCESS: Final = {"after_submit", "before_seal", "before_manifest", "after_job_metadata"}
ONCE_PER_JOB: Final = {"after_end"}
# A small job has only one batch and one part; the product says how large they are.
PER_ROWS: Final = {"after_load_batch": BATCH_ROWS, "after_manifest_part": PART_ITEMS}
MOST_ITEMS: Final = 20_000  # of a case: more would only take longer


@dataclass(frozen=True, kw_only=True)
class Case:
    """`deaths` processes, one after another, stop at the `hit`-th time they come to the point."""

    point: str
    hit: int = 1
    deaths: int = 1
    freeze: bool = False
    retry: bool = False
    seed: int = 0
    items: int = 60
    layout: str = "files"

    @property
    def name(self) -> str:
        """For reports and folders."""
        how = "crash" if not self.freeze else "freeze, and wake after a retry" if self.retry else "freeze"
        return f"{how} at {self.point}:{self.hit}" + (f", {self.deaths} times" if self.deaths > 1 else "")


def cases(hits: int, *, freeze: bool, layout: str = "files") -> list[Case]:
    """Every point, the first `hits` times each; freezes once each."""
    found = []
    points = POINTS + PACK_POINTS if layout == "warc" else POINTS
    for point in points:
        for hit in range(1, 2 if point in ONCE_PER_JOB else hits + 1):
            if point in ONCE_PER_PROCESS:
                found.append(Case(point=point, deaths=hit, layout=layout))
            else:
                items = 60 if hit == 1 else max(60 * hit, PER_ROWS.get(point, 0) * hit)
                if items <= MOST_ITEMS:
                    found.append(Case(point=point, hit=hit, items=items, layout=layout))
    return found + ([Case(point=point, freeze=True, layout=layout) for point in points] if freeze else [])


def retry_cases(seed: int, ending: int, others: int, layout: str = "files") -> list[Case]:
    """Freezes with a retry before the waking: at so many points of the ending and so many others, drawn at random."""
    luck = random.Random(seed)  # noqa: S311 chaos must be repeatable, not secret
    rest = [point for point in POINTS if point not in ENDING_POINTS]
    points = [
        point for points, count in ((ENDING_POINTS, ending), (rest, others)) for point in _drawn(luck, points, count)
    ]
    return [Case(point=point, freeze=True, retry=True, seed=seed, layout=layout) for point in points]


def _drawn(luck: random.Random, points: Sequence[str], count: int) -> list[str]:
    return luck.sample(points, min(count, len(points)))


async def run_cases(folder: Path, chosen: list[Case], findings: Findings) -> None:
    """Runs all of them, some at once; what goes wrong is added to the findings under the name of its case."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def run_one(warm: ForkServer, number: int, case: Case) -> None:
        async with gate:
            own = await _CaseRun(folder / f"case-{number}", case, warm).run()
            findings.take(own, case.name)

    async with ForkServer() as warm, asyncio.TaskGroup() as group:
        for number, case in enumerate(chosen):
            group.create_task(run_one(warm, number, case))


class _CaseRun:
    def __init__(self, folder: Path, case: Case, warm: ForkServer) -> None:
        self._case = case
        self._warm = warm
        slow = case.point == "after_rescue" and case.hit > 1
        self._job: ChaosJob = make_job(
            folder,
            items=case.items,
            mean_seconds=0.5 if slow else FAST_SECONDS,
            concurrency=2 if slow else 16,
            layout=case.layout,
        )
        self._log = folder / "processes.log"
        self._findings = Findings()

    async def run(self) -> Findings:
        case = self._case
        if case.point == "after_rescue":
            await self._expect(0, "jobs create", ["jobs", "create", *self._job.run_arguments[1:]])
            await self._leave_a_dead_lease()
        resuming = asyncio.create_task(self._resume_the_ending())
        try:
            for _ in range(case.deaths):
                await (self._freeze() if case.freeze else self._crash())
            if not case.freeze:
                await self._expect(3, "run again", self._job.run_arguments)
        finally:
            resuming.cancel()
            await asyncio.gather(resuming, return_exceptions=True)
        self._findings.take(check(self._job).findings, "check")
        await self._expect(0, "jobs verify", ["jobs", "verify", JOB_ID])
        for line in log_errors(self._log):
            self._findings.add(Kind.WRONG, "a process said", line)
        return self._findings

    async def _resume_the_ending(self) -> None:
        """As the status says to do when several processes have died in the ending: it would wait for ten minutes."""
        watch = StoreReader(self._job.database)
        try:
            while self._case.deaths > 1:
                if watch.put_off_seconds() > ENDING_PATIENCE_SECONDS:
                    await self._expect(0, "jobs resume", ["jobs", "resume", JOB_ID])
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            watch.close()

    async def _crash(self) -> None:
        place = f"{self._case.point}:{self._case.hit}"
        process = await self._start(self._job.run_arguments, SWATH_CRASH_AT=place)
        feeding = asyncio.create_task(self._feed_rescues(process))
        try:
            code = await self._end_of(process)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            self._job.set_pace(FAST_SECONDS)  # a rescuer was slow, so that others had time to die
        self._findings.expect(code == KILLED, Kind.WRONG, place, f"it was not reached: exit code {code}")

    async def _feed_rescues(self, rescuer: asyncio.subprocess.Process) -> None:
        """The n-th rescue of one process needs n workers that die one after another, and not two at once."""
        while self._case.point == "after_rescue" and self._case.hit > 1 and rescuer.returncode is None:
            await self._leave_a_dead_lease()

    async def _leave_a_dead_lease(self) -> None:
        worker = await self._start(["worker"], SWATH_CRASH_AT="after_claim:1")
        code = await self._end_of(worker)
        self._findings.expect(code == KILLED, Kind.WRONG, "a worker that dies", f"it claimed nothing: exit code {code}")

    async def _freeze(self) -> None:
        """Freezes one process, completes the job with another, and then lets the first one go on."""
        place = f"{self._case.point}:{self._case.hit}"
        process = await self._start(self._job.run_arguments, SWATH_FREEZE_AT=place)
        try:
            reached = await _frozen(process.pid)
            if not reached and self._case.point not in POINTS:
                return  # not every ending comes by every step
            self._findings.expect(reached, Kind.WRONG, place, "it was not reached")
            await self._expect(3, "run beside it", self._job.run_arguments)
            if self._case.retry:
                await self._retry()
        finally:
            with suppress(ProcessLookupError):  # it has ended: its job has no such step
                process.send_signal(signal.SIGCONT)
        code = await self._end_of(process)
        self._findings.expect(code == 3, Kind.WRONG, "the woken process", f"exit code {code} instead of 3")

    async def _retry(self) -> None:
        """Runs a third of the items again, to their end, as the next generation."""
        ids = self._job.item_ids
        luck = random.Random(f"{self._case.seed} {self._case.point}")  # noqa: S311 chaos must be repeatable, not secret
        chosen = sorted(luck.sample(range(len(ids)), len(ids) // 3))
        file = self._job.folder / "again.txt"
        file.write_text("".join(f"{ids[n]}\n" for n in chosen), encoding="utf-8")
        self._job.note_retry(2, [n + 1 for n in chosen])
        await self._expect(3, "jobs retry", ["jobs", "retry", JOB_ID, "--items", str(file), "--run"])

    async def _expect(self, wanted: int, what: str, arguments: list[str]) -> None:
        code = None
        with suppress(TimeoutError):
            async with asyncio.timeout(PROCESS_SECONDS):
                code = await self._warm.run(arguments, self._job.environment(), self._log)
        self._findings.expect(code == wanted, Kind.WRONG, what, f"exit code {code} instead of {wanted}")

    async def _start(self, arguments: list[str], **armed: str) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._job.command(arguments, armed=bool(armed)),
                env=self._job.environment(**armed),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(),
            )

    async def _end_of(self, process: asyncio.subprocess.Process) -> int | None:
        """Its exit code, or None when it had to be killed. It never outlives us."""
        try:
            async with asyncio.timeout(PROCESS_SECONDS):
                return await process.wait()
        except TimeoutError:
            return None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _frozen(pid: int) -> bool:
    """Waits until a child has stopped; False when it ends instead."""
    deadline = time.monotonic() + PROCESS_SECONDS
    while time.monotonic() < deadline:
        flags = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            state = os.waitid(os.P_PID, pid, flags)  # noqa: ASYNC222 WNOHANG: it does not wait
        except ChildProcessError:  # ended, and waited for by the event loop
            return False
        if state is not None:
            return state.si_code == os.CLD_STOPPED
        await asyncio.sleep(0.02)
    return False
