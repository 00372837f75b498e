"""What result storage promises, on a folder and in memory alike."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import LeaseLost
from swath.domain.result import Artifact
from swath.domain.storage_keys import decode_key, download_file_name, encode_key, page_file_name
from swath.ports.result_storage import ResultStorage, StagedItem
from tests.support.memory.results import MemoryResults

Storage = FolderResults | MemoryResults

ESCAPES = ["../x", "a/../x", "/etc/passwd", "", "a//b", "a/", ".", ".leases/1/a", "manifests/.hidden", "a\0b"]


@pytest.fixture(params=["folder", "memory"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    made: Storage = FolderResults(tmp_path / "results") if request.param == "folder" else MemoryResults()
    yield made
    await made.close()


async def all_files(storage: ResultStorage, job_id: str = "job") -> dict[str, bytes]:
    return {key: await storage.get(job_id, key) async for key in storage.keys(job_id)}


async def staged(storage: ResultStorage, fence: int, item_id: str, **files: bytes) -> tuple[Artifact, ...]:
    await storage.open_lease("job", fence)
    named = {name.replace("_", "."): body for name, body in files.items()}
    (artifacts,) = await storage.stage("job", fence, [StagedItem(item_id, named)])
    return artifacts


@pytest.mark.req("R1", "Z2")
async def test_staged_files_are_seen_by_nobody_until_they_are_published(storage: Storage) -> None:
    artifacts = await staged(storage, 1, "a", html_html=b"<p>", data_json=b"{}")
    assert await all_files(storage) == {}
    await storage.publish("job", 1, ["a"])
    assert await all_files(storage) == {"items/a/html.html": b"<p>", "items/a/data.json": b"{}"}
    assert artifacts == tuple(
        Artifact(key, len(body), hashlib.sha256(body).hexdigest())
        for key, body in (("items/a/html.html", b"<p>"), ("items/a/data.json", b"{}"))
    )


async def test_artifacts_are_answered_in_the_order_of_the_items(storage: Storage) -> None:
    await storage.open_lease("job", 1)
    items = [StagedItem(name, {"x": name.encode()}) for name in ("b", "a", "c")]
    answer = await storage.stage("job", 1, items)
    assert [artifact.key for (artifact,) in answer] == ["items/b/x", "items/a/x", "items/c/x"]


@pytest.mark.req("Z2")
async def test_a_lease_without_a_room_can_stage_nothing(storage: Storage) -> None:
    with pytest.raises(LeaseLost):
        await storage.stage("job", 1, [StagedItem("a", {"x": b"1"})])
    await storage.open_lease("job", 1)
    await storage.settle("job", 1, ())
    with pytest.raises(LeaseLost):
        await storage.stage("job", 1, [StagedItem("a", {"x": b"1"})])
    assert await storage.open_leases("job") == []


async def test_opening_a_lease_again_keeps_what_is_staged(storage: Storage) -> None:
    await staged(storage, 1, "a", x=b"1")
    await storage.open_lease("job", 1)
    await storage.publish("job", 1, ["a"])
    assert await all_files(storage) == {"items/a/x": b"1"}


async def test_staging_an_item_again_replaces_it(storage: Storage) -> None:
    await staged(storage, 1, "a", x=b"1", old=b"1")
    await staged(storage, 1, "a", x=b"2")
    await storage.publish("job", 1, ["a"])
    assert await all_files(storage) == {"items/a/x": b"2"}


async def test_a_later_result_replaces_all_files_of_an_earlier_one(storage: Storage) -> None:
    await staged(storage, 1, "a", x=b"1", old=b"1")
    await storage.settle("job", 1, ["a"])
    await staged(storage, 2, "a", x=b"2", new=b"2")
    await storage.publish("job", 2, ["a"])
    await storage.settle("job", 2, ["a"])
    assert await all_files(storage) == {"items/a/x": b"2", "items/a/new": b"2"}


async def test_publishing_passes_over_what_is_not_staged_and_can_be_repeated(storage: Storage) -> None:
    await staged(storage, 1, "a", x=b"1")
    for _ in range(2):
        await storage.publish("job", 1, ["nobody", "a", "x" * 400])
    await storage.publish("job", 99, ["a"])
    await storage.publish("other job", 1, ["a"])
    assert await all_files(storage) == {"items/a/x": b"1"}


@pytest.mark.req("R1", "Z2")
async def test_settling_publishes_the_winners_and_throws_away_the_rest(storage: Storage) -> None:
    await staged(storage, 1, "winner", x=b"1")
    await staged(storage, 1, "loser", x=b"1")
    await staged(storage, 2, "elsewhere", x=b"2")
    for _ in range(2):
        await storage.settle("job", 1, ["winner", "never staged"])
    assert await all_files(storage) == {"items/winner/x": b"1"}
    assert await storage.open_leases("job") == [2]
    await storage.settle("no such job", 1, ["winner"])


@pytest.mark.req("R1", "Z2")
async def test_a_stale_attempt_never_replaces_the_winners_files(storage: Storage) -> None:
    await staged(storage, 1, "a", x=b"stale")
    await staged(storage, 2, "a", x=b"winner")
    await storage.settle("job", 2, ["a"])
    await storage.settle("job", 1, ())
    await storage.publish("job", 1, ["a"])
    assert await all_files(storage) == {"items/a/x": b"winner"}


async def test_documents_replace_their_former_whole_and_are_answered_in_order(storage: Storage) -> None:
    await storage.put("job", {"manifests/full/part-1.json": b"old", "job_metadata.json": b"old and long"})
    answer = await storage.put("job", {"job_metadata.json": b"new", "manifests/full/part-1.json": b""})
    assert [(artifact.key, artifact.size) for artifact in answer] == [
        ("job_metadata.json", 3),
        ("manifests/full/part-1.json", 0),
    ]
    assert await all_files(storage) == {"job_metadata.json": b"new", "manifests/full/part-1.json": b""}


async def test_what_is_not_there_is_a_key_error(storage: Storage) -> None:
    await storage.put("job", {"manifests/full/part-1.json": b"x"})
    for key in ("manifests/full/part-2.json", "manifests/full", "manifests/full/part-1.json/x", "items/a/b"):
        with pytest.raises(KeyError):
            await storage.get("job", key)
    with pytest.raises(KeyError):
        await storage.get("other", "manifests/full/part-1.json")


async def test_keys_and_removal_go_by_prefix(storage: Storage) -> None:
    names = ["manifests/errors/part-1.json", "manifests/errors/part-10.json", "manifests/full/part-1.json", "m.json"]
    await storage.put("job", dict.fromkeys(names, b""))
    assert sorted([key async for key in storage.keys("job", "manifests/errors/")]) == names[:2]
    assert sorted([key async for key in storage.keys("job", "m")]) == sorted(names)
    assert [key async for key in storage.keys("job", "manifests/none/")] == []
    assert [key async for key in storage.keys("none")] == []
    await storage.remove("job", "manifests/errors/part-1.json")
    assert sorted(await all_files(storage)) == sorted(names[1:])
    await storage.remove("job", "manifests/")
    assert sorted(await all_files(storage)) == ["m.json"]
    await storage.remove("none", "manifests/")


@pytest.mark.parametrize("key", ESCAPES)
async def test_keys_that_would_leave_the_job_are_refused(storage: Storage, key: str) -> None:
    await storage.open_lease("job", 1)
    with pytest.raises(ValueError, match="is no key inside a job"):
        await storage.put("job", {key: b""})
    with pytest.raises(ValueError, match="is no key inside a job"):
        await storage.get("job", key)
    with pytest.raises(ValueError, match="is no key inside a job"):
        await storage.stage("job", 1, [StagedItem("a", {key: b""})])


@pytest.mark.parametrize("prefix", ["../", "/", ".leases/", "a//", "a/../b"])
async def test_prefixes_that_would_leave_the_job_are_refused(storage: Storage, prefix: str) -> None:
    with pytest.raises(ValueError, match="is no key inside a job"):
        await storage.remove("job", prefix)
    with pytest.raises(ValueError, match="is no key inside a job"):
        [key async for key in storage.keys("job", prefix)]


# Ids and names as they come, with some that file systems and shells dislike, and some longer than any path.
odd = st.sampled_from(["", ".", "..", "a/b", "a/../..", "con", "NUL.txt", "~", "%", "%41", "a b", "-rf", "\n", ".git"])
wide = st.integers(1, 1_000).map(lambda n: "\N{PILE OF POO}" * n)
names = st.text(max_size=30) | odd | wide | st.text("ab.~%", min_size=170, max_size=600)


@pytest.mark.req("R1")
@settings(max_examples=40, deadline=None)
@given(
    job_id=names,
    items=st.dictionaries(names, st.lists(names, unique=True, max_size=4), min_size=1, max_size=4),
)
async def test_any_ids_and_file_names_give_safe_distinct_reversible_keys(
    job_id: str, items: dict[str, list[str]]
) -> None:
    """Property 47, down to the files: whatever the ids are, every file comes back under its own key."""
    with tempfile.TemporaryDirectory() as folder:
        storage = FolderResults(Path(folder) / "inside")
        made = [
            StagedItem(
                item_id,
                {key: f"{item_id}\0{key}".encode("utf-8", "surrogatepass") for name in files for key in _keys(name)},
            )
            for item_id, files in items.items()
        ]
        await storage.open_lease(job_id, 1)
        answer = await storage.stage(job_id, 1, made)
        await storage.settle(job_id, 1, list(items))
        stored = {
            artifact.key: body
            for item, artifacts in zip(made, answer, strict=True)
            for artifact, body in zip(artifacts, item.files.values(), strict=True)
        }
        assert len(stored) == sum(len(item.files) for item in made)
        assert await all_files(storage, job_id) == stored
        assert [path.name for path in Path(folder).iterdir()] == ["inside"]
        assert all(decode_key(encode_key(item_id)) == item_id for item_id in items)
        await storage.close()


@pytest.mark.req("R1")
async def test_files_of_the_longest_ids_and_names_come_back(tmp_path: Path) -> None:
    storage, name = FolderResults(tmp_path), "\N{PILE OF POO}" * 1_000
    await storage.open_lease("job", 1)
    [stored] = await storage.stage("job", 1, [StagedItem(name, {download_file_name(name): b"whole"})])
    await storage.settle("job", 1, [name])
    assert await all_files(storage, "job") == {stored[0].key: b"whole"}
    await storage.clear("job")
    assert await all_files(storage, "job") == {}
    await storage.close()


def _keys(name: str) -> tuple[str, str, str]:
    return page_file_name(name), page_file_name(name) + ".gz", download_file_name(name)
