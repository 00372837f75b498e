"""The site book on its file: beside the store, shared by processes, and nobody's captive when one dies or freezes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite import file_changes
from swath.backends.sqlite.sites import site_file
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.circuit_breaker import CircuitState, SiteCircuit
from swath.domain.errors import StoreDamaged, StoreUnavailable, UserError
from swath.domain.site_policy import Breaker
from swath.domain.token_bucket import RateSlice
from swath.ports.site_state import CachedRobots, SiteShareRequest
from tests.contract.suites.site_state_rate import instants, over_rate
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock

DAY = 86_400.0
BREAKER = Breaker(window=2, failures=1, reopen_seconds=600)
ONE = SiteShareRequest(rate=10.0, requests=1, concurrency=4, ceiling=4, demand=2)
FILES = ("sites.sqlite", "sites.sqlite-wal", "sites.sqlite-shm")

RESERVES = """
import asyncio, sys
from pathlib import Path
import msgspec
from swath.backends.clock import SystemClock
from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.ports.site_state import SiteShareRequest

async def main(folder, name, rate, seconds):
    clock = SystemClock()
    book = SqliteSiteState(Path(folder), clock)
    print("ready", flush=True)
    sys.stdin.readline()
    end, ceiling = clock.boot() + float(seconds), 0
    ask = SiteShareRequest(rate=float(rate), requests=5, concurrency=7, demand=9)
    while clock.boot() < end:
        terms = await book.ask("a.example", name, msgspec.structs.replace(ask, ceiling=ceiling))
        ceiling = min(terms.slots, terms.target)
        print(msgspec.json.encode([terms.slice, ceiling]).decode(), flush=True)
        await clock.sleep(0.001)
    await book.close()

