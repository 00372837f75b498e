"""What only a real folder can show: what lies where, what a crash leaves, who may write, and what a full disk does."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable
from swath.ports.result_storage import PackAppend, StagedItem


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
async def storage(root: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(root)
    yield made
    await made.close()


def tree(folder: Path) -> dict[str, str]:
    """Every file, also hidden ones, and every empty folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_text()
        elif not any(path.iterdir()):
            found[f"{path.relative_to(folder)}/"] = ""
    return found


async def stage(storage: FolderResults, fence: int, *items: str, body: bytes | None = None) -> None:
    await storage.open_lease("job", fence)
    content = f"by {fence}".encode() if body is None else body
    await storage.stage("job", fence, [StagedItem(item, {"html.html": content}) for item in items])


class Crash(BaseException):
    """Stands for the death of the process at a certain call."""


def die_at(monkeypatch: pytest.MonkeyPatch, function: str, call: int, error: BaseException) -> None:
    """From that call on (counted from 1) the function of `os` raises, as if nobody were there to go on."""
    real: Callable[..., Any] = getattr(os, function)
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, counted)


@pytest.mark.req("R1")
async def test_files_lie_where_the_layout_says(storage: FolderResults, root: Path) -> None:
    await stage(storage, 7, "100-01-001", "a/b", "x" * 200)
    assert (root / "job/.leases/7/100-01-001/html.html").read_text() == "by 7"
    await storage.settle("job", 7, ["100-01-001", "a/b", "x" * 200])
    await storage.put("job", {"job_metadata.json": b"{}"})
    assert tree(root) == {
        "job/.leases/": "",
        "job/items/100-01-001/html.html": "by 7",
        "job/items/a%2Fb/html.html": "by 7",
        f"job/items/{'x' * 180}~/{'x' * 20}/html.html": "by 7",
        "job/job_metadata.json": "{}",
    }
    assert storage.location("job") == str(root / "job")


@pytest.mark.req("R1", "Z2")
async def test_an_item_is_published_by_one_rename(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.open_lease("job", 1)
    await storage.stage("job", 1, [StagedItem("a", {"x": b"1", "y": b"2", "z": b"3"})])
    die_at(monkeypatch, "rename", 2, AssertionError("a second rename"))
    await storage.publish("job", 1, ["a"])
    assert sorted(path.name for path in (root / "job/items/a").iterdir()) == ["x", "y", "z"]


@pytest.mark.req("Z1", "Z2")
@pytest.mark.parametrize("repeat", ["publish", "settle"])
@pytest.mark.parametrize(("function", "call"), [("rename", 2), ("rename", 3), ("unlink", 1), ("rmdir", 1)])
async def test_a_replacement_that_died_half_way_is_completed_by_repeating_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, repeat: str, function: str, call: int
) -> None:
    storage = FolderResults(root)
    await storage.open_lease("job", 1)
    await storage.stage("job", 1, [StagedItem("a", {"old": b"1", "both": b"1"})])
    await storage.settle("job", 1, ["a"])
    await storage.open_lease("job", 2)
    await storage.stage("job", 2, [StagedItem("a", {"new": b"2", "both": b"2"})])
    with monkeypatch.context() as dying:
        die_at(dying, function, call, Crash())
        with pytest.raises(Crash):
            await storage.publish("job", 2, ["a"])
    seen = {file: body for file, body in tree(root / "job").items() if file.startswith("items/a/")}
    assert set(seen.values()) in ({"1"}, {"2"}, set()), "files of two results are mixed"
    if repeat == "publish":
        await storage.publish("job", 2, ["a"])
    await storage.settle("job", 2, ["a"])
    assert tree(root / "job") == {".leases/": "", "items/a/both": "2", "items/a/new": "2"}
    await storage.close()


