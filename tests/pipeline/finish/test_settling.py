"""Whoever comes after a dead holder publishes of its packs what the rows need, with the same index."""

from __future__ import annotations

import pytest

from swath.backends.memory.results import MemoryResults
from swath.backends.memory.store import MemoryStore
from swath.domain.attempt import Ended, Finding
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.layout import Layout
from swath.domain.lease import Report
from swath.domain.page import Exchange, Page
from swath.domain.result import Result
from swath.domain.transitions import ItemState
from swath.pipeline.finish.pack_index import index_key
from swath.pipeline.finish.packing import Packer, artifacts_of, needed_of, places_of
from swath.pipeline.finish.settling import PackLedger, settle_for
from swath.pipeline.finish.stored import contents
from swath.ports.job_store import Batch
from swath.testing.clock import FakeClock

pytestmark = pytest.mark.req("R2", "Z1", "Z2")


@pytest.mark.parametrize("by", ["holder", "rescuer"])
async def test_what_won_in_a_pack_is_published_and_nothing_behind_it(by: str) -> None:
    store, storage = MemoryStore(FakeClock()), MemoryResults()
    job = Job(job_id="j", scraper_id="x", layout=Layout.WARC)
    await store.submit(job)
    await store.load("j", Batch(0, 1, 3, "d", (Item(1, "a", {}), Item(2, "c", {}), Item(3, "b", {}))))
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
        places = places_of(item, await storage.append("j", lease.fence, packer.additions()))
        if item_id == "b":  # its worker dies before the commit
            continue
        end = Ended(seq=seq, state=ItemState.SUCCESS, finding=Finding.FOUND, artifacts=artifacts_of(item, places))
        await store.finish(lease, [end], [], Report(ceiling=1, demand=1))
        ledger.add(places, item.stored)
    if by == "holder":
        await ledger.settle(storage, "j", lease.fence)
    else:
        await settle_for(store, storage, "j", lease.fence, ["a", "c"])
    won = {item_id: (await store.item("j", item_id)).artifacts for item_id in "ac"}
    for item_id, artifacts in won.items():
        assert set(await contents(storage, "j", item_id, artifacts)) == {"html.html", "data.json", "metadata.json"}
    needed = needed_of([artifact for artifacts in won.values() for artifact in artifacts])
    assert {key: len(await storage.get("j", key)) for key in needed} == needed
    index = (await storage.get("j", index_key(lease.fence))).decode()
    assert [line.split(" ")[0] for line in index.splitlines()] == ["test,a)/a", "test,a)/c"]
    assert {key async for key in storage.keys("j")} == {*needed, index_key(lease.fence)}
