"""Large batches go into the store by many rows a statement, in the order of their ids; nobody can tell afterwards."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store import loading
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import Item
from swath.domain.job import Job
from swath.ports.job_store import DuplicateItem, ItemBatch

ROWS = 3 * loading._STATEMENT_ROWS + 7


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(tmp_path, SystemClock())
    await store.submit(Job(job_id="j", scraper_id="x"))
    yield store
    await store.close()


def batch(number: int, first_row: int, ids: list[str]) -> ItemBatch:
    items = tuple(Item(seq, item_id, {"id": item_id}) for seq, item_id in enumerate(ids, start=first_row))
    return ItemBatch(number, first_row, len(items), f"digest {number}", items)


@pytest.mark.req("J2", "Z8")
async def test_ids_in_no_order_keep_their_rows(store: SqliteStore) -> None:
    ids = [f"{number:05}" for number in range(ROWS)]
    random.Random(1).shuffle(ids)
    assert (await store.load("j", batch(0, 1, ids))).added == ROWS
    records = await store.items("j", limit=2 * ROWS)
    assert [(record.seq, record.item_id, record.input) for record in records] == [
        (seq, item_id, {"id": item_id}) for seq, item_id in enumerate(ids, start=1)
    ]


@pytest.mark.req("J2")
async def test_the_first_row_of_an_id_stays_whichever_statement_it_is_in(store: SqliteStore) -> None:
    ids = [str(number) for number in range(ROWS)]
    ids[-1], ids[5], ids[400] = "3", "900", "3"
    loaded = await store.load("j", batch(0, 1, [*ids, "900"]))
    assert loaded.duplicates == (
        DuplicateItem(401, "3", 4),
        DuplicateItem(ROWS, "3", 4),
        DuplicateItem(ROWS + 1, "900", 6),
    )
    assert loaded.added == ROWS + 1 - 3
    again = await store.load("j", batch(1, ROWS + 2, ["new", "3", "new"]))
    assert again.added == 1
    assert again.duplicates == (DuplicateItem(ROWS + 3, "3", 4), DuplicateItem(ROWS + 4, "new", ROWS + 2))
    assert (await store.status("j")).counts.total == loaded.added + 1
    assert (await store.item("j", "900")).seq == 6


@pytest.mark.req("J2")
async def test_a_batch_without_items_is_loaded_too(store: SqliteStore) -> None:
    assert (await store.load("j", ItemBatch(0, 1, 4, "all refused", ()))).added == 0
    assert (await store.load("j", batch(1, 5, ["a"]))).added == 1
