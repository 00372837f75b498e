"""The independent count on AWS: is every item of every job there, once, whole, and with the end that it must have?"""

from __future__ import annotations

import asyncio
import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.chaos import expected as truth
from harness.chaos.aws.job import AwsJob
from harness.chaos.aws.raw_store import HeadAt, PlainRow, PlainTable, head_of, mirror
from harness.chaos.check import MOST_WASTED, blameable, deaths_of
from harness.chaos.check_files import FileCheck, Known, check_manifests
from harness.chaos.findings import Findings, Kind

__all__ = ["Checked", "JobLeft", "OneJob", "check", "check_job"]

_End = tuple[int, dict[str, Any]]
_GZIP: Final = b"\x1f\x8b"
_NOTE: Final = re.compile(r"\.leases/(\d+)/(.+)")
_COUNTERS: Final = {
    "success": HeadAt.SUCCESS,
    "failed": HeadAt.FAILED,
    "skipped": HeadAt.SKIPPED,
    "cancelled": HeadAt.CANCELLED,
    "not_found": HeadAt.NOT_FOUND,
}


@dataclass(frozen=True, kw_only=True)
class JobLeft:
    """What a job has left behind: its rows, and its objects as files. `items_file` is what was ordered."""

    job_id: str
    number: int
    head: list[Any]
    rows: list[PlainRow]
    folder: Path
    items_file: Path
    retries: dict[int, list[int]] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class OneJob:
    """What was found, and counted; `unseen_objects` were left by a sleeper where nobody sees them."""

    findings: Findings
    items: int
    attempts_kept: int
    unseen_objects: int


def check_job(left: JobLeft, begun: Counter[str]) -> OneJob:
    """Looks at all of it; `begun` are the attempts that any process began, by item."""
    findings, head = Findings(), left.head
    files = _ObjectCheck(left.folder, findings)
    ends, inputs = _ends(left), _inputs(left)
    former = _check_generations(left, inputs, ends, findings)
    known = _check_items(left, inputs, ends, files, findings)
    _check_attempts(known, former, begun, findings)
    _check_wasted(known, former, begun, left.deaths, findings)
    _check_wanted(left.items_file, known, findings)
    _check_sums(left.job_id, head, known, findings)
    _check_leftovers(left, findings)
    check_manifests(files, known, head[HeadAt.GENERATION], findings)
    files.find_strays()
    kept = former.total() + sum(item.attempts for item in known.values())
    return OneJob(findings=findings, items=len(known), attempts_kept=kept, unseen_objects=files.unseen)


def _inputs(left: JobLeft) -> dict[int, str]:
    """Ids by item, of the batches that were committed."""
    batches = [row for row in left.rows if row.partition == f"batches/{left.number}"]
    marks = {int(row.sort): msgspec.msgpack.decode(row.body)[3] for row in batches}
    found: dict[int, str] = {}
    for row in _of_items(left, "i"):
        _, _, batch, mark, _ = row.sort.split("#")
        if int(batch) < left.head[HeadAt.BATCHES] and marks.get(int(batch)) == mark:
            found.update({entry[0]: entry[1] for entry in msgspec.msgpack.decode(row.body)})
    return found


def _ends(left: JobLeft) -> dict[int, dict[int, list[_End]]]:
    """Every end of every item with its fence, by generation."""
    found: dict[int, dict[int, list[_End]]] = {}
    for row in _of_items(left, "e"):
        _, _, generation, fence, _ = row.sort.split("#")
        for end in msgspec.msgpack.decode(row.body)[1]:
            found.setdefault(int(generation), {}).setdefault(end["seq"], []).append((int(fence), end))
    return found


