"""What goes into packs comes out of them again, item by item, whoever settles the lease."""

from __future__ import annotations

import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import StoreDamaged
from swath.domain.execution_policy import ExecutionPolicy, Keep
from swath.domain.job import Job
from swath.domain.result import Artifact, Download, Exchange, Page, Result
from swath.domain.storage_keys import Layout, PackLocation, artifact_file_name, pack_fence
from swath.pipeline.formats.artifacts import read_pages
from swath.pipeline.formats.packs import (
    Packer,
    index_document,
    index_lines,
    needed_pack_bytes,
    pack_locations,
    packed_artifacts,
)
from swath.pipeline.formats.stored_files import decode_item_data, decode_item_files, read_artifact, read_item_files
from tests.support.memory.results import MemoryResults

pytestmark = pytest.mark.req("R2", "Z2")

JOB = Job(job_id="job", scraper_id="demo-county", layout=Layout.WARC)
FENCE = 7


def page(name: str = "html", body: bytes = b"<p>Ann</p>") -> Page:
    exchange = Exchange(method="GET")
    return Page(name=name, url=f"https://www.a.test/{name}?b=2&a=1", status=200, body=body, exchange=exchange)


async def packed(
    storage: MemoryResults, results: dict[str, Result | None], job: Job = JOB
) -> dict[str, tuple[Artifact, ...]]:
    packer = Packer(job)
    items = {item_id: packer.add(item_id, result, {"state": "success"}) for item_id, result in results.items()}
    placed = await storage.append(job.job_id, FENCE, packer.additions())
    return {item_id: packed_artifacts(item, pack_locations(item, placed)) for item_id, item in items.items()}


ids = st.text(min_size=1, max_size=20)
bodies = st.binary(max_size=200)
records = st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=4)
results = st.builds(
    lambda named, files, data: Result(
        pages=tuple(page(name, body) for name, body in named.items()),
        downloads=tuple(Download(name, page(body=body)) for name, body in files.items()),
        data=data,
    ),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), bodies, max_size=3),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), bodies, max_size=2),
    records,
)


@pytest.mark.req("K1", "property 35")
@settings(max_examples=60)
@given(groups=st.lists(st.dictionaries(ids, results, min_size=1, max_size=4), min_size=1, max_size=3))
async def test_every_file_comes_back_from_its_pack(groups: list[dict[str, Result]]) -> None:
    storage = MemoryResults()
    await storage.open_lease("job", FENCE)
    for group in groups:
        for item_id, artifacts in (await packed(storage, dict(group))).items():
            files, result = await read_item_files(storage, "job", item_id, artifacts), group[item_id]
            assert {(one.name, one.url, one.body) for one in read_pages(files)} == {
                (one.name, one.url, one.body) for one in result.pages
            }
            told = json.loads(files["metadata.json"])
            assert {one["name"]: files[one["file"]] for one in told["downloads"]} == {
                one.name: one.body for one in result.downloads
            }
            data = json.loads(files["data.json"]) if "data.json" in files else None
            assert data == (None if result.data is None else json.loads(json.dumps(_whole(result.data))))


def _whole(data: dict[str, object]) -> dict[str, object]:
    """Half characters are stored as U+FFFD."""

    def mended(text: object) -> object:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(text, str) else text

    return {str(mended(key)): mended(value) for key, value in data.items()}


@pytest.mark.parametrize("keep", Keep)
async def test_only_what_the_policy_keeps_is_packed(keep: Keep) -> None:
    job = Job(job_id="job", scraper_id="x", layout=Layout.WARC, policy=ExecutionPolicy(keep=keep))
    storage = MemoryResults()
    await storage.open_lease("job", FENCE)
    made = await packed(storage, {"a": Result(pages=(page(),), data={"x": 1})}, job)
    names = {artifact_file_name("a", artifact.key) for artifact in made["a"]}
    assert names == {"metadata.json"} | ({"html.html"} if keep.pages else set()) | (
        {"data.json"} if keep.data else set()
    )


