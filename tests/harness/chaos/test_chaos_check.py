"""The independent checker finds every way in which a job can be spoiled, and nothing in one that is not."""

import gzip
import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.chaos import expected
from harness.chaos.check import MOST_WASTED, check
from harness.chaos.findings import Kind
from harness.chaos.job import JOB_ID, ChaosJob


def results(job: ChaosJob) -> Path:
    return job.data / "results" / JOB_ID


def sql(job: ChaosJob, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(job.database)) as db, db:
        assert db.execute(statement, values).rowcount != 0


def seq_of(fate: expected.Fate) -> int:
    return next(n for n, name in enumerate(expected.item_ids(120), 1) if expected.fate(name) is fate)


def file_of(job: ChaosJob, name: str, number: int = 0) -> Path:
    return sorted((results(job) / "items").rglob(name))[number]


def record(job: ChaosJob, file: Path) -> None:
    """Lets the store say of the file what is true of it now, so that only its content is wrong."""
    key = file.relative_to(results(job)).as_posix()
    with closing(sqlite3.connect(job.database)) as db, db:
        for seq, ended in db.execute("SELECT seq, ended FROM outcomes").fetchall():
            end = json.loads(ended)
            for artifact in end["artifacts"]:
                if artifact["key"] == key:
                    artifact |= {"size": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
            db.execute("UPDATE outcomes SET ended = ? WHERE seq = ?", (json.dumps(end).encode(), seq))


def rewrite_part(job: ChaosJob, change: Callable[[list[Any]], object]) -> None:
    """Changes the items of a part, with checksums and number of items put right, as a mistaken writer would."""
    part = results(job) / "manifests" / "full" / "part-1.json"
    document = json.loads(part.read_bytes())
    change(document["items"])
    part.write_text(json.dumps(document))
    metadata_file = results(job) / "job_metadata.json"
    metadata = json.loads(metadata_file.read_bytes())
    metadata["parts"]["full"][0] = {
        "artifact": {
            "key": "manifests/full/part-1.json",
            "size": part.stat().st_size,
            "sha256": hashlib.sha256(part.read_bytes()).hexdigest(),
        },
        "items": len(document["items"]),
    }
    metadata_file.write_text(json.dumps(metadata))


def flip_a_byte(job: ChaosJob) -> None:
    file = file_of(job, "html.html*")
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)


def cut_a_file(job: ChaosJob) -> None:
    file = file_of(job, "html.html.gz")
    file.write_bytes(file.read_bytes()[:-9])
    record(job, file)


def give_an_item_the_page_of_another(job: ChaosJob) -> None:
    file = file_of(job, "html.html.gz")
    file.write_bytes(gzip.compress(expected.page("somebody else")))
    record(job, file)


def give_an_item_the_record_of_another(job: ChaosJob) -> None:
    file = file_of(job, "data.json")
    file.write_bytes(file_of(job, "data.json", 1).read_bytes())
    record(job, file)


def cut_the_metadata(job: ChaosJob) -> None:
    file = results(job) / "job_metadata.json"
    file.write_bytes(file.read_bytes()[:-20])


def remove_a_file(job: ChaosJob) -> None:
    file_of(job, "data.json").unlink()


def remove_the_metadata(job: ChaosJob) -> None:
    (results(job) / "job_metadata.json").unlink()


def remove_an_entry(job: ChaosJob) -> None:
    next((results(job) / "manifests" / "items").iterdir()).unlink()


def edit_a_counter(job: ChaosJob) -> None:
    sql(job, "UPDATE jobs SET success = success + 1")


def edit_a_failure_counter(job: ChaosJob) -> None:
    sql(job, "UPDATE failures SET items = items + 1 WHERE kind = 'server_error'")


def delete_an_outcome(job: ChaosJob) -> None:
    sql(job, "DELETE FROM outcomes WHERE seq = 5")


def double_an_outcome(job: ChaosJob) -> None:
    columns = "kind, ended_at, ended FROM outcomes WHERE seq = 5"
    sql(job, f"INSERT INTO outcomes SELECT job_no, seq, generation + 1, {columns}")


def delete_an_item(job: ChaosJob) -> None:
    sql(job, "DELETE FROM items WHERE seq = 5")


def reopen_an_item(job: ChaosJob) -> None:
    sql(job, "UPDATE items SET state = 0 WHERE seq = 5")


