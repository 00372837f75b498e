"""The parts of a manifest, whatever the size of the job."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import ItemRecord, SuccessOutcome
from swath.domain.job import Job
from swath.domain.transitions import ItemState
from swath.pipeline.formats.manifests import LISTS, ManifestWriter, item_key
from tests.support.memory.results import MemoryResults

JOB = Job(job_id="job", scraper_id="demo-county")
ENDS = (ItemState.SUCCESS, ItemState.FAILED, ItemState.SKIPPED, ItemState.CANCELLED)


def record(seq: int, state: ItemState) -> ItemRecord:
    failure = Failure.of(FailureKind.TIMEOUT, "late") if state is ItemState.FAILED else None
    finding = SuccessOutcome.FOUND if state is ItemState.SUCCESS else None
    return ItemRecord(
        seq=seq, item_id=f"a/{seq}", input={"b": 1, "a": seq}, state=state, failure=failure, finding=finding
    )


@pytest.mark.req("R3")
@settings(max_examples=30, deadline=None)
@example(size=0, part_items=100, batch_items=1_000, seed=0)
@example(size=3_500, part_items=1_000, batch_items=1_000, seed=1)
@example(size=3_000, part_items=1_000, batch_items=1_000, seed=0)
@given(
    size=st.integers(0, 3_500),
    part_items=st.integers(1, 1_000),
    batch_items=st.integers(1, 1_000),
    seed=st.integers(0, 9),
)
async def test_parts_put_together_hold_every_item_once(size: int, part_items: int, batch_items: int, seed: int) -> None:
    """Property 46. The seed says how the states are spread; 0 means that everything succeeds."""
    states = {seq: ENDS[seq * seed % 7 % 4] for seq in range(1, size + 1)}
    storage = MemoryResults()
    await storage.open_lease("job", 1)
    writer = ManifestWriter(JOB, storage, part_items, fence=1)
    records = [record(seq, state) for seq, state in states.items()]
    for start in range(0, size, batch_items):
        await writer.add(records[start : start + batch_items])
    parts = await writer.close()

    files = storage.files["job"]
    expected = {
        "full": list(states),
        "success": [seq for seq, state in states.items() if state is ItemState.SUCCESS],
        "errors": [seq for seq, state in states.items() if state is not ItemState.SUCCESS],
    }
    for name in LISTS:
        documents = [json.loads(files[part.artifact.key]) for part in parts[name]]
        assert [(d["job_id"], d["list"], d["part"]) for d in documents] == [
            ("job", name, n) for n in range(1, len(documents) + 1)
        ]
        assert [part.artifact.key for part in parts[name]] == [
            f"manifests/{name}/part-{n}.json" for n in range(1, len(documents) + 1)
        ]
        assert [len(d["items"]) for d in documents] == [part.items for part in parts[name]]
        assert all(part.items == part_items for part in parts[name][:-1])
        assert all(0 < part.items <= part_items for part in parts[name])
        assert [entry["seq"] for d in documents for entry in d["items"]] == expected[name]
        assert all(entry["state"] == states[entry["seq"]] for d in documents for entry in d["items"])
    own = {json.loads(files[item_key(r.item_id)])["seq"] for r in records}
    assert own == set(states)
    assert len(files) == size + sum(len(p) for p in parts.values())
    assert writer.tally.counts().total == size


async def test_an_entry_is_the_same_in_every_list_and_by_itself() -> None:
    storage = MemoryResults()
    await storage.open_lease("job", 1)
    writer = ManifestWriter(JOB, storage, fence=1)
    await writer.add([record(1, ItemState.SUCCESS), record(2, ItemState.FAILED)])
    await writer.close()
    files = storage.files["job"]
    full, success, errors = (files[f"manifests/{name}/part-1.json"].splitlines() for name in LISTS)
    assert full[1] == success[1] + b","  # one item a line
    assert full[2] == errors[1] == files["manifests/items/a%2F2.json"]


async def test_the_same_rows_give_the_same_bytes_in_whatever_order_their_fields_come() -> None:
    written = []
    for fields in ({"b": 1, "a": {"d": 1, "c": 2}}, {"a": {"c": 2, "d": 1}, "b": 1}):
        storage = MemoryResults()
        await storage.open_lease("job", 1)
        writer = ManifestWriter(JOB, storage, fence=1)
        await writer.add([ItemRecord(seq=1, item_id="x", input=fields, state=ItemState.SUCCESS)])
        await writer.close()
        written.append(storage.files["job"])
    assert written[0] == written[1]


async def test_no_two_generations_write_the_same_bytes() -> None:
    written = []
    for generation in (1, 2):
        storage = MemoryResults()
        await storage.open_lease("job", 1)
        writer = ManifestWriter(JOB, storage, fence=1, generation=generation)
        await writer.add([record(1, ItemState.SUCCESS)])
        await writer.close()
        written.append(storage.files["job"]["manifests/full/part-1.json"])
    assert written[0] != written[1]
    assert json.loads(written[0]) == json.loads(written[1])


@pytest.mark.req("R3", "Z8", "Z10")
async def test_a_part_is_bounded_by_bytes_and_the_same_whatever_the_batches() -> None:
    sizes = [6, 6, 3, 20, 1, 1, 9, 9]  # MiB; one entry alone is larger than a part
    records = [
        ItemRecord(seq=seq, item_id=str(seq), input={"text": "x" * (size << 20)}, state=ItemState.SUCCESS)
        for seq, size in enumerate(sizes, 1)
    ]
    files = []
    for batch_items in (1, len(records)):
        storage = MemoryResults()
        await storage.open_lease("job", 1)
        writer = ManifestWriter(JOB, storage, fence=1)
        for start in range(0, len(records), batch_items):
            await writer.add(records[start : start + batch_items])
        parts = await writer.close()
        assert [part.items for part in parts["full"]] == [3, 1, 3, 1]
        assert all(part.artifact.size < 17 << 20 or part.items == 1 for part in parts["full"])
        assert [part.items for part in parts["success"]] == [3, 1, 3, 1]
        files.append(storage.files["job"])
    assert files[0] == files[1]
