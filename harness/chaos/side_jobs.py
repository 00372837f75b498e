"""Small jobs beside the large ones, for what concerns several jobs: damaged results, late retries, retention."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from harness.chaos import expected
from harness.chaos.disturbances import DamagedFolder, possible_damages
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import ChaosJob
from harness.chaos.step_scripts import Script, run_command, until
from harness.chaos.store_reader import StoreReader

__all__ = [
    "ITEMS",
    "KEPT_DAYS",
    "LocalSideJobs",
    "SideJobState",
    "SideJobStore",
    "SideJobs",
    "drawn_seqs",
    "slow_items",
]

ITEMS: Final = 30  # of each
KEPT_DAYS: Final = 365
PATIENCE_SECONDS: Final = 300.0  # for a small job that nothing hinders, on a busy machine


@dataclass(frozen=True)
class SideJobState:
    """How far a job is."""

    done: int
    over: bool
    generation: int


class SideJobStore(Protocol):
    """Where the small jobs are: in a store, with results."""

    def add(self, job_id: str) -> None:
        """There will be a job with this id."""
        ...

    def create(self, job_id: str, retention_days: float | None) -> Script:
        """Orders it; goes on when that is done."""
        ...

    def retry(self, job_id: str, generation: int, seqs: Sequence[int] = ()) -> Script:
        """Orders a retry of these items, or of some, which begins this generation."""
        ...

    def missing(self, job_id: str) -> list[int]:
        """Numbers of the items of which the job said, when it ended, that their files are gone."""
        ...

    def look(self, job_id: str) -> SideJobState | None:
        """The job now; None when it is not there."""
        ...

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        """Damages its results; answers how, and with what repairs them, which is told whether the job has ended."""
        ...


class SideJobs:
    """`ids` are the jobs that were ordered, `damaged` those whose results were; `made` counts what was done."""

    def __init__(self, place: SideJobStore, findings: Findings) -> None:
        self._place = place
        self._findings = findings
        self.ids: list[str] = []
        self.damaged: set[str] = set()
        self.made: Counter[str] = Counter()

    def keep_one(self) -> Script:
        """A job with a retention, which ends and must then stay."""
        kept = self._add("kept")
        yield from self._place.create(kept, KEPT_DAYS)
        yield from self._must_end(kept, "it did not end")

    def damage_one(self) -> Script:
        """A running job's results are damaged. Another must end meanwhile, and it itself after the repair."""
        victim = self._add(f"victim-{len(self.ids)}")
        self.damaged.add(victim)
        yield from self._place.create(victim, None)
        if not (yield from until(lambda: self._is(victim, _partly_done), PATIENCE_SECONDS)):
            self._findings.add(Kind.WRONG, victim, "it did not begin, so its results were not damaged")
            return
        what, repair = self._place.damage(victim)
        self.made[what] += 1
        try:
            bystander = self._add(f"bystander-{len(self.ids)}")
            yield from self._place.create(bystander, None)
            yield from self._must_end(bystander, f"while {victim} had {what} it did not end")
        finally:
            repair(self._is(victim, _over))
        yield from self._must_end(victim, f"it had {what}, which was repaired, and did not end")
        if missing := self._place.missing(victim):  # it says so, and what to do
            self.made["items whose files were gone"] += len(missing)
            yield from self._place.retry(victim, 2, missing)
            yield from self._must_end(victim, "it ran again what was missing, and did not end")
        yield from self._must_end(bystander, "it did not end at all")

    def retry_one(self, enough: Callable[[], bool], most: int) -> Script:
        """A job that is retried whenever it has ended, until `enough`, and no more often than `most`."""
        again = self._add("again")
        yield from self._place.create(again, None)
        for generation in range(2, most + 2):
            if not (yield from self._must_end(again, "it did not end")) or enough():
                return
            self.made["retries"] += 1
            yield from self._place.retry(again, generation)
        yield from self._must_end(again, "it did not end")

    def standings(self) -> dict[str, SideJobState]:
        """Of the jobs that are retried."""
        looks = {job_id: self._place.look(job_id) for job_id in self.ids if job_id == "again"}
        return {job_id: look for job_id, look in looks.items() if look is not None}

    def _add(self, job_id: str) -> str:
        self._place.add(job_id)
        self.ids.append(job_id)
        return job_id

    def _must_end(self, job_id: str, otherwise: str) -> Script:
        ended = yield from until(lambda: self._is(job_id, _over), PATIENCE_SECONDS)
        self._findings.expect(ended, Kind.STOPPED, job_id, f"{otherwise} within {PATIENCE_SECONDS:g} s")
        return ended

    def _is(self, job_id: str, what: Callable[[SideJobState], Any]) -> bool:
        look = self._place.look(job_id)
        return look is not None and bool(what(look))


