"""What SQLite leaves behind of deleted jobs, looked for in every byte of its files."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite import secure_delete
from swath.backends.sqlite.store.store import SqliteStore
from swath.backends.sqlite.transaction_limits import MAX_BYTES
from swath.domain.transitions import JobState
from tests.contract.suites.builders import batch, end_job, new_job, run_all
from tests.support.clock import FakeClock

pytestmark = [pytest.mark.req("J5", "R2")]

PLANTED = "planted-5f0e7a"
SIZES = {"secret": (120, 250, 90, 300), "other": (40, 80, 20, 10)}  # at which SQLite alone leaves something behind


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore.open(tmp_path, FakeClock(), lease_seconds=15.0)
    yield opened
    await opened.close()


def others_connection(folder: Path) -> closing[sqlite3.Connection]:
    """Another process has the store open, and so keeps SQLite from removing its log."""
    return closing(sqlite3.connect(folder / "swath.db", isolation_level=None))


def left_in(folder: Path) -> dict[str, int]:
    """How often the planted word stands in which file."""
    counted = {file.name: file.read_bytes().count(PLANTED.encode()) for file in folder.glob("swath.db*")}
    return {name: times for name, times in counted.items() if times}


async def loaded(store: SqliteStore, job_id: str, word: str, items: int) -> None:
    await store.submit(new_job(job_id))
    await store.load(job_id, batch(0, 1, [f"{word}-{n}" for n in range(items)]))
    await store.seal(job_id, 1)


async def jobs_of_all_sizes(store: SqliteStore) -> list[str]:
    """Secret ones between others, so that their rows share pages that are split and moved; all have ended."""
    secret = [f"secret-{n}" for n in range(4)]
    for number, job_id in enumerate(secret):
        await loaded(store, f"other-{number}", "other", SIZES["other"][number])
        await loaded(store, job_id, PLANTED, SIZES["secret"][number])
        await run_all(store)
        for _ in range(2):
            await end_job(store)
    return secret


async def delete(store: SqliteStore, job_id: str, at_once: int = 10) -> None:
    await store.delete(job_id)
    lease = await store.claim_deletion("remover", job_id)
    assert lease is not None
    while await store.purge(lease, at_once):
        pass


async def test_nothing_is_left_of_deleted_jobs_while_another_process_has_the_store_open(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_delete, "_REST_TIMES", 0.0)
    with others_connection(tmp_path) as other:
        other.execute("SELECT * FROM meta").fetchall()
        secret = await jobs_of_all_sizes(store)
        assert left_in(tmp_path) != {}
        for job_id in secret:
            await delete(store, job_id)
        assert left_in(tmp_path) == {}
        assert [status.job.job_id for status in await store.jobs()] == [f"other-{n}" for n in (3, 2, 1, 0)]
        assert (await store.status("other-3")).counts.success == 10


async def test_a_store_that_often_loses_jobs_is_scrubbed_for_many_at_once(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.backends.sqlite.database._TEND_SECONDS", 0.0)
    monkeypatch.setattr(secure_delete, "_REST_TIMES", 1e9)
    first, *others = await jobs_of_all_sizes(store)
    await delete(store, first)
    before = scraps(tmp_path)
    for job_id in others:
        await delete(store, job_id)
    assert (before, scraps(tmp_path)) == (0, len(others))
    store._db._scrubber._rests_until = 0.0
    await loaded(store, "any", "other", 1)
    assert (scraps(tmp_path), left_in(tmp_path)) == (0, {})


async def test_what_was_put_off_is_done_before_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_delete, "_REST_TIMES", 1e9)
    store = SqliteStore.open(tmp_path, FakeClock(), lease_seconds=15.0)
    for job_id in await jobs_of_all_sizes(store):
        await delete(store, job_id)
    with others_connection(tmp_path) as other:
        other.execute("SELECT * FROM meta").fetchall()
        looking = SqliteStore.open(tmp_path, FakeClock(), lease_seconds=15.0)
        await looking.jobs()
        await looking.close()
        assert scraps(tmp_path) == 3, "who only looks writes nothing"
        await store.close()
        assert left_in(tmp_path) == {}


async def test_who_reads_is_waited_for_and_the_file_not_written_anew_again(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.backends.sqlite.database._TEND_SECONDS", 0.0)
    monkeypatch.setattr(secure_delete, "_SECONDS", 0.05)
    monkeypatch.setattr(secure_delete, "_REST_TIMES", 0.0)
    secret = await jobs_of_all_sizes(store)
    with others_connection(tmp_path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        for job_id in secret:
            await delete(store, job_id)
        assert left_in(tmp_path) != {}
    monkeypatch.setattr(secure_delete, "run_in_turn", None)
    await loaded(store, "any", "other", 1)
    assert (scraps(tmp_path), left_in(tmp_path)) == (0, {})


async def test_what_another_process_has_finished_spares_nobody_the_next_time(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_delete, "_SECONDS", 0.05)
    monkeypatch.setattr(secure_delete, "_REST_TIMES", 0.0)
    first, *others = await jobs_of_all_sizes(store)
    with others_connection(tmp_path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        await delete(store, first)
    another = SqliteStore.open(tmp_path, FakeClock(), lease_seconds=15.0)
    await another._db.scrub()
    await another.close()
    assert scraps(tmp_path) == 0
    for job_id in others:
        await delete(store, job_id)
    assert (scraps(tmp_path), left_in(tmp_path)) == (0, {})


async def test_a_large_store_is_not_written_anew_and_keeps_nobody_waiting(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is cut off all the same, and rows and pages that are free are overwritten. Once somebody writes the file
    anew while nobody uses it, nothing is left."""
    monkeypatch.setattr(secure_delete, "MAX_BYTES", 4_096)
    monkeypatch.setattr(secure_delete, "run_in_turn", None)
    secret = await jobs_of_all_sizes(store)
    before = left_in(tmp_path)
    with others_connection(tmp_path) as other:
        other.execute("SELECT * FROM meta").fetchall()
        for job_id in secret:
            await delete(store, job_id)
    assert scraps(tmp_path) == 0
    left = left_in(tmp_path)
    assert set(left) <= {"swath.db"}
    assert sum(left.values()) < sum(before.values()) / 10
    await store.close()
    with others_connection(tmp_path) as alone:
        alone.execute("VACUUM")
    assert left_in(tmp_path) == {}


