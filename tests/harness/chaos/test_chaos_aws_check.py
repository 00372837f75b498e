"""The count of a job on AWS finds what was planted. Rows and objects are made from a job that ran on SQLite."""

import csv
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.chaos import expected
from harness.chaos.aws.check import JobLeft, check_job
from harness.chaos.aws.raw_store import HeadAt, PlainRow
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import ChaosJob

SEQ = 5


@pytest.fixture
def left(job: ChaosJob) -> JobLeft:
    """The rows and objects that the same job would have left behind on AWS."""
    with job.items_file.open(encoding="utf-8", newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    with closing(sqlite3.connect(job.database)) as db:
        db.row_factory = sqlite3.Row
        of_job = db.execute("SELECT * FROM jobs").fetchone()
        failures = dict(db.execute("SELECT kind, items FROM failures"))
        ends = db.execute(
            "SELECT o.seq, i.fence, o.ended FROM outcomes AS o JOIN items AS i ON i.job_no = o.job_no AND i.seq = o.seq"
        ).fetchall()
    inputs = [[seq, name] for seq, name in enumerate(names, 1)]
    rows = [
        PlainRow("batches/1", "0", msgspec.msgpack.encode([0, 0, 0, "mark"])),
        PlainRow("items/1/0", "0#i#0#mark#0", msgspec.msgpack.encode(inputs)),
        *(end_row(1, fence, {"seq": seq} | json.loads(ended)) for seq, fence, ended in ends),
    ]
    head: list[Any] = [0] * 40
    for at in (HeadAt.TOTAL, HeadAt.SUCCESS, HeadAt.NOT_FOUND, HeadAt.FAILED, HeadAt.SKIPPED, HeadAt.CANCELLED):
        head[at] = of_job[at.name.lower()]
    head[HeadAt.STATE], head[HeadAt.GENERATION], head[HeadAt.FAILURES] = of_job["state"], 1, failures
    head[HeadAt.BATCHES], head[HeadAt.WAITING], head[HeadAt.SHARES], head[HeadAt.LEASES] = 1, {}, {}, []
    return JobLeft(job_id=job.job_id, number=1, head=head, rows=rows, folder=job.results, items_file=job.items_file)


def end_row(generation: int, fence: int, end: dict[str, Any]) -> PlainRow:
    sort = f"0#e#{generation:05d}#{fence:015d}#{end['seq']:06d}"
    return PlainRow("items/1/0", sort, msgspec.msgpack.encode([0, [end]]))


def found(left: JobLeft) -> Findings:
    begun = Counter(dict.fromkeys(expected.item_ids(120), 6))
    return check_job(left, begun).findings


def end_of(left: JobLeft, seq: int) -> tuple[int, dict[str, Any]]:
    row = next(row for row in left.rows if row.sort.startswith("0#e") and int(row.sort.split("#")[4]) == seq)
    return int(row.sort.split("#")[3]), msgspec.msgpack.decode(row.body)[1][0]


def with_end(left: JobLeft, generation: int, fence: int, end: dict[str, Any]) -> JobLeft:
    return replace(left, rows=[*left.rows, end_row(generation, fence, end)])


def without_end(left: JobLeft, seq: int) -> JobLeft:
    others = [row for row in left.rows if not (row.sort.startswith("0#e") and int(row.sort.split("#")[4]) == seq)]
    return replace(left, rows=others)


def retried(left: JobLeft, ordered: int = SEQ, ran: int = SEQ) -> JobLeft:
    """An item ran again, as generation 2; the manifests are still those of the first."""
    fence, end = end_of(left, ran)
    head = list(left.head)
    head[HeadAt.GENERATION] = 2
    return replace(with_end(left, 2, fence + 1_000, end), head=head, retries={2: [ordered]})


def plant_stale_manifests(left: JobLeft) -> JobLeft:
    return retried(left)


def plant_poison(left: JobLeft) -> JobLeft:
    seq = next(n for n, name in enumerate(expected.item_ids(120), 1) if expected.fate(name) is expected.Fate.FOUND)
    fence, _ = end_of(left, seq)
    end = {"seq": seq, "state": "failed", "failure": {"kind": "poison"}, "attempts": [], "artifacts": []}
    return with_end(without_end(left, seq), 1, fence, end)


def end_an_item_twice(left: JobLeft) -> JobLeft:
    fence, end = end_of(left, SEQ)
    return with_end(left, 1, fence + 1, end)


def lose_an_end(left: JobLeft) -> JobLeft:
    return without_end(left, SEQ)


def retry_another_item_than_was_ordered(left: JobLeft) -> JobLeft:
    return retried(left, ran=SEQ + 1)


def forget_a_retry(left: JobLeft) -> JobLeft:
    return replace(left, retries={2: [SEQ]})


def end_in_a_generation_nobody_ordered(left: JobLeft) -> JobLeft:
    return replace(retried(left), retries={})


PLANTED: list[tuple[Callable[[JobLeft], JobLeft], Kind]] = [
    (plant_stale_manifests, Kind.STALE),
    (plant_poison, Kind.FALSE_POISON),
    (end_an_item_twice, Kind.COUNTED_TWICE),
    (lose_an_end, Kind.LOST),
    (retry_another_item_than_was_ordered, Kind.WRONG),
    (forget_a_retry, Kind.LOST),
    (end_in_a_generation_nobody_ordered, Kind.COUNTED_TWICE),
]


@pytest.mark.req("Z1", "Z2")
def test_a_job_that_ran_undisturbed_is_clean(left: JobLeft) -> None:
    assert [str(problem) for problem in found(left).problems] == []


@pytest.mark.req("Z1", "Z10")
@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_the_count_on_aws_finds_what_was_planted(
    left: JobLeft, plant: Callable[[JobLeft], JobLeft], kind: Kind
) -> None:
    assert found(plant(left)).found[kind] > 0


@pytest.mark.req("S6")
def test_only_deaths_that_the_rig_made_excuse_a_verdict_of_poison_on_aws(left: JobLeft) -> None:
    everybody = Counter(dict.fromkeys(expected.item_ids(120), 3))
    assert found(replace(plant_poison(left), deaths=everybody)).found[Kind.FALSE_POISON] == 0


@pytest.mark.req("Z10")
def test_a_job_that_is_gone_is_lost(left: JobLeft, tmp_path: Path) -> None:
    shutil.rmtree(left.folder)
    assert found(left).found[Kind.LOST] > 0
