"""What a page of a listing costs does not grow with the store: counted in steps of SQLite's machine, not in seconds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.store import items
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import ItemFilter
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import batch, new_job
from tests.contract.suites.job_store_find import every_filter
from tests.support.clock import FakeClock
from tests.unit.backends.sqlite.test_cost import Steps

SMALL, LARGE = 60_000, 240_000
MOST = 1.1
MOST_STEPS = 400_000  # some milliseconds

FILL = """
WITH RECURSIVE n (seq) AS (SELECT 2 UNION ALL SELECT seq + 1 FROM n WHERE seq < :rows)
INSERT INTO items (job_no, seq, item_id, input) SELECT 1, seq, seq, '{}' FROM n;
UPDATE items SET state = CASE WHEN seq % 50 = 0 THEN 2 ELSE 1 END, generation = 2, fence = 1 WHERE seq <= :rows - 9;
INSERT INTO outcomes SELECT job_no, seq, 1, 'timeout', 1.0, '{"seq":' || seq || ',"state":"failed"}' FROM items
    WHERE seq % 3 = 0;
INSERT INTO outcomes SELECT job_no, seq, 2, CASE state WHEN 2 THEN 'blocked' END, 1.0,
    CASE state WHEN 2 THEN '{"seq":' || seq || ',"state":"failed","failure":{"kind":"blocked","message":"no"}}'
    ELSE '{"seq":' || seq || ',"state":"success"}' END FROM items WHERE state <> 0;
INSERT INTO failures SELECT 1, 'blocked', count(*) FROM items WHERE state = 2;
UPDATE jobs SET state = 'running', generation = 2, total = :rows, failed = (SELECT items FROM failures),
    success = :rows - 9 - (SELECT items FROM failures)
"""


async def _store_with(folder: Path, rows: int) -> SqliteStore:
    """Nearly all has ended: a third failed first and went well later, one in 50 has failed."""
    folder.mkdir()
    store = SqliteStore.open(folder, FakeClock())
    await store.submit(new_job())
    await store.load("job", batch(0, 1, ["1"]))
    await store.seal("job", 1)
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        for statement in FILL.split(";\n"):
            db.execute(statement.replace(":rows", str(rows)))
    await store.status("job")  # opens the connection that reads
    return store


async def _costs(folder: Path, rows: int) -> dict[tuple[ItemFilter, int], int]:
    store = await _store_with(folder, rows)
    steps, costs = Steps(store), {}
    for wanted in every_filter():
        for after in (0, 30_000):
            costs[wanted, after] = await steps.of(lambda w=wanted, a=after: store.find_items("job", w, a))  # type: ignore[misc]
    await store.close()
    return costs


@pytest.mark.req("I2", "Z8")
async def test_a_page_costs_the_same_in_a_job_four_times_as_large_whatever_is_looked_for(tmp_path: Path) -> None:
    small, large = await _costs(tmp_path / "small", SMALL), await _costs(tmp_path / "large", LARGE)
    assert max(large.values()) < MOST_STEPS
    assert {act: (small[act], large[act]) for act in small if large[act] > small[act] * MOST} == {}


@pytest.mark.req("I2")
async def test_few_among_many_are_found_in_one_page(tmp_path: Path) -> None:
    store = await _store_with(tmp_path / "store", SMALL)
    for wanted in (ItemFilter(ItemState.FAILED), ItemFilter(kind="blocked"), ItemFilter(ItemState.FAILED, "blocked")):
        page = await store.find_items("job", wanted, limit=100)
        assert [record.seq for record in page.items] == list(range(50, 5_001, 50))
        page = await store.find_items("job", wanted, after=50_000, limit=500)
        assert (len(page.items), page.next_after) == (199, None)
    await store.close()


@pytest.mark.req("I2")
async def test_a_page_may_be_empty_though_more_follow(tmp_path: Path) -> None:
    store = await _store_with(tmp_path / "store", SMALL)
    page = await store.find_items("job", ItemFilter(ItemState.PENDING))
    assert (page.items, page.next_after) == ([], items.LOOKED_AT)
    pages, after = 1, page.next_after
    while after is not None:
        page = await store.find_items("job", ItemFilter(ItemState.PENDING), after)
        pages, after = pages + 1, page.next_after
    assert (pages, len(page.items)) == (SMALL // items.LOOKED_AT, 9)
    stale = await store.find_items("job", ItemFilter(kind="timeout"))
    assert stale.items == []
    assert stale.next_after is not None
    await store.close()


async def _listing_costs(folder: Path, jobs: int) -> dict[str, int]:
    """Of a store with so many jobs; one in a hundred has failed, every second was on demand."""
    folder.mkdir()
    store = SqliteStore.open(folder, FakeClock())
    await store.submit(new_job("job-0"))
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        db.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) "
            "INSERT INTO jobs (job_id, state, priority, concurrency, spec, ordered, on_demand) "
            "SELECT 'job-' || n, CASE n % 100 WHEN 0 THEN 'failed' ELSE 'completed' END, 0, 1, spec, spec, n % 2 "
            "FROM n, jobs WHERE job_no = 1",
            (jobs,),
        )
    await store.jobs()
    steps = Steps(store)
    costs = {
        "all": await steps.of(lambda: store.jobs(limit=10)),
        "failed": await steps.of(lambda: store.jobs(limit=10, states=[JobState.FAILED])),
        "from the middle": await steps.of(lambda: store.jobs("job-500", 5, states=[JobState.FAILED])),
        "nowhere": await steps.of(lambda: store.jobs(limit=10, states=[JobState.PAUSED])),
        "not on demand": await steps.of(lambda: store.jobs(limit=10, on_demand=False)),
    }
    await store.close()
    return costs


@pytest.mark.req("I2", "Z8")
async def test_listing_jobs_costs_the_same_in_a_store_of_ten_times_as_many(tmp_path: Path) -> None:
    small, large = await _listing_costs(tmp_path / "small", 2_000), await _listing_costs(tmp_path / "large", 20_000)
    assert {act: (small[act], large[act]) for act in small if large[act] > small[act] * MOST} == {}
