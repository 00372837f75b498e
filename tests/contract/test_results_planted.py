"""Z7: a local user who may write to the results folder plants links, pipes and folders there. Nothing of ours follows.

A hard link to a file of somebody else can be made where `fs.protected_hardlinks` is off, or where the user may read and
write that file. As root the tests plant it themselves; what differs for the reader is only who may write to the folder.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from swath.backends.sqlite.results import folders
from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import FolderUnusable
from swath.ports.result_storage import FileRange, PackAppend, StagedItem

pytestmark = pytest.mark.req("Z7")

SECRET = b"root:secret\n" * 20
KEY = "items/a/data.json"
HANG_SECONDS = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
async def storage(root: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(root)
    await made.open_lease("job", 1)
    await made.stage("job", 1, [StagedItem("a", {"data.json": b"{}"})])
    await made.settle("job", 1, ["a"])
    yield made
    await asyncio.wait_for(made.close(), HANG_SECONDS)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


def planted(path: Path, target: Path) -> Path:
    """A hard link in a folder that others may write to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.hardlink_to(target)
    path.parent.chmod(0o777)
    return path


async def test_a_hard_link_in_a_folder_of_others_is_no_file(storage: FolderResults, root: Path, secret: Path) -> None:
    planted(root / "job" / KEY, secret)
    with pytest.raises(KeyError):
        await storage.get("job", KEY)
    with pytest.raises(KeyError):
        await storage.read("job", KEY, 0, 4)
    assert await storage.read_all("job", [FileRange(KEY, 0, None), FileRange(KEY, 0, 4)]) == [None, None]


async def test_a_backup_made_of_hard_links_hides_no_file(storage: FolderResults, root: Path, tmp_path: Path) -> None:
    """`cp -al` gives every file a second name. In a folder that only we may write to nobody else has planted it."""
    (tmp_path / "backup").hardlink_to(root / "job" / KEY)
    assert await storage.get("job", KEY) == b"{}"
    assert await storage.read_all("job", [FileRange(KEY, 0, None)]) == [b"{}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
async def test_a_hard_link_in_a_folder_of_another_user_is_no_file(
    storage: FolderResults, root: Path, secret: Path
) -> None:
    planted(root / "job" / KEY, secret).parent.chmod(0o755)
    os.chown(root / "job/items/a", 65534, 65534)
    with pytest.raises(KeyError):
        await storage.get("job", KEY)


@pytest.mark.parametrize("when", ["before the first piece", "between two pieces"])
async def test_a_hard_link_in_place_of_a_pack_is_never_written_to(
    storage: FolderResults, root: Path, secret: Path, when: str
) -> None:
    await storage.open_lease("job", 2)
    if when == "between two pieces":
        await storage.append("job", 2, {"jsonl": PackAppend(b"ours\n")})
    planted(root / "job/.leases/2/.packs/2.jsonl", secret)
    with pytest.raises(FolderUnusable, match=r"2\.jsonl' stands in the way"):
        await storage.append("job", 2, {"jsonl": PackAppend(b"evil\n")})
    assert secret.read_bytes() == SECRET
    with pytest.raises(FolderUnusable, match="stands in the way") if when == "between two pieces" else nullcontext():
        await storage.settle("job", 2, [], {"packs/2.jsonl": 3})
    assert secret.read_bytes() == SECRET, "it was cut"
    if (root / "job/packs/2.jsonl").exists():
        assert b"secret" not in (root / "job/packs/2.jsonl").read_bytes(), "it was copied"


async def test_a_pipe_in_place_of_a_pack_holds_nobody_up(storage: FolderResults, root: Path) -> None:
    await storage.open_lease("job", 2)
    packs = root / "job/.leases/2/.packs"
    packs.mkdir()
    os.mkfifo(packs / "2.jsonl")
    writing = asyncio.ensure_future(storage.append("job", 2, {"jsonl": PackAppend(b"ours\n")}))
    done, _ = await asyncio.wait([writing], timeout=HANG_SECONDS)
    if not done:  # lets the thread go, or the whole run would wait for it
        os.close(os.open(packs / "2.jsonl", os.O_RDONLY | os.O_NONBLOCK))
    with pytest.raises(FolderUnusable, match=r"2\.jsonl' is a pipe"):
        await writing


def pipe(path: Path) -> Callable[[], None]:
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)
    os.write(held, b"x" * 1_000)
    return lambda: os.close(held)


def listener(path: Path) -> Callable[[], None]:
    here = os.getcwd()  # noqa: PTH109 the address of a socket may have no more than 108 bytes
    made = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)
    try:
        made.bind(path.name)
    finally:
        os.chdir(here)
    return made.close


@pytest.mark.parametrize("plant", [pipe, listener])
async def test_what_is_no_plain_file_is_none(
    storage: FolderResults, root: Path, plant: Callable[[Path], Callable[[], None]]
) -> None:
    path = root / "job" / KEY
    path.unlink()
    release = plant(path)
    try:
        with pytest.raises(KeyError):
            await asyncio.wait_for(storage.get("job", KEY), HANG_SECONDS)
        assert await storage.read_all("job", [FileRange(KEY, 0, None)]) == [None]
    finally:
        release()


@pytest.mark.req("J5")
async def test_folders_in_folders_without_end_are_listed_and_removed(storage: FolderResults, root: Path) -> None:
    def plant(inside: Path) -> None:
        here = os.open(inside, os.O_RDONLY)
        for _ in range(1_200):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)

    plant(root / "job/items")
    found = [key async for key in storage.keys("job")]
    assert KEY in found
    await storage.remove("job", "items/d")
    assert [path.name for path in (root / "job/items").iterdir()] == ["a"]
    plant(root / "job/items/a")
    await storage.clear("job")
    assert list(root.iterdir()) == []


async def test_a_folder_that_becomes_a_link_while_it_is_removed_is_not_followed(
    storage: FolderResults, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.json").write_bytes(SECRET)
    real, swapped = folders.enter, list[str]()

    def swap_before(fd: int, path: str, *, create: bool = False) -> int:
        """The moment between looking at a folder and opening it."""
        if path == "a" and not swapped:
            swapped.append(path)
            os.rename("a", "aside", src_dir_fd=fd, dst_dir_fd=fd)
            os.symlink(outside, "a", dir_fd=fd)
        return real(fd, path, create=create)

    monkeypatch.setattr(folders, "enter", swap_before)
    await storage.clear("job")
    assert swapped
    assert [path.name for path in outside.iterdir()] == ["data.json"]
    assert list(root.iterdir()) == []


async def test_readers_never_see_behind_a_link_that_comes_and_goes(
    storage: FolderResults, root: Path, tmp_path: Path
) -> None:
    """A folder is exchanged for a link to another one as fast as that can be done, while files below it are read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.json").write_bytes(SECRET)
    item, aside, link = root / "job/items/a", root / "job/items/aside", tmp_path / "link"
    over = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not over.is_set():
            link.symlink_to(outside)
            item.rename(aside)
            link.rename(item)
            item.unlink()
            aside.rename(item)
            swaps += 1

    attacker = threading.Thread(target=swap)
    attacker.start()
    seen: set[bytes | None] = set()
    try:
        while swaps < 300:
            (whole,) = await storage.read_all("job", [FileRange(KEY, 0, None)])
            seen.add(whole)
            try:
                seen.add(await storage.get("job", KEY))
            except (KeyError, FolderUnusable):
                seen.add(None)
            async for _ in storage.keys("job", "items/"):
                pass
    finally:
        over.set()
        attacker.join()
    assert seen <= {b"{}", None}
    assert stat.S_ISDIR(item.lstat().st_mode)
