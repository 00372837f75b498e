"""What was read once is not read again until somebody commits; and a stop is heard of at once all the same."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite import file_changes as pulses
from swath.backends.sqlite.file_changes import ChangeCounter
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.circuit_breaker import CircuitState
from swath.domain.lease import Lease
from swath.domain.site_policy import Breaker
from tests.contract.suites.builders import claimed, ready
from tests.support.bounds import HANGING_SECONDS


class Reader:
    """Counts what it really reads."""

    def __init__(self, path: Path) -> None:
        self.pulse = ChangeCounter[int](path)
        self.reads = 0

    def look(self, key: str = "row") -> int:
        return self.pulse.recall(self._read, key)

    def _read(self, key: str) -> int:
        assert key
        self.reads += 1
        return self.reads


@pytest.fixture(autouse=True)
def _is_never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulses, "LONGEST_SECONDS", 60.0)  # so that only a beat can make it read again


def test_what_was_read_holds_until_somebody_commits(tmp_path: Path) -> None:
    reader, elsewhere = Reader(tmp_path / "p"), ChangeCounter[int](tmp_path / "p")
    assert [reader.look() for _ in range(5)] == [1] * 5
    assert (reader.look("another row"), reader.look("another row")) == (2, 2)
    elsewhere.beat()
    assert [reader.look() for _ in range(5)] == [3] * 5
    reader.pulse.beat()
    assert reader.look() == 4, "its own commits count too"


def test_a_commit_while_it_reads_is_not_missed(tmp_path: Path) -> None:
    reader, elsewhere = Reader(tmp_path / "p"), ChangeCounter[int](tmp_path / "p")

    def read_and_be_overtaken(_: str) -> int:
        elsewhere.beat()
        return 0

    assert reader.pulse.recall(read_and_be_overtaken, "row") == 0
    assert reader.look() == 1


@pytest.mark.req("S4", "Z1")
def test_a_commit_whose_process_died_before_it_told_is_seen_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, "LONGEST_SECONDS", 0.005)
    reader = Reader(tmp_path / "p")
    began = time.monotonic()
    while reader.look() == 1:
        assert time.monotonic() - began < HANGING_SECONDS
    assert time.monotonic() - began >= 0.005


def test_a_read_that_fails_is_tried_again(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "p")

    def fail(_: str) -> int:
        raise sqlite3.OperationalError("busy")

    with pytest.raises(sqlite3.OperationalError):
        reader.pulse.recall(fail, "row")
    assert reader.look() == 1


def test_without_its_file_everything_is_read(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "no such folder" / "p")
    reader.pulse.beat()
    assert [reader.look() for _ in range(3)] == [1, 2, 3]


def test_a_file_that_is_made_anew_is_taken_after_closing(tmp_path: Path) -> None:
    reader, elsewhere = Reader(tmp_path / "p"), ChangeCounter[int](tmp_path / "p")
    assert reader.look() == 1
    reader.pulse.close()
    (tmp_path / "p").unlink()
    assert reader.look() == 2
    elsewhere.beat()
    assert reader.look() == 3


# -- in the store and in the site book ---------------------------------------------------------------------------------


async def leased(store: SqliteStore) -> Lease:
    await ready(store)
    return await claimed(store)


def statements(connection: sqlite3.Connection | None) -> list[str]:
    heard: list[str] = []
    assert connection is not None
    connection.set_trace_callback(heard.append)
    return heard


@pytest.mark.req("S4")
async def test_a_start_asks_the_store_only_when_something_was_committed(tmp_path: Path) -> None:
    store, elsewhere = SqliteStore.open(tmp_path, SystemClock()), SqliteStore.open(tmp_path, SystemClock())
    lease = await leased(store)
    assert store.begin(lease, 1)
    heard = statements(store._db._glance_connection)
    assert all(store.begin(lease, 1) for _ in range(20))
    assert heard == []
    await elsewhere.pause(lease.job.job_id)
    assert not store.begin(lease, 1), "the very next start knows"
    assert not any(store.begin(lease, 1) for _ in range(20))
    assert len(heard) == 1
    await elsewhere.close()
    await store.close()
    assert not store.begin(lease, 1)


@pytest.mark.req("S4")
async def test_a_change_of_the_store_that_nobody_told_of_is_seen_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, "LONGEST_SECONDS", 0.005)
    store = SqliteStore.open(tmp_path, SystemClock())
    lease = await leased(store)
    assert store.begin(lease, 1)
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.execute("UPDATE jobs SET state = 'paused'")
    time.sleep(0.006)
    assert not store.begin(lease, 1)
    await store.close()


@pytest.mark.req("D3")
async def test_a_request_asks_the_site_book_only_when_something_was_committed(tmp_path: Path) -> None:
    book, elsewhere = SqliteSiteState(tmp_path, SystemClock()), SqliteSiteState(tmp_path, SystemClock())
    breaker = Breaker(window=2, failures=1, reopen_seconds=600)
    await elsewhere.record("other.example", breaker, [True], 0)
    assert book.glance("a.example").state is CircuitState.CLOSED
    heard = statements(book._file._glance_connection)
    assert all(book.glance("a.example").state is CircuitState.CLOSED for _ in range(20))
    assert heard == []
    await elsewhere.record("a.example", breaker, [False], 0)
    assert all(book.glance("a.example").state is CircuitState.OPEN for _ in range(20))
    assert len(heard) == 1
    await elsewhere.close()
    await book.close()
