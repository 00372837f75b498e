"""The contract of the ResultStorage port; needs the fixture `storage`."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress

import msgspec
import pytest

from swath.domain.errors import LeaseLost
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.domain.storage_keys import encode_key
from swath.ports.result_storage import FileRange, ResultStorage, StagedItem
from tests.contract.suites.result_storage_packs import PackContract

__all__ = ["ResultStorageContract"]

ODD_NAMES = ["..", "../up", "/root", "a/b", "nul", "a" * 400, "Ünï\U0001f600", " ", "%2E", "con.txt"]


def item(item_id: str, **files: bytes) -> StagedItem:
    """An item that no lease held before. The keyword `data` stands for the file `data.json`, and so on."""
    return StagedItem(item_id, {f"{name}.json": content for name, content in files.items()}, first=True)


def later(item_id: str, **files: bytes) -> StagedItem:
    """The same, for a lease that is not the first to hold it."""
    return msgspec.structs.replace(item(item_id, **files), first=False)


async def all_keys(storage: ResultStorage, job_id: str = "job", prefix: str = "") -> list[str]:
    """Sorted, because the port promises no order."""
    return sorted([key async for key in storage.keys(job_id, prefix)])


async def staged(storage: ResultStorage, fence: int, *items: StagedItem) -> list[tuple[Artifact, ...]]:
    """Staged under a fence that was opened for it."""
    await storage.open_lease("job", fence)
    return await storage.stage("job", fence, items)


async def agree(storage: ResultStorage, artifact: Artifact, content: bytes) -> bool:
    """Whether what is stored has the bytes, the size and the hash that were told."""
    stored = await storage.get("job", artifact.key)
    hashed = hashlib.sha256(stored).hexdigest()
    return (stored, len(stored), hashed) == (content, artifact.size, artifact.sha256)


class ResultStorageContract(PackContract):
    """Fixture to give: `storage`, a ResultStorage with nothing in it. `sleeper` is the same place as another process
    sees it; where there can be none it is the same object."""

    @pytest.fixture
    def sleeper(self, storage: ResultStorage) -> ResultStorage:
        return storage

    async def test_staging_answers_with_keys_sizes_and_hashes_in_order(self, storage: ResultStorage) -> None:
        first, second = await staged(storage, 1, item("b", data=b"{}", other=b"12345"), item("a", data=b""))
        assert [artifact.key for artifact in first] == ["items/b/data.json", "items/b/other.json"]
        assert [artifact.size for artifact in (*first, *second)] == [2, 5, 0]
        assert first[1].sha256 == hashlib.sha256(b"12345").hexdigest()
        assert [artifact.key for artifact in second] == ["items/a/data.json"]

    async def test_what_is_only_staged_is_not_to_be_seen(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"{}"), later("b", data=b"{}"))
        assert await all_keys(storage) == []
        assert await all_keys(storage, prefix="items/a/") == []

    async def test_files_of_a_later_lease_lie_in_the_folder_of_their_item(self, storage: ResultStorage) -> None:
        ((data, other),) = await staged(storage, 2, later("a", data=b"{}", other=b"12345"))
        await storage.publish("job", 2, ["a"])
        for artifact, content in ((data, b"{}"), (other, b"12345")):
            assert artifact.key.startswith("items/a/")
            assert await agree(storage, artifact, content)
        assert data.key.endswith("/data.json")
        assert await all_keys(storage, prefix="items/a/") == sorted([data.key, other.key])

    async def test_items_may_be_named_when_the_lease_is_opened(self, storage: ResultStorage) -> None:
        leased = [LeasedItem(1, "a", {}, first=True), LeasedItem(2, "b", {}), LeasedItem(3, "back", {})]
        await storage.open_lease("job", 1, leased)
        (a,), (b,), (unnamed,) = await storage.stage(
            "job", 1, [item("a", data=b"1"), later("b", data=b"2"), item("c", data=b"3")]
        )
        assert await all_keys(storage) == []
        await storage.publish("job", 1, ["a"])
        assert await all_keys(storage) == [a.key]
        await storage.settle("job", 1, ["a", "c"])
        assert await all_keys(storage) == [a.key, unnamed.key]
        assert await storage.open_leases("job") == []
        assert b.key not in await all_keys(storage, prefix="items/b/")

    async def test_what_is_published_is_whole_under_its_key(self, storage: ResultStorage) -> None:
        ((data, other),) = await staged(storage, 1, item("a", data=b"{}", other=b"\x00\xff" * 5_000))
        await storage.publish("job", 1, ["a"])
        assert await agree(storage, data, b"{}")
        assert await agree(storage, other, b"\x00\xff" * 5_000)
        assert await all_keys(storage) == sorted([data.key, other.key])

    async def test_only_the_items_named_are_published(self, storage: ResultStorage) -> None:
        (a,), (b,) = await staged(storage, 1, item("a", data=b"1"), item("b", data=b"2"))
        await storage.publish("job", 1, ["b"])
        assert await all_keys(storage) == [b.key]
        await storage.publish("job", 1, ["a"])
        assert await all_keys(storage) == [a.key, b.key]

    async def test_publishing_can_be_repeated(self, storage: ResultStorage) -> None:
        ((artifact,),) = await staged(storage, 1, item("a", data=b"1"))
        for _ in range(3):
            await storage.publish("job", 1, ["a", "never staged"])
        assert await all_keys(storage) == [artifact.key]
        assert await agree(storage, artifact, b"1")

    async def test_staging_again_replaces_the_item(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"old", other=b"old"))
        ((artifact,),) = await storage.stage("job", 1, [item("a", data=b"new")])
        await storage.publish("job", 1, ["a"])
        assert await all_keys(storage) == [artifact.key]
        assert await agree(storage, artifact, b"new")

    async def test_a_later_fence_replaces_the_whole_item(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"old", other=b"old"))
        await storage.publish("job", 1, ["a"])
        ((artifact,),) = await staged(storage, 2, later("a", data=b"new"))
        await storage.publish("job", 2, ["a"])
        assert await agree(storage, artifact, b"new")
        assert await all_keys(storage) == [artifact.key]

    async def test_an_item_without_files_replaces_what_a_former_lease_had(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"old"), item("b", data=b"stays"))
        await storage.settle("job", 1, ["a", "b"])
        await staged(storage, 2, later("a"))
        await storage.publish("job", 2, ["a"])
        await storage.settle("job", 2, ["a"])
        assert await all_keys(storage) == ["items/b/data.json"]

    async def test_fences_do_not_see_each_other(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"loser"))
        ((artifact,),) = await staged(storage, 2, later("a", data=b"winner"))
        await storage.publish("job", 2, ["a"])
        await storage.stage("job", 1, [item("a", data=b"late loser")])
        assert await agree(storage, artifact, b"winner")
        await storage.settle("job", 1, [])
        assert await agree(storage, artifact, b"winner")
        assert await all_keys(storage) == [artifact.key]

    async def test_opening_a_lease_again_keeps_what_is_staged(self, storage: ResultStorage) -> None:
        ((artifact,),) = await staged(storage, 1, item("a", data=b"1"))
        await storage.open_lease("job", 1)
        await storage.publish("job", 1, ["a"])
        assert await agree(storage, artifact, b"1")

    async def test_settling_publishes_winners_and_throws_away_the_rest(self, storage: ResultStorage) -> None:
        (a,), (b,), _ = await staged(storage, 1, item("a", data=b"1"), item("b", data=b"2"), item("c", data=b"3"))
        await storage.publish("job", 1, ["a"])
        await storage.settle("job", 1, ["a", "b", "never staged"])
        assert await all_keys(storage) == [a.key, b.key]
        await storage.publish("job", 1, ["c"])
        assert await all_keys(storage) == [a.key, b.key]

    async def test_settling_can_be_repeated(self, storage: ResultStorage) -> None:
        ((artifact,),) = await staged(storage, 1, item("a", data=b"1"))
        for _ in range(3):
            await storage.settle("job", 1, ["a"])
        await storage.settle("job", 99, ["a"])
        assert await agree(storage, artifact, b"1")

    async def test_nothing_can_be_staged_after_the_room_was_cleared_away(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"1"))
        await storage.settle("job", 1, [])
        with pytest.raises(LeaseLost):
            await storage.stage("job", 1, [item("a", data=b"2")])
        assert await all_keys(storage) == []

    async def test_nothing_can_be_staged_without_room(self, storage: ResultStorage) -> None:
        with pytest.raises(LeaseLost):
            await storage.stage("job", 1, [item("a", data=b"1")])

    async def test_an_item_without_files_is_no_trouble(self, storage: ResultStorage) -> None:
        assert await staged(storage, 1, item("a")) == [()]
        await storage.publish("job", 1, ["a"])
        await storage.settle("job", 1, ["a"])
        assert await all_keys(storage) == []

    async def test_odd_ids_stay_apart_and_inside_their_job(self, storage: ResultStorage) -> None:
        answers = await staged(storage, 1, *(item(name, data=name.encode()) for name in ODD_NAMES))
        await storage.publish("job", 1, ODD_NAMES)
        for name, (artifact,) in zip(ODD_NAMES, answers, strict=True):
            assert artifact.key.startswith(f"items/{encode_key(name)}/")
            assert await agree(storage, artifact, name.encode())
        assert len(await all_keys(storage)) == len(ODD_NAMES)

    async def test_jobs_stay_apart_whatever_their_ids(self, storage: ResultStorage) -> None:
        for job_id in ODD_NAMES:
            await storage.put(job_id, {"job_metadata.json": job_id.encode()})
        for job_id in ODD_NAMES:
            assert await all_keys(storage, job_id) == ["job_metadata.json"]
            assert await storage.get(job_id, "job_metadata.json") == job_id.encode()
        assert len({storage.location(job_id) for job_id in ODD_NAMES}) == len(ODD_NAMES)

    async def test_documents_are_answered_in_the_order_given(self, storage: ResultStorage) -> None:
        documents = {"manifests/full/part-2.json": b"22", "a.json": b"1", "manifests/full/part-1.json": b""}
        artifacts = await storage.put("job", documents)
        assert [artifact.key for artifact in artifacts] == list(documents)
        for artifact in artifacts:
            assert await agree(storage, artifact, documents[artifact.key])

    async def test_many_pieces_are_read_as_one_by_one(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a/b/1.json": b"first", "a/b/2.json": b"second", "c.json": b""})
        asked = [
            FileRange("a/b/1.json"),
            FileRange("a/b/3.json"),
            FileRange("a/b/2.json", 2, 3),
            FileRange("c.json"),
            FileRange("a/b"),
        ]
        found = await storage.read_all("job", [*asked, FileRange("a/b/2.json", 9, 3), FileRange("none.json", 0, 3)])
        assert found == [b"first", None, b"con", b"", None, b"", None]
        assert await storage.read_all("job", []) == []
        assert await storage.read_all("nobody's", asked) == [None] * len(asked)

    async def test_a_document_replaces_its_former_whole(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a.json": b"long" * 1_000, "b.json": b"stays"})
        await storage.put("job", {"a.json": b"short"})
        assert await storage.get("job", "a.json") == b"short"
        assert await storage.get("job", "b.json") == b"stays"

    async def test_documents_under_a_lease_replace_those_of_earlier_leases(self, storage: ResultStorage) -> None:
        documents = {"manifests/full/part-2.json": b"22", "a.json": b"1", "manifests/full/part-1.json": b""}
        for fence in (1, 2):
            await storage.open_lease("job", fence)
            changed = {key: data + b"%d" % fence for key, data in documents.items()}
            artifacts = await storage.put_under("job", fence, changed)
            assert [artifact.key for artifact in artifacts] == list(documents)
            for artifact in artifacts:
                assert await agree(storage, artifact, changed[artifact.key])
            await storage.settle("job", fence, ())
        assert await all_keys(storage) == sorted(documents)
        assert await storage.open_leases("job") == []

    async def test_a_lease_without_a_room_writes_and_removes_no_document(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a.json": b"stays"})
        await storage.open_lease("job", 1)
        await storage.settle("job", 1, ())
        with pytest.raises(LeaseLost):
            await storage.put_under("job", 1, {"a.json": b"late", "b.json": b"late"})
        with suppress(LeaseLost):
            await storage.withdraw("job", 1, {"a.json": b""})
        assert await all_keys(storage) == ["a.json"]
        assert await storage.get("job", "a.json") == b"stays"

    async def test_a_document_that_is_withdrawn_is_gone_or_says_that_it_is_empty(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a.json": b"[1]", "b.json": b"[2]"})
        await storage.open_lease("job", 1)
        await storage.withdraw("job", 1, {"a.json": b"[]", "never/there.json": b"[]"})
        keys = await all_keys(storage)
        assert keys in (["b.json"], ["a.json", "b.json"])
        assert "a.json" not in keys or await storage.get("job", "a.json") == b"[]"
        assert await storage.get("job", "b.json") == b"[2]"

    async def test_packs_that_are_not_there_are_absent(self, storage: ResultStorage) -> None:
        await storage.put("job", {"packs/1.jsonl": b"12345", "items/x/data.json": b"{}"})
        wanted = {"packs/1.jsonl": 5, "packs/2.jsonl": 1, "items/x/data.json": 2}
        assert await storage.absent("job", wanted) == {"packs/2.jsonl"}
        assert await storage.absent("nobody's", {"packs/1.jsonl": 5}) == {"packs/1.jsonl"}
        assert await storage.absent("job", {}) == set()

    async def test_a_reader_never_sees_half_a_document(self, storage: ResultStorage) -> None:
        contents = [bytes([n]) * 300_000 for n in range(8)]
        await storage.put("job", {"a.json": contents[0]})

        async def write() -> None:
            for content in contents:
                await storage.put("job", {"a.json": content})

        async def read() -> list[bytes]:
            return [await storage.get("job", "a.json") for _ in range(16)]

        _, seen = await asyncio.gather(write(), read())
        assert all(content in contents for content in seen)

    async def test_what_is_not_there_is_a_key_error(self, storage: ResultStorage) -> None:
        await storage.put("job", {"manifests/full/part-1.json": b"1"})
        for key in ("manifests/full/part-2.json", "manifests/full", "manifests"):
            with pytest.raises(KeyError):
                await storage.get("job", key)
        with pytest.raises(KeyError):
            await storage.get("other", "manifests/full/part-1.json")

    async def test_pieces_put_together_are_the_whole(self, storage: ResultStorage) -> None:
        content = bytes(range(256)) * 40
        await storage.put("job", {"a.bin": content})
        for length in (1, 4_096, 10_240, 20_000):
            starts = range(0, len(content), length) if length > 1 else (0, 77, len(content) - 1)
            for start in starts:
                assert await storage.read("job", "a.bin", start, length) == content[start : start + length]

    async def test_a_piece_ends_where_the_file_ends(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a.bin": b"12345", "empty.bin": b""})
        assert await storage.read("job", "a.bin", 3, 100) == b"45"
        for start, length in ((5, 1), (6, 10), (0, 0), (9_999, 0)):
            assert await storage.read("job", "a.bin", start, length) == b""
        assert await storage.read("job", "empty.bin", 0, 10) == b""
        for key in ("b.bin", "a.bin/x"):
            for length in (0, 1):
                with pytest.raises(KeyError):
                    await storage.read("job", key, 0, length)
        with pytest.raises(KeyError):
            await storage.read("other", "a.bin", 0, 1)

    async def test_a_published_file_is_read_in_pieces_as_well(self, storage: ResultStorage) -> None:
        ((artifact,),) = await staged(storage, 1, item("a b", data=b"0123456789"))
        await storage.publish("job", 1, ["a b"])
        pieces = [await storage.read("job", artifact.key, start, 4) for start in (0, 4, 8)]
        assert pieces == [b"0123", b"4567", b"89"]

    async def test_a_link_is_an_address_or_none_at_all(self, storage: ResultStorage) -> None:
        await storage.put("job", {"a.bin": b"1"})
        link = await storage.link("job", "a.bin", 60)
        assert link is None or link.startswith(("http://", "https://"))

    async def test_keys_are_those_that_begin_so(self, storage: ResultStorage) -> None:
        await storage.put("job", {"manifests/full/part-1.json": b"", "manifests/full/part-10.json": b"", "m.json": b""})
        assert await all_keys(storage, prefix="manifests/full/part-1") == [
            "manifests/full/part-1.json", "manifests/full/part-10.json",
        ]  # fmt: skip
        assert await all_keys(storage, prefix="manifests/full/part-1.") == ["manifests/full/part-1.json"]
        assert await all_keys(storage, prefix="x") == []
        assert await all_keys(storage, "other") == []

    async def test_removing_takes_what_begins_so_and_nothing_else(self, storage: ResultStorage) -> None:
        await storage.put("job", {"manifests/full/part-1.json": b"", "manifests/full/part-2.json": b"", "m.json": b""})
        await storage.put("other", {"manifests/full/part-1.json": b""})
        await storage.remove("job", "manifests/full/part-1")
        assert await all_keys(storage) == ["m.json", "manifests/full/part-2.json"]
        await storage.remove("job", "manifests/")
        await storage.remove("job", "never there")
        assert await all_keys(storage) == ["m.json"]
        assert await all_keys(storage, "other") == ["manifests/full/part-1.json"]

    @pytest.mark.req("Z10")
    async def test_deleting_takes_exactly_the_keys_that_are_named(self, storage: ResultStorage) -> None:
        parts = {f"manifests/full/part-{number}.json": b"" for number in (1, 10, 2, 3)}
        await storage.put("job", parts | {"m.json": b"", "packs/1.jsonl": b""})
        await storage.put("other", parts)
        gone = ["manifests/full/part-1.json", "m.json", "manifests/full/part-3.json", "never/there.json"]
        for _ in range(2):
            await storage.delete("job", gone)
            left = ["manifests/full/part-10.json", "manifests/full/part-2.json", "packs/1.jsonl"]
            assert await all_keys(storage) == left
        await storage.delete("job", [])
        await storage.delete("never there", gone)
        assert await all_keys(storage, "other") == sorted(parts)

    async def test_clearing_removes_everything_of_the_job_and_nothing_else(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"1"), item("b", data=b"2"))
        await storage.publish("job", 1, ["a"])
        await storage.put("job", {"manifests/full/part-1.json": b"", "m.json": b""})
        await storage.put("jo", {"m.json": b"stays"})
        await storage.put("job-2", {"m.json": b"stays"})
        for _ in range(2):
            await storage.clear("job")
            assert await all_keys(storage) == []
            assert await storage.open_leases("job") == []
        with pytest.raises(LeaseLost):
            await storage.stage("job", 1, [item("b", data=b"2")])
        for other in ("jo", "job-2"):
            assert await storage.get(other, "m.json") == b"stays"

    async def test_a_cleared_job_can_begin_again(self, storage: ResultStorage) -> None:
        await staged(storage, 1, item("a", data=b"old", other=b"old"))
        await storage.publish("job", 1, ["a"])
        await storage.clear("job")
        ((artifact,),) = await staged(storage, 2, item("a", data=b"new"))
        await storage.publish("job", 2, ["a"])
        assert await all_keys(storage) == [artifact.key]
        assert await agree(storage, artifact, b"new")

    @pytest.mark.parametrize("won", [False, True], ids=["lost", "won"])
    async def test_a_job_ordered_anew_while_a_lease_of_a_deleted_one_sleeps_keeps_its_files(
        self, storage: ResultStorage, sleeper: ResultStorage, won: bool
    ) -> None:
        leased = [LeasedItem(1, "a", {}, first=True), LeasedItem(2, "b", {})]
        await sleeper.open_lease("job", 1, leased)
        await sleeper.stage("job", 1, [item("a", data=b"old", more=b"old"), later("b", data=b"old")])
        await storage.settle("job", 1, ["a", "b"] if won else [])
        await storage.clear("job")
        await storage.open_lease("job", 2, leased[:1])
        (a,), (b,) = await storage.stage("job", 2, [item("a", data=b"new"), item("b", data=b"new")])
        await storage.settle("job", 2, ["a", "b"])
        with pytest.raises(LeaseLost):
            await sleeper.stage("job", 1, [item("a", data=b"late")])
        if won:
            await sleeper.publish("job", 1, ["a", "b"])
        await sleeper.settle("job", 1, ["a", "b"] if won else [])
        for artifact in (a, b):
            assert await agree(storage, artifact, b"new")
        assert await all_keys(storage) == [a.key, b.key]
        assert await storage.open_leases("job") == []

    async def test_clearing_what_was_never_there_is_no_trouble(self, storage: ResultStorage) -> None:
        await storage.clear("never there")
        assert await all_keys(storage, "never there") == []
