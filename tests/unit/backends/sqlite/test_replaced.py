"""What becomes of a store whose file is removed or replaced while it is open: nothing is committed to it any more."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.file_changes import OpenFiles
from swath.backends.sqlite.opening import open_writer
from swath.backends.sqlite.sites import site_file
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import StoreReplaced, UserError
from swath.domain.transitions import JobState
from tests.contract.suites.builders import ready, run_all
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Z10")


def _remove(folder: Path) -> None:
    (folder / "swath.db").unlink()


def _replace(folder: Path) -> None:
    shutil.copy(folder / "swath.db", folder / "copy.db")
    (folder / "copy.db").rename(folder / "swath.db")


def _move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


def _move_folder_away(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _empty(folder: Path) -> None:
    with (folder / "swath.db").open("r+b") as file:
        file.truncate(0)


def _remove_log(folder: Path) -> None:
    (folder / "swath.db-wal").unlink()


def _remove_index(folder: Path) -> None:
    (folder / "swath.db-shm").unlink()


HARMS = [_remove, _replace, _move_folder, _move_folder_away, _empty, _remove_log, _remove_index]


@pytest.mark.parametrize("harm", HARMS)
async def test_nothing_is_committed_to_a_file_that_is_not_there_any_more(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    store = SqliteStore.open(folder, FakeClock())
    await ready(store, items=3)
    await run_all(store)
    lease = await store.claim_ending("worker")
    assert lease is not None
    harm(folder)
    with pytest.raises(StoreReplaced, match="while it was in use"):
        await store.end(lease, JobState.COMPLETED, {})
    with pytest.raises(StoreReplaced):
        await store.status("job")
    with pytest.raises(StoreReplaced):
        await store.renew("worker", [lease.fence])
    await store.close()


async def test_without_the_check_an_ending_is_committed_to_a_file_that_nobody_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQLite does by itself, so the tests above would fail without the check."""
    monkeypatch.setattr(OpenFiles, "check", lambda self: None)
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=3)
    await run_all(store)
    lease = await store.claim_ending("worker")
    assert lease is not None
    _remove(tmp_path)
    ended = await store.end(lease, JobState.COMPLETED, {})
    assert ended.state is JobState.COMPLETED
    await store.close()
    assert not (tmp_path / "swath.db").exists()


async def test_a_replacement_in_the_midst_of_a_transaction_is_noticed_before_its_commit(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)

    def change(db: sqlite3.Connection) -> None:
        db.execute("UPDATE jobs SET total = 77")
        (tmp_path / "swath.db").rename(tmp_path / "elsewhere.db")

    with pytest.raises(StoreReplaced):
        await store._db.write(change)
    (tmp_path / "elsewhere.db").rename(tmp_path / "swath.db")
    assert (await store.status("job")).counts.total == 3
    await store.close()


async def test_a_store_that_is_removed_is_not_made_anew_by_who_had_it(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)
    for name in ("swath.db", "swath.db-wal", "swath.db-shm"):
        (tmp_path / name).unlink()
    with pytest.raises(StoreReplaced):  # the connection for reading had not been opened yet
        await store.status("job")
    with pytest.raises(StoreReplaced):
        await store.pause("job")
    await store.close()
    assert not (tmp_path / "swath.db").exists()


def test_a_file_that_vanishes_while_it_is_opened_is_not_made_anew(tmp_path: Path) -> None:
    files = OpenFiles(tmp_path / "swath.db")
    assert files.mode == "rwc", "nobody has made it yet"
    files.opened((tmp_path / "swath.db").touch)
    (tmp_path / "swath.db").unlink()
    for one in (files, OpenFiles(tmp_path / "swath.db", must_exist=True)):
        with pytest.raises(sqlite3.OperationalError):  # removed after it was looked at
            open_writer(tmp_path / "swath.db", mode=one.mode)
        assert not (tmp_path / "swath.db").exists()


async def test_to_close_a_store_that_was_replaced_leaves_the_new_one_alone(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)
    for name in ("swath.db", "swath.db-wal", "swath.db-shm"):
        (tmp_path / name).unlink()
    new = SqliteStore.open(tmp_path, FakeClock())
    await ready(new, "new", items=7)
    with pytest.raises(StoreReplaced):
        await store.status("job")
    await store.close()
    other = SqliteStore.open(tmp_path, FakeClock())
    assert (await other.status("new")).counts.total == 7
    await other.close()
    assert (await new.status("new")).counts.total == 7
    await new.close()


