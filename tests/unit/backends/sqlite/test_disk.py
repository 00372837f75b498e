"""The embedded store on a disk that is full, read-only or locked: what it says, what still works, and that it goes on.

On a real file system made for it, where the system lets the tests make one.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from swath.backends.sqlite import database
from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import WaitingFor
from swath.domain.lease import Lease
from swath.ports.result_storage import PackAppend, StagedItem
from tests.contract.suites.builders import claimed, finished, ready, success
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Z9")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a file system")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", tmp_path], check=False, capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


async def _until_full(store: SqliteStore, lease: Lease) -> StoreUnavailable:
    """Ends one item after the other until there is no room for it."""
    for item in lease.items:
        try:
            await finished(store, lease, [success(item.seq)])
        except StoreUnavailable as error:
            return error
    raise AssertionError("the disk was not full")


async def test_a_full_disk_costs_nothing_but_time(disk: Path) -> None:
    store = SqliteStore.open(disk, FakeClock())
    await ready(store, items=300)
    lease = await claimed(store)
    _fill(disk)
    error = await _until_full(store, lease)
    assert error.waiting_for is WaitingFor.DISK
    before = (await store.status("job")).counts.success
    store.tell_waiting("worker", WaitingFor.DISK)
    assert store.begin(lease, lease.items[-1].seq)
    assert store._presence.running("worker") == {(lease.fence, lease.items[-1].seq)}
    looker = SqliteStore.open(disk, FakeClock())
    status = await looker.status("job")
    assert (status.waiting_for, status.counts.success) == (WaitingFor.DISK, before)
    await looker.close()
    (disk / "ballast").unlink()
    store.tell_waiting("worker", None)
    await finished(store, lease, [success(item.seq) for item in lease.items])
    status = await store.status("job")
    assert (status.waiting_for, status.counts.success) == (None, len(lease.items))
    await store.close()


async def test_a_store_that_rests_on_a_full_disk_can_be_read_and_later_written(disk: Path) -> None:
    store = SqliteStore.open(disk, FakeClock())
    await ready(store, items=10)
    await store.close()
    _fill(disk)
    again = SqliteStore.open(disk, FakeClock())
    assert (await again.status("job")).counts.total == 10
    with pytest.raises(StoreUnavailable) as raised:
        await again.pause("job")
    assert raised.value.waiting_for is WaitingFor.DISK
    with pytest.raises(StoreUnavailable, match="No space left"):
        await again.claim("worker")
    (disk / "ballast").unlink()
    assert len((await claimed(again)).items) > 1
    assert (await again.status("job")).state.value == "running"
    await again.close()


async def test_a_read_only_folder_can_be_looked_at(disk: Path) -> None:
    store = SqliteStore.open(disk, FakeClock())
    await ready(store, items=10)
    await store.close()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    looker = SqliteStore.open(disk, FakeClock())
    assert (await looker.status("job")).counts.total == 10
    assert len(await looker.items("job")) == 10
    with pytest.raises(UserError, match="read-only"):
        await looker.pause("job")
    with pytest.raises(UserError, match="Read-only"):
        await looker.claim("worker")
    await looker.close()


async def test_results_on_a_full_disk_wait_for_the_disk(disk: Path) -> None:
    storage = FolderResults(disk / "results")
    await storage.open_lease("job", 1)
    _fill(disk)
    with pytest.raises(StoreUnavailable, match="full") as raised:
        await storage.stage("job", 1, [StagedItem("a", {"data.json": b"x" * 100_000})])
    assert raised.value.waiting_for is WaitingFor.DISK
    (disk / "ballast").unlink()
    await storage.stage("job", 1, [StagedItem("a", {"data.json": b"x" * 100_000})])
    await storage.close()


@pytest.mark.req("R2", "Z2")
async def test_packs_on_a_full_disk_wait_for_the_disk_and_have_no_hole(disk: Path) -> None:
    storage = FolderResults(disk / "results")
    await storage.open_lease("job", 1)
    group = {"jsonl": PackAppend(b"line\n" * 1_000), "warc.gz": PackAppend(b"x" * 100_000, b"head")}
    await storage.append("job", 1, group)
    _fill(disk)
    with (disk / "ballast").open("r+b") as ballast:  # there is room for the first pack, and for a part of the second
        ballast.truncate(ballast.seek(0, os.SEEK_END) - 40_960)
    before = {key: await storage.get("job", key) for key in ("packs/1.jsonl", "packs/1.warc.gz")}
    with pytest.raises(StoreUnavailable, match="full") as raised:
        await storage.append("job", 1, {ending: PackAppend(b"-" * len(add.data)) for ending, add in group.items()})
    assert raised.value.waiting_for is WaitingFor.DISK
    assert {key: len(await storage.get("job", key)) > len(data) for key, data in before.items()} == {
        "packs/1.jsonl": True,
        "packs/1.warc.gz": True,
    }, "nothing of it was written, which shows nothing"
    (disk / "ballast").unlink()
    assert await storage.append("job", 1, group) == {
        "jsonl": ("packs/1.jsonl", 5_000),
        "warc.gz": ("packs/1.warc.gz", 100_004),
    }
    await storage.settle("job", 1, (), {"packs/1.jsonl": 10_000, "packs/1.warc.gz": 200_004})
    assert await storage.get("job", "packs/1.jsonl") == b"line\n" * 2_000
    assert await storage.get("job", "packs/1.warc.gz") == b"head" + b"x" * 200_000
    await storage.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_a_disk_that_takes_no_lock_file_is_waited_for(tmp_path: Path, number: int) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())

    def refuse(worker_id: str) -> None:
        raise OSError(number, os.strerror(number))

    store._presence.enter = refuse  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable) as raised:
        await store.claim("worker")
    assert raised.value.waiting_for is WaitingFor.DISK
    await store.close()


async def test_a_locked_store_is_waited_for_and_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=3)
    lease = await claimed(store)
    with closing(sqlite3.connect(tmp_path / "swath.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked") as raised:
            await finished(store, lease, [success(1)])
        assert raised.value.waiting_for is WaitingFor.STORE
        store.tell_waiting("worker", WaitingFor.STORE)
        assert store.begin(lease, 2)
        looker = SqliteStore.open(tmp_path, FakeClock())
        assert (await looker.status("job")).waiting_for is WaitingFor.STORE
        await looker.close()
        other.execute("ROLLBACK")
    assert (await finished(store, lease, [success(1)])).accepted == {1}
    await store.close()


async def test_opening_a_healthy_store_writes_nothing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=3)
    with closing(sqlite3.connect(tmp_path / "swath.db")) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody else can write now
        log = (tmp_path / "swath.db-wal").read_bytes()
        looker = SqliteStore.open(tmp_path, FakeClock())
        assert looker._db._write_connection is not None, "it would have had to wait for its turn"
        assert (await looker.status("job")).counts.total == 3
        await looker.close()
        assert (tmp_path / "swath.db-wal").read_bytes() == log
    await store.close()


async def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    await SqliteStore.open(tmp_path, FakeClock()).close()
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.execute("UPDATE meta SET value = 1 WHERE key = 'schema'")
    with pytest.raises(UserError, match="another version"):
        SqliteStore.open(tmp_path, FakeClock())
