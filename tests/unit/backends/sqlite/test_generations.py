"""What a new generation hands out first, and what it leaves of the one before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import HandedBackItem, RetrySelection, SuccessOutcome
from tests.contract.suites.builders import claimed, end_job, failed, finished, ready, run_all, success
from tests.support.clock import FakeClock


@pytest.mark.req("J5")
async def test_in_a_new_generation_too_what_came_back_goes_before_what_was_never_leased(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore.open(tmp_path, clock)
    await ready(store, items=60, limit=2)
    await run_all(store)
    await end_job(store)
    await store.retry("job", RetrySelection(since=0.0))
    lease = await claimed(store)
    await finished(store, lease, handed_back=[HandedBackItem(seq=5, delay_seconds=10), HandedBackItem(seq=6)])
    assert (await claimed(store, "other")).items[0].seq == 6
    clock.advance(10)
    third = await claimed(store, "other")
    assert third.items[0].seq == 5
    assert third.items[1].seq > len(lease.items)
    await store.close()


@pytest.mark.req("J5", "J7")
async def test_counters_follow_the_rows_through_generations(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=6)
    for generation in range(1, 4):
        lease = await claimed(store)
        rest = await store.claim("worker")
        ended = [
            success(item.seq, SuccessOutcome.NOT_FOUND if item.seq % 2 else SuccessOutcome.FOUND)
            if item.seq > 2
            else failed(item.seq)
            for held in (lease, rest)
            if held is not None
            for item in held.items
        ]
        for held in (lease, rest):
            if held is not None:
                await finished(store, held, ended)
                await store.release("worker", held.fence)
        await end_job(store)
        status = await store.status("job")
        assert (status.generation, status.counts.success, status.counts.not_found) == (generation, 4, 2)
        assert status.failures == {"timeout": 2}
        await store.retry("job", RetrySelection(failed=True, item_ids=frozenset({"5"})))
        status = await store.status("job")
        assert (status.counts.success, status.counts.not_found, status.failures) == (3, 1, {})
    await store.close()
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        generations = dict(db.execute("SELECT generation, count(*) FROM outcomes GROUP BY generation"))
    assert generations == {1: 6, 2: 3, 3: 3}


@pytest.mark.req("J5")
async def test_a_generation_that_a_former_version_has_begun_goes_on(tmp_path: Path) -> None:
    """It wrote all rows at once, and had one rank for all retries."""
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=6)
    await run_all(store)
    await end_job(store)
    with closing(sqlite3.connect(tmp_path / "swath.db", isolation_level=None)) as db:
        db.execute("INSERT INTO waiting SELECT job_no, 3, 0, seq FROM items WHERE seq > 2")
        db.execute("UPDATE items SET state = 0, fence = 0 WHERE seq > 2")
        db.execute("UPDATE jobs SET state = 'pending', generation = 2, success = 2, started_at = NULL")
    lease = await claimed(store)
    assert {item.seq for item in lease.items} <= {3, 4, 5, 6}
    await store.cancel("job")
    await store.release("worker", lease.fence)
    status = await end_job(store)
    assert (status.generation, status.counts.success, status.counts.cancelled) == (2, 2, 4)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        assert db.execute("SELECT count(*) FROM waiting").fetchone() == (0,)
