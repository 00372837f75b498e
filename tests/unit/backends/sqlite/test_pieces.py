"""Changes that are made in several transactions: whoever looks or dies between them finds all of it or nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.armed_cli import KILLED
from swath.backends.sqlite.store import control, loading
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import ItemFilter, RetrySelection
from swath.domain.job import JobStatus
from swath.domain.transitions import ItemState, JobState
from swath.observability import crash_points
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch
from tests.contract.suites.builders import (
    batch,
    claim_all,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    ready,
    run_all,
    success,
)
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Z1", "Z10", "J5")

ITEMS = 9_000  # three pieces of a retry


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = opened_in(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are many then."""
    monkeypatch.setattr(control, "_LOOKED_AT", 3)
    monkeypatch.setattr(loading, "first_piece", lambda costs: min(3, len(list(costs))))
    monkeypatch.setattr(loading, "_CLEARED", 2)
    monkeypatch.setattr("swath.backends.sqlite.store.deletion._LOOKED_AT", 4)


@pytest.fixture
def between() -> Iterator[Callable[[Callable[[str, int], None]], None]]:
    """Lets a test do something at each point between two pieces, and counts them."""

    def install(act: Callable[[str, int], None]) -> None:
        reached: list[str] = []

        def hook(point: str) -> None:
            if point in crash_points.PIECE_POINTS:
                reached.append(point)
                act(point, len(reached))

        crash_points.install(hook)

    yield install
    crash_points.install(None)


def opened_in(folder: Path) -> SqliteStore:
    return SqliteStore.open(folder, FakeClock(), lease_seconds=15.0)


def sql(folder: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "swath.db", isolation_level=None, timeout=HANGING_SECONDS)) as db:
        return db.execute(statement, values).fetchall()


def waiting(folder: Path) -> int:
    ((rows,),) = sql(folder, "SELECT count(*) FROM waiting")
    return int(str(rows))


async def ended(store: SqliteStore, items: int) -> JobStatus:
    """A job of which every third item went well."""
    await ready(store, items=items, limit=64)
    for lease in await claim_all(store):
        ends = [failed(item.seq) if item.seq % 3 else success(item.seq) for item in lease.items]
        await finished(store, lease, ends)
        await store.release(lease.worker_id, lease.fence)
    return await end_job(store)