@pytest.mark.req("Z1", "Z2")
@pytest.mark.parametrize(
    ("function", "call"), [("rename", 1), ("rename", 2), ("unlink", 1), ("rmdir", 1), ("rmdir", 2)]
)
async def test_a_settlement_that_died_half_way_is_completed_by_repeating_it(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch, function: str, call: int
) -> None:
    await stage(storage, 1, "winner", "loser")
    with monkeypatch.context() as dying:
        die_at(dying, function, call, Crash())
        with pytest.raises(Crash):
            await storage.settle("job", 1, ["winner"])
    assert await storage.open_leases("job") == [1]
    await storage.settle("job", 1, ["winner"])
    assert await storage.open_leases("job") == []
    assert tree(root / "job") == {".leases/": "", "items/winner/html.html": "by 1"}


@pytest.mark.req("Z2")
async def test_who_lost_the_room_cannot_take_away_what_came_after(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage(storage, 1, "a")
    await storage.settle("job", 1, ["a"])
    await stage(storage, 2, "a")
    zombie = FolderResults(root)
    real, asleep = os.rename, True

    def sleep_before_replacing(*args: Any, **kwargs: Any) -> None:
        """The zombie has seen that an earlier result is in its way; before it acts, others settle and go on."""
        nonlocal asleep
        if asleep and str(args[1]).startswith(".aside"):
            asleep = False
            asyncio.run(settle_and_go_on())
        real(*args, **kwargs)

    async def settle_and_go_on() -> None:
        other = FolderResults(root)
        await other.settle("job", 2, ["a"])
        await stage(other, 3, "a")
        await other.settle("job", 3, ["a"])
        await other.close()

    monkeypatch.setattr(os, "rename", sleep_before_replacing)
    await zombie.publish("job", 2, ["a"])
    assert not asleep
    assert tree(root / "job") == {".leases/": "", "items/a/html.html": "by 3"}
    await zombie.close()


@pytest.mark.req("Z2")
async def test_a_room_cleared_under_a_writer_is_gone_for_good(storage: FolderResults, root: Path) -> None:
    zombie = FolderResults(root)
    await storage.open_lease("job", 1)
    lost = asyncio.Event()

    async def write_on() -> None:
        for n in range(10_000):
            try:
                await zombie.stage("job", 1, [StagedItem(f"{n}-{m}", {"x": b"1"}) for m in range(5)])
            except LeaseLost:
                lost.set()
                return

    writing = asyncio.create_task(write_on())
    while not (root / "job/.leases/1/1-0").exists():  # so the first batch is complete
        await asyncio.sleep(0.001)
    await storage.settle("job", 1, ["0-0"])
    await writing
    assert lost.is_set()
    assert tree(root / "job") == {".leases/": "", "items/0-0/x": "1"}
    await zombie.close()


@pytest.mark.req("Z2")
@pytest.mark.parametrize(
    ("code", "says"), [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "quota"), (errno.EIO, "disk reports an error")]
)
async def test_a_disk_that_fails_is_one_line_and_leaves_what_was_there(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    await stage(storage, 1, "a")
    await storage.put("job", {"manifests/full/part-1.json": b"old", "job_metadata.json": b"old"})
    before = tree(root)
    with monkeypatch.context() as failing:
        die_at(failing, "write", 2, OSError(code, "no"))
        with pytest.raises(StoreUnavailable, match=says) as raised:
            await storage.put("job", {"job_metadata.json": b"old", "manifests/full/part-1.json": b"new"})
        with pytest.raises(StoreUnavailable, match=says):
            await storage.stage("job", 1, [StagedItem("b", {"x": b"1"})])
    assert "\n" not in str(raised.value)
    await storage.stage("job", 1, [StagedItem("b", {"x": b"1"})])
    assert tree(root) == before | {"job/.leases/1/b/x": "1"}


@pytest.mark.req("Z9", "Z10")
@pytest.mark.parametrize("put", [Path.touch, lambda root: root.symlink_to("not mounted")], ids=["file", "link"])
async def test_what_stands_in_place_of_the_whole_folder_is_waited_for(
    storage: FolderResults, root: Path, put: Callable[[Path], None]
) -> None:
    put(root)
    for use in (storage.open_lease("job", 1), storage.put("job", {"job_metadata.json": b"{}"})):
        with pytest.raises(StoreUnavailable, match=r"a file.*stands in its place") as raised:
            await use
        assert not isinstance(raised.value, FolderUnusable), "it is the place of all jobs"
        assert str(root) in str(raised.value)
    root.unlink()
    await storage.open_lease("job", 1)


async def test_a_write_that_was_cut_short_goes_on(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    await storage.put("job", {"a": b"0123456789"})
    assert (root / "job/a").read_text() == "0123456789"


async def test_a_read_that_was_cut_short_goes_on(storage: FolderResults, monkeypatch: pytest.MonkeyPatch) -> None:
    await storage.put("job", {"a": b"0123456789", "empty": b""})
    real = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: real(fd, min(size, 3)))
    assert await storage.get("job", "a") == b"0123456789"
    assert await storage.get("job", "empty") == b""


@pytest.mark.req("Z2")
async def test_a_document_has_no_final_name_before_it_is_complete(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = os.write

    def look(fd: int, data: bytes) -> int:
        seen.append([key for key in tree(root / "job") if not key.startswith(".writing/")])
        return real(fd, data)

    monkeypatch.setattr(os, "write", look)
    await storage.put("job", {"manifests/a.json": b"1", "manifests/b.json": b"2"})
    assert seen == [["manifests/"], ["manifests/a.json"]]


async def test_what_a_dead_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    storage: FolderResults, root: Path
) -> None:
    dead, living = root / "job/.writing/dead", root / "job/.writing/living"
    for folder in (dead, living):
        folder.mkdir(parents=True)
        (folder / "document").write_text("half")
    held = os.open(living, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    await storage.put("job", {"a": b"1"})
    assert tree(root / "job") == {".writing/living/document": "half", "a": "1"}
    assert [key async for key in storage.keys("job")] == ["a"]
    os.close(held)
    await storage.put("job", {"a": b"2"})
    assert tree(root / "job") == {"a": "2"}


async def test_many_writers_at_once_do_not_disturb_each_other(root: Path) -> None:
    writers = [FolderResults(root) for _ in range(4)]
    await asyncio.gather(
        *(
            writer.put("job", {f"{n}/{k}": b"x", "all": bytes([65 + n]) * 99})
            for k in range(25)
            for n, writer in enumerate(writers)
        )
    )
    found = tree(root / "job")
    assert len(found) == 101
    assert len(set(found.pop("all"))) == 1
    assert set(found.values()) == {"x"}
    for writer in writers:
        await writer.close()


@pytest.mark.req("Z1", "Z2")
async def test_kill_9_at_any_time_leaves_no_torn_file_under_a_final_name(storage: FolderResults, root: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, hashlib, pathlib, sys
        from swath.backends.sqlite.results.results import FolderResults
        from swath.ports.result_storage import StagedItem

        def named(n):  # each file says in its name what its content must be
            body = bytes([65 + n % 26]) * 200_000
            return hashlib.sha256(body).hexdigest(), body

        async def main(root, fence):
            storage = FolderResults(pathlib.Path(root))
            await storage.open_lease("job", fence)
            for n in range(100_000):
                name, body = named(n)
                await storage.stage("job", fence, [StagedItem(f"{n % 7}", {name: body, "x": b"1"})])
                await storage.publish("job", fence, [f"{n % 7}"])
                await storage.put("job", {f"manifests/{name}": body, "job_metadata.json": body})
                print(n, flush=True)

        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    """)
    for fence in range(1, 6):
        child = subprocess.Popen([sys.executable, "-c", program, str(root), str(fence)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()  # it is at work
        await asyncio.sleep(0.003 * fence)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        async for key in storage.keys("job"):
            name, body = key.rpartition("/")[2], await storage.get("job", key)
            if name == "job_metadata.json":
                assert (len(body), len(set(body))) == (200_000, 1), key
            elif name != "x":
                assert hashlib.sha256(body).hexdigest() == name
        await storage.settle("job", fence, ())
    await storage.put("job", {"job_metadata.json": b"{}"})
    assert [path.name for path in (root / "job").iterdir() if path.name.startswith(".")] == [".leases"]
    assert not any((root / "job/.leases").iterdir())


@pytest.mark.req("R1")
async def test_links_are_never_followed_out_of_the_root(storage: FolderResults, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "html.html").write_text("secret")
    await stage(storage, 1, "a", "b")
    (root / "job/items").mkdir()
    (root / "job/items/a").symlink_to(outside)
    (root / "job/items/c").mkdir()
    (root / "job/items/c/html.html").symlink_to(outside / "html.html")
    (root / "job/job_metadata.json").symlink_to(outside / "html.html")
    (root / "linked").symlink_to(outside)

    for key in ("items/a/html.html", "items/c/html.html", "job_metadata.json"):
        with pytest.raises(KeyError):
            await storage.get("job", key)
    with pytest.raises(StoreUnavailable, match="is a file or a link where"):
        await storage.get("linked", "html.html")
    assert sorted([key async for key in storage.keys("job")]) == ["items/a", "items/c/html.html", "job_metadata.json"]
    with pytest.raises(StoreUnavailable, match="is a file or a link where"):
        await storage.publish("job", 1, ["a"])
    with pytest.raises(StoreUnavailable, match="is a file or a link where"):
        await storage.open_lease("linked", 1)
    await storage.put("job", {"job_metadata.json": b"{}"})
    await storage.remove("job", "items/")
    assert tree(outside) == {"html.html": "secret"}
    assert (root / "job/job_metadata.json").read_text() == "{}"


@pytest.mark.parametrize("fsync", [False, True])
async def test_fsync_only_as_configured(root: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink()))
    storage = FolderResults(root, fsync=fsync)
    await stage(storage, 1, "a")
    await storage.publish("job", 1, ["a"])
    await storage.put("job", {"manifests/full/part-1.json": b"1"})
    await storage.close()
    names = [path.name for path in synced]
    assert names == (["html.html", "a", "1", "items", "document", "full"] if fsync else [])


async def test_a_batch_is_one_trip_to_a_thread(storage: FolderResults, monkeypatch: pytest.MonkeyPatch) -> None:
    await storage.open_lease("job", 1)
    trips = 0
    real = storage._threads._pool.submit

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal trips
        trips += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(storage._threads._pool, "submit", counted)
    items = [StagedItem(str(n), {"x": b"1", "y": b"2"}) for n in range(50)]
    await storage.stage("job", 1, items)
    await storage.publish("job", 1, [item.item_id for item in items])
    await storage.put("job", {str(n): b"" for n in range(50)})
    await storage.append("job", 1, {str(n): PackAppend(b"1") for n in range(50)})
    assert trips == 4


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_no_descriptor_is_left_open(storage: FolderResults) -> None:
    async def round_trip(fence: int) -> None:
        await stage(storage, fence, "a", "x" * 400, "\N{PILE OF POO}" * 1_000)
        await storage.publish("job", fence, ["a", "x" * 400])
        await storage.append("job", fence, {"jsonl": PackAppend(b"1")})
        await storage.settle("job", fence, ["\N{PILE OF POO}" * 1_000], {f"packs/{fence}.jsonl": 1}, {"index": b"1"})
        await storage.put("job", {"a/b/c": b"", "d": b""})
        for key in ("a/b", "a/b/c/d", "none", "a/b/c"):
            try:
                await storage.get("job", key)
            except KeyError:
                continue
        async for _ in storage.keys("job"):
            break
        await storage.remove("job", "a/")

    await round_trip(1)
    before = open_descriptors()
    for fence in range(2, 6):
        await round_trip(fence)
    assert open_descriptors() == before


@pytest.mark.req("J5")
@pytest.mark.parametrize("job_id", ["job", "x" * 200, "é" * 200, "../job"])
async def test_of_a_cleared_job_not_a_folder_is_left(storage: FolderResults, root: Path, job_id: str) -> None:
    await storage.put(job_id, {f"manifests/{n}.json": b"" for n in range(1_200)})
    await storage.open_lease(job_id, 1)
    await storage.put("other", {"m.json": b"stays"})
    await storage.clear(job_id)
    assert tree(root) == {"other/m.json": "stays"}


@pytest.mark.req("J5")
async def test_a_removal_that_was_cut_short_is_never_seen_and_is_finished_by_the_next(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.put("job", {f"{n}.json": b"" for n in range(20)})
    die_at(monkeypatch, "unlink", 7, Crash())
    with pytest.raises(Crash):
        await storage.clear("job")
    monkeypatch.undo()
    assert len(tree(root)) == 14
    assert [key async for key in storage.keys("job")] == []
    await storage.put("job", {"new.json": b""})
    await storage.clear("job")
    assert tree(root) == {}


@pytest.mark.req("J5")
async def test_a_removal_can_be_stopped_between_its_pieces(storage: FolderResults, root: Path) -> None:
    await storage.put("job", {f"{n}.json": b"" for n in range(1_500)})
    removal = asyncio.create_task(storage.clear("job"))
    while (root / "job").exists():
        await asyncio.sleep(0)
    removal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removal
    assert [key async for key in storage.keys("job")] == []
    await storage.clear("job")
    assert tree(root) == {}


@pytest.mark.req("Z9")
async def test_who_waits_for_a_storage_that_is_closed_meanwhile_has_lost_its_lease(root: Path) -> None:
    storage = FolderResults(root)
    await storage.open_lease("job", 1)
    await storage.close()
    with pytest.raises(LeaseLost, match="are closed"):
        await storage.stage("job", 1, [StagedItem("a", {"data.json": b"{}"})])


@pytest.mark.req("Z10", "Z9")
@pytest.mark.parametrize("place", ["job_metadata.json", "missing_items.csv", "manifests/full/part-00001.json"])
async def test_a_folder_in_the_place_of_a_document_is_trouble_of_its_job_and_named(tmp_path: Path, place: str) -> None:
    storage = FolderResults(tmp_path)
    await storage.open_lease("job", 1)
    assert await storage.trouble("job") is None
    (tmp_path / "job" / place / "kept").mkdir(parents=True)
    with pytest.raises(FolderUnusable, match=place.rpartition("/")[2]):
        await storage.put_under("job", 1, {place: b"{}"})
    told = await storage.trouble("job")
    assert told is not None
    assert f"{place!r} is a folder where a file belongs" in told
    await storage.close()


@pytest.mark.req("Z10", "Z9")
@pytest.mark.parametrize("what", ["pipe", "link", "folder"])
async def test_what_stands_in_the_place_of_a_pack_is_trouble_of_its_job_and_keeps_nobody_waiting(
    tmp_path: Path, what: str
) -> None:
    storage = FolderResults(tmp_path)
    await storage.open_lease("job", 1)
    await storage.append("job", 1, {"warc.gz": PackAppend(b"data", b"head")})
    (pack,) = (tmp_path / "job").glob(".leases/1/.packs/*")
    assert await storage.trouble("job") is None
    pack.rename(tmp_path / "kept")
    if what == "pipe":
        os.mkfifo(pack)
    elif what == "link":
        pack.symlink_to(tmp_path / "kept")
    else:
        pack.mkdir()
    with pytest.raises(FolderUnusable, match="where a f"):
        async with asyncio.timeout(60):
            await storage.append("job", 1, {"warc.gz": PackAppend(b"more", b"head")})
    told = await storage.trouble("job")
    assert told is not None
    assert pack.name in told
    pack.rmdir() if what == "folder" else pack.unlink()
    (tmp_path / "kept").rename(pack)
    await storage.append("job", 1, {"warc.gz": PackAppend(b"more", b"head")})
    assert pack.read_bytes() == b"headdatamore"
    await storage.close()
