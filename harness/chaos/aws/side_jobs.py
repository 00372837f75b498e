"""The small jobs beside a chaos run on AWS that are kept, damaged, or retried again and again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.chaos.aws.job import AwsJob
from harness.chaos.aws.job_feeder import JobFeeder
from harness.chaos.aws.job_parts import Part, beside
from harness.chaos.aws.raw_store import PlainTable
from harness.chaos.findings import Findings, Kind
from harness.chaos.side_jobs import ITEMS, PATIENCE_SECONDS, SideJobState, drawn_seqs
from harness.chaos.step_scripts import Script, until

__all__ = ["AwsSideJobs"]

_REFUSALS: Final = (403, 500, 503)


class AwsSideJobs:
    """A Place; `parts` are for the checker. `feeder` is there before the first order."""

    feeder: JobFeeder

    def __init__(self, job: AwsJob, table: PlainTable, denied: Path, luck: random.Random, findings: Findings) -> None:
        self._job = job
        self._table = table
        self._denied = denied
        self._luck = luck
        self._findings = findings
        self._numbers: dict[str, int] = {}
        self.parts: dict[str, Part] = {}

    def add(self, job_id: str) -> None:
        self.parts[job_id] = beside(job_id, self._job.items + ITEMS * len(self.parts), ITEMS)
        self._job.write_items(self.parts[job_id])

    def create(self, job_id: str, retention_days: float | None) -> Script:
        self.parts[job_id] = replace(self.parts[job_id], retention_days=retention_days)
        self.feeder.feed(self.parts[job_id])
        yield from self._until(job_id, 1)

    def missing(self, job_id: str) -> list[int]:
        del job_id
        return []  # what a bucket refuses is not gone

    def retry(self, job_id: str, generation: int, seqs: Sequence[int] = ()) -> Script:
        part = self.parts[job_id]
        names = self._job.item_ids(part)
        chosen = seqs or drawn_seqs(self._luck, part.items)
        file = self._job.folder / f"{job_id}-{generation}.txt"
        file.write_text("".join(f"{names[seq - 1]}\n" for seq in chosen), encoding="utf-8")
        self._job.note_retry(job_id, generation, list(chosen))
        self.feeder.order(["jobs", "retry", job_id, "--items", str(file)])
        yield from self._until(job_id, generation)

    def look(self, job_id: str) -> SideJobState | None:
        number = self._numbers.get(job_id) or self._table.number(job_id)
        if number is None:
            return None
        self._numbers[job_id] = number
        moment = self._table.moments([number]).get(number)
        return None if moment is None else SideJobState(moment.done, moment.over, moment.generation)

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        status = self._luck.choice(_REFUSALS)
        self._deny({f"{self._job.name}/{job_id}/": status})

        def repair(ended: bool) -> None:
            del ended
            self._deny({})

        return f"a bucket that answers {status} for its results", repair

    def _deny(self, paths: dict[str, int]) -> None:
        fresh = self._denied.with_suffix(".new")
        fresh.write_text(json.dumps(paths), encoding="ascii")
        fresh.replace(self._denied)

    def _until(self, job_id: str, generation: int) -> Generator[None, None, None]:
        """Waits for an order to be carried out."""

        def carried_out() -> bool:
            look = self.look(job_id)
            return look is not None and look.generation >= generation

        fine = yield from until(carried_out, PATIENCE_SECONDS)
        self._findings.expect(fine, Kind.WRONG, job_id, f"generation {generation} was ordered and did not begin")