def killed_at(folder: Path, point: str, *command: str) -> None:
    """Runs a command that kills itself with the real kill -9's effect: nothing after that point happens."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    environment |= {"SWATH_DATA": str(folder), "SWATH_CRASH_AT": point}
    done = subprocess.run(
        [sys.executable, "-m", "harness.armed_cli", "--", *command],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == KILLED, done.stderr


async def test_a_retry_that_is_killed_has_changed_nothing_and_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    store = opened_in(tmp_path)
    assert store._db._write_connection is not None
    store._db._write_connection.execute("PRAGMA synchronous = OFF")
    before = await ended(store, ITEMS)
    records = await listing(store)
    await store.close()
    killed_at(tmp_path, "after_retry_piece:2", "jobs", "retry", "job", "--failed")
    store = opened_in(tmp_path)
    assert waiting(tmp_path) > 4_000, "it was killed in the middle"
    assert await store.status("job") == before
    assert await listing(store) == records
    assert await store.claim("worker") is None
    assert await store.backlog() == []
    status = await store.retry("job", RetrySelection(item_ids=frozenset({"3", "4"})))
    assert (status.generation, status.counts.pending, status.counts.failed) == (2, 2, before.counts.failed - 1)
    assert waiting(tmp_path) == 2
    (lease, *others) = await claim_all(store)
    assert sorted(item.seq for held in (lease, *others) for item in held.items) == [3, 4]
    await store.close()


async def test_a_retry_that_is_killed_is_forgotten_with_its_job(tmp_path: Path) -> None:
    store = opened_in(tmp_path)
    await ended(store, 300)
    await store.close()
    killed_at(tmp_path, "after_retry_piece:1", "jobs", "retry", "job", "--failed")
    assert waiting(tmp_path) == 200
    store = opened_in(tmp_path)
    await store.delete("job")
    right = await store.claim_deletion("worker")
    assert right is not None
    while await store.purge(right, 100):
        pass
    assert waiting(tmp_path) == 0
    await store.close()


@pytest.mark.usefixtures("small_pieces")
async def test_while_a_retry_is_being_written_the_job_has_ended(
    store: SqliteStore, tmp_path: Path, between: Callable[[Callable[[str, int], None]], None]
) -> None:
    await ended(store, 12)
    seen = []

    def look(_: str, number: int) -> None:
        ((state, generation, failures),) = sql(tmp_path, "SELECT state, generation, failed FROM jobs")
        seen.append((state, generation, failures, waiting(tmp_path), number))

    between(look)
    await store.retry("job", RetrySelection(failed=True))
    assert seen == [("partially_completed", 1, 8, 2 * number, number) for number in (1, 2, 3, 4)]
    assert (await store.status("job")).counts.pending == 8


@pytest.mark.usefixtures("small_pieces")
async def test_of_two_retries_at_the_same_time_one_happens(store: SqliteStore, tmp_path: Path) -> None:
    await ended(store, 30)
    other = opened_in(tmp_path)
    chosen = [RetrySelection(failed=True), RetrySelection(item_ids=frozenset({"3", "6"}))]
    answers = await asyncio.gather(store.retry("job", chosen[0]), other.retry("job", chosen[1]), return_exceptions=True)
    (status,) = [answer for answer in answers if isinstance(answer, JobStatus)]
    assert sum(isinstance(answer, Conflict) for answer in answers) == 1
    reopened = 20 if isinstance(answers[0], JobStatus) else 2
    assert (status.generation, status.counts.pending, waiting(tmp_path)) == (2, reopened, reopened)
    await run_all(store)
    assert (await end_job(store)).counts.total == 30
    assert waiting(tmp_path) == 0
    await other.close()


@pytest.mark.usefixtures("small_pieces")
async def test_a_slow_retry_takes_nothing_from_a_later_one(store: SqliteStore, tmp_path: Path) -> None:
    """The first stops after a piece; meanwhile a whole generation passes, and a third retry begins."""
    await ended(store, 12)
    other = opened_in(tmp_path)
    go_on, reached = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    add = control._add

    async def slow() -> JobStatus:
        write = store._db.write

        async def late(change: object, *arguments: object) -> object:
            answer: object = await write(change, *arguments)  # type: ignore[arg-type]
            if change is add:
                loop.call_soon(reached.set)
                await go_on.wait()
            return answer

        store._db.write = late  # type: ignore[method-assign, assignment]
        return await store.retry("job", RetrySelection(since=0.0))

    first = asyncio.ensure_future(slow())
    await reached.wait()
    await other.retry("job", RetrySelection(failed=True))
    await run_all(other, "second")
    await end_job(other, "second")
    third = await other.retry("job", RetrySelection(item_ids=frozenset({"1", "2", "3"})))
    go_on.set()
    with pytest.raises(Conflict):
        await first
    assert (third.generation, (await other.status("job")).counts.pending, waiting(tmp_path)) == (3, 3, 3)
    leased = [item.seq for lease in await claim_all(other, "second") for item in lease.items]
    assert sorted(leased) == [1, 2, 3]
    await other.close()


@pytest.mark.usefixtures("small_pieces")
async def test_a_job_that_is_deleted_meanwhile_is_not_retried(
    store: SqliteStore, tmp_path: Path, between: Callable[[Callable[[str, int], None]], None]
) -> None:
    await ended(store, 12)

    def delete(_: str, number: int) -> None:
        if number == 2:
            sql(tmp_path, "UPDATE jobs SET deleting = 1, delete_at = 0")

    between(delete)
    with pytest.raises(Conflict, match="deleted"):
        await store.retry("job", RetrySelection(failed=True))
    assert waiting(tmp_path) == 0
    assert (await store.status("job")).state is JobState.PARTIALLY_COMPLETED


@pytest.mark.usefixtures("small_pieces")
async def test_what_waits_since_a_retry_is_shown_as_pending_everywhere(store: SqliteStore) -> None:
    await ended(store, 12)
    before = await listing(store)
    await store.retry("job", RetrySelection(failed=True))
    records = await listing(store)
    pending = {seq for seq, record in records.items() if record.state is ItemState.PENDING}
    assert pending == {seq for seq in range(1, 13) if seq % 3}
    assert all(records[seq] == before[seq] for seq in set(records) - pending)
    for state, seqs in ((ItemState.PENDING, pending), (ItemState.FAILED, set()), (ItemState.SUCCESS, {3, 6, 9, 12})):
        page = await store.find_items("job", ItemFilter(state))
        assert {record.seq for record in page.items} == seqs
    (past,) = (await store.item("job", "1")).earlier
    assert past.generation == 1
    with pytest.raises(Conflict):
        await store.retry("job", RetrySelection(failed=True))
    await store.cancel("job")
    status = await end_job(store)
    assert (status.counts.cancelled, status.counts.success) == (8, 4)
    with pytest.raises(BadInput):
        await store.retry("job", RetrySelection(failed=True))


def numbered(first_row: int, ids: list[str], number: int = 0) -> ItemBatch:
    return batch(number, first_row, ids)


@pytest.mark.req("J2")
async def test_a_load_that_is_killed_within_a_batch_can_be_repeated_or_replaced(tmp_path: Path) -> None:
    store = opened_in(tmp_path)
    for name, ids in (("same", range(3_000)), ("other", range(10_000, 12_500))):
        (tmp_path / f"{name}.csv").write_text("item_id,n\n" + "".join(f"{n},{n}\n" for n in ids), encoding="utf-8")
    create = ("jobs", "create", "example-mock", "--items", str(tmp_path / "same.csv"), "--job-id")
    for job_id, file, count in (("again", "same.csv", 3_000), ("else", "other.csv", 2_500)):
        killed_at(tmp_path, "after_load_piece:2", *create, job_id)
        status = await store.status(job_id)
        assert (status.state, status.counts.total, status.loaded_rows) == (JobState.LOADING, 0, 0)
        ((rows,),) = sql(tmp_path, "SELECT count(*) FROM items WHERE job_no = (SELECT max(job_no) FROM jobs)")
        assert int(str(rows)) > 1_000, "it was killed in the middle"
        assert await listing(store, job_id) == {}
        with pytest.raises(UnknownName):
            await store.item(job_id, "1")
        done = subprocess.run(
            [sys.executable, "-m", "swath", "jobs", "create", "example-mock", "--items", str(tmp_path / file),
             "--job-id", job_id],
            cwd=tmp_path, env={**os.environ, "SWATH_DATA": str(tmp_path)}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        status = await store.status(job_id)
        assert (status.state, status.counts.total, status.counts.pending) == (JobState.PENDING, count, count)
        ((rows,),) = sql(tmp_path, "SELECT count(*) FROM items WHERE job_no = (SELECT max(job_no) FROM jobs)")
        assert rows == count
    await store.close()


@pytest.mark.req("J2")
@pytest.mark.usefixtures("small_pieces")
async def test_a_batch_in_pieces_comes_to_the_same_as_one(store: SqliteStore) -> None:
    await store.submit(new_job("job"))
    assert await store.load("job", numbered(1, [*"abcdefgh"])) == BatchResult(8)
    second = numbered(9, [*"ixbyxjk"], 1)
    duplicates = (DuplicateItem(11, "b", 2), DuplicateItem(13, "x", 10))
    for _ in range(2):
        assert await store.load("job", second) == BatchResult(5, duplicates)
    with pytest.raises(Conflict, match="row 9 differs"):
        await store.load("job", numbered(9, [*"zxbyxjk"], 1))
    status = await store.seal("job", 2)
    assert (status.counts.total, status.loaded_rows) == (13, 15)
    assert sorted(await listing(store)) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15]


@pytest.mark.req("J2")
@pytest.mark.usefixtures("small_pieces")
async def test_the_same_batch_from_two_processes_is_loaded_once(store: SqliteStore, tmp_path: Path) -> None:
    other = opened_in(tmp_path)
    await store.submit(new_job("job"))
    whole = numbered(1, [f"{n}" for n in range(40)])
    answers = await asyncio.gather(store.load("job", whole), other.load("job", whole))
    assert set(answers) == {BatchResult(40)}
    assert (await store.seal("job", 1)).counts.total == 40
    await other.close()


async def break_off(
    store: SqliteStore, between: Callable[[Callable[[str, int], None]], None], first: ItemBatch
) -> None:
    """Loads a batch, but for its last piece."""

    def die(_: str, number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    between(die)
    with pytest.raises(KeyboardInterrupt):
        await store.load("job", first)
    crash_points.install(None)


async def replace(store: SqliteStore) -> None:
    assert await store.load("job", numbered(2, [*"cxy"], 1)) == BatchResult(3)
    assert (await store.seal("job", 2)).counts.total == 4


async def seal(store: SqliteStore) -> None:
    assert (await store.seal("job", 1)).counts.total == 1


async def cancel(store: SqliteStore) -> None:
    await store.cancel("job")
    status = await end_job(store)
    assert (status.counts.cancelled, status.counts.total, len(await listing(store))) == (1, 1, 1)
    assert (await store.retry("job", RetrySelection(not_run=True))).counts.pending == 1
    await run_all(store)
    assert (await end_job(store)).counts.success == 1


async def abandon(store: SqliteStore) -> None:
    await store.abandon("job")
    with pytest.raises(UnknownName):
        await store.status("job")


async def delete(store: SqliteStore) -> None:
    await store.delete("job")
    right = await store.claim_deletion("worker")
    assert right is not None
    while await store.purge(right, 2):
        pass
    with pytest.raises(UnknownName):
        await store.status("job")


@pytest.mark.req("J2")
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(("act", "rows"), [(replace, 4), (seal, 1), (cancel, 7), (abandon, 0), (delete, 0)])
async def test_a_batch_that_is_not_whole_is_in_nobodys_way(
    store: SqliteStore,
    tmp_path: Path,
    act: Callable[[SqliteStore], Awaitable[None]],
    rows: int,
    between: Callable[[Callable[[str, int], None]], None],
) -> None:
    await store.submit(new_job("job"))
    await store.load("job", numbered(1, ["first"]))
    await break_off(store, between, numbered(2, [*"abcdefgh"], 1))
    await act(store)
    assert sql(tmp_path, "SELECT count(*) FROM items") == [(rows,)]


@pytest.mark.req("J2")
@pytest.mark.usefixtures("small_pieces")
async def test_an_order_takes_the_place_of_a_batch_that_is_not_whole(
    store: SqliteStore, tmp_path: Path, between: Callable[[Callable[[str, int], None]], None]
) -> None:
    await store.submit(new_job("job"))
    await break_off(store, between, numbered(1, [*"abcdefgh"]))
    assert (await store.order(new_job("job"), numbered(1, ["c", "z"]))).counts.total == 2
    assert sql(tmp_path, "SELECT count(*) FROM items") == [(2,)]


@pytest.mark.req("J2")
@pytest.mark.usefixtures("small_pieces")
async def test_an_order_that_needs_pieces_is_there_whole_or_not_at_all(store: SqliteStore) -> None:
    status = await store.order(new_job("job"), numbered(1, [*"abcdefgh"]))
    assert (status.state, status.counts.pending) == (JobState.PENDING, 8)
    assert await store.order(new_job("job"), numbered(1, [*"abcdefgh"])) == status
    with pytest.raises(Conflict, match="row 9 has the id of row 1"):
        await store.order(new_job("twice"), numbered(1, [*"abcdefgha"]))
    with pytest.raises(UnknownName):
        await store.status("twice")


@pytest.mark.req("Z10", "S4")
async def test_after_a_restart_of_the_machine_all_that_waits_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened_in(tmp_path)
    await ready(store, items=20)
    await store.close()
    monkeypatch.setattr("swath.backends.sqlite.opening._WAITS", 3)
    sql(tmp_path, "INSERT INTO waiting SELECT 1, 1 + seq % 2, 50.0 + seq, seq FROM items")
    sql(tmp_path, "UPDATE items SET due = 50.0 + seq")
    sql(tmp_path, "UPDATE meta SET value = 'an earlier one' WHERE key = 'boot'")
    store = opened_in(tmp_path)
    assert sql(tmp_path, "SELECT DISTINCT due FROM waiting UNION SELECT DISTINCT due FROM items") == [(0.0,)]
    assert waiting(tmp_path) == 20
    ((boot,),) = sql(tmp_path, "SELECT value FROM meta WHERE key = 'boot'")
    assert boot != "an earlier one"
    await store.close()
