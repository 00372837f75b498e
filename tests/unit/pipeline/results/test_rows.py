"""Z8: however many records an item has, few are held at once; and what they are does not depend on it."""

from __future__ import annotations

from typing import Any

import pytest

from swath.domain.storage_keys import Layout
from swath.pipeline.results.records import BATCH_ROWS, read_rows
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.results.stored_jobs import NOT_FOUND, stored_job

pytestmark = pytest.mark.req("Z8", "R5")

MANY = [{"n": n, "owner": {"name": f"Owner {n}"}} for n in range(2 * BATCH_ROWS + 500)]
DATA: list[Any] = [MANY, NOT_FOUND, [], {"n": -1}, MANY[:BATCH_ROWS], [["a"], None, 5], NOT_FOUND]


@pytest.mark.parametrize("everything", [False, True])
async def test_records_come_in_bounded_batches(layout: Layout, everything: bool) -> None:
    store, storage = MemoryStore(FakeClock()), MemoryResults()
    await stored_job(store, storage, DATA, layout)
    status = await store.status("job")
    batches = [batch async for batch in read_rows(store, storage, status, everything=everything)]
    assert max(len(batch.rows) for batch in batches) == BATCH_ROWS
    assert [batch.items for batch in batches] == [0, 0, 4, 3], "each item is told once, when it is at its end"
    rows = [row for batch in batches for row in batch.rows]
    assert [row.data for row in rows if row.has_data] == [*MANY, {"n": -1}, *MANY[:BATCH_ROWS], ["a"], None, 5]
    numbers = [(row.item.record.seq, row.number) for row in rows if row.has_data]
    many = [(1, n + 1) for n in range(len(MANY))]
    assert numbers == [*many, (4, 1), *((5, n + 1) for n in range(BATCH_ROWS)), (6, 1), (6, 2), (6, 3)]
    assert [row.item.record.seq for row in rows if not row.has_data] == ([2, 3, 7] if everything else [])
    await store.close()
