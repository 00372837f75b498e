"""What a step of a worker costs does not grow with the job: counted in steps of SQLite's machine, not in seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import HandedBackItem, TryCounts
from swath.domain.lease import Lease, SlotReport
from tests.contract.suites.builders import batch, claimed, failed, finished, new_job, ready, success
from tests.support.clock import FakeClock

SMALL, LARGE = 10_000, 200_000
MOST = 1.1
PAGE_BYTES = 4_096 + 24  # in the log

FILL = """
WITH RECURSIVE n (seq) AS (SELECT 2 UNION ALL SELECT seq + 1 FROM n WHERE seq < :rows)
INSERT INTO items (job_no, seq, item_id, input) SELECT 1, seq, seq, '{}' FROM n;
UPDATE items SET state = 1, generation = 1, fence = 1 WHERE seq <= :rows / 2;
INSERT INTO outcomes SELECT job_no, seq, 1, NULL, 1.0, '{"seq":' || seq || ',"state":"success"}' FROM items
    WHERE state = 1;
INSERT INTO waiting SELECT job_no, 1 + seq % 3, seq % 7, seq FROM items WHERE state = 0 AND seq <= :rows * 3 / 4;
UPDATE jobs SET state = 'running', started_at = 1.0, mark_at = 0, total = :rows, success = :rows / 2,
    next_seq = :rows * 3 / 4, fresh = :rows / 4, finished = :rows / 2
"""


async def _store_with(folder: Path, rows: int) -> SqliteStore:
    """A running job, half of it ended, a quarter waiting, the rest fresh."""
    store = SqliteStore.open(folder, FakeClock(), lease_seconds=15.0)
    await store.submit(new_job("job", limit=16))
    await store.load("job", batch(0, 1, ["1"]))
    await store.seal("job", 1)
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        for statement in FILL.split(";\n"):
            db.execute(statement.replace(":rows", str(rows)))
    return store


class Steps:
    """Counts what the machine of SQLite does in both connections of a store."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        for connection in (store._db._write_connection, store._db._read_connection):
            assert connection is not None
            connection.set_progress_handler(self._step, 1)

    def _step(self) -> int:
        self.count += 1
        return 0

    async def of(self, act: Callable[[], Awaitable[object]]) -> int:
        before = self.count
        await act()
        return self.count - before


async def _costs(folder: Path, rows: int) -> dict[str, int]:
    store = await _store_with(folder, rows)
    await store.status("job")  # opens the connection that reads
    steps = Steps(store)
    leases: list[Lease] = []
    report = SlotReport(ceiling=8, demand=8, begun=tuple(range(8)))

    async def claim() -> None:
        leases.append(await claimed(store))

    async def finish() -> None:
        seqs = [item.seq for item in leases[0].items]
        ended = [success(seq) if seq % 5 else failed(seq) for seq in seqs[:90]]
        await store.finish(
            leases[0], ended, [HandedBackItem(seq=seq, tries=TryCounts(own=1)) for seq in seqs[90:95]], report
        )

    async def rescue() -> None:
        store._presence.is_dead = lambda worker_id: True  # type: ignore[method-assign]
        assert len(await store.rescue("other")) == len(leases) - 1  # one was released

    costs = {
        "claim": await steps.of(claim),
        "next claim": await steps.of(claim),
        "finish": await steps.of(finish),
        "renew": await steps.of(lambda: store.renew("worker", [lease.fence for lease in leases])),
        "release": await steps.of(lambda: store.release("worker", leases[1].fence)),
        "claim again": await steps.of(claim),
        "rescue": await steps.of(rescue),
        "status": await steps.of(lambda: store.status("job")),
        "items": await steps.of(lambda: store.items("job", after=rows // 2 - 50, limit=100)),
        "item": await steps.of(lambda: store.item("job", str(rows // 3))),
        "claim an ending": await steps.of(lambda: store.claim_ending("worker")),
        "claim a deletion": await steps.of(lambda: store.claim_deletion("worker")),
        "pause": await steps.of(lambda: store.pause("job")),
        "cancel": await steps.of(lambda: store.cancel("job")),
    }
    for lease in leases:
        await store.release("other", lease.fence)
    costs |= await _costs_of_the_end(store, steps)
    await store.close()
    return costs


async def _costs_of_the_end(store: SqliteStore, steps: Steps) -> dict[str, int]:
    right = await store.claim_ending("worker")
    assert right is not None
    sweep = await steps.of(lambda: store.sweep(right, 100))
    await store.release("worker", right.fence)
    assert store._db._write_connection is not None
    store._db._write_connection.execute("UPDATE jobs SET state = 'cancelled', deleting = 1, delete_at = 0")
    deletion = await store.claim_deletion("worker")
    assert deletion is not None
    return {"sweep": sweep, "purge": await steps.of(lambda: store.purge(deletion, 100))}


@pytest.mark.req("Z8", "Q2")
async def test_no_step_costs_more_in_a_job_twenty_times_as_large(tmp_path: Path) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
    small, large = await _costs(tmp_path / "small", SMALL), await _costs(tmp_path / "large", LARGE)
    assert min(small.values()) > 10
    assert {act: (small[act], large[act]) for act in small if large[act] > small[act] * MOST} == {}


@pytest.mark.req("Z8", "Q2")
async def test_a_commit_of_one_outcome_writes_few_pages(tmp_path: Path) -> None:
    """The job's counters, the item, its end, the lease and the share; no index of jobs, for no state has changed."""
    store = SqliteStore.open(tmp_path, FakeClock())
    for number in range(20):
        await ready(store, f"other-{number}", items=1)
    await ready(store, items=2_000)
    lease = await claimed(store, job_id="job")
    assert store._db._write_connection is not None
    store._db._write_connection.execute("PRAGMA wal_autocheckpoint = 0")
    store._db._write_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for item in lease.items[:50]:
        await finished(store, lease, [success(item.seq)])
    log = tmp_path / "swath.db-wal"
    assert log.stat().st_size / 50 / PAGE_BYTES < 5
    await store.close()
