"""Verification of packed results: whatever is missing, changed or too much is found, on real files, and named."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import RetrySelection
from swath.domain.result import Download, Exchange
from swath.domain.storage_keys import Layout, PackLocation
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.formats.packs import group_into_ranges
from swath.pipeline.results.verify.packs import PackCheck
from swath.pipeline.results.verify.report import ProblemList
from swath.pipeline.results.verify.verifier import VerifyReport, verify
from tests.contract.suites.builders import Store
from tests.support.clock import FakeClock
from tests.unit.pipeline.making import FAILED, MISSING, SKIPPED, Made, end_lease, load, make_job, page

pytestmark = pytest.mark.req("R2", "R4", "Z2")


def found_item(n: int) -> Made:
    pages = (page("html", b"<p>%d</p>" % n * 300), page("bill", b"<b>%d</b>" % n, f"https://county.example/{n}\u2028"))
    return Made(data={"n": n}, pages=pages, downloads=(Download("scan.pdf", page("scan", b"%PDF")),))


ITEMS = {f"item/{n}": found_item(n) for n in range(20)} | {
    "gone": Made(how=MISSING),
    "bad": Made(how=FAILED),
    "left": Made(how=SKIPPED),
}
ASKED = Exchange(method="GET", request_headers=(("accept", "*/*"),), response_headers=(("server", "nginx"),))
FETCHED = {
    f"item/{n}": Made(pages=(msgspec.structs.replace(page("html", b"<p>%d</p>" % n * 300), exchange=ASKED),))
    for n in range(6)
}  # with a request before each answer


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    """The folder of the packs."""
    return tmp_path / "results" / "job" / "packs"


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    made = SqliteStore.open(tmp_path, clock)
    yield made
    await made.close()


@pytest.fixture
async def ended(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await make_job(store, storage, clock, ITEMS, layout=Layout.WARC)


def found(report: VerifyReport) -> set[tuple[str, str]]:
    return {(problem.code.value, problem.where) for problem in report.problems}


async def places(store: Store, ending: str) -> list[PackLocation]:
    """Where the files of the items lie in the packs of this kind, by where they begin."""
    keys = [artifact.key for record in await store.items("job") for artifact in record.artifacts]
    return sorted(at for key in keys if (at := PackLocation.of(key)) is not None and at.pack.endswith(ending))


def change(file: Path, at: int) -> None:
    body = bytearray(file.read_bytes())
    body[at] ^= 0xFF
    file.write_bytes(body)


@pytest.mark.usefixtures("ended")
async def test_a_packed_job_as_it_was_ended_is_in_order(store: Store, storage: FolderResults, packs: Path) -> None:
    report = await verify(store, storage, "job")
    assert (report.ok, report.finished, report.unpublished) == (True, True, 0), report.problems
    assert report.artifacts == 20 * 5 + 3
    spans = {at[:3] for at in await places(store, "")}
    assert report.bytes == sum(length for _, _, length in spans)
    assert len({at.pack for at in await places(store, "")}) == len(list(packs.glob("*[lz]")))
    assert not [path for path in (packs.parent / "items").rglob("*") if path.is_file()]
    assert not (packs.parent / "manifests/items").exists()


@pytest.mark.usefixtures("ended")
async def test_a_removed_pack_is_found_with_all_that_it_held(store: Store, storage: FolderResults, packs: Path) -> None:
    for ending in ("warc.gz", "jsonl"):
        held = await places(store, ending)
        content = (packs.parent / held[0].pack).read_bytes()
        (packs.parent / held[0].pack).unlink()
        named = [at for at in held if at.pack == held[0].pack and at.name != "data.json"]
        report = await verify(store, storage, "job")
        assert found(report) == {("artifact_missing", at.key) for at in named}
        (packs.parent / held[0].pack).write_bytes(content)
    assert (await verify(store, storage, "job")).ok


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("ending", ["warc.gz", "jsonl"])
async def test_a_changed_byte_is_found_in_its_record_alone(
    store: Store, storage: FolderResults, packs: Path, ending: str
) -> None:
    hit = [at for at in await places(store, ending) if at.name != "data.json"][3]
    change(packs.parent / hit.pack, hit.start + hit.length // 2)
    assert found(await verify(store, storage, "job")) == {("artifact_changed", hit.key)}


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("cut", [1, 10_000])
@pytest.mark.parametrize("ending", ["warc.gz", "jsonl"])
async def test_a_truncated_pack_is_found(
    store: Store, storage: FolderResults, packs: Path, ending: str, cut: int
) -> None:
    held = [at for at in await places(store, ending) if at.name != "data.json"]
    file = packs.parent / held[-1].pack
    left = max(0, file.stat().st_size - cut)
    file.write_bytes(file.read_bytes()[:left])
    lost = {at.key for at in held if at.pack == held[-1].pack and at.end > left}
    assert lost
    assert found(await verify(store, storage, "job")) == {("artifact_changed", key) for key in lost}


@pytest.mark.usefixtures("ended")
async def test_bytes_behind_the_last_record_are_found(store: Store, storage: FolderResults, packs: Path) -> None:
    last = (await places(store, "warc.gz"))[-1]
    with (packs.parent / last.pack).open("ab") as file:
        file.write(b"x")
    assert found(await verify(store, storage, "job")) == {("artifact_changed", last.pack)}


@pytest.mark.parametrize("damage", ["head zeroed", "first request", "later request", "later request zeroed"])
async def test_damage_between_the_files_of_items_is_found(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path, damage: str
) -> None:
    await make_job(store, storage, clock, FETCHED, layout=Layout.WARC)
    report = await verify(store, storage, "job")
    assert report.ok, report.problems
    first, second, third = (await places(store, "warc.gz"))[:3]
    assert first.end + 20 < second.start
    pack = packs.parent / first.pack
    body = pack.read_bytes()
    if damage == "head zeroed":
        end = len(first_member(body))
        pack.write_bytes(bytes(end) + body[end:])
    elif damage == "later request zeroed":
        gap = bytes(third.start - second.end)
        pack.write_bytes(body[: second.end] + gap + body[third.start :])
    else:
        change(pack, (first.start if damage == "first request" else second.start) - 20)
    assert found(await verify(store, storage, "job")) == {("artifact_changed", first.pack)}


@pytest.mark.req("R4")
async def test_every_byte_of_a_gzip_head_is_looked_at_also_where_no_checksum_covers_it(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    await make_job(store, storage, clock, FETCHED, layout=Layout.WARC)
    first = (await places(store, "warc.gz"))[0]
    pack = packs.parent / first.pack
    body = pack.read_bytes()
    for start in (0, len(first_member(body)), first.end):  # who made it, the first request, a later one
        for at in range(start, start + 10):
            for bit in (1, 4):
                pack.write_bytes(body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :])
                assert found(await verify(store, storage, "job")) == {("artifact_changed", first.pack)}, (start, at)
    pack.write_bytes(body)
    assert (await verify(store, storage, "job")).ok


def first_member(data: bytes) -> bytes:
    """The first gzip member."""
    member = zlib.decompressobj(31)
    member.decompress(data)
    return data[: len(data) - len(member.unused_data)]


@pytest.mark.req("Z8")
async def test_items_of_a_pack_may_come_in_any_order(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    await make_job(store, storage, clock, FETCHED, layout=Layout.WARC)
    hit = (await places(store, "warc.gz"))[3]
    change(packs.parent / hit.pack, hit.start + hit.length // 2)
    records = await store.items("job")
    check, findings = PackCheck("job", storage, ended=True), ProblemList()
    for some in (records[4:], records[:1], records[2:3], records[1:4:2]):
        await check.check(some, findings)
    await check.end(findings, retried=False)
    assert {(problem.code.value, problem.where) for problem in findings.problems} == {("artifact_changed", hit.key)}


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("key", ["notes.txt", "other/notes.txt", "diff.json"])
async def test_a_stray_file_beside_the_packs_is_found(
    store: Store, storage: FolderResults, packs: Path, key: str
) -> None:
    (packs.parent / key).parent.mkdir(exist_ok=True)
    (packs.parent / key).write_bytes(b"?")
    assert found(await verify(store, storage, "job")) == {("stray_key", key)}


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("name", ["99999.warc.gz", "99999.jsonl", "99999.cdxj", "nobody.warc.gz", "readme.txt"])
async def test_a_pack_of_nobody_is_found(store: Store, storage: FolderResults, packs: Path, name: str) -> None:
    (packs / name).write_bytes(b"?")
    assert found(await verify(store, storage, "job")) == {("stray_key", f"packs/{name}")}


async def test_an_index_of_no_pages_is_a_stray(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    await make_job(store, storage, clock, {"gone": Made(how=MISSING)}, layout=Layout.WARC)
    assert (await verify(store, storage, "job")).ok
    (pack,) = packs.iterdir()
    index = pack.with_suffix(".cdxj")
    index.write_bytes(b"county.example)/ 20250615150820 {}\n")
    assert found(await verify(store, storage, "job")) == {("stray_key", f"packs/{index.name}")}


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("key", ["items/gone/metadata.json", "manifests/items/gone.json"])
async def test_what_the_other_layout_would_have_is_a_stray(
    store: Store, storage: FolderResults, packs: Path, key: str
) -> None:
    (packs.parent / key).parent.mkdir(parents=True)
    (packs.parent / key).write_bytes(b"{}")
    assert found(await verify(store, storage, "job")) == {("stray_key", key)}


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("edit", ["edited", "shorter", "longer", "doubled", "disordered", "cut", "empty", "removed"])
async def test_an_index_that_is_not_what_the_items_say_is_found(
    store: Store, storage: FolderResults, packs: Path, edit: str
) -> None:
    index = next(packs.glob("*.cdxj"))
    lines = index.read_bytes().split(b"\n")[:-1]
    other = {
        "edited": [lines[0].replace(b'"status":"200"', b'"status":"404"'), *lines[1:]],
        "shorter": lines[1:],
        "longer": sorted([*lines, lines[0] + b" "]),
        "doubled": sorted([*lines, lines[0]]),
        "disordered": list(reversed(lines)),
        "cut": [*lines[:-1], lines[-1][:-1]],
        "empty": [],
    }
    if edit == "removed":
        index.unlink()
    else:
        index.write_bytes(b"".join(line + b"\n" for line in other[edit]))
    code = "artifact_missing" if edit == "removed" else "artifact_changed"
    assert found(await verify(store, storage, "job")) == {(code, f"packs/{index.name}")}


@pytest.mark.req("J5")
async def test_after_a_retry_packs_may_hold_what_was_replaced(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    await make_job(store, storage, clock, ITEMS, layout=Layout.WARC)
    await store.retry("job", RetrySelection(item_ids=frozenset({"item/3", "item/19", "bad"})))
    while (lease := await store.claim("worker", "job")) is not None:
        await end_lease(store, storage, lease, ITEMS | {"bad": found_item(99)})
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
    report = await verify(store, storage, "job")
    assert report.ok, report.problems
    assert report.artifacts == 21 * 5 + 2
    index = min(packs.glob("*.cdxj"))
    index.write_bytes(index.read_bytes().replace(b"sha256:", b"sha512:"))
    (packs / "99999.jsonl").write_bytes(b"")
    expected = {("artifact_changed", f"packs/{index.name}"), ("stray_key", "packs/99999.jsonl")}
    assert found(await verify(store, storage, "job")) == expected


@pytest.mark.req("J5", "R2")
async def test_an_index_whose_pages_were_all_replaced_is_gone_and_would_be_a_stray(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    items = {"one": FETCHED["item/1"], "gone": Made(how=MISSING)}
    await make_job(store, storage, clock, items, layout=Layout.WARC)
    (former,) = packs.glob("*.cdxj")
    lines = former.read_bytes()
    await store.retry("job", RetrySelection(item_ids=frozenset({"one"})))
    while (lease := await store.claim("worker", "job")) is not None:
        await end_lease(store, storage, lease, items)
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
    assert former.with_suffix(".jsonl").exists()
    assert not former.exists()
    assert (await verify(store, storage, "job")).ok
    former.write_bytes(lines)
    assert found(await verify(store, storage, "job")) == {("stray_key", f"packs/{former.name}")}


@pytest.mark.req("J5")
async def test_what_was_replaced_must_still_be_whole(
    store: Store, storage: FolderResults, clock: FakeClock, packs: Path
) -> None:
    await make_job(store, storage, clock, FETCHED, layout=Layout.WARC)
    replaced = frozenset({"item/2", "item/5"})
    former = [at for ending in ("warc.gz", "jsonl") for at in await places(store, ending)]
    await store.retry("job", RetrySelection(item_ids=replaced))
    while (lease := await store.claim("worker", "job")) is not None:
        await end_lease(store, storage, lease, FETCHED)
    assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
    report = await verify(store, storage, "job")
    assert report.ok, report.problems
    needed = {at for ending in ("warc.gz", "jsonl") for at in await places(store, ending)}
    free = [at for at in former if at not in needed]
    assert len(free) == 4
    for at in free:
        file = packs.parent / at.pack
        body = file.read_bytes()
        for tail in (b"x", b"{}\n", body[at.start : at.end - 1], bytes(100)):
            file.write_bytes(body + tail)
            assert found(await verify(store, storage, "job")) == {("artifact_changed", at.pack)}
        file.write_bytes(body + body[at.start : at.end])
        assert (await verify(store, storage, "job")).ok
        file.write_bytes(body)
        change(file, at.end - 2)
        assert found(await verify(store, storage, "job")) == {("artifact_changed", at.pack)}
        file.write_bytes(body)


async def test_packs_of_a_running_job_are_checked_where_they_lie(store: Store, storage: FolderResults) -> None:
    await load(store, list(ITEMS), "job", Layout.WARC)
    lease = await store.claim("worker", "job")
    assert lease is not None
    await end_lease(store, storage, lease, ITEMS, settle=False)
    report = await verify(store, storage, "job")
    assert (report.ok, report.finished) == (True, False), report.problems
    assert report.artifacts == sum(len(record.artifacts) for record in await store.items("job")) > 0
    hit = (await places(store, "warc.gz"))[0]
    change(Path(storage.location("job")) / f".leases/{lease.fence}/.packs/{lease.fence}.warc.gz", hit.start + 20)
    assert found(await verify(store, storage, "job")) == {("artifact_changed", hit.key)}


def test_neighbours_are_read_together() -> None:
    line = [PackLocation("packs/1.jsonl", 0, 50, name) for name in ("metadata.json", "data.json")]
    near = PackLocation("packs/1.jsonl", 200, 50, "metadata.json")
    far = PackLocation("packs/1.jsonl", 10 << 20, 9 << 20, "metadata.json")
    other = PackLocation("packs/2.jsonl", 250, 5, "metadata.json")
    first, second, third = group_into_ranges([other, near, *line, far])
    assert (first.start, first.length, first.places) == (0, 250, (*line[::-1], near))
    assert (second.places, third.places) == ((far,), (other,))
    (whole,) = group_into_ranges([("packs/1.jsonl", 0, 100, "outer"), ("packs/1.jsonl", 10, 20, "inner")])
    assert (whole.start, whole.length) == (0, 100)
    assert first.cut(bytes(range(250))) == [bytes(range(50)), bytes(range(50)), bytes(range(200, 250))]
