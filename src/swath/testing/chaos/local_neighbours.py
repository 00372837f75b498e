"""LocalNeighbours: the small jobs beside a storm on SQLite, in the same folder and store as the large one."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Sequence
from typing import Final

from swath.testing.chaos import truth
from swath.testing.chaos.findings import Findings
from swath.testing.chaos.job import ChaosJob
from swath.testing.chaos.neighbours import ITEMS, Standing, drawn_seqs
from swath.testing.chaos.scripts import Script, ordered, until
from swath.testing.chaos.watch import Watch
from swath.testing.disturbances.folders import DamagedFolder, possible_damages

__all__ = ["LocalNeighbours", "slow_items"]

_BEGIN_SECONDS: Final = 60.0
_SLOW_SECONDS: Final = 0.2
_CONCURRENCY: Final = 4


class LocalNeighbours:
    """A Place; `jobs` are for the checker."""

    def __init__(self, job: ChaosJob, luck: random.Random, findings: Findings) -> None:
        self._job = job
        self._luck = luck
        self._findings = findings
        self._watches: dict[str, Watch] = {}
        self.jobs: dict[str, ChaosJob] = {}

    def close(self) -> None:
        """Lets go of the store."""
        for watch in self._watches.values():
            watch.close()

    def add(self, job_id: str) -> None:
        first = self._job.items + ITEMS * len(self.jobs)
        self.jobs[job_id] = self._job.beside(job_id, first=first, items=ITEMS)
        self._watches[job_id] = Watch(self._job.database, job_id)

    def create(self, job_id: str, retention_days: float | None) -> Script:
        job = self.jobs[job_id]
        policy_file = job.folder / f"{job_id}-policy.json"
        policy = json.loads((job.folder / "policy.json").read_text(encoding="utf-8"))
        policy |= {"retention_days": retention_days, "throttling": {"max_concurrent_workers": _CONCURRENCY}}
        policy_file.write_text(json.dumps(policy), encoding="utf-8")
        arguments = ["create", *job.run_arguments[1:], "--priority", "5"]
        arguments[arguments.index("--policy") + 1] = str(policy_file)
        yield from ordered(job, arguments, self._findings)

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
        yield from ordered(job, ["retry", job_id, "--items", str(file)], self._findings)

        def begun() -> bool:
            look = self.look(job_id)
            return look is not None and look.generation == generation

        yield from until(begun, _BEGIN_SECONDS)

    def look(self, job_id: str) -> Standing | None:
        seen = self._watches[job_id].look()
        return None if seen is None else Standing(seen.done, seen.over, seen.generation)

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        kind = self._luck.choice(possible_damages())
        folder = DamagedFolder(self.jobs[job_id].results, kind)
        return kind.value, lambda ended: folder.repair(ended=ended)


def slow_items(items: int, jobs: int) -> dict[str, float]:
    """Seconds of each item of so many neighbours of a job with `items`: slow enough to be met while they run."""
    return dict.fromkeys(truth.item_ids(items + ITEMS * jobs)[items:], _SLOW_SECONDS)
