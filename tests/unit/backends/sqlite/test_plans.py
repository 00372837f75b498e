"""The queries of the embedded store find their rows by key and never walk over finished ones."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store import store as store_module
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import HandedBackItem, RetrySelection, TryCounts
from swath.domain.lease import SlotReport
from swath.domain.service_key import Scope, new_key
from swath.domain.transitions import JobState
from tests.contract.suites.builders import batch, end_job, failed, new_job, policy, run_all, success, webhook
from tests.contract.suites.job_store_find import every_filter, found

# As many rows as there are leases, keys, jobs that are open or to be deleted, or values in a list. How a subquery finds
# its rows is a step of its own.
ALLOWED_SCANS = re.compile(
    r"SCAN (leases|meta|keys|key_lives|latest|\(subquery-\d+\)|listed VIRTUAL TABLE"
    r"|\w+ USING (COVERING )?INDEX jobs_(open|runnable|to_delete))"
)


class Recorder:
    """Every statement that a connection runs, once."""

    def __init__(self) -> None:
        self.statements: dict[str, None] = {}

    def __call__(self, statement: str) -> None:
        self.statements[statement] = None


@pytest.fixture
def plans(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "swath.db")
    connection.create_function("selected", 4, lambda *values: True)
    yield connection
    connection.close()


async def _exercise(store: SqliteStore) -> None:
    """The whole life of a job: worked on, left behind by the dead, stopped, looked at, retried, deleted."""
    await store.order(new_job("whole", on_demand=True), batch(0, 1, "abc"))
    await store.cancel("whole")
    await end_job(store, job_id="whole")
    await store.submit(new_job("j", policy=policy(retention_days=1)))
    await store.begin_load("j", "key")
    await store.load("j", batch(0, 1, [str(n) for n in range(1, 51)]))
    await store.seal("j", 1)
    lease = await store.claim("w")
    assert lease is not None
    assert store.begin(lease, 3)
    back = [HandedBackItem(seq=4), HandedBackItem(seq=5, tries=TryCounts(own=1))]
    await store.finish(lease, [success(1), failed(2)], back, SlotReport(ceiling=lease.slots, demand=3, begun=(3,)))
    await store.renew("w", [lease.fence])
    await store.release(lease.worker_id, lease.fence)
    for job_id in (None, "j"):
        assert await store.claim("w", job_id) is not None
    await _leave_a_poison(store)
    await store.pause("j")
    await store.resume("j")
    await store.change_policy("j", policy(4))
    await run_all(store)
    await store.cancel("j")
    await store.rescue("w")
    await _look(store)
    for lease_of_w in range(1, 20):
        await store.release("w", lease_of_w)
    await end_job(store, webhook=webhook("j"))
    await _serve(store)
    await store.retry("j", RetrySelection(failed=True, not_run=True, item_ids=frozenset({"1"})))
    await run_all(store)
    await end_job(store)
    await _look(store)
    await store.delete("j")
    right = await store.claim_deletion("w")
    assert right is not None
    while await store.purge(right, 20):
        pass


async def _serve(store: SqliteStore) -> None:
    for word in await store.take_webhooks(60):
        assert await store.note_webhook(word)
    assert await store.webhooks("j")
    key, _ = new_key("robot", (Scope.READ,), 1.0)
    await store.add_key(key)
    await store.revoke_key(key.key_id)
    assert await store.keys()


async def _leave_a_poison(store: SqliteStore) -> None:
    store._presence.is_dead = lambda worker_id: worker_id == "dead"  # type: ignore[method-assign]
    for _ in range(5):
        lease = await store.claim("dead")
        assert lease is not None
        seq = lease.items[0].seq
        assert store.begin(lease, seq)
        await store.finish(lease, [], [], SlotReport(ceiling=1, demand=1, begun=(seq,)))
        for rescued in await store.rescue("w"):
            await store.release("w", rescued.fence)


async def _look(store: SqliteStore) -> None:
    await store.status("j")
    await store.jobs(limit=5)
    await store.jobs(states=[JobState.RUNNING, JobState.CANCELLED])
    await store.jobs(limit=5, on_demand=False)
    for wanted in every_filter():
        await found(store, wanted, "j")
    await store.items("j", after=10, limit=5)
    await store.item("j", "7")


def _walks(plans: sqlite3.Connection, statement: str) -> list[str]:
    steps = [step for *_, step in plans.execute(f"EXPLAIN QUERY PLAN {statement}")]
    return [f"{step}: {statement}" for step in steps if step.startswith("SCAN") and not ALLOWED_SCANS.match(step)]


@pytest.mark.req("Z8", "Q2")
async def test_no_query_walks_a_table(tmp_path: Path, plans: sqlite3.Connection) -> None:
    store = SqliteStore.open(tmp_path, SystemClock())
    recorder = Recorder()
    assert await store.jobs() == []  # opens the connection that reads
    for connection in (store._db._write_connection, store._db._read_connection):
        assert connection is not None
        connection.set_trace_callback(recorder)
    await _exercise(store)
    await store.close()
    told = [text for text in recorder.statements if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT INTO \w+ SELECT)", text)]
    told.append(store_module._MAY_START.replace("?", "1"))
    assert len(told) > 100
    assert [walk for statement in told for walk in _walks(plans, statement)] == []


def test_a_walk_would_be_found(tmp_path: Path, plans: sqlite3.Connection) -> None:
    SqliteStore.open(tmp_path, SystemClock())._db._close()
    assert _walks(plans, "SELECT 1 FROM items WHERE state = 0")
    assert _walks(plans, "SELECT 1 FROM waiting WHERE seq = 1")
    assert not _walks(plans, "SELECT 1 FROM items WHERE job_no = 1 AND seq > 7")