def _check_generations(
    left: JobLeft, inputs: dict[int, str], ends: dict[int, dict[int, list[_End]]], findings: Findings
) -> Counter[str]:
    """Each generation ended exactly the items it was to run. Answers with the attempts of all ends but the last."""
    last, said = max(left.retries, default=1), left.head[HeadAt.GENERATION]
    findings.expect(said == last, Kind.WRONG, left.job_id, f"generation {said}, {last} was ordered")
    former: Counter[str] = Counter()
    for generation, expected in ({1: list(inputs)} | left.retries).items():
        ended = ends.get(generation, {})
        for seq in ended.keys() ^ set(expected):
            kind, what = (Kind.WRONG, "ended though it was not to run") if seq in ended else (Kind.LOST, "did not end")
            findings.add(kind, f"item {seq}", f"it {what} in generation {generation}")
        for seq, found in ended.items():
            times = len(found)
            findings.expect(times == 1, Kind.COUNTED_TWICE, inputs.get(seq, str(seq)), f"it has ended {times} times")
            if any(seq in ends.get(later, {}) for later in range(generation + 1, last + 1)):
                former[inputs.get(seq, str(seq))] += sum(len(end.get("attempts", ())) for _, end in found)
    for generation in ends.keys() - set(range(1, last + 1)):
        findings.add(
            Kind.COUNTED_TWICE, left.job_id, f"there are ends in generation {generation}, which nobody ordered"
        )
    return former


def _of_items(left: JobLeft, kind: str) -> list[PlainRow]:
    within = f"items/{left.number}/"
    return [row for row in left.rows if row.partition.startswith(within) and row.sort.split("#")[1] == kind]


def _check_items(
    left: JobLeft,
    inputs: dict[int, str],
    ends: dict[int, dict[int, list[_End]]],
    files: _ObjectCheck,
    findings: Findings,
) -> dict[str, Known]:
    """Each item with its last end and its files."""
    known: dict[str, Known] = {}
    blame = blameable(left.deaths)
    last = {seq: found[-1] for _, ended in sorted(ends.items()) for seq, found in ended.items()}
    for seq, item_id in sorted(inputs.items()):
        findings.expect(item_id not in known, Kind.COUNTED_TWICE, item_id, "there are two rows of it")
        findings.expect(seq in last, Kind.LOST, item_id, "it has not ended")
        fence, end = last.pop(seq, (0, {"state": "pending"}))
        known[item_id] = Known.of(seq, end["state"], fence, end)
        came = (known[item_id].state, known[item_id].outcome, known[item_id].failure)
        foretold = truth.ENDS[truth.fate(item_id)]
        if not (known[item_id].poison and item_id in blame):
            kind = Kind.FALSE_POISON if known[item_id].poison else Kind.WRONG
            findings.expect(came == foretold, kind, item_id, f"it is {came} and must be {foretold}")
        files.check_item(item_id, known[item_id])
        files.check_winner(item_id, known[item_id])
    for seq in last:
        findings.add(Kind.WRONG, f"item {seq}", "it has an end and no input")
    return known


def _check_attempts(known: dict[str, Known], former: Counter[str], begun: Counter[str], findings: Findings) -> None:
    for item_id, item in known.items():
        kept = item.attempts + former[item_id]
        fine = (item.attempts > 0 or item.poison) and kept <= begun[item_id]
        findings.expect(fine, Kind.WRONG, item_id, f"{kept} attempts kept, {begun[item_id]} begun")


def _check_wasted(
    known: dict[str, Known], former: Counter[str], begun: Counter[str], deaths: Counter[str], findings: Findings
) -> None:
    for item_id, item in known.items():
        wasted = begun[item_id] - item.attempts - former[item_id]
        findings.expect(
            wasted <= MOST_WASTED + deaths[item_id], Kind.WRONG, item_id, f"{wasted} attempts of it came to nothing"
        )


def _check_wanted(items_file: Path, known: dict[str, Known], findings: Findings) -> None:
    with items_file.open(encoding="utf-8", newline="") as file:
        wanted = {row["name"] for row in csv.DictReader(file)}
    for item_id in wanted - known.keys():
        findings.add(Kind.LOST, item_id, "it is in the items file and not in the table")
    for item_id in known.keys() - wanted:
        findings.add(Kind.WRONG, item_id, "it is in the table and not in the items file")