async def test_an_item_that_cannot_be_written_leaves_nothing_in_the_group() -> None:
    packer, storage = Packer(JOB), MemoryResults()
    await storage.open_lease("job", FENCE)
    one = packer.add("a", Result(pages=(page(),)), {})
    with pytest.raises(ValueError, match="same name"):
        packer.add("b", Result(pages=(page(), page())), {})
    with pytest.raises(TypeError):
        packer.add("c", Result(pages=(page(),), data=object()), {})
    placed = await storage.append("job", FENCE, packer.additions())
    artifacts = packed_artifacts(one, pack_locations(one, placed))
    needed = needed_pack_bytes(artifacts)
    assert {key: len(await storage.get("job", key)) for key in needed} == needed


async def test_bytes_that_changed_are_told() -> None:
    storage = MemoryResults()
    await storage.open_lease("job", FENCE)
    (made,) = (await packed(storage, {"a": Result(pages=(page(),))})).values()
    wrong = [Artifact(artifact.key, artifact.size, "0" * 64) for artifact in made]
    with pytest.raises(StoreDamaged, match="other bytes"):
        await read_item_files(storage, "job", "a", wrong)
    gone = [Artifact(PackLocation("packs/9.warc.gz", 0, 5, "html.html").key, 5, "0" * 64)]
    with pytest.raises(StoreDamaged, match="is missing"):
        await read_item_files(storage, "job", "a", gone)


async def test_a_record_alone_is_what_it_is_among_the_files_of_its_item() -> None:
    storage = MemoryResults()
    await storage.open_lease("job", FENCE)
    made = await packed(storage, {"a": Result(data={"x": 1}), "b": Result()})
    line = made["a"][-1]
    raw = await read_artifact(storage, "job", line)
    assert decode_item_data("job", line, raw) == decode_item_files("job", "a", [line], [raw])["data.json"] == b'{"x":1}'
    alone = Artifact("items/a/data.json", 7, sha256(b'{"x":1}').hexdigest())
    assert decode_item_data("job", alone, b'{"x":1}') == b'{"x":1}'
    with pytest.raises(StoreDamaged, match="other bytes"):
        decode_item_data("job", line, raw[:-1])
    none = await read_artifact(storage, "job", made["b"][-1])
    for wrong in (none, b"{}", b"no line"):
        at = PackLocation("packs/7.jsonl", 0, len(wrong), "data.json").key
        with pytest.raises(StoreDamaged, match="cannot be read"):
            decode_item_data("job", Artifact(at, len(wrong), sha256(wrong).hexdigest()), wrong)


async def test_downloads_are_kept_where_pages_are_not() -> None:
    storage, policy = MemoryResults(), ExecutionPolicy(keep=Keep.DATA)
    await storage.open_lease("job", FENCE)
    result = Result(pages=(page(),), downloads=(Download("a.pdf", page(body=b"%PDF")),), data={"x": 1})
    made = await packed(storage, {"a": result}, msgspec.structs.replace(JOB, policy=policy))
    files = await read_item_files(storage, "job", "a", made["a"])
    assert set(files) == {"a.pdf", "data.json", "metadata.json"}
    assert files["a.pdf"] == b"%PDF"


async def test_the_index_says_where_each_page_is_sorted_by_its_address() -> None:
    storage, packer = MemoryResults(), Packer(JOB)
    await storage.open_lease("job", FENCE)
    item = packer.add("a", Result(pages=(page("z"), page("b")), downloads=(Download("c.pdf", page("q")),)), {})
    places = pack_locations(item, await storage.append("job", FENCE, packer.additions()))
    lines = index_document(index_lines(places, item.stored)).decode().splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == [f"test,a)/{name}?a=1&b=2" for name in "bqz"]
    for line in lines:
        told = json.loads(line.split(" ", 2)[2])
        start, length = int(told["offset"]), int(told["length"])
        at = next(at for at in places if at.start == start)
        assert (at.length, at.pack) == (length, f"packs/{told['filename']}")


@given(
    pack=st.sampled_from(["packs/7.warc.gz", "packs/7-12.jsonl"]), start=st.integers(0), length=st.integers(0), name=ids
)
def test_keys_of_packed_files_can_be_turned_back(pack: str, start: int, length: int, name: str) -> None:
    at = PackLocation(pack, start, length, name)
    assert PackLocation.of(at.key) == at
    assert artifact_file_name("whoever", at.key) == name
    assert pack_fence(pack) == FENCE
    assert PackLocation.of(f"items/a/{name}") is None
