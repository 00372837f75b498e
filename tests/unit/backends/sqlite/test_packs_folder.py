"""Packs in a real folder: what lies where, and what is left when a writer fails, is killed, or wakes up too late."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.results.staging import read_staged_or_published
from swath.domain.errors import LeaseLost, StoreUnavailable
from swath.observability import crash_points
from swath.ports.result_storage import PackAppend

pytestmark = pytest.mark.req("R2", "Z2")

PACK, LINES, INDEX = "packs/1.warc.gz", "packs/1.jsonl", "packs/1.cdxj"
SETTLED = {PACK: "head;one;", LINES: "line 1\n", INDEX: "index", ".leases/": ""}
STEPS = [("rename", 1), ("rename", 2), ("rename", 3), ("rename", 4), ("rmdir", 1)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
async def storage(root: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(root)
    yield made
    await made.close()


@pytest.fixture
async def rescuer(root: Path) -> AsyncIterator[FolderResults]:
    """The same folder as another process sees it."""
    made = FolderResults(root)
    yield made
    await made.close()


def tree(folder: Path) -> dict[str, str]:
    """Every file, also hidden ones, and every empty folder."""
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    empty = [path for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
    return found | {f"{path.relative_to(folder)}/": "" for path in empty}


async def written(storage: FolderResults) -> None:
    """One group that is needed, one that is not."""
    await storage.open_lease("job", 1)
    await storage.append("job", 1, {"warc.gz": PackAppend(b"one;", b"head;"), "jsonl": PackAppend(b"line 1\n")})
    await storage.append("job", 1, {"warc.gz": PackAppend(b"lost;", b"head;"), "jsonl": PackAppend(b"line 2\n")})


async def settle(storage: FolderResults) -> None:
    await storage.settle("job", 1, (), {PACK: 9, LINES: 7}, {INDEX: b"index"})


class Crash(BaseException):
    """Stands for the death of the process at a certain call."""


def die_at(monkeypatch: pytest.MonkeyPatch, function: str, call: int) -> None:
    """From that call on (counted from 1) the function of `os` raises, as if nobody were there to go on."""
    real: Callable[..., Any] = getattr(os, function)
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise Crash
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, counted)


async def test_packs_lie_in_the_room_and_then_in_a_folder_of_their_own(storage: FolderResults, root: Path) -> None:
    await written(storage)
    assert tree(root / "job") == {
        ".leases/1/.packs/1.warc.gz": "head;one;lost;",
        ".leases/1/.packs/1.jsonl": "line 1\nline 2\n",
    }
    await settle(storage)
    assert tree(root / "job") == SETTLED


@pytest.mark.req("Z1")
@pytest.mark.parametrize("by", ["the same", "another"])
@pytest.mark.parametrize(
    ("settler", "step"),
    [("writer", step) for step in (("ftruncate", 1), ("ftruncate", 2), *STEPS)] + [("rescuer", step) for step in STEPS],
)
async def test_a_settlement_that_died_at_any_step_is_completed_by_anybody(
    storage: FolderResults,
    rescuer: FolderResults,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    settler: str,
    step: tuple[str, int],
    by: str,
) -> None:
    first, other = (storage, rescuer) if settler == "writer" else (rescuer, storage)
    await written(storage)
    with monkeypatch.context() as dying:
        die_at(dying, *step)
        with pytest.raises(Crash):
            await settle(first)
    seen = {key: (await storage.get("job", key)).decode() async for key in storage.keys("job")}
    assert seen.items() <= SETTLED.items(), "half of something has a final name"
    assert await other.open_leases("job") == [1]
    await settle(first if by == "the same" else other)
    assert tree(root / "job") == SETTLED


_WRITER = textwrap.dedent("""
    import asyncio, os, pathlib, signal, sys, threading
    from swath.backends.sqlite.results.results import FolderResults
    from swath.observability import crash_points
    from swath.ports.result_storage import PackAppend

    async def main(root, act):
        storage = FolderResults(pathlib.Path(root))
        await storage.open_lease("job", 1)
        await storage.append("job", 1, {"warc.gz": PackAppend(b"one;", b"head;"), "jsonl": PackAppend(b"line 1\\n")})
        await act(storage)

    async def die(storage):
        crash_points.install(lambda point: os._exit(137) if point == "after_pack_rename" else None)
        await storage.settle("job", 1, (), {"packs/1.warc.gz": 9, "packs/1.jsonl": 7}, {"packs/1.cdxj": b"own"})

    async def freeze(storage):
        real = os.pwrite

        def frozen(*args):  # with the file open
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread goes no further
            return real(*args)

        os.pwrite = frozen
        await storage.append("job", 1, {"warc.gz": PackAppend(b"late;")})
        print("woke up and wrote", flush=True)

    asyncio.run(main(sys.argv[1], globals()[sys.argv[2]]))