asyncio.run(main(*sys.argv[1:]))
"""

HOLDS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("DELETE FROM shares")
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
    finally:
        started.kill()
        started.communicate()


def edit(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "sites.sqlite")) as db, db:
        db.execute(statement)


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "sites.sqlite")) as db:
        return db.execute(query).fetchall()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def book(clock: FakeClock, tmp_path: Path) -> AsyncIterator[SqliteSiteState]:
    book = SqliteSiteState(tmp_path, clock)
    book.check()
    yield book
    await book.close()


@pytest.mark.req("D2", "Z3", "S2", "property 22")
def test_processes_that_reserve_at_once_never_get_more_than_the_rate_together(tmp_path: Path) -> None:
    rate = 300.0
    taken: list[RateSlice] = []
    with process(RESERVES, tmp_path, "1", rate, 0.8) as one, process(RESERVES, tmp_path, "2", rate, 0.8) as two:
        with process(RESERVES, tmp_path, "3", rate, 5) as three:
            for each in (one, two, three):
                assert each.stdin is not None
                each.stdin.write("go\n")
                each.stdin.flush()
            time.sleep(0.3)
            three.kill()  # in the middle of whatever it did
            parts = [three.communicate()[0].rpartition("\n")[0]]
        parts += [each.communicate(timeout=60)[0] for each in (one, two)]
    for part in parts:
        answers = [msgspec.json.decode(line, type=tuple[RateSlice | None, int]) for line in part.splitlines()]
        mine = [slice_ for slice_, _ in answers if slice_ is not None]
        assert len(mine) > 3, "every process had its turns"
        taken += mine
    assert over_rate(instants(taken), rate) == 0
    assert len(instants(taken)) > 0.5 * rate * 0.8, "or it would prove nothing"


@pytest.mark.req("Z1", "Z3")
async def test_a_process_that_freezes_inside_holds_nobody_longer_than_the_busy_time(
    book: SqliteSiteState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_file, "BUSY_SECONDS", 600.0)
    opened = await book.record("a.example", BREAKER, [False], 0)
    with process(HOLDS, tmp_path / "sites.sqlite") as frozen:
        os.kill(frozen.pid, signal.SIGSTOP)
        assert book.glance("a.example") == opened  # does not wait for the frozen process
        assert book.glance("b.example") == SiteCircuit()
        assert list(await book.states()) == ["a.example"]
        monkeypatch.setattr(site_file, "BUSY_SECONDS", 1.0)
        with pytest.raises(StoreUnavailable, match="locked"):
            await asyncio.wait_for(book.ask("a.example", "w", ONE), HANGING_SECONDS)
        os.kill(frozen.pid, signal.SIGKILL)
        frozen.wait()
        assert (await book.ask("a.example", "w", ONE)).slots == 2


@pytest.mark.req("S2")
async def test_pacing_does_not_wait_for_the_store(
    book: SqliteSiteState, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_file, "BUSY_SECONDS", 1.0)
    store = SqliteStore.open(tmp_path, clock)
    with closing(sqlite3.connect(tmp_path / "swath.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert (await book.ask("a.example", "w", ONE)).slice is not None
    await store.close()


@pytest.mark.req("D3")
async def test_what_one_process_records_another_sees_at_its_next_glance(
    book: SqliteSiteState, clock: FakeClock, tmp_path: Path
) -> None:
    other = SqliteSiteState(tmp_path, clock)
    assert other.glance("a.example") == SiteCircuit()
    opened = await book.record("a.example", BREAKER, [False], 0)
    assert other.glance("a.example") == opened
    assert (await other.admit("a.example", "w", BREAKER, 9.0)).wait_seconds == BREAKER.reopen_seconds
    await other.close()


async def test_a_glance_never_raises_and_shows_what_was_last_seen(
    book: SqliteSiteState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_changes, "LONGEST_SECONDS", 0.0)
    opened = await book.record("a.example", BREAKER, [False], 0)
    assert book.glance("a.example") == opened
    edit(tmp_path, "UPDATE sites SET circuit = 'nonsense'")
    assert book.glance("a.example") == opened
    with pytest.raises(StoreDamaged, match=r"sites\.sqlite holds a row that cannot be read"):
        await book.record("a.example", BREAKER, [False], 0)
    await book.close()
    assert book.glance("a.example") == opened
    assert book.glance("b.example") == SiteCircuit()


async def test_a_glance_reads_one_row_by_its_key(book: SqliteSiteState, tmp_path: Path) -> None:
    for table, column in (("sites", "name"), ("shares", "name"), ("robots", "origin")):
        ((*_, plan),) = rows(tmp_path, f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {column} = 'x'")
        assert str(plan).startswith(f"SEARCH {table} USING"), plan


async def test_what_nobody_asked_for_in_a_day_is_forgotten(
    book: SqliteSiteState, clock: FakeClock, tmp_path: Path
) -> None:
    await book.ask("idle.example", "w", ONE)
    await book.ask("job 7", "w", SiteShareRequest(rate=1.0, requests=1))
    await book.ask("slow.example", "w", SiteShareRequest(rate=1 / (3 * DAY), requests=1))
    await book.remember_tier("tier.example", "residential")
    await book.robots("http://asked", 5.0)
    await book.keep_robots("http://old", CachedRobots(200, b"x"), 3_600.0)
    await book.keep_robots("http://kept", CachedRobots(200, b"x"), 2 * DAY)
    await book.ask("used.example", "w", ONE)
    clock.advance(DAY - 1)
    await book.ask("used.example", "w", ONE)
    assert len(rows(tmp_path, "SELECT name FROM sites")) == 5
    assert rows(tmp_path, "SELECT worker, name FROM shares") == [("w", "used.example")]
    clock.advance(site_file._TIDY_SECONDS + 1)
    await book.ask("used.example", "w", ONE)
    names = {name for (name,) in rows(tmp_path, "SELECT name FROM sites")}
    assert names == {"used.example", "tier.example", "slow.example"}, "and no bucket before it is free"
    assert rows(tmp_path, "SELECT origin FROM robots") == [("http://kept",)]


@pytest.mark.req("Z3")
async def test_after_another_start_of_the_machine_only_tiers_are_remembered(tmp_path: Path) -> None:
    before = SqliteSiteState(tmp_path, FakeClock(boot=1_000_000.0))
    await before.ask("a.example", "w", SiteShareRequest(rate=0.001, requests=1, concurrency=1, demand=1))
    await before.record("a.example", BREAKER, [False], 0)
    await before.remember_tier("a.example", "residential")
    await before.ask("b.example", "w", ONE)
    await before.keep_robots("http://a", CachedRobots(200, b"x"), DAY)
    await before.close()
    edit(tmp_path, "UPDATE run SET boot = 'another'")
    clock = FakeClock(boot=5.0)
    after = SqliteSiteState(tmp_path, clock)
    assert {name: state.tier for name, state in (await after.states()).items()} == {"a.example": "residential"}
    assert after.glance("a.example") == SiteCircuit()
    terms = await after.ask("a.example", "other", ONE)
    assert terms.slots == 2
    assert terms.slice is not None
    assert terms.slice.first == clock.boot()
    assert await after.robots("http://a", 1.0) == CachedRobots(0)
    await after.close()


@pytest.mark.req("Z5")
async def test_a_book_of_a_later_version_is_refused_in_one_sentence(tmp_path: Path, clock: FakeClock) -> None:
    book = SqliteSiteState(tmp_path, clock)
    book.check()
    await book.close()
    edit(tmp_path, "PRAGMA user_version = 99")
    book = SqliteSiteState(tmp_path, clock)
    with pytest.raises(UserError, match=r"made by another version of Swath \(schema 99, not 1\)"):
        book.check()
    await book.close()


@pytest.mark.req("Z5", "Z9")
@pytest.mark.parametrize("content", [b"this is no database " * 500, b"SQLite format 3\x00" + b"\xff" * 8_000])
async def test_a_damaged_file_is_refused_with_the_way_out(tmp_path: Path, clock: FakeClock, content: bytes) -> None:
    path = tmp_path / "sites.sqlite"
    path.write_bytes(content)
    book = SqliteSiteState(tmp_path, clock)
    with pytest.raises(UserError, match=r"is damaged .* remove it with sites\.sqlite-wal and sites\.sqlite-shm"):
        book.check()
    await book.close()
    path.unlink()
    book = SqliteSiteState(tmp_path, clock)
    assert (await book.ask("a.example", "w", ONE)).slots == 2
    await book.close()


@pytest.mark.req("Z3", "Z9")
async def test_a_lost_file_starts_afresh_for_everybody(book: SqliteSiteState, clock: FakeClock, tmp_path: Path) -> None:
    other = SqliteSiteState(tmp_path, clock)
    for each in (book, other):
        await each.ask("a.example", "w", ONE)
        assert each.glance("a.example").state is CircuitState.CLOSED
    for name in FILES:
        (tmp_path / name).unlink()
    first = await book.ask("a.example", "1", ONE)
    second = await other.ask("a.example", "2", ONE)
    assert first.slice is not None
    assert second.slice is not None
    assert [first.slice.first, second.slice.first] == [clock.boot(), clock.boot() + 0.1], "they pace together again"
    opened = await book.record("a.example", BREAKER, [False], 0)
    assert other.glance("a.example") == opened


async def test_many_books_may_be_opened_and_closed_at_once(tmp_path: Path) -> None:
    """And closed again: the last to go clears the log away, and who comes then has to wait for it."""
    clock = SystemClock()

    async def visit(worker: str) -> None:
        for _ in range(5):
            book = await asyncio.to_thread(SqliteSiteState, tmp_path, clock)
            await book.ask("a.example", worker, ONE)
            await book.close()

    await asyncio.gather(*(visit(str(n)) for n in range(6)))
    assert len(rows(tmp_path, "SELECT worker FROM shares")) == 6


@pytest.mark.req("Z8")
async def test_the_log_stays_short(book: SqliteSiteState, tmp_path: Path) -> None:
    book.glance("a.example")
    for _ in range(1_500):
        await book.ask("a.example", "w", ONE)
    assert (tmp_path / "sites.sqlite-wal").stat().st_size < 6 * 1024 * 1024
