"""Many items are read as one by one, with few calls of the storage, and damage is never passed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from swath.domain.errors import StoreDamaged
from swath.domain.result import Artifact
from swath.domain.storage_keys import Layout, PackLocation
from swath.pipeline.formats import packs as pack_ranges
from swath.pipeline.formats.stored_files import group_by_bytes, read_files_of_items, read_item_files
from swath.ports.result_storage import FileRange, ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.stored_jobs import NOT_FOUND, TIMED_OUT, stored_job, with_download

DATA: list[Any] = [
    *({"n": n, "owner": "O" * n} for n in range(1, 30)),
    NOT_FOUND,
    TIMED_OUT,
    with_download(32, [1, 2]),
]


class Counting:
    """Storage that counts what it is asked."""

    def __init__(self, storage: ResultStorage) -> None:
        self._storage = storage
        self.lengths: list[int] = []
        self.gets = 0

    async def read_all(self, job_id: str, pieces: Sequence[FileRange]) -> list[bytes | None]:
        self.gets += sum(piece.length is None for piece in pieces)
        self.lengths += [piece.length for piece in pieces if piece.length is not None]
        return await self._storage.read_all(job_id, pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


async def wanted_of(store: Store) -> list[tuple[str, tuple[Artifact, ...]]]:
    return [(record.item_id, record.artifacts) for record in await store.items("job")]


@pytest.mark.req("R2", "R5")
async def test_many_are_read_as_one_by_one(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await stored_job(store, storage, DATA, layout)
    wanted = await wanted_of(store)
    one_by_one = [await read_item_files(storage, "job", item_id, artifacts) for item_id, artifacts in wanted]
    assert await read_files_of_items(storage, "job", wanted) == one_by_one
    assert {"html.html", "owner.html", "bill%201.pdf", "data.json", "metadata.json"} == set(one_by_one[-1])
    assert await read_files_of_items(storage, "job", wanted[::-1]) == one_by_one[::-1]
    assert await read_files_of_items(storage, "job", []) == []


@pytest.mark.req("R2", "R5")
async def test_neighbours_of_a_pack_are_read_by_one_call(store: Store, storage: ResultStorage) -> None:
    await stored_job(store, storage, DATA, Layout.WARC)
    wanted = await wanted_of(store)
    counting = Counting(storage)
    await read_files_of_items(counting, "job", wanted)
    packs = {PackLocation.of(artifact.key) for _, artifacts in wanted for artifact in artifacts}
    assert len(counting.lengths) == len({place.pack for place in packs if place is not None})
    assert counting.gets == 0


@pytest.mark.req("Z8")
async def test_no_call_reads_more_than_it_may(
    store: Store, storage: ResultStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored_job(store, storage, DATA, Layout.WARC)
    wanted = await wanted_of(store)
    whole = await read_files_of_items(storage, "job", wanted)
    monkeypatch.setattr(pack_ranges, "_RANGE_BYTES", 2_000)
    monkeypatch.setattr(pack_ranges, "_GAP_BYTES", 0)
    counting = Counting(storage)
    assert await read_files_of_items(counting, "job", wanted) == whole
    assert max(counting.lengths) <= 2_000
    assert len(counting.lengths) > 4


@pytest.mark.req("Z2")
@pytest.mark.parametrize("how", ["missing", "changed"])
async def test_damage_is_told(store: Store, storage: ResultStorage, layout: Layout, how: str) -> None:
    await stored_job(store, storage, DATA, layout)
    wanted = await wanted_of(store)
    item_id, artifacts = wanted[3]
    broken = artifacts[0]
    if how == "changed":
        broken = Artifact(broken.key, broken.size, "0" * 64)
    elif layout is Layout.WARC:
        broken = Artifact(broken.key.replace("packs/", "packs/9", 1), broken.size, broken.sha256)
    else:
        broken = Artifact(broken.key + "x", broken.size, broken.sha256)
    wanted[3] = item_id, (broken, *artifacts[1:])
    with pytest.raises(StoreDamaged, match="is missing" if how == "missing" else "other bytes"):
        await read_files_of_items(storage, "job", wanted)


def test_groups_are_bounded_in_bytes() -> None:
    sized = [("a", 5), ("b", 5), ("c", 1), ("d", 30), ("e", 1)]
    assert list(group_by_bytes(sized, 10)) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(group_by_bytes([], 10)) == []
