"""Whoever comes after a dead holder publishes of its packs what the rows need, with the same index."""

from __future__ import annotations

import pytest

from swath.domain.item import EndedItem, Item, SuccessOutcome
from swath.domain.job import Job
from swath.domain.lease import SlotReport
from swath.domain.result import Exchange, Page, Result
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.pipeline.finish.cleanup import PackLedger, settle_abandoned_lease
from swath.pipeline.formats.packs import Packer, index_key, needed_pack_bytes, pack_locations, packed_artifacts
from swath.pipeline.formats.stored_files import read_item_files
from swath.ports.job_store import ItemBatch
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore

pytestmark = pytest.mark.req("R2", "Z1", "Z2")


@pytest.mark.parametrize("by", ["holder", "rescuer"])
async def test_what_won_in_a_pack_is_published_and_nothing_behind_it(by: str) -> None:
    store, storage = MemoryStore(FakeClock()), MemoryResults()
    job = Job(job_id="j", scraper_id="x", layout=Layout.WARC)
    await store.submit(job)
    await store.load("j", ItemBatch(0, 1, 3, "d", (Item(1, "a", {}), Item(2, "c", {}), Item(3, "b", {}))))
    await store.seal("j", 1)
    lease = await store.claim("w")
    assert lease is not None
    await storage.open_lease("j", lease.fence)
    ledger = PackLedger()
    for seq, item_id in ((1, "a"), (2, "c"), (3, "b")):
        packer = Packer(job)
        exchange = Exchange(method="GET")
        page = Page(name="html", url=f"https://a.test/{item_id}", status=200, body=b"<p>", exchange=exchange)
        item = packer.add(item_id, Result(pages=(page,), data={"x": 1}), {"state": "success"})
        places = pack_locations(item, await storage.append("j", lease.fence, packer.additions()))
        if item_id == "b":  # its worker dies before the commit
            continue
        end = EndedItem(
            seq=seq, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND, artifacts=packed_artifacts(item, places)
        )
        await store.finish(lease, [end], [], SlotReport(ceiling=1, demand=1))
        ledger.add(places, item.stored)
    if by == "holder":
        await ledger.settle(storage, "j", lease.fence)
    else:
        await settle_abandoned_lease(store, storage, "j", lease.fence, ["a", "c"])
    won = {item_id: (await store.item("j", item_id)).artifacts for item_id in "ac"}
    for item_id, artifacts in won.items():
        assert set(await read_item_files(storage, "j", item_id, artifacts)) == {
            "html.html",
            "data.json",
            "metadata.json",
        }
    needed = needed_pack_bytes([artifact for artifacts in won.values() for artifact in artifacts])
    assert {key: len(await storage.get("j", key)) for key in needed} == needed
    index = (await storage.get("j", index_key(lease.fence))).decode()
    assert [line.split(" ")[0] for line in index.splitlines()] == ["test,a)/a", "test,a)/c"]
    assert {key async for key in storage.keys("j")} == {*needed, index_key(lease.fence)}