def _check_sums(job_id: str, head: list[Any], known: dict[str, Known], findings: Findings) -> None:
    """Counters of the head against the ends, and the state of the job against both."""
    counted = Counter(item.state for item in known.values())
    counted["not_found"] = sum(item.outcome == "not_found" for item in known.values())
    for name, at in _COUNTERS.items():
        findings.expect(
            head[at] == counted[name], Kind.COUNTED_TWICE, name, f"counter {head[at]}, ends {counted[name]}"
        )
    total = head[HeadAt.TOTAL]
    findings.expect(total == len(known), Kind.COUNTED_TWICE, "total", f"counter {total}, rows {len(known)}")
    kinds = Counter(item.failure for item in known.values() if item.failure is not None)
    said = head[HeadAt.FAILURES]
    findings.expect(said == dict(kinds), Kind.COUNTED_TWICE, "failures", f"counters {said}, ends {dict(kinds)}")
    state, some = head[HeadAt.STATE], "success" in counted
    must = "completed" if set(counted) <= {"success", "not_found"} else "partially_completed" if some else "failed"
    findings.expect(state == must, Kind.WRONG, job_id, f"the job is {state} and must be {must}")


def _check_leftovers(left: JobLeft, findings: Findings) -> None:
    head = left.head
    for at in (HeadAt.LEASES, HeadAt.WAITING, HeadAt.SHARES):
        findings.expect(not head[at], Kind.STRAY, f"head, {at.name.lower()}", f"{len(head[at])} are left")
    fresh = head[HeadAt.FRESH_LEFT]
    findings.expect(fresh == 0, Kind.LOST, "head", f"{fresh} items were never handed out")
    for row in left.rows:
        stray = row.partition in (f"back/{left.number}", "active")
        findings.expect(not stray, Kind.STRAY, f"{row.partition}, {row.sort}", "the row was left behind")


class _ObjectCheck(FileCheck):
    """Files as the bucket has them: a compressed page has the name of the page, a loser may leave a note of itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.unseen = 0
        self._lost: set[tuple[str, int]] = set()
        for note in self.folder.glob(".leases/*/lost"):
            lost, fence = json.loads(note.read_bytes()), int(note.parent.name)
            self._lost |= {(path, 0) for path in lost.get("first", ())}
            self._lost |= {(path, fence) for path in lost.get("later", ())}

    def _check_content(self, item_id: str, item: Known, key: str, name: str, body: bytes) -> None:
        packed = name == "html.html" and body.startswith(_GZIP)
        super()._check_content(item_id, item, f"{key}.gz" if packed else key, name, body)

    def check_winner(self, item_id: str, item: Known) -> None:
        """Nothing of a losing attempt is referenced: each file was written under the fence that ended the item, or by
        the first lease that it ever had, unless that lost."""
        for key, _, _ in item.artifacts:
            path, fence = _place(key)
            what = f"it was written under fence {fence}, and {item.fence} ended the item"
            self.findings.expect(fence in (0, item.fence), Kind.WRONG, key, what)
            self.findings.expect((path, fence) not in self._lost, Kind.WRONG, key, f"{item_id} lost it, by a note")

    def find_strays(self) -> None:
        """Every object must have been referred to, but for what a writer that slept through its loss put down: that
        is noted as lost before anybody deletes it, and stays unseen."""
        for file in self.folder.rglob("*"):
            key = str(file.relative_to(self.folder))
            if not file.is_file() or key in self.referred:
                continue
            note = _NOTE.fullmatch(key)
            if note is not None:
                self.findings.expect(note[2] == "lost", Kind.STRAY, key, "the room was left open")
            elif key.startswith("items/") and _place(key) in self._lost:
                self.unseen += 1
            else:
                self.findings.add(Kind.STRAY, key, "nobody refers to it")


def _place(key: str) -> tuple[str, int]:
    """The item's folder, and the fence under which a file of it was written: 0 for that of its first lease."""
    folder = key.removeprefix("items/").rpartition("/")[0]
    path, mark, fence = folder.rpartition("/~")
    return (path, int(fence)) if mark and fence.isdecimal() else (folder, 0)


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