def scraps(folder: Path) -> int:
    """After how many deletions the store was not scrubbed."""
    with others_connection(folder) as db:
        told = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('scraps', 'scrubbed')").fetchall())
    return int(told.get("scraps", 0)) - int(told.get("scrubbed", 0))


@pytest.mark.req("Z10")
@pytest.mark.parametrize("mib", [7.0, 7.96])
def test_no_store_is_written_anew_of_which_the_log_would_be_too_large(tmp_path: Path, mib: float) -> None:
    """A page takes a little more in the log than in the file."""
    with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE rows (data)")
        db.execute("INSERT INTO rows VALUES (zeroblob(?))", (int(mib * (1 << 20)),))
        is_small = secure_delete._is_small(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (tmp_path / "store").stat().st_size <= MAX_BYTES
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("VACUUM")
        assert is_small == ((tmp_path / "store-wal").stat().st_size <= MAX_BYTES) == (mib < 7.5)


@pytest.mark.req("Z10")
async def test_the_command_of_the_page_shrinks_a_large_store_and_leaves_nothing_of_deleted_jobs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "manage-jobs.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^python3 -c '(import sqlite3; .*VACUUM.*)'$", page, re.MULTILINE)
    file = tmp_path / "swath-data" / "swath.db"
    store = SqliteStore.open(file.parent, FakeClock())
    for job_id, word in (("kept", "other"), ("large", PLANTED)):
        await store.submit(new_job(job_id))
        await store.load(job_id, batch(0, 1, [f"{word}-{n:06}-{'x' * 400}" for n in range(12_000)]))
        await store.seal(job_id, 1)
    await store.cancel("large")
    lease = await store.claim_ending("worker", "large")
    assert lease is not None
    while await store.sweep(lease, 5_000):
        pass
    await store.end(lease, JobState.CANCELLED, {"parts": 0})
    await delete(store, "large", at_once=5_000)
    await store.close()
    before = file.stat().st_size
    assert before > MAX_BYTES
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    assert file.stat().st_size < 0.7 * before
    assert left_in(file.parent) == {}
    store = SqliteStore.open(file.parent, FakeClock())
    assert (await store.status("kept")).counts.pending == 12_000
    await store.close()
