"""Neighbours: small jobs beside the large one of a storm, for what concerns several jobs.

One has its results folder damaged while it runs, and meanwhile another must end. One is retried again and again, so
that processes which are frozen in its ending wake up after a later generation has ended. One has a retention, and must
not be deleted because a clock jumps. Used by disturbed.py; check.py counts each like the large one.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from swath.testing.chaos import truth
from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos.job import ChaosJob
from swath.testing.chaos.scripts import Script, ordered, until
from swath.testing.chaos.watch import Seen, Watch
from swath.testing.disturbances.folders import DamagedFolder, possible_damages

__all__ = ["Neighbours", "slow_items"]

ITEMS: Final = 30  # of each
KEPT_DAYS: Final = 365
PATIENCE_SECONDS: Final = 90.0  # for a small job that nothing hinders, on a busy machine
_SLOW_SECONDS: Final = 0.2
_CONCURRENCY: Final = 4


class Neighbours:
    """`jobs` are those that were ordered; `made` counts what was done to them. Ids of victims are in `damaged`."""

    def __init__(self, job: ChaosJob, luck: random.Random, findings: Findings) -> None:
        self._job = job
        self._luck = luck
        self._findings = findings
        self.jobs: list[ChaosJob] = []
        self.damaged: set[str] = set()
        self.made: Counter[str] = Counter()
        self._watches: dict[str, Watch] = {}

    def watch(self, job: ChaosJob) -> Watch:
        """Looks at one of them."""
        if job.job_id not in self._watches:
            self._watches[job.job_id] = Watch(job.database, job.job_id)
        return self._watches[job.job_id]

    def close(self) -> None:
        """Lets go of the store."""
        for watch in self._watches.values():
            watch.close()

    # -- scripts -------------------------------------------------------------------------------------------------------

    def keep_one(self) -> Script:
        """A job with a retention, which ends and must then stay."""
        kept = self._beside("kept")
        yield from self._create(kept, retention_days=KEPT_DAYS)
        yield from self._must_end(kept, "it did not end")

    def damage_one(self) -> Script:
        """A running job's results folder is damaged. Another must end meanwhile, and it itself after the repair."""
        victim = self._beside(f"victim-{len(self.jobs)}")
        self.damaged.add(victim.job_id)
        yield from self._create(victim)
        if not (yield from until(lambda: self._partly_done(victim), PATIENCE_SECONDS)):
            self._findings.add(Kind.WRONG, victim.job_id, "it did not begin, so its folder was not damaged")
            return
        kind = self._luck.choice(possible_damages())
        folder = DamagedFolder(victim.results, kind)
        self.made[f"{kind}"] += 1
        try:
            bystander = self._beside(f"bystander-{len(self.jobs)}")
            yield from self._create(bystander)
            yield from self._must_end(bystander, f"it did not end while {victim.job_id} had {kind}")
        finally:
            folder.repair(ended=self._is(victim, lambda seen: seen.over))
        yield from self._must_end(victim, f"it did not end after its folder had {kind}, and was repaired")

    def retry_one(self, enough: Callable[[], bool], most: int) -> Script:
        """A job that is retried whenever it has ended, until `enough`."""
        again = self._beside("again")
        yield from self._create(again)
        for generation in range(2, most + 2):
            if not (yield from self._must_end(again, "it did not end")) or enough():
                return
            yield from self._retry(again, generation)
        yield from self._must_end(again, "it did not end")

    # -- their steps ---------------------------------------------------------------------------------------------------

    def _beside(self, job_id: str) -> ChaosJob:
        first = self._job.items + ITEMS * len(self.jobs)
        self.jobs.append(self._job.beside(job_id, first=first, items=ITEMS))
        return self.jobs[-1]

    def _create(self, job: ChaosJob, **policy: Any) -> Script:
        policy_file = job.folder / f"{job.job_id}-policy.json"
        policies = json.loads((job.folder / "policy.json").read_text(encoding="utf-8")) | policy
        policies["throttling"] = {"max_concurrent_workers": _CONCURRENCY}
        policy_file.write_text(json.dumps(policies), encoding="utf-8")
        arguments = [*job.run_arguments[1:], "--priority", "5"]
        arguments[arguments.index("--policy") + 1] = str(policy_file)
        yield from ordered(job, ["create", *arguments], self._findings)

    def _retry(self, job: ChaosJob, generation: int) -> Script:
        chosen = sorted(self._luck.sample(range(job.items), self._luck.randint(1, job.items // 2)))
        file = job.folder / f"{job.job_id}-{generation}.txt"
        file.write_text("".join(f"{job.item_ids[n]}\n" for n in chosen), encoding="utf-8")
        job.note_retry(generation, [n + 1 for n in chosen])
        self.made["retries"] += yield from ordered(job, ["retry", job.job_id, "--items", str(file)], self._findings)
        yield from until(lambda: self._is(job, lambda seen: seen.generation == generation), PATIENCE_SECONDS)

    def _must_end(self, job: ChaosJob, otherwise: str) -> Script:
        ended = yield from until(lambda: self._is(job, lambda seen: seen.over), PATIENCE_SECONDS)
        self._findings.expect(ended, Kind.STOPPED, job.job_id, f"{otherwise} within {PATIENCE_SECONDS:g} s")
        return ended

    def _partly_done(self, job: ChaosJob) -> bool:
        return self._is(job, lambda seen: seen.over or 0 < seen.done < job.items)

    def _is(self, job: ChaosJob, what: Callable[[Seen], bool]) -> bool:
        seen = self.watch(job).look()
        return seen is not None and what(seen)


def slow_items(items: int, jobs: int) -> dict[str, float]:
    """Seconds of each item of so many neighbours of a job with `items`: slow enough to be met while they run."""
    return dict.fromkeys(truth.item_ids(items + ITEMS * jobs)[items:], _SLOW_SECONDS)
