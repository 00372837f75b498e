"""What a later generation takes away of the packs of former ones, and what whoever slept through a loss must leave."""

from __future__ import annotations

import pytest

from swath.backends.memory.results import MemoryResults
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.layout import PACKS, RECORDS, WARC, Layout, PackedAt
from swath.domain.lease import Lease
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState
from swath.pipeline.finish.former import FormerFiles
from swath.pipeline.finish.pack_index import index_key
from swath.ports.result_storage import Addition

pytestmark = pytest.mark.req("R2", "J5", "Z2")

JOB = Job(job_id="job", scraper_id="x", layout=Layout.WARC)


async def packed(storage: MemoryResults, fence: int) -> tuple[Artifact, ...]:
    """A settled lease with one item, and its artifacts."""
    await storage.open_lease("job", fence)
    placed = await storage.append("job", fence, {WARC: Addition(b"page"), RECORDS: Addition(b"line")})
    needed = {key: start + 4 for key, start in placed.values()}
    await storage.settle("job", fence, (), needed, {index_key(fence): b"index"})
    return tuple(Artifact(PackedAt(key, start, 4, "x").key, 4, "") for key, start in placed.values())


def ended(seq: int, artifacts: tuple[Artifact, ...], generation: int) -> ItemRecord:
    state = ItemState.SUCCESS
    return ItemRecord(seq=seq, item_id=str(seq), input={}, state=state, artifacts=artifacts, generation=generation)


async def packs_after(storage: MemoryResults, records: list[ItemRecord], generation: int) -> set[int]:
    """The leases of which something is left, once an ending under fence 7 has seen these items."""
    lease = Lease(fence=7, job=JOB, worker_id="w", items=(), slots=0, lease_seconds=15.0)
    former = FormerFiles(storage, lease, generation)
    await former.pass_by(records)
    await former.end()
    left = [key.removeprefix(PACKS) async for key in storage.keys("job", PACKS)]
    assert len(left) % 3 == 0  # a pack goes with its index
    return {int(key.split(".")[0].split("-")[0]) for key in left}


async def test_packs_that_no_item_needs_any_more_go_with_their_index() -> None:
    storage = MemoryResults()
    await packed(storage, 1)
    kept, newer = await packed(storage, 2), await packed(storage, 5)
    records = [ended(1, kept, 1), ended(2, newer, 2)]
    assert await packs_after(storage, records, generation=2) == {2, 5}


async def test_an_index_goes_with_its_pages_also_when_records_beside_them_are_still_needed() -> None:
    storage = MemoryResults()
    _, record = await packed(storage, 1)
    newer = await packed(storage, 5)
    lease = Lease(fence=7, job=JOB, worker_id="w", items=(), slots=0, lease_seconds=15.0)
    former = FormerFiles(storage, lease, 2)
    await former.pass_by([ended(1, (record,), 1), ended(2, newer, 2)])
    await former.end()
    left = {key async for key in storage.keys("job", PACKS) if key.startswith(f"{PACKS}1.")}
    assert left == {f"{PACKS}1.{RECORDS}"}


async def test_packs_of_a_generation_that_came_while_the_finisher_slept_stay() -> None:
    storage = MemoryResults()
    kept = await packed(storage, 2)
    await packed(storage, 9)
    assert await packs_after(storage, [ended(1, kept, 1)], generation=2) == {2, 9}


async def test_a_first_generation_takes_nothing_away() -> None:
    storage = MemoryResults()
    await packed(storage, 1)
    assert await packs_after(storage, [], generation=1) == {1}