def turn_a_failure_into_success(job: ChaosJob) -> None:
    seq = seq_of(expected.Fate.BROKEN)
    sql(job, "UPDATE items SET state = 1 WHERE seq = ?", seq)
    ended = json.dumps({"state": "success", "finding": "found", "attempts": [{}], "artifacts": []}).encode()
    sql(job, "UPDATE outcomes SET ended = ?, kind = NULL WHERE seq = ?", ended, seq)
    sql(job, "UPDATE jobs SET success = success + 1, failed = failed - 1")
    sql(job, "UPDATE failures SET items = items - 1 WHERE kind = 'layout_changed'")


def list_an_item_twice(job: ChaosJob) -> None:
    rewrite_part(job, lambda items: items.append(items[0]))


def list_an_item_not(job: ChaosJob) -> None:
    rewrite_part(job, lambda items: items.pop())


def list_an_item_wrongly(job: ChaosJob) -> None:
    rewrite_part(job, lambda items: items[0].update(state="cancelled"))


def leave_a_file_about(job: ChaosJob) -> None:
    file_of(job, "data.json").with_name("data.json.tmp").write_bytes(b"")


def leave_a_room_behind(job: ChaosJob) -> None:
    (results(job) / ".leases" / "77").mkdir()


def leave_a_document_half_written(job: ChaosJob) -> None:
    (results(job) / ".writing" / "abc").mkdir(parents=True)


def forget_a_retry(job: ChaosJob) -> None:
    job.note_retry(2, [5])


def retry_another_item_than_was_ordered(job: ChaosJob) -> None:
    job.note_retry(2, [5])
    sql(job, "UPDATE jobs SET generation = 2")
    columns = "kind, ended_at, ended FROM outcomes WHERE seq = 6"
    sql(job, f"INSERT INTO outcomes SELECT job_no, seq, 2, {columns}")


def leave_an_item_waiting(job: ChaosJob) -> None:
    sql(job, "INSERT INTO waiting VALUES (1, 0, 0, 5)")


def forget_an_attempt(job: ChaosJob) -> None:
    lines = job.attempts_log.read_text(encoding="utf-8").splitlines(keepends=True)
    job.attempts_log.write_text("".join(lines[1:]), encoding="utf-8")


def put_the_job_into_another_state(job: ChaosJob) -> None:
    sql(job, "UPDATE jobs SET state = 'completed'")


def delete_the_job(job: ChaosJob) -> None:
    sql(job, "DELETE FROM jobs")


def fetch_an_item_again_and_again(job: ChaosJob) -> None:
    name = expected.item_ids(120)[4]
    with job.attempts_log.open("a", encoding="utf-8") as log:
        log.writelines(f"{name}\t{pid}\t0.0\n" for pid in range(MOST_WASTED + 1))


def plant_poison(job: ChaosJob) -> None:
    """An item is blamed for the deaths of workers."""
    seq = seq_of(expected.Fate.FOUND)
    ended = json.dumps({"state": "failed", "failure": {"kind": "poison"}, "attempts": [], "artifacts": []}).encode()
    sql(job, "UPDATE items SET state = 2 WHERE seq = ?", seq)
    sql(job, "UPDATE outcomes SET ended = ? WHERE seq = ?", ended, seq)


def plant_metadata_of_a_former_generation(job: ChaosJob) -> None:
    job.note_retry(2, [5])
    sql(job, "UPDATE jobs SET generation = 2")
    sql(job, "INSERT INTO outcomes SELECT job_no, seq, 2, kind, ended_at, ended FROM outcomes WHERE seq = 5")


def plant_a_part_of_a_former_generation(job: ChaosJob) -> None:
    """Item 5 ended under a later lease than the part says, whose checksum is of the part that belongs there."""
    sql(job, "UPDATE items SET fence = fence + 1000 WHERE seq = 5")
    metadata_file = results(job) / "job_metadata.json"
    metadata = json.loads(metadata_file.read_bytes())
    metadata["parts"]["full"][0]["artifact"]["sha256"] = hashlib.sha256(b"the new part").hexdigest()
    metadata_file.write_text(json.dumps(metadata))


def plant_an_entry_of_a_former_generation(job: ChaosJob) -> None:
    sql(job, "UPDATE items SET fence = fence + 1000 WHERE seq = 5")


