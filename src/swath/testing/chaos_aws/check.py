"""The independent count on AWS: is every item of every job there, once, whole, and with the end it must have?

Comes after the storm. Rows are read by botocore, objects by obstore (reading.py), and no store code of the product is
used. check_job.py compares what there is of each job.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swath.testing.chaos.check import deaths_of
from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos_aws.check_job import JobLeft, check_job
from swath.testing.chaos_aws.job import AwsJob
from swath.testing.chaos_aws.reading import PlainRow, PlainTable, head_of, mirror

__all__ = ["Checked", "check"]

_OF_ONE_JOB: Final = ("job", "batches", "items", "back")


@dataclass
class Checked:
    """The findings, what was counted, and what a sleeper left where nobody sees it."""

    findings: Findings
    items: int = 0
    attempts_begun: int = 0
    attempts_kept: int = 0
    rows: int = 0
    objects: int = 0
    unseen_objects: int = 0


def check(job: AwsJob, killed: Collection[int] = ()) -> Checked:
    """Looks at everything that the jobs have left behind. Nothing may be running any more. `killed` are process ids."""
    checked = Checked(Findings())
    log = [line.split("\t") for line in job.attempts_log.read_text(encoding="utf-8").splitlines()]
    begun, deaths = Counter(line[0] for line in log), deaths_of(log, set(killed))
    table = PlainTable(job.endpoints, job.name)
    rows = list(table.rows())
    table.close()
    copy = job.folder / "bucket"
    shutil.rmtree(copy, ignore_errors=True)
    checked.objects = asyncio.run(mirror(job.endpoints, job.name, copy))
    checked.attempts_begun, checked.rows = begun.total(), len(rows)
    for left in _jobs_left(job, rows, copy, deaths, checked.findings):
        one = check_job(left, begun)
        checked.findings.take(one.findings, left.job_id)
        checked.items += one.items
        checked.attempts_kept += one.attempts_kept
        checked.unseen_objects += one.unseen_objects
    told = f"{checked.items:,} are in the table, {job.items:,} were ordered"
    checked.findings.expect(checked.items == job.items, Kind.LOST, "all items", told)
    return checked


def _jobs_left(
    job: AwsJob, rows: list[PlainRow], copy: Path, deaths: Counter[str], findings: Findings
) -> list[JobLeft]:
    """What there is of each job that was ordered; nobody has ordered others."""
    numbers = {row.partition.removeprefix("name/"): int(row.body) for row in rows if row.partition.startswith("name/")}
    by_number: dict[int, list[PlainRow]] = {}
    for row in rows:
        by_number.setdefault(_number(row), []).append(row)
    found: list[JobLeft] = []
    for part in job.parts:
        number = numbers.pop(part.job_id, None)
        own = by_number.get(number, []) if number is not None else []
        heads = [head_of(row.body) for row in own if row.sort == "head"]
        if number is None or not heads:
            findings.add(Kind.LOST, part.job_id, "the table does not know the job")
            continue
        found.append(
            JobLeft(
                job_id=part.job_id,
                number=number,
                head=heads[0],
                rows=own,
                folder=copy / part.job_id,
                items_file=job.items_file(part),
                retries=job.retries(part.job_id),
                deaths=deaths,
            )
        )
    for job_id in numbers:
        findings.add(Kind.WRONG, job_id, "it is in the table, and was never ordered")
    for place in {entry.name for entry in copy.glob("*")} - {part.job_id for part in job.parts}:
        findings.add(Kind.STRAY, place, "there are objects of it, and it was never ordered")
    return found


def _number(row: PlainRow) -> int:
    """Of the job that a row belongs to; 0 for what belongs to all."""
    kind, _, rest = row.partition.partition("/")
    if kind in _OF_ONE_JOB:
        return int(rest.partition("/")[0])
    return int(row.sort) if kind == "active" and row.sort.isdecimal() else 0