""")


def process(root: Path, act: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _WRITER, str(root), act], stdout=subprocess.PIPE, text=True)


@pytest.mark.req("Z1")
async def test_killed_between_the_renames_and_the_end_of_the_room_it_is_settled_by_another(
    storage: FolderResults, root: Path
) -> None:
    killed = process(root, "die")
    killed.communicate()
    assert killed.returncode == 137
    assert tree(root / "job") == {PACK: "head;one;", LINES: "line 1\n", ".leases/1/.packs/": ""}
    await settle(storage)
    assert tree(root / "job") == SETTLED


async def test_a_frozen_writer_that_wakes_up_changes_nothing_of_what_was_published(
    storage: FolderResults, root: Path
) -> None:
    writer = process(root, "freeze")
    os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        await settle(storage)
    finally:
        writer.send_signal(signal.SIGCONT)
        said, _ = writer.communicate()
    assert said == "woke up and wrote\n"
    assert tree(root / "job") == SETTLED


async def test_a_writer_whose_caller_was_cancelled_changes_nothing_of_what_was_published(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(storage)
    writing, go_on, real = threading.Event(), threading.Event(), os.pwrite

    def slow(*args: Any) -> int:
        writing.set()
        go_on.wait(10)
        return real(*args)

    monkeypatch.setattr(os, "pwrite", slow)
    append = asyncio.create_task(storage.append("job", 1, {"warc.gz": PackAppend(b"late;")}))
    await asyncio.to_thread(writing.wait, 10)
    append.cancel()
    settling = asyncio.create_task(settle(storage))
    await asyncio.sleep(0.1)  # as far as it comes while the thread writes
    go_on.set()
    await settling
    await storage.close()
    assert tree(root / "job") == SETTLED


async def test_a_pack_that_was_published_never_begins_anew(storage: FolderResults, root: Path) -> None:
    await written(storage)

    def die(point: str) -> None:
        assert point == "after_pack_rename"
        raise Crash

    crash_points.install(die)
    try:
        with pytest.raises(Crash):
            await settle(storage)
    finally:
        crash_points.install(None)
    with pytest.raises(LeaseLost):
        await storage.append("job", 1, {"warc.gz": PackAppend(b"late;", b"head;")})
    await settle(storage)
    assert tree(root / "job") == SETTLED


def test_a_pack_that_is_published_while_it_is_looked_for_is_found() -> None:
    looked: list[str] = []

    def read(_: int, place: str) -> bytes:
        looked.append(place)
        if len(looked) < 3:  # not published yet; then no longer in the room
            raise FileNotFoundError
        return b"found"

    assert read_staged_or_published(0, PACK, read) == b"found"
    assert looked == [PACK, ".leases/1/.packs/1.warc.gz", PACK]


async def test_what_a_failed_write_left_is_overwritten(
    storage: FolderResults, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.open_lease("job", 1)
    real, calls = os.pwrite, 0

    def fails(file: int, data: bytes, start: int) -> int:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise OSError(28, "No space left on device")
        return real(file, data[:4] if calls % 3 == 2 else data, start)

    for n in range(2):
        additions = {"jsonl": PackAppend(b"line %d\n" % n), "warc.gz": PackAppend(b"record %d;" % n, b"head;")}
        with monkeypatch.context() as failing:
            failing.setattr(os, "pwrite", fails)
            with pytest.raises(StoreUnavailable, match="disk is full"):
                await storage.append("job", 1, {"jsonl": PackAppend(b"x" * 50), "warc.gz": PackAppend(b"y" * 50)})
        answer = await storage.append("job", 1, additions)
        assert answer == {"jsonl": (LINES, 7 * n), "warc.gz": (PACK, 5 + 9 * n)}
    await storage.settle("job", 1, (), {PACK: 23, LINES: 14})
    assert tree(root / "job") == {PACK: "head;record 0;record 1;", LINES: "line 0\nline 1\n", ".leases/": ""}


async def test_a_writer_that_does_not_know_the_pack_goes_on_where_it_ends(
    storage: FolderResults, rescuer: FolderResults
) -> None:
    await written(storage)
    assert await rescuer.append("job", 1, {"warc.gz": PackAppend(b"more", b"head;")}) == {"warc.gz": (PACK, 14)}
    assert await storage.read("job", PACK, 14, 4) == b"more"


@pytest.mark.parametrize("settler", ["storage", "rescuer"])
async def test_a_pack_that_is_too_short_is_published_as_it_is(
    request: pytest.FixtureRequest, storage: FolderResults, rescuer: FolderResults, root: Path, settler: str
) -> None:
    await written(storage)
    by: FolderResults = request.getfixturevalue(settler)
    await by.settle("job", 1, (), {PACK: 1_000, LINES: 14})
    assert tree(root / "job") == {PACK: "head;one;lost;", LINES: "line 1\nline 2\n", ".leases/": ""}


async def test_a_pack_longer_than_one_read_is_copied_whole(
    storage: FolderResults, rescuer: FolderResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(storage)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda file, length, start: real(file, min(length, 3), start))
    await settle(rescuer)
    assert await storage.get("job", PACK) == b"head;one;"


@pytest.mark.parametrize("fsync", [False, True])
async def test_packs_are_synced_only_as_configured(root: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    storage = FolderResults(root, fsync=fsync)
    await storage.open_lease("job", 1)
    await storage.append("job", 1, {"warc.gz": PackAppend(b"one;", b"head;")})
    assert synced == (["1.warc.gz", ".packs"] if fsync else [])
    await storage.settle("job", 1, (), {PACK: 9}, {INDEX: b""})
    await storage.close()
    assert [name if not name.startswith(".new-") else "new" for name in synced[2:]] == (
        ["1.warc.gz", "packs", "new", "packs"] if fsync else []
    )


async def test_nothing_is_remembered_of_leases_that_ended(storage: FolderResults) -> None:
    await written(storage)
    await settle(storage)
    assert storage._packs._leases == {}
    await storage.open_lease("job", 2)
    await storage.append("job", 2, {"jsonl": PackAppend(b"line")})
    await storage.clear("job")
    assert storage._packs._leases == {}
