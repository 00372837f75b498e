"""What a worker's lock file tells of it, alive and dead."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from swath.backends.local_presence.worker_locks import Presence
from swath.backends.local_presence.worker_notes import WorkerNotes
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import UserError
from swath.domain.job import WaitingFor
from tests.contract.suites.builders import claimed, ready
from tests.support.clock import FakeClock

HEADER_BYTES = 16

DIES_WHILE_IT_RUNS = """
import os, signal, sys
from pathlib import Path
from swath.backends.local_presence.worker_locks import Presence
from swath.domain.job import WaitingFor
presence = Presence(Path(sys.argv[1]))
presence.enter("worker")
for seq in range(1, 6):
    presence.begin("worker", 7, seq)
presence.finish("worker", 7, 2)
presence.tell_waiting("worker", WaitingFor.STORE)
print("ready", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.req("S6", "Z9")
def test_a_killed_process_leaves_behind_what_it_ran(tmp_path: Path) -> None:
    looker = Presence(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", DIES_WHILE_IT_RUNS, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert looker.dead() == []
        assert looker.waiting_for() is WaitingFor.STORE
        process.communicate()
    assert looker.dead() == ["worker"]
    assert looker.running("worker") == {(7, seq) for seq in (1, 3, 4, 5)}
    assert looker.waiting_for() is None, "the dead wait for nothing"
    looker.forget("worker")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("S6")
def test_no_note_is_written_over_another(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    presence.enter("worker")
    for seq in (1, 2, 3):
        presence.begin("worker", 1, seq)
    presence.finish("worker", 1, 2)
    presence.begin("worker", 1, 4)
    assert presence.running("worker") == {(1, 1), (1, 3), (1, 4)}
    presence.leave()


@pytest.mark.req("S6")
def test_thousands_of_items_may_run_at_once(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    presence.enter("worker")
    for seq in range(1, 5_001):
        presence.begin("worker", 1, seq)
    for seq in range(1, 5_000):
        presence.finish("worker", 1, seq)
    presence.begin("worker", 2, 77)
    assert presence.running("worker") == {(1, 5_000), (2, 77)}
    size = (tmp_path / "worker.lock").stat().st_size
    for seq in range(100_000):
        presence.begin("worker", 3, seq)
        presence.finish("worker", 3, seq)
    assert (tmp_path / "worker.lock").stat().st_size == size
    presence.leave()


@pytest.mark.req("Z9")
def test_notes_that_cannot_be_written_hurt_nobody(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    presence.enter("worker")
    descriptor, _ = presence._held["worker"]
    read_only = os.open(tmp_path / "worker.lock", os.O_RDONLY)
    os.dup2(read_only, descriptor)
    os.close(read_only)
    presence.begin("worker", 1, 1)
    presence.tell_waiting("worker", WaitingFor.DISK)
    presence.finish("worker", 1, 1)
    presence.begin("somebody", 1, 1)
    presence.tell_waiting("somebody", None)
    assert presence.running("worker") == frozenset()


def test_there_is_one_worker_of_a_name(tmp_path: Path) -> None:
    first, second = Presence(tmp_path), Presence(tmp_path)
    first.enter("worker")
    first.enter("worker")
    with pytest.raises(UserError, match="running already"):
        second.enter("worker")
    first.leave()
    second.enter("worker")
    second.leave()


def test_a_worker_that_is_looked_at_while_it_starts_gets_its_name(tmp_path: Path) -> None:
    path = tmp_path / "worker.lock"
    probe = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(probe, fcntl.LOCK_EX)

    def let_go() -> None:
        time.sleep(0.01)
        os.close(probe)

    looker = threading.Thread(target=let_go)
    looker.start()
    presence = Presence(tmp_path)
    presence.enter("worker")
    looker.join()
    assert not presence.is_dead("worker")
    presence.leave()


def test_notes_begin_empty_whatever_the_file_held(tmp_path: Path) -> None:
    path = tmp_path / "worker.lock"
    path.write_bytes(b"\xff" * 100_000)
    presence = Presence(tmp_path)
    presence.enter("worker")
    assert presence.running("worker") == frozenset()
    assert presence.waiting_for() is None
    presence.leave()


@pytest.mark.req("Z9")
def test_nonsense_in_a_file_is_no_news(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    presence.enter("worker")
    (tmp_path / "worker.lock").write_bytes(b"\xfe")
    (tmp_path / "other.lock").mkdir()
    assert presence.waiting_for() is None
    assert presence.running("other") == frozenset()
    presence.leave()


@pytest.mark.req("S6")
async def test_files_of_the_dead_go_when_what_they_tell_has_been_read(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=4)
    lease = await claimed(store)
    assert store.begin(lease, 1)
    for worker in ("worker", "idle"):
        store._presence.enter(worker)
        os.close(store._presence._held.pop(worker)[0])
    (tmp_path / "workers" / "stale.lock").touch()
    assert len(await store.rescue("other")) == 1
    assert [path.name for path in (tmp_path / "workers").iterdir()] == ["other.lock"]
    assert (await store.item("job", "1")).suspect
    await store.close()


@pytest.mark.req("S6")
async def test_who_dies_during_a_rescue_keeps_its_file_for_the_next(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=4)
    lease = await claimed(store)
    assert store.begin(lease, 1)
    listed = store._presence.dead

    def dies_after_the_look() -> list[str]:
        found = listed()
        os.close(store._presence._held.pop("worker")[0])
        return found

    store._presence.dead = dies_after_the_look  # type: ignore[method-assign]
    await store.rescue("other")
    assert (await store.item("job", "1")).suspect
    assert (tmp_path / "workers" / "worker.lock").exists()
    await store.close()


def test_a_note_is_written_once_however_often_an_item_begins(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "notes", os.O_RDWR | os.O_CREAT)
    notes = WorkerNotes(descriptor)
    for _ in range(3):
        notes.begin(1, 1)
    notes.leave(1, 1)
    notes.leave(1, 1)
    assert set(os.pread(descriptor, 1_000, HEADER_BYTES)) == {0}
    os.close(descriptor)


@pytest.mark.req("Z10")
@pytest.mark.parametrize("damage", ["removed", "replaced", "copied", "folder removed"])
def test_a_lock_file_that_is_missing_or_not_the_workers_own_proves_no_death(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "workers"
    path = folder / "worker.lock"
    presence, other = Presence(folder), Presence(folder)
    presence.enter("worker")
    presence.begin("worker", 1, 7)
    presence.tell_waiting("worker", WaitingFor.DISK)
    if damage == "copied":
        shutil.copy(path, folder / "copy")
    shutil.rmtree(folder) if damage == "folder removed" else path.unlink()
    if damage == "replaced":
        path.touch()
    elif damage == "copied":
        (folder / "copy").rename(path)
    assert not other.is_dead("worker")
    assert other.dead() == []
    assert other.waiting_for() is None, "nobody holds that file"
    presence.enter("worker")
    assert other.running("worker") == {(1, 7)}
    assert other.waiting_for() is WaitingFor.DISK
    assert not other.is_dead("worker")
    presence.begin("worker", 1, 8)
    os.close(presence._held.pop("worker")[0])
    assert other.is_dead("worker")
    assert other.dead() == ["worker"]
    assert other.running("worker") == {(1, 7), (1, 8)}


@pytest.mark.req("Z10")
def test_a_folder_that_was_made_again_is_the_same_host(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    before = Presence(folder).host
    shutil.rmtree(folder)
    (tmp_path / "takes its inode").mkdir()
    assert Presence(folder).host == before
    assert Presence(tmp_path / "others").host != before


@pytest.mark.req("Z10")
def test_a_worker_whose_file_cannot_be_written_again_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    presence = Presence(folder)
    presence.enter("worker")
    shutil.rmtree(folder)
    folder.touch()
    presence.enter("worker")
    presence.begin("worker", 1, 1)
    assert presence.holds("worker")
    folder.unlink()
    presence.enter("worker")
    assert Presence(folder).running("worker") == {(1, 1)}
    presence.leave()


@pytest.mark.req("Z10", "W2")
async def test_leases_of_a_worker_that_left_without_giving_them_up_are_free_at_once(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=4)
    lease = await claimed(store)
    await store.close()
    other = SqliteStore.open(tmp_path, FakeClock())
    (rescued,) = await other.rescue("other")
    assert (rescued.fence, rescued.dead) == (lease.fence, True)
    assert not (await other.item("job", "1")).suspect
    await other.close()
    assert [path.name for path in (tmp_path / "workers").iterdir()] == ["other.lock"], "it has the lease to clean up"
    last = SqliteStore.open(tmp_path, FakeClock())
    for left in await last.rescue("last"):
        await last.release("last", left.fence)
    await last.close()
    assert list((tmp_path / "workers").iterdir()) == []


@pytest.mark.req("Z10")
@pytest.mark.parametrize("place", ["own", "another's"])
def test_a_pipe_in_place_of_a_lock_file_keeps_nobody_waiting(tmp_path: Path, place: str) -> None:
    presence, other = Presence(tmp_path), Presence(tmp_path)
    presence.enter("worker")
    path = tmp_path / ("worker.lock" if place == "own" else "other.lock")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found: list[object] = []

    def look() -> None:
        found.extend((other.is_dead("worker"), other.waiting_for(), other.running("worker"), tuple(other.dead())))
        presence.enter("worker")

    looker = threading.Thread(target=look, daemon=True)  # a pipe that is opened for reading waits for a writer
    looker.start()
    looker.join(60)
    assert found == [False, None, frozenset(), ()]
    presence.begin("worker", 1, 7)
    assert other.running("worker") == {(1, 7)}
    assert not other.is_dead("worker")
    presence.leave()


@pytest.mark.req("Z10", "Z1")
def test_a_lock_file_that_was_moved_away_and_back_proves_no_death(tmp_path: Path) -> None:
    path, aside = tmp_path / "worker.lock", tmp_path / "aside"
    presence, other = Presence(tmp_path), Presence(tmp_path)
    presence.enter("worker")
    path.rename(aside)
    presence.enter("worker")
    aside.rename(path)
    assert not other.is_dead("worker")
    assert other.dead() == []
    presence.enter("worker")
    os.close(presence._held.pop("worker")[0])
    assert other.is_dead("worker")


@pytest.mark.req("Z10", "Z1")
@pytest.mark.parametrize("how", ["link", "hard link", "rename"])
def test_the_lock_file_of_a_dead_worker_under_another_name_proves_no_death(tmp_path: Path, how: str) -> None:
    presence, looker = Presence(tmp_path), Presence(tmp_path)
    presence.enter("worker")
    presence.enter("dead")
    dead, path = tmp_path / "dead.lock", tmp_path / "worker.lock"
    os.close(presence._held.pop("dead")[0])
    assert looker.is_dead("dead")
    path.unlink()
    if how == "link":
        path.symlink_to(dead)
    elif how == "hard link":
        path.hardlink_to(dead)
    else:
        dead.rename(path)
    assert not looker.is_dead("worker")
    presence.enter("worker")
    presence.begin("worker", 1, 7)
    assert looker.running("worker") == {(1, 7)}
    assert not path.is_symlink()
    presence.leave()


@pytest.mark.req("Z10")
def test_a_link_in_place_of_a_lock_file_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / "workers").mkdir()
    path = tmp_path / "workers" / "worker.lock"
    path.symlink_to(precious)
    presence = Presence(tmp_path / "workers")
    presence.enter("worker")
    path.unlink()
    path.symlink_to(precious)
    presence.enter("worker")
    assert precious.read_bytes() == b"precious"
    assert not path.is_symlink()
    presence.leave()


@pytest.mark.req("Z10", "Z1")
def test_a_lock_file_that_is_removed_while_somebody_looks_at_it_proves_no_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence, looker = Presence(tmp_path), Presence(tmp_path)
    presence.enter("worker")
    real, done = fcntl.flock, False

    def removed_in_between(descriptor: int, how: int) -> None:
        nonlocal done
        if not done:  # the looker has opened the file, and not asked for its lock yet
            done = True
            (tmp_path / "worker.lock").unlink()
            presence.enter("worker")
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed_in_between)
    assert not looker.is_dead("worker")
    assert done
    presence.leave()


@pytest.mark.req("Z10")
def test_who_forgets_a_dead_worker_never_removes_the_file_of_a_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence, looker = Presence(tmp_path), Presence(tmp_path)
    path = tmp_path / "worker.lock"
    path.touch()
    real, done = fcntl.flock, False

    def replaced_in_between(descriptor: int, how: int) -> None:
        nonlocal done
        if not done:
            done = True
            path.unlink()
            presence.enter("worker")
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replaced_in_between)
    looker.forget("worker")
    assert path.exists()
    presence.leave()


@pytest.mark.req("Z10")
def test_a_worker_whose_new_lock_file_somebody_else_holds_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    presence, other = Presence(tmp_path), Presence(tmp_path)
    presence.enter("worker")
    path = tmp_path / "worker.lock"
    path.unlink()
    stranger = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(stranger, fcntl.LOCK_EX)  # a backup, or a looker that was stopped at this moment
    for _ in range(2):
        presence.enter("worker")
    assert presence.holds("worker")
    assert len([line for line in caplog.messages if "process holds it" in line]) == 1
    os.close(stranger)
    presence.enter("worker")
    presence.begin("worker", 1, 7)
    assert other.running("worker") == {(1, 7)}
    presence.leave()
