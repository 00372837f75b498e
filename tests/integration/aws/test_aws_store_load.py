"""Loading into DynamoDB: rows first, truth last. What a load leaves behind that was given up is no part of any job."""

import random
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from swath.backends.aws.client.client import Answer, Send
from swath.backends.aws.store.item_ids import ItemIdIndex, hash_item_id
from swath.backends.aws.store.store import AwsStore
from swath.domain.errors import BadInput, StoreUnavailable
from swath.domain.item import Item, RetrySelection
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch
from tests.contract.suites.builders import (
    batch,
    claim_all,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    run_all,
    success,
)
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock


@pytest.fixture
def store(stores: Stores, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path, FakeClock())


class DiesBefore:
    """Lets the table vanish just before the next request of a kind, as for a process that is killed there."""

    def __init__(self) -> None:
        self.operation: str | None = None

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if operation == self.operation:
            raise EndpointConnectionError(endpoint_url="http://gone.invalid")
        return await send()


@pytest.mark.req("J2", "Z1", "Q3")
async def test_rows_of_a_batch_that_was_never_committed_are_not_seen(stores: Stores, tmp_path: Path) -> None:
    death = DiesBefore()
    first = stores.open(tmp_path, FakeClock(), intercept=death, patience_seconds=1.0)
    await first.submit(new_job())
    await first.load("job", batch(0, 1, "abc"))
    death.operation = "transact_write_items"
    with pytest.raises(StoreUnavailable):
        await first.load("job", batch(1, 4, [f"lost-{n}" for n in range(300)]))
    second = stores.open(tmp_path, FakeClock())
    assert list(await listing(second)) == [1, 2, 3]
    other = batch(1, 4, {4: "lost-7", 6: "c"}, rows=3)
    assert await second.load("job", other) == BatchResult(1, (DuplicateItem(6, "c", 3),))
    await second.seal("job", 2)
    assert [record.item_id for record in (await listing(second)).values()] == ["a", "b", "c", "lost-7"]
    leased = [item.item_id for lease in await claim_all(second) for item in lease.items]
    assert leased == ["a", "b", "c", "lost-7"]
    assert (await second.status("job")).counts.total == 4


@pytest.mark.req("J2", "Q3")
async def test_duplicates_are_found_over_the_whole_job_by_whoever_goes_on_loading(
    stores: Stores, tmp_path: Path
) -> None:
    ids = [f"parcel-{n}" for n in range(2_500)]
    first = stores.open(tmp_path / "one", FakeClock())
    await first.submit(new_job())
    await first.load("job", batch(0, 1, ids[:1_200]))
    second = stores.open(tmp_path / "two", FakeClock())
    loaded = await second.load("job", batch(1, 1_201, [*ids[1_000:2_000], *ids[:5]]))
    assert loaded.added == 800
    assert [(each.seq, each.first_seq) for each in loaded.duplicates[:2]] == [(1_201, 1_001), (1_202, 1_002)]
    assert loaded.duplicates[-1] == DuplicateItem(2_205, "parcel-4", 5)
    assert await first.load("job", batch(2, 2_206, ids)) == await second.load("job", batch(2, 2_206, ids))
    assert (await second.seal("job", 3)).counts.total == 2_500


@pytest.mark.req("J2", "Q3")
async def test_an_index_of_ids_finds_each_of_many_and_no_other(tmp_path: Path) -> None:
    index = ItemIdIndex(tmp_path)
    for seq in range(1, 30_001):
        index.add(hash_item_id(str(seq)), seq)
    assert all(index.find(hash_item_id(str(seq))) == seq for seq in range(1, 30_001))
    assert all(index.find(hash_item_id(str(seq))) is None for seq in range(30_001, 31_000))
    index.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("J2", "Q3")
async def test_long_inputs_are_spread_over_rows_and_come_back_as_they_were(store: AwsStore) -> None:
    luck = random.Random(1)
    items = tuple(Item(seq, str(seq), {"blob": luck.randbytes(50_000).hex()}) for seq in range(1, 13))
    await store.submit(new_job())
    await store.load("job", ItemBatch(0, 1, 12, "digest", items))
    assert [(record.seq, record.input) for record in await store.items("job")] == [(i.seq, i.input) for i in items]


@pytest.mark.req("J2", "Q3")
async def test_an_input_that_no_row_can_hold_is_refused_by_its_row(store: AwsStore) -> None:
    luck = random.Random(1)
    items = (Item(1, "a", {}), Item(2, "b", {"blob": luck.randbytes(500_000).hex()}))
    await store.submit(new_job())
    with pytest.raises(BadInput, match=r"row 2: .* 380,000 at most; shorten it or take it out"):
        await store.load("job", ItemBatch(0, 1, 2, "digest", items))
    compressible = (Item(1, "a", {"blob": "x" * 1_000_000}),)
    assert (await store.load("job", ItemBatch(0, 1, 1, "other", compressible))).added == 1


@pytest.mark.req("J5", "Q3")
async def test_a_deleted_job_leaves_not_one_row(stores: Stores, store: AwsStore) -> None:
    await store.submit(new_job())
    await store.load("job", batch(0, 1, [str(n) for n in range(1, 251)]))
    await store.seal("job", 1)
    leases = await claim_all(store)
    for lease in leases:
        await finished(store, lease, [failed(item.seq) for item in lease.items[:2]])
        await store.release(lease.worker_id, lease.fence)
    await run_all(store)
    await end_job(store)
    await store.retry("job", RetrySelection(failed=True))
    for lease in await claim_all(store):
        await finished(store, lease, [success(lease.items[0].seq)])
        await store.release(lease.worker_id, lease.fence)
    await store.cancel("job")
    await end_job(store)
    await store.delete("job")
    deletion = await store.claim_deletion("worker")
    assert deletion is not None
    while await store.purge(deletion, 100):
        pass
    assert await stores.keys() == {("fleet", "counters"), ("fleet", "clock")}


@pytest.mark.req("J5", "Q3")
async def test_an_abandoned_load_leaves_not_one_row(stores: Stores, tmp_path: Path) -> None:
    death = DiesBefore()
    store = stores.open(tmp_path, FakeClock(), intercept=death, patience_seconds=1.0)
    await store.submit(new_job())
    await store.load("job", batch(0, 1, [str(n) for n in range(1, 251)]))
    death.operation = "transact_write_items"
    with pytest.raises(StoreUnavailable):
        await store.load("job", batch(1, 20_001, [f"far-{n}" for n in range(300)]))
    death.operation = None
    await store.abandon("job")
    left = {key for key in await stores.keys() if not key[0].startswith(("items/1/2", "ids/1"))}
    assert left == {("fleet", "counters")}


@pytest.mark.req("J5", "Z1", "Q3")
async def test_what_is_left_of_a_removal_that_died_is_removed_by_the_next(stores: Stores, tmp_path: Path) -> None:
    death = DiesBefore()
    store = stores.open(tmp_path, FakeClock(), intercept=death, patience_seconds=1.0)
    await store.submit(new_job())
    await store.load("job", batch(0, 1, [str(n) for n in range(1, 251)]))
    death.operation = "batch_write_item"
    with pytest.raises(StoreUnavailable):
        await store.abandon("job")
    other = stores.open(tmp_path, FakeClock())
    assert await other.jobs() == []
    assert (await other.submit(new_job(limit=2))).counts.total == 0
    assert await other.claim_deletion("worker") is None
    await other.abandon("job")
    assert await stores.keys() == {("fleet", "counters"), ("fleet", "clock")}
