"""What the embedded store makes of another start of the machine, and of rows that somebody edited."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import StoreDamaged
from swath.domain.item import HandedBackItem
from swath.domain.job import Job
from swath.domain.lease import SlotReport
from swath.pipeline.results.verify.verifier import verify
from tests.contract.suites.builders import new_job, ready, run_all
from tests.support.clock import FakeClock

LONG = 86_400.0


def _edit(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        db.execute(statement)


@pytest.mark.req("Z1", "Q2")
async def test_after_another_start_of_the_machine_leases_are_over_and_waits_are_due(tmp_path: Path) -> None:
    before = SqliteStore.open(tmp_path, FakeClock(boot=1_000_000.0), lease_seconds=LONG)
    await ready(before, items=60)
    lease = await before.claim("worker")
    assert lease is not None
    waits = lease.items[0].seq
    await before.finish(lease, [], [HandedBackItem(seq=waits, delay_seconds=LONG)], SlotReport(ceiling=1, demand=1))
    await before.close()
    (tmp_path / "workers" / "worker.lock").touch()
    _edit(tmp_path, "UPDATE meta SET value = 'another' WHERE key = 'boot'")
    after = SqliteStore.open(tmp_path, FakeClock(boot=5.0), lease_seconds=LONG)
    after._presence.is_dead = lambda worker_id: False  # type: ignore[method-assign]  # only the clock may tell
    (rescued,) = await after.rescue("other")
    assert rescued.returned == len(lease.items) - 1
    await after.release("other", rescued.fence)
    again = await after.claim("other")
    assert again is not None
    assert waits in {item.seq for item in again.items}
    await after.close()


@pytest.mark.req("Q2")
async def test_the_same_start_of_the_machine_keeps_leases_and_waits(tmp_path: Path) -> None:
    clock = FakeClock()
    before = SqliteStore.open(tmp_path, clock, lease_seconds=LONG)
    await ready(before, items=2)
    lease = await before.claim("worker")
    assert lease is not None
    second = SqliteStore.open(tmp_path, clock, lease_seconds=LONG)
    assert await second.rescue("other") == []
    await second.close()
    await before.close()


@pytest.mark.req("R4")
async def test_verify_finds_an_item_whose_state_was_edited(tmp_path: Path) -> None:
    clock = FakeClock()
    store, storage = SqliteStore.open(tmp_path, clock), FolderResults(tmp_path / "results")
    await ready(store, items=3)
    await run_all(store)
    assert (await verify(store, storage, "job")).ok
    _edit(tmp_path, "UPDATE items SET state = 2 WHERE seq = 1")
    report = await verify(store, storage, "job")
    assert set(report.found) == {"counter_wrong"}
    await store.close()
    await storage.close()


@pytest.mark.req("R4", "Z5")
@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE jobs SET spec = 'nonsense'",
        "UPDATE jobs SET spec = '{\"job_id\": 5}'",
        "UPDATE jobs SET state = 'lost'",
        "UPDATE outcomes SET ended = '{}'",
        "UPDATE items SET state = 9",
    ],
)
async def test_a_row_that_cannot_be_read_is_called_damaged(tmp_path: Path, edit: str) -> None:
    store, storage = SqliteStore.open(tmp_path, FakeClock()), FolderResults(tmp_path / "results")
    await ready(store, items=3)
    await run_all(store)
    _edit(tmp_path, edit)
    with pytest.raises(StoreDamaged):
        await verify(store, storage, "job")
    await store.submit(Job(job_id="another", scraper_id="x"))  # which harms nobody else
    await store.close()
    await storage.close()


@pytest.mark.req("J4")
async def test_the_right_to_end_can_be_asked_for_one_job_or_without_some(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    for name in ("first", "second"):
        await store.submit(new_job(name))
        await store.cancel(name)
    assert await store.claim_ending("w", without=["first", "second"]) is None
    lease = await store.claim_ending("w", job_id="second")
    assert lease is not None
    assert lease.job.job_id == "second"
    assert await store.claim_ending("w", without=["first"]) is None
    await store.close()


@pytest.mark.req("Z5")
async def test_a_job_that_cannot_be_read_is_passed_over_and_others_are_run_and_ended(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=1)
    await ready(store, "second", items=2)
    _edit(tmp_path, "UPDATE jobs SET spec = '{' WHERE job_id = 'job'")
    await run_all(store)
    lease = await store.claim_ending("worker")
    assert lease is not None
    assert lease.job.job_id == "second"
    await store.close()


@pytest.mark.req("Z5", "Z10")
@pytest.mark.parametrize("left", [100, 4_096, 20_000])
async def test_a_store_that_was_cut_short_says_what_that_means_and_what_to_do(tmp_path: Path, left: int) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=200)
    await store.close()
    os.truncate(tmp_path / "swath.db", left)

    async def look() -> None:
        cut = SqliteStore.open(tmp_path, FakeClock())
        try:
            await cut.status("job")
            await cut.items("job")
            await cut.pause("job")
        finally:
            await cut.close()

    with pytest.raises(StoreDamaged) as raised:
        await look()
    told = str(raised.value)
    assert f"the store {tmp_path / 'swath.db'} is damaged" in told
    assert "put a backup in its place (back-up-and-move in the docs)" in told
    assert "swath doctor" in told
    assert "\n" not in told
