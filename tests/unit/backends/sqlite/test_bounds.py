"""No write transaction of the embedded store changes more rows or bytes than it may, counted at its connection."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.bench.lock_times.__main__ import main
from harness.bench.lock_times.meter import HeldLock, Meter, metered
from harness.bench.lock_times.report import excesses
from harness.bench.lock_times.work import Plan, measure
from harness.tables import marks
from swath.backends.sqlite import opening
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import RetrySelection
from tests.contract.suites.builders import end_job, ready, run_all, webhook
from tests.support.clock import FakeClock

PLAN = Plan(items=12_000, others=6_000, large_inputs=16, leases=60, durable=False)
MOST_ROWS = 5_000
MOST_BYTES = 8 << 20
MANY = 6_000  # more than one transaction may write
LARGE = 12  # of 1 MB: more bytes than it may write
FORMER = (  # as a store of version 5 was
    "".join(f"ALTER TABLE jobs DROP COLUMN {column};" for column in ("reopened", "unfinished", "scraper_versions"))
    + "UPDATE meta SET value = 5 WHERE key = 'schema'"
)
MOST_LEASE_BYTES = 5 << 20  # 4 MiB of inputs, and what SQLite adds


def largest_of_large_claims(held: list[HeldLock]) -> int:
    """What one claim of items of 1 MB, one commit of their ends or one release has written at most."""
    return max(one.bytes for one in held if one.step.startswith("claim ") and "of 1 MB" in one.step)


@pytest.mark.req("Z10", "Q2")
async def test_no_transaction_writes_more_than_it_may(tmp_path: Path) -> None:
    """A retry, loads, sweeps, a rescue and deletions, each of more than goes into one transaction."""
    held, store_bytes = await measure(tmp_path, PLAN)
    assert store_bytes > MOST_BYTES
    assert [one for one in held if one.rows > MOST_ROWS or one.bytes > MOST_BYTES] == []
    assert sum(one.rows for one in held if one.step.startswith("retry")) >= PLAN.items
    written = {one.step: 0 for one in held}
    for one in held:
        written[one.step] += one.bytes
    assert min(written.values()) > 0, "the meter sees what every step writes"
    assert max(written.values()) > MOST_BYTES
    assert 1_000_000 < largest_of_large_claims(held) <= MOST_LEASE_BYTES


@pytest.mark.req("Z10")
async def test_a_build_that_does_not_cut_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("deletion", "endings", "loading", "rescue"):
        monkeypatch.setattr(f"swath.backends.sqlite.store.{module}.first_piece", lambda costs: len(list(costs)))
    monkeypatch.setattr("swath.backends.sqlite.store.control._LOOKED_AT", 1 << 30)
    monkeypatch.setattr("swath.backends.sqlite.store.claims.LEASE_BYTES", 1 << 30)
    held, _ = await measure(tmp_path, Plan(items=6_000, others=6_000, large_inputs=24, leases=60, durable=False))
    steps = {one.step.partition(" ")[0] for one in held if one.rows > MOST_ROWS or one.bytes > MOST_BYTES}
    assert steps == {"load", "retry", "rescue", "cancel", "delete"}
    assert largest_of_large_claims(held) > MOST_LEASE_BYTES
    assert len(excesses(held)) >= len(steps)


@pytest.mark.req("Z10", "Q2", "S4")
@pytest.mark.parametrize("former", [False, True], ids=["restart", "upgrade"])
async def test_opening_a_store_writes_no_more_at_once_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: bool
) -> None:
    """After a restart of the machine, and after an upgrade, all that waits is due: items and webhooks."""
    await _with_much_that_waits(tmp_path, former=former)
    written: list[tuple[int, int]] = []
    connect = opening._connect

    def counted(path: Path, **options: Any) -> sqlite3.Connection:
        return metered(connect(path, **options), path, lambda _what, _seconds, rows, size: written.append((rows, size)))

    monkeypatch.setattr(opening, "_connect", counted)
    await SqliteStore.open(tmp_path, FakeClock()).close()
    assert max(rows for rows, _ in written) <= MOST_ROWS
    assert max(size for _, size in written) <= MOST_BYTES
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        assert db.execute("SELECT count(*) FROM webhooks WHERE due_at = 0").fetchone() == (MANY,)
        assert db.execute("SELECT count(*) FROM waiting WHERE due > 0").fetchone() == (MANY if former else 0,)
    assert sum(rows for rows, _ in written) >= MANY


async def _with_much_that_waits(folder: Path, *, former: bool) -> None:
    """As many items and webhooks wait as no transaction may write; for what comes after an upgrade, or a restart."""
    store = SqliteStore.open(folder, FakeClock())
    await ready(store, items=1)
    await run_all(store)
    await end_job(store, webhook=webhook(due_at=1_750_000_000.0))
    await store.close()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        columns = "webhook_id, url, state, due_at, tries, revision, created_at, summary, zeroblob(3000)"
        db.execute(f"{numbers}INSERT INTO webhooks SELECT i, 1, {columns} FROM n, webhooks", (MANY,))
        sizes = f"zeroblob(CASE WHEN i > {MANY - LARGE} THEN 1000000 ELSE 100 END)"
        db.execute(
            f"{numbers}INSERT INTO items (job_no, seq, item_id, input, due) SELECT 1, i, i, {sizes}, 50 FROM n",
            (MANY + 1,),
        )
        db.execute("INSERT INTO waiting SELECT job_no, 1, due, seq FROM items WHERE due > 0")
        if former:
            db.executescript(FORMER)
        else:
            db.execute("UPDATE meta SET value = 'another' WHERE key = 'boot'")


@pytest.mark.req("Z10", "J5")
async def test_what_a_killed_retry_has_listed_is_removed_in_pieces(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store, items=1)
    await run_all(store)
    await end_job(store)
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:  # as it has left the store
        db.execute("INSERT INTO meta VALUES ('retries', 4)")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)"
        db.execute(f"{numbers} INSERT INTO waiting SELECT 1, 4, 0, i FROM n", (MANY,))
    meter = Meter()
    meter.watch(store, durable=False)
    await store.retry("job", RetrySelection(since=0.0))
    await store.close()
    assert sum(one.rows for one in meter.held) >= MANY
    assert max(one.rows for one in meter.held) <= MOST_ROWS
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        assert db.execute("SELECT seq FROM waiting").fetchall() == [(1,)]


def test_the_command_prints_the_lock_times_and_puts_them_into_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, end = marks()
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    sizes = ["--mib", "1", "--items", "200", "--large-inputs", "1"]
    assert main([*sizes, "--folder", str(tmp_path), "--page", str(page)]) == 0
    printed, written = capsys.readouterr().out, page.read_text(encoding="utf-8")
    assert "retry of 200 items" in printed
    assert "too large" not in printed
    assert "| retry of 200 items |" in written
    assert "old" not in written


def test_what_is_too_large_is_told() -> None:
    fine, rows, size = (
        HeldLock("load", "transaction", 0.1, *much) for much in ((5_000, 1), (5_001, 1), (1, MOST_BYTES + 1))
    )
    assert excesses([fine]) == []
    assert len(excesses([fine, rows, size])) == 2