SPOILED: list[tuple[Callable[[ChaosJob], None], Kind]] = [
    (flip_a_byte, Kind.TORN),
    (cut_a_file, Kind.TORN),
    (give_an_item_the_page_of_another, Kind.TORN),
    (give_an_item_the_record_of_another, Kind.TORN),
    (cut_the_metadata, Kind.TORN),
    (remove_a_file, Kind.LOST),
    (remove_the_metadata, Kind.LOST),
    (remove_an_entry, Kind.LOST),
    (delete_an_outcome, Kind.LOST),
    (delete_an_item, Kind.LOST),
    (reopen_an_item, Kind.LOST),
    (list_an_item_not, Kind.LOST),
    (delete_the_job, Kind.LOST),
    (edit_a_counter, Kind.COUNTED_TWICE),
    (edit_a_failure_counter, Kind.COUNTED_TWICE),
    (double_an_outcome, Kind.COUNTED_TWICE),
    (list_an_item_twice, Kind.COUNTED_TWICE),
    (turn_a_failure_into_success, Kind.WRONG),
    (list_an_item_wrongly, Kind.WRONG),
    (forget_an_attempt, Kind.WRONG),
    (put_the_job_into_another_state, Kind.WRONG),
    (leave_a_file_about, Kind.STRAY),
    (leave_a_room_behind, Kind.STRAY),
    (leave_a_document_half_written, Kind.STRAY),
    (forget_a_retry, Kind.LOST),
    (retry_another_item_than_was_ordered, Kind.WRONG),
    (leave_an_item_waiting, Kind.STRAY),
    (plant_poison, Kind.FALSE_POISON),
    (fetch_an_item_again_and_again, Kind.WRONG),
    (plant_metadata_of_a_former_generation, Kind.STALE),
    (plant_a_part_of_a_former_generation, Kind.STALE),
    (plant_an_entry_of_a_former_generation, Kind.STALE),
]


@pytest.mark.req("Z1", "Z2")
def test_a_job_that_ran_undisturbed_is_clean(job: ChaosJob) -> None:
    checked = check(job)
    assert checked.findings.clean, checked.findings.problems
    assert checked.attempts_begun == checked.attempts_kept > 120


@pytest.mark.req("Z1", "Z2")
@pytest.mark.parametrize(("spoil", "kind"), SPOILED, ids=[spoil.__name__ for spoil, _ in SPOILED])
def test_the_checker_finds_what_was_spoiled(job: ChaosJob, spoil: Callable[[ChaosJob], None], kind: Kind) -> None:
    spoil(job)
    assert check(job).findings.found[kind] > 0


@pytest.mark.req("S6", "Z1")
@pytest.mark.parametrize(("killed", "blamed"), [((), 0), ((1, 2), 0), ((1, 2, 3), 1)])
def test_only_three_kills_of_our_own_excuse_a_verdict_of_poison(
    job: ChaosJob, killed: tuple[int, ...], blamed: int
) -> None:
    item_id = list(expected.item_ids(120))[seq_of(expected.Fate.FOUND) - 1]
    with job.attempts_log.open("a", encoding="utf-8") as log:
        log.writelines(f"{item_id}\t{pid}\t0.0\n" for pid in (1, 2, 3))
    plant_poison(job)
    checked = check(job, killed)
    assert checked.blamed == blamed
    told = [str(problem) for problem in checked.findings.problems]
    assert sum(item_id in line and "must be" in line for line in told) == 1 - blamed


@pytest.mark.req("Z10")
@pytest.mark.parametrize(("pids", "found"), [((1, 2), True), (tuple(range(1, 40)), False)], ids=["living", "killed"])
def test_an_item_that_goes_round_among_few_workers_is_found(job: ChaosJob, pids: tuple[int, ...], found: bool) -> None:
    """Killed in the end or not: each death may have cost one attempt."""
    item_id = list(expected.item_ids(120))[4]
    with job.attempts_log.open("a", encoding="utf-8") as log:
        log.writelines(f"{item_id}\t{pids[at % len(pids)]}\t0.0\n" for at in range(30))
    told = [str(problem) for problem in check(job, pids).findings.problems]
    assert any("came to nothing" in line for line in told) is found, told


def test_the_checker_uses_nothing_of_the_product() -> None:
    code = "import sys, harness.chaos.check; print(*[name for name in sys.modules if name.startswith('swath')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) - {"swath", "harness"}
    assert {name for name in loaded if not name.startswith("harness.chaos")} == set()


def test_every_fate_occurs_in_a_small_job() -> None:
    assert {expected.fate(name) for name in expected.item_ids(60)} == set(expected.Fate)
