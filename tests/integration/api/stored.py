"""Jobs in the store of a running API, ended by hand, with just the files that a test wants."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swath.bootstrap.workers import make_finisher
from swath.domain.item import EndedItem, Item, SuccessOutcome
from swath.domain.lease import SlotReport
from swath.domain.transitions import ItemState
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import StagedItem
from tests.contract.suites.builders import new_job
from tests.integration.api.running import Api
from tests.unit.pipeline.finish.running import run

__all__ = ["ended", "with_files"]


async def ended(api: Api, ids: list[str], job_id: str = "job") -> None:
    """A job that has ended: of ten items six found, one not found, two failed, one skipped."""
    await run(api.services.store, api.services.storage, ids, job_id=job_id)
    assert await make_finisher(api.services, "worker").run_once() is not None


async def with_files(api: Api, files: Mapping[str, bytes], item_id: str = "item", job_id: str = "job") -> None:
    """A job whose one item has these files."""
    store, storage = api.services.store, api.services.storage
    await store.submit(new_job(job_id, limit=10, created_at=1_750_000_000.0))
    await store.load(job_id, ItemBatch(0, 1, 1, "digest", (Item(1, item_id, {}),)))
    await store.seal(job_id, 1)
    lease = await store.claim("worker", job_id)
    assert lease is not None
    await storage.open_lease(job_id, lease.fence)
    (artifacts,) = await storage.stage(job_id, lease.fence, [StagedItem(item_id, files, first=True)])
    end = EndedItem(seq=1, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND, artifacts=artifacts)
    await store.finish(lease, [msgspec.structs.replace(end)], [], SlotReport(ceiling=0, demand=0))
    await storage.settle(job_id, lease.fence, [item_id])
    await store.release(lease.worker_id, lease.fence)
    assert await make_finisher(api.services, "worker").run_once() is not None