async def test_others_that_open_write_vacuum_and_close_a_store_are_no_replacement(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=500)
    for round_ in range(3):
        other = SqliteStore.open(tmp_path, FakeClock())
        await ready(other, f"job-{round_}", items=500)
        await other.close()
        with closing(sqlite3.connect(tmp_path / "swath.db", isolation_level=None)) as plain:
            plain.execute("DELETE FROM items WHERE seq > 10")
            plain.execute("VACUUM")
            plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (await store.status("job")).counts.total == 500
        await store.pause("job")
    await store.close()


def test_files_that_come_and_go_with_those_who_use_them_are_not_watched_from_outside(tmp_path: Path) -> None:
    (tmp_path / "swath.db").write_bytes(b"x")
    (tmp_path / "swath.db-wal").write_bytes(b"x")
    files = OpenFiles(tmp_path / "swath.db", with_log=False)
    files.opened(lambda: None)
    (tmp_path / "swath.db-wal").unlink()
    files.check()
    (tmp_path / "swath.db").unlink()
    with pytest.raises(StoreReplaced, match="removed"):
        files.check()


@pytest.mark.parametrize("names", [["sites.sqlite"], ["sites.sqlite-wal"], ["sites.sqlite-shm"]])
async def test_a_site_book_that_is_removed_is_opened_anew(tmp_path: Path, names: list[str]) -> None:
    book = SqliteSiteState(tmp_path, FakeClock())
    await book.slow_down("site", 1.0, 1.0)
    for name in names:
        (tmp_path / name).unlink()
    await book.slow_down("site", 1.0, 1.0)
    other = SqliteSiteState(tmp_path, FakeClock())
    await other.slow_down("other", 1.0, 1.0)
    assert "other" in await book.states()  # both use the same file, so they share what a site may be sent
    await other.close()
    await book.close()


async def test_a_site_book_that_is_removed_while_it_is_opened_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a job is in it, so nothing has to stop."""
    left = ["once", "and again"]

    def lose(path: Path) -> sqlite3.Connection:
        opened = really_open(path)
        if left:
            left.pop()
            path.unlink()
        return opened

    really_open = site_file._open
    monkeypatch.setattr(site_file, "_open", lose)
    book, other = SqliteSiteState(tmp_path, FakeClock()), SqliteSiteState(tmp_path, FakeClock())
    await book.slow_down("site", 1.0, 1.0)
    assert left == []
    assert "site" in await other.states()
    await book.close()
    await other.close()


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    "edit",
    ["DELETE FROM meta WHERE key = 'schema'", "DELETE FROM meta", "DROP TABLE meta", "UPDATE meta SET value = 'x'"],
)
async def test_a_store_without_its_schema_row_is_said_in_one_line(tmp_path: Path, edit: str) -> None:
    await SqliteStore.open(tmp_path, FakeClock()).close()
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.execute(edit)
    with pytest.raises(UserError, match=r"no store of Swath, or a damaged one: .*schema.*SWATH_DATA") as raised:
        SqliteStore.open(tmp_path, FakeClock())
    assert "\n" not in str(raised.value)
    assert str(tmp_path / "swath.db") in str(raised.value)


@pytest.mark.req("Z5")
async def test_a_file_of_another_program_is_refused_and_gets_no_table_of_ours(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.execute("CREATE TABLE invoices (number)")
    with pytest.raises(UserError, match="no store of Swath"):
        SqliteStore.open(tmp_path, FakeClock())
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("invoices",)]


def test_a_file_that_is_removed_while_it_is_opened_is_missed(tmp_path: Path) -> None:
    """Somebody is faster than the look at what has been opened: otherwise it would never be known, and never missed."""
    file = tmp_path / "swath.db"
    opened: list[sqlite3.Connection] = []

    def open_and_lose() -> sqlite3.Connection:
        opened.append(open_writer(file))
        file.unlink()
        return opened[0]

    with pytest.raises(StoreReplaced, match="was removed"):
        OpenFiles(file).opened(open_and_lose)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
    assert not file.exists()
