"""The independent count: is every item of a finished job there, once, whole, and with the end that it must have?

It uses sqlite3, json, gzip and hashlib, and nothing of the product. The product's own `verify` must agree
afterwards.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from harness.chaos import expected as truth
from harness.chaos.check_files import FileCheck, Known, check_manifests
from harness.chaos.check_packs import PackCheck
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import ChaosJob

__all__ = ["MOST_WASTED", "Checked", "blameable", "check", "deaths_of", "verify_job"]

_STATES: Final = {0: "pending", 1: "success", 2: "failed", 3: "skipped", 4: "cancelled"}
POISON_DEATHS: Final = 3
# Attempts of one item that no end remembers, beside one for each worker that was killed: freezes and removed files.
MOST_WASTED: Final = 8
_COUNTERS: Final = ("success", "failed", "skipped", "cancelled", "not_found")


@dataclass(frozen=True)
class Checked:
    """The findings, and how many attempts were begun and how many of them the store has kept.

    `blamed` items were taken for poison: by chance three of our own kills hit a worker that ran them alone (S6).
    """

    findings: Findings
    attempts_begun: int
    attempts_kept: int
    blamed: int = 0


def check(job: ChaosJob, killed: Collection[int] = (), page: Callable[[str], bytes] = truth.page) -> Checked:
    """Looks at everything that a job has left behind. Nothing may be running any more. `killed` are process ids, `page`
    says what is stored of an item."""
    findings = Findings()
    with job.items_file.open(encoding="utf-8", newline="") as file:
        wanted = [row["name"] for row in csv.DictReader(file)]
    own = set(wanted)  # other jobs of the same storm write there too
    lines = (line.split("\t") for line in job.attempts_log.read_text(encoding="utf-8").splitlines())
    log = [line for line in lines if line[0] in own]
    begun = Counter(line[0] for line in log)
    with closing(sqlite3.connect(f"file:{job.database}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        row = db.execute("SELECT * FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
        if row is None:
            findings.add(Kind.LOST, job.job_id, "the store does not know the job")
            return Checked(findings, begun.total(), 0)
        earlier = _check_generations(db, row, job.retries, findings)
        packed = job.layout == "warc"
        files = (
            PackCheck(job.results, findings, generation=row["generation"])
            if packed
            else FileCheck(job.results, findings, page)
        )
        known = _check_items(db, row, files, findings)
        deaths = deaths_of(log, set(killed))
        blamed = _check_fates(known, blameable(deaths), findings)
        _check_attempts(known, earlier, begun, findings)
        _check_wasted(known, earlier, begun, deaths, findings)
        _check_wanted(wanted, known, findings)
        _check_sums(db, row, known, findings)
        _check_leftovers(db, row["job_no"], findings)
        _check_job(row, known, findings)
    check_manifests(files, known, row["generation"], findings)
    files.find_strays()
    kept = earlier.total() + sum(item.attempts for item in known.values())
    return Checked(findings, begun.total(), kept, blamed)


def _check_items(db: sqlite3.Connection, row: sqlite3.Row, files: FileCheck, findings: Findings) -> dict[str, Known]:
    """Each row with its outcome and its files."""
    known: dict[str, Known] = {}
    rows = db.execute(
        "SELECT i.seq, i.item_id, i.state, i.fence, i.progress, "
        "(SELECT ended FROM outcomes AS o WHERE o.job_no = i.job_no AND o.seq = i.seq "
        "ORDER BY generation DESC LIMIT 1) FROM items AS i WHERE i.job_no = ? ORDER BY i.seq",
        (row["job_no"],),
    )
    for seq, item_id, code, fence, progress, ended in rows:
        state = _STATES.get(code, str(code))
        findings.expect(item_id not in known, Kind.COUNTED_TWICE, item_id, "there are two rows of it")
        findings.expect(code in (1, 2, 3, 4), Kind.LOST, item_id, f"it has not ended: {state}")
        findings.expect(progress is None, Kind.WRONG, item_id, "it has ended and still remembers its way")
        end: dict[str, Any] = {} if ended is None else json.loads(ended)
        findings.expect(
            not end or end["state"] == state, Kind.WRONG, item_id, f"row {state}, outcome {end.get('state')}"
        )
        known[item_id] = Known.of(seq, state, fence, end)
        files.check_item(item_id, known[item_id])
    return known


def deaths_of(log: list[list[str]], killed: set[int]) -> Counter[str]:
    """In how many processes that we killed each item was begun."""
    begun = {(item_id, int(pid)) for item_id, pid, _ in log if int(pid) in killed}
    return Counter(item_id for item_id, _ in begun)


def blameable(deaths: Counter[str]) -> frozenset[str]:
    """Items that were begun in so many processes that we killed that nobody could tell them from poison."""
    return frozenset(item_id for item_id, count in deaths.items() if count >= POISON_DEATHS)


def _check_fates(known: dict[str, Known], by_kills: frozenset[str], findings: Findings) -> int:
    """Everybody came to the end that was foretold, but for those that we made look like poison; how many are they?"""
    blamed = 0
    for item_id, item in known.items():
        foretold = truth.ENDS[truth.fate(item_id)]
        came = (item.state, item.outcome, item.failure)
        if item.poison and item_id in by_kills:
            blamed += 1
            continue
        kind = Kind.FALSE_POISON if item.poison else Kind.WRONG
        findings.expect(came == foretold, kind, item_id, f"it is {came} and must be {foretold}")
    return blamed


def _check_generations(
    db: sqlite3.Connection, row: sqlite3.Row, retries: dict[int, list[int]], findings: Findings
) -> Counter[str]:
    """Each generation ended exactly the items it was to run. Answers with the attempts of all ends but the last."""
    job_no, last = row["job_no"], max(retries, default=1)
    findings.expect(
        row["generation"] == last, Kind.WRONG, row["job_id"], f"generation {row['generation']}, {last} was ordered"
    )
    (unordered,) = db.execute(
        "SELECT count(*) FROM outcomes WHERE job_no = ? AND generation > ?", (job_no, last)
    ).fetchone()
    findings.expect(
        not unordered, Kind.COUNTED_TWICE, row["job_id"], f"{unordered} ends in a generation nobody ordered"
    )
    everything = [seq for (seq,) in db.execute("SELECT seq FROM items WHERE job_no = ?", (job_no,))]
    for generation, expected in ({1: everything} | retries).items():
        ended = {
            seq
            for (seq,) in db.execute(
                "SELECT seq FROM outcomes WHERE job_no = ? AND generation = ?", (job_no, generation)
            )
        }
        for seq in ended ^ set(expected):
            what = "ended though it was not to run" if seq in ended else "did not end"
            findings.add(
                Kind.WRONG if seq in ended else Kind.LOST, f"item {seq}", f"it {what} in generation {generation}"
            )
    former = db.execute(
        "SELECT i.item_id, sum(json_array_length(CAST(o.ended AS TEXT), '$.attempts')) FROM outcomes AS o "
        "JOIN items AS i ON i.job_no = o.job_no AND i.seq = o.seq WHERE o.job_no = ? AND o.generation < "
        "(SELECT max(generation) FROM outcomes AS n WHERE n.job_no = o.job_no AND n.seq = o.seq) GROUP BY i.item_id",
        (job_no,),
    )
    return Counter({item_id: attempts or 0 for item_id, attempts in former})


def _check_attempts(known: dict[str, Known], earlier: Counter[str], begun: Counter[str], findings: Findings) -> None:
    for item_id, item in known.items():
        kept = item.attempts + earlier[item_id]
        findings.expect(
            # A browser may die before its item has begun.
            (item.attempts > 0 or item.poison) and kept <= begun[item_id] + item.crashes,
            Kind.WRONG,
            item_id,
            f"{kept} attempts kept, {item.attempts} of them in its last generation, {begun[item_id]} begun",
        )


def _check_wasted(
    known: dict[str, Known], earlier: Counter[str], begun: Counter[str], deaths: Counter[str], findings: Findings
) -> None:
    """Each death may have cost an attempt. What costs more is a lease that goes from one living worker to another."""
    for item_id, item in known.items():
        wasted = begun[item_id] - item.attempts - earlier[item_id]
        findings.expect(
            wasted <= MOST_WASTED + deaths[item_id], Kind.WRONG, item_id, f"{wasted} attempts of it came to nothing"
        )


def _check_wanted(wanted: list[str], known: dict[str, Known], findings: Findings) -> None:
    for item_id in wanted:
        findings.expect(item_id in known, Kind.LOST, item_id, "it is in the items file and not in the store")
    for item_id in known.keys() - set(wanted):
        findings.add(Kind.WRONG, item_id, "it is in the store and not in the items file")


def _check_sums(db: sqlite3.Connection, row: sqlite3.Row, known: dict[str, Known], findings: Findings) -> None:
    """Counters against rows and against outcomes, each counted by itself."""
    by_rows = Counter(item.state for item in known.values())
    by_rows["not_found"] = sum(item.outcome == "not_found" for item in known.values())
    by_outcomes = Counter(
        dict(
            db.execute(
                "SELECT json_extract(CAST(ended AS TEXT), '$.state') AS state, count(*) FROM outcomes AS o "
                "WHERE job_no = ? AND generation = (SELECT max(generation) FROM outcomes AS n "
                "WHERE n.job_no = o.job_no AND n.seq = o.seq) GROUP BY state",
                (row["job_no"],),
            ).fetchall()
        )
    )
    for name in _COUNTERS:
        what = f"counter {row[name]}, rows {by_rows[name]}"
        findings.expect(row[name] == by_rows[name], Kind.COUNTED_TWICE, name, what)
        what = f"counter {row[name]}, outcomes {by_outcomes[name]}"
        findings.expect(name == "not_found" or row[name] == by_outcomes[name], Kind.COUNTED_TWICE, name, what)
    what = f"counter {row['total']}, rows {len(known)}"
    findings.expect(row["total"] == len(known), Kind.COUNTED_TWICE, "total", what)
    kinds = dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ?", (row["job_no"],)))
    counted = Counter(item.failure for item in known.values() if item.failure is not None)
    findings.expect(kinds == counted, Kind.COUNTED_TWICE, "failures", f"counters {kinds}, rows {dict(counted)}")


def _check_leftovers(db: sqlite3.Connection, job_no: int, findings: Findings) -> None:
    for table in ("leases", "waiting", "shares"):
        (left,) = db.execute(f"SELECT count(*) FROM {table} WHERE job_no = ?", (job_no,)).fetchone()  # noqa: S608 our own names
        findings.expect(left == 0, Kind.STRAY, table, f"{left} rows are left")
    (fresh,) = db.execute("SELECT fresh FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    findings.expect(fresh == 0, Kind.LOST, "jobs.fresh", f"{fresh} items were never handed out")


def _check_job(row: sqlite3.Row, known: dict[str, Known], findings: Findings) -> None:
    states = {item.state for item in known.values()}
    must = "completed" if states == {"success"} else "partially_completed" if "success" in states else "failed"
    findings.expect(row["state"] == must, Kind.WRONG, row["job_id"], f"the job is {row['state']} and must be {must}")


def verify_job(job: ChaosJob, findings: Findings) -> int:
    """The exit code of `swath jobs verify`."""
    done = subprocess.run(
        job.command(["jobs", "verify", job.job_id]), env=job.environment(), capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    findings.expect(
        done.returncode == 0, Kind.WRONG, f"jobs verify {job.job_id}", f"code {done.returncode}: {said[-1:]}"
    )
    return done.returncode
