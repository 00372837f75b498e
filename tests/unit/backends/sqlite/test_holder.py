"""Who holds a SQLite file for writing: a real process, frozen by a real signal, is named wherever a wait is shown."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite import database
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.backends.sqlite.store.store import SqliteStore
from swath.backends.sqlite.write_lock import _describe, lock_holder
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.transitions import JobState
from tests.contract.suites.builders import ready, run_all
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.support.freezing import frozen_in, holds_for_writing

pytestmark = [
    pytest.mark.req("Z10", "Z9"),
    pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock"),
]


async def test_a_stopped_holder_is_named_in_the_status_and_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)
    with frozen_in(tmp_path) as frozen:
        named = f"pid {frozen.pid} ({Path(sys.executable).name}), stopped (T)"
        status = await store.status("job")
        assert (status.waiting_for, status.held_by) == (WaitingFor.STORE, named)
        assert {one.held_by for one in await store.jobs()} == {named}
        with pytest.raises(StoreUnavailable) as raised:
            await store.pause("job")
        assert f"is locked by {named}" in str(raised.value)
        assert f"kill -CONT {frozen.pid}" in str(raised.value)
        os.kill(frozen.pid, signal.SIGCONT)
        assert frozen.wait(60) == 0
    status = await store.pause("job")
    assert (status.state.value, status.waiting_for, status.held_by) == ("paused", None, None)
    await store.close()


async def test_a_job_that_has_ended_is_held_up_by_nobody(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=1)
    await run_all(store)
    lease = await store.claim_ending("worker")
    assert lease is not None
    await store.end(lease, JobState.COMPLETED, {})
    with frozen_in(tmp_path):
        status = await store.status("job")
        assert (status.state, status.waiting_for, status.held_by) == (JobState.COMPLETED, None, None)
    await store.close()


async def test_a_stopped_holder_of_the_site_book_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.backends.sqlite.sites.site_file.BUSY_SECONDS", 0.05)
    store, book = SqliteStore.open(tmp_path, FakeClock()), SqliteSiteState(tmp_path, FakeClock())
    await ready(store)
    book.check()
    with frozen_in(tmp_path, "sites.sqlite") as frozen:
        told = (await store.status("job")).held_by
        assert told is not None
        assert told.startswith(f"pid {frozen.pid} ")
        with pytest.raises(StoreUnavailable, match=f"sites.sqlite is locked by pid {frozen.pid} .*stopped"):
            await book.slow_down("site", 1.0, 1.0)
    await book.slow_down("site", 1.0, 1.0)
    await book.close()
    await store.close()


async def test_a_holder_that_runs_is_named_only_while_somebody_waits(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)
    assert await store.claim("worker") is not None
    with closing(sqlite3.connect(tmp_path / "swath.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await store.status("job")).held_by is None
        store.tell_waiting("worker", WaitingFor.STORE)
        told = (await store.status("job")).held_by
        assert told is not None
        assert told.startswith(f"pid {os.getpid()} ")
        other.execute("ROLLBACK")
    await store.close()


async def test_nobody_is_named_who_only_reads_or_holds_another_file(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "other"):
        store = SqliteStore.open(folder, FakeClock())
        await ready(store)
        await store.close()
    reader = sqlite3.connect(tmp_path / "one" / "swath.db", isolation_level=None)
    with closing(reader), frozen_in(tmp_path / "other") as frozen:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM jobs").fetchall()
        assert lock_holder(tmp_path / "one" / "swath.db") is None
        found = lock_holder(tmp_path / "other" / "swath.db")
        assert found is not None
        assert found.pid == frozen.pid
    assert lock_holder(tmp_path / "missing.db") is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{python}", "-m", "swath", "worker", "--job", "SECRET"], "swath worker"),
        (["{python}", "-X", "utf8", "{bin}/swath", "jobs", "delete", "SECRET"], "swath jobs delete"),
        (["{bin}/swath", "run", "SECRET", "--items", "SECRET"], "swath run"),
        (["{python}", "-P", "-m", "swath.entrypoints.cli.main", "worker", "--with-parent"], "swath worker"),
        (["{python}", "-m", "swath", "SECRET"], "swath"),
        (["{python}", "other.py", "SECRET"], "sleep"),
        (["backup", "swath", "SECRET"], "sleep"),
    ],
)
def test_of_a_command_line_only_the_command_is_shown(
    tmp_path: Path, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word.format(python=sys.executable, bin=Path(sys.executable).parent) for word in arguments]
    monkeypatch.setattr("swath.backends.sqlite.write_lock._PROC", tmp_path)
    place = tmp_path / "7"
    place.mkdir()
    (place / "stat").write_text("7 (sleep) T 1 7 7 0")
    (place / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    found = _describe(7)
    assert found is not None
    assert str(found) == f"pid 7 ({told}), stopped (T)"


def _by_locks(file: Path) -> None:
    lock_holder(file)


def _by_opening(file: Path) -> None:
    os.close(os.open(f"{file}-shm", os.O_RDONLY))


@pytest.mark.parametrize(("look", "keeps"), [(_by_locks, True), (_by_opening, False)], ids=["ours", "broken"])
def test_to_look_drops_no_lock_of_this_process(tmp_path: Path, look: Callable[[Path], None], keeps: bool) -> None:
    """The other way, by opening the file, would let two processes write at once."""
    file = tmp_path / "x.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (a)")
        db.execute("BEGIN IMMEDIATE")
        assert holds_for_writing(os.getpid(), file)
        look(file)
        assert holds_for_writing(os.getpid(), file) is keeps


async def test_changes_that_queue_for_a_locked_store_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other would take longer than a minute."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 1.0)
    monkeypatch.setattr("swath.backends.sqlite.sites.site_file.BUSY_SECONDS", 1.0)
    store, book = SqliteStore.open(tmp_path, FakeClock()), SqliteSiteState(tmp_path, FakeClock())
    await ready(store)
    await book.slow_down("site", 1.0, 1.0)
    with frozen_in(tmp_path), frozen_in(tmp_path, "sites.sqlite"):
        changes = [store.pause("job") for _ in range(64)]
        slowings = [book.slow_down("site", 1.0, 1.0) for _ in range(64)]
        async with asyncio.timeout(HANGING_SECONDS):
            ends = await asyncio.gather(*changes, *slowings, return_exceptions=True)
        assert {type(end) for end in ends} == {StoreUnavailable}
    assert (await store.pause("job")).state is JobState.PAUSED
    await book.slow_down("site", 1.0, 1.0)
    await book.close()
    await store.close()
