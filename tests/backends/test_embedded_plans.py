"""The queries of the hot path find their rows by key and never walk over finished ones."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.embedded.store import EmbeddedStore
from swath.domain.attempt import Ended, Finding, HandedBack
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.lease import Report
from swath.domain.transitions import ItemState
from swath.ports.job_store import Batch

ALLOWED_SCANS = {"leases", "meta"}  # as many rows as there are leases


class Recorder:
    """Every statement that a connection runs, once."""

    def __init__(self) -> None:
        self.statements: dict[str, None] = {}

    def __call__(self, statement: str) -> None:
        self.statements[statement] = None


@pytest.fixture
def plans(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "swath.db")
    yield connection
    connection.close()


async def _exercise(store: EmbeddedStore) -> None:
    await store.submit(Job(job_id="j", scraper_id="x"))
    await store.load("j", Batch(0, 1, 50, "d", tuple(Item(i, str(i), {"n": i}) for i in range(1, 51))))
    await store.seal("j", 1)
    lease = await store.claim("w")
    assert lease is not None
    ended = [Ended(seq=1, state=ItemState.SUCCESS, finding=Finding.FOUND)]
    await store.finish(lease, ended, [HandedBack(seq=2)], Report(ceiling=lease.slots, demand=3, begun=(3,)))
    await store.renew("w", [lease.fence])
    await store.release(lease.worker_id, lease.fence)
    assert await store.claim("w") is not None
    await store.rescue("w")
    await store.claim_ending("w")
    await store.status("j")
    await store.items("j", after=10, limit=5)
    await store.item("j", "7")


@pytest.mark.req("Z8", "Q2")
async def test_no_query_of_the_hot_path_walks_a_table(tmp_path: Path, plans: sqlite3.Connection) -> None:
    store = EmbeddedStore.open(tmp_path, SystemClock())
    recorder = Recorder()
    for connection in (store._db._write_connection, store._db._read_connection):
        connection.set_trace_callback(recorder)
    await _exercise(store)
    await store.close()
    walked = []
    for statement in recorder.statements:
        if not re.match(r"\s*(SELECT|UPDATE|DELETE)", statement):
            continue
        for *_, step in plans.execute(f"EXPLAIN QUERY PLAN {statement}"):
            table = re.match(r"SCAN (\w+)", step)
            open_jobs_only = re.search(r"USING (COVERING )?INDEX jobs_(open|runnable)", step)
            if table and table[1] not in ALLOWED_SCANS and not open_jobs_only:
                walked.append(f"{step}: {statement}")
    assert len(recorder.statements) > 20
    assert walked == []
