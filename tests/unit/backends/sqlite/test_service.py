"""What the embedded store does for the service around the jobs: how many commits it takes, and what stays of a job."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import Conflict
from swath.domain.item import HandedBackItem, ItemFilter
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    batch,
    claimed,
    end_job,
    failed,
    finished,
    new_job,
    ready,
    run_all,
    success,
    webhook,
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(tmp_path, SystemClock())
    yield store
    await store.close()


async def _commits(store: SqliteStore, act: Callable[[], Awaitable[object]]) -> int:
    told: list[str] = []
    assert store._db._write_connection is not None
    store._db._write_connection.set_trace_callback(told.append)
    await act()
    store._db._write_connection.set_trace_callback(None)
    return told.count("COMMIT")


@pytest.mark.req("I3")
async def test_an_order_is_one_commit(store: SqliteStore) -> None:
    assert await _commits(store, lambda: store.order(new_job(), batch(0, 1, [str(n) for n in range(100)]))) == 1
    assert (await store.status("job")).state is JobState.PENDING


@pytest.mark.req("I3", "J6")
async def test_an_order_that_is_refused_is_none(store: SqliteStore) -> None:
    async def refused() -> None:
        with pytest.raises(Conflict):
            await store.order(new_job(), batch(0, 1, "aa"))

    assert await _commits(store, refused) == 0


@pytest.mark.req("N1", "Z1")
async def test_an_end_with_a_webhook_is_one_commit(store: SqliteStore) -> None:
    await ready(store)
    await run_all(store)
    right = await store.claim_ending("worker")
    assert right is not None
    assert await _commits(store, lambda: store.end(right, JobState.COMPLETED, {}, webhook())) == 1
    assert len(await store.webhooks("job")) == 1


@pytest.mark.req("N1")
async def test_asking_for_webhooks_when_none_is_due_writes_nothing(store: SqliteStore) -> None:
    assert await _commits(store, lambda: store.take_webhooks(60)) == 0
    await ready(store)
    await run_all(store)
    await end_job(store, webhook=webhook())
    assert await _commits(store, lambda: store.take_webhooks(60)) == 1
    assert await _commits(store, lambda: store.take_webhooks(60)) == 0


@pytest.mark.req("J5", "N1")
async def test_nothing_of_a_deleted_job_stays(store: SqliteStore, tmp_path: Path) -> None:
    await store.submit(new_job())
    await store.begin_load("job", "key")
    await store.load("job", batch(0, 1, [str(n) for n in range(9)]))
    await store.seal("job", 1)
    lease = await claimed(store)
    await finished(store, lease, [success(1), failed(2)], [HandedBackItem(seq=3)])
    await store.release("worker", lease.fence)
    await store.cancel("job")
    await end_job(store, webhook=webhook())
    before = _rows(tmp_path)
    filled = {"jobs", "failures", "batches", "load_keys", "items", "outcomes", "webhooks"}
    assert {table for table, rows in before.items() if rows} == filled
    await store.delete("job")
    right = await store.claim_deletion("worker")
    assert right is not None
    while await store.purge(right, 5):
        pass
    assert set(_rows(tmp_path).values()) == {0}


def _rows(folder: Path) -> dict[str, int]:
    """Of all tables that know jobs."""
    with closing(sqlite3.connect(folder / "swath.db")) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        of_jobs = [
            name
            for name in tables
            if "job_no" in [column for _, column, *_ in db.execute(f"PRAGMA table_info({name})")]
        ]
        assert len(of_jobs) >= 10
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in of_jobs}


@pytest.mark.req("I2")
async def test_what_failed_without_saying_why_is_found_too(store: SqliteStore, tmp_path: Path) -> None:
    await ready(store, items=9)
    await finished(store, await claimed(store), [failed(1), failed(2)])
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.execute("UPDATE outcomes SET kind = NULL WHERE seq = 2")
        db.execute("UPDATE failures SET items = 1")
    page = await store.find_items("job", ItemFilter(ItemState.FAILED))
    assert [record.seq for record in page.items] == [1, 2]