def drawn_seqs(luck: random.Random, items: int) -> list[int]:
    """Numbers of up to half of the items, at random."""
    return sorted(luck.sample(range(1, items + 1), luck.randint(1, items // 2)))


def _over(look: SideJobState) -> bool:
    return look.over


def _partly_done(look: SideJobState) -> bool:
    return look.over or 0 < look.done < ITEMS


_BEGIN_SECONDS: Final = 60.0
_SLOW_SECONDS: Final = 0.2
_CONCURRENCY: Final = 4


class LocalSideJobs:
    """A Place; `jobs` are for the checker."""

    def __init__(self, job: ChaosJob, luck: random.Random, findings: Findings) -> None:
        self._job = job
        self._luck = luck
        self._findings = findings
        self._watches: dict[str, StoreReader] = {}
        self.jobs: dict[str, ChaosJob] = {}

    def close(self) -> None:
        """Lets go of the store."""
        for watch in self._watches.values():
            watch.close()

    def add(self, job_id: str) -> None:
        first = self._job.items + ITEMS * len(self.jobs)
        self.jobs[job_id] = self._job.beside(job_id, first=first, items=ITEMS)
        self._watches[job_id] = StoreReader(self._job.database, job_id)

    def create(self, job_id: str, retention_days: float | None) -> Script:
        job = self.jobs[job_id]
        policy_file = job.folder / f"{job_id}-policy.json"
        policy = json.loads((job.folder / "policy.json").read_text(encoding="utf-8"))
        policy |= {"retention_days": retention_days, "throttling": {"max_concurrent_workers": _CONCURRENCY}}
        policy_file.write_text(json.dumps(policy), encoding="utf-8")
        arguments = ["create", *job.run_arguments[1:], "--priority", "5"]
        arguments[arguments.index("--policy") + 1] = str(policy_file)
        yield from run_command(job, arguments, self._findings)

    def missing(self, job_id: str) -> list[int]:
        job = self.jobs[job_id]
        told = job.results / "missing_items.csv"
        if not told.exists():
            return []
        with told.open(encoding="utf-8", newline="") as file:
            return sorted(job.item_ids.index(row["item_id"]) + 1 for row in csv.DictReader(file))

    def retry(self, job_id: str, generation: int, seqs: Sequence[int] = ()) -> Script:
        job = self.jobs[job_id]
        chosen = seqs or drawn_seqs(self._luck, job.items)
        file = job.folder / f"{job_id}-{generation}.txt"
        file.write_text("".join(f"{job.item_ids[seq - 1]}\n" for seq in chosen), encoding="utf-8")
        job.note_retry(generation, list(chosen))
        yield from run_command(job, ["retry", job_id, "--items", str(file)], self._findings)

        def begun() -> bool:
            look = self.look(job_id)
            return look is not None and look.generation == generation

        yield from until(begun, _BEGIN_SECONDS)

    def look(self, job_id: str) -> SideJobState | None:
        seen = self._watches[job_id].look()
        return None if seen is None else SideJobState(seen.done, seen.over, seen.generation)

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        kind = self._luck.choice(possible_damages())
        folder = DamagedFolder(self.jobs[job_id].results, kind)
        return kind.value, lambda ended: folder.repair(ended=ended)


def slow_items(items: int, jobs: int) -> dict[str, float]:
    """Seconds of each item of so many neighbours of a job with `items`: slow enough to be met while they run."""
    return dict.fromkeys(expected.item_ids(items + ITEMS * jobs)[items:], _SLOW_SECONDS)
