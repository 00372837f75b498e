"""A folder of the former version is brought up to date when it is opened, with all that is in it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swath.backends.sqlite.schema import SCHEMA_VERSION
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import UserError
from swath.domain.item import ItemFilter
from swath.domain.transitions import ItemState, JobState
from swath.ports.job_store import LoadStart
from tests.contract.suites.builders import batch, end_job, listing, new_job, ready, run_all, webhook
from tests.support.clock import FakeClock

FORMER = Path(__file__).parents[3] / "fixtures" / "store_of_schema_3.sql"

_OTHER_BOOT = "UPDATE meta SET value = 'another' WHERE key = 'boot'"
# As a store of version 5 was.
_FORMER = (
    "".join(f"ALTER TABLE jobs DROP COLUMN {column};" for column in ("reopened", "unfinished", "scraper_versions"))
    + "UPDATE meta SET value = 5 WHERE key = 'schema'"
)

pytestmark = pytest.mark.req("Q2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the former version left it: a job that is over, one half done with a lease out, one that was being loaded."""
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db:
        db.executescript(FORMER.read_text(encoding="utf-8"))
        db.execute("PRAGMA journal_mode = WAL")
    return tmp_path


def _shape(folder: Path) -> Iterator[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "swath.db")) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for table in tables:
            columns = sorted(tuple(column) for _, *column in db.execute(f"PRAGMA table_info({table})"))
            yield table, columns
        yield tuple(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"))
        yield tuple(db.execute("SELECT value FROM meta WHERE key = 'schema'"))


async def test_a_folder_of_the_former_version_goes_on(folder: Path) -> None:
    store = SqliteStore.open(folder, FakeClock())
    over, running, loading = [await store.status(name) for name in ("over", "running", "loading")]
    assert (over.state, over.counts.success, over.counts.failed) == (JobState.PARTIALLY_COMPLETED, 3, 2)
    assert (over.manifest, over.failures) == ({"parts": 0}, {"blocked": 1, "timeout": 1})
    assert (running.state, running.counts.total, loading.loaded_batches) == (JobState.RUNNING, 40, 2)
    assert [status.job.job_id for status in await store.jobs(on_demand=False)] == ["loading", "running", "over"]
    assert [status.job.job_id for status in await store.jobs(states=[JobState.RUNNING])] == ["running"]
    page = await store.find_items("over", ItemFilter(ItemState.FAILED))
    assert [(record.seq, record.state) for record in page.items] == [(2, ItemState.FAILED), (4, ItemState.FAILED)]
    assert await store.webhooks("over") == []
    assert await store.begin_load("loading", "key") == LoadStart(2, loading.loaded_rows)
    for rescued in await store.rescue("other"):
        await store.release("other", rescued.fence)
    await run_all(store)
    await end_job(store, job_id="running", webhook=webhook("running"))
    assert len(await store.take_webhooks(60)) == 1
    await store.order(new_job("new"), batch(0, 1, "a"))
    await store.close()
    again = SqliteStore.open(folder, FakeClock())
    assert (await again.status("running")).counts.success == 40
    assert len(await listing(again, "over")) == 5
    await again.close()


async def test_it_looks_like_a_new_one_then(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    new = tmp_path_factory.mktemp("new")
    for place in (folder, new):
        await SqliteStore.open(place, FakeClock()).close()
    assert list(_shape(folder)) == list(_shape(new))
    assert list(_shape(new))[-1] == ((SCHEMA_VERSION,),)


async def test_several_that_open_it_at_once_all_can(folder: Path) -> None:
    stores = await asyncio.gather(*(asyncio.to_thread(SqliteStore.open, folder, FakeClock()) for _ in range(4)))
    for store in stores:
        assert (await store.status("over")).counts.total == 5
        await store.close()


async def test_a_process_of_the_former_version_that_is_at_work_can_go_on(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "swath.db", isolation_level=None)) as former:
        former.execute("SELECT count(*) FROM jobs").fetchone()
        store = SqliteStore.open(folder, FakeClock())
        former.execute("INSERT OR REPLACE INTO outcomes VALUES (2, 9, 1, 'timeout', 1.0, '{}')")
        former.execute(
            "INSERT INTO jobs (job_id, spec, ordered, state, priority, concurrency) "
            "SELECT 'late', replace(CAST(spec AS TEXT), 'running', 'late'), ordered, 'loading', 0, 1 FROM jobs "
            "WHERE job_id = 'running'"
        )
        assert (await store.jobs())[0].job.job_id == "late"
        await store.close()


@pytest.mark.req("Z10")
@pytest.mark.parametrize("change", [_FORMER, _OTHER_BOOT])
async def test_webhooks_that_waited_are_due_at_once_after_an_upgrade_and_after_a_reboot(
    tmp_path: Path, change: str
) -> None:
    store = SqliteStore.open(tmp_path, FakeClock())
    await ready(store)
    await run_all(store)
    await end_job(store, webhook=webhook(due_at=1_750_000_000.0))
    await store.close()
    with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
        db.executescript(change)
    store = SqliteStore.open(tmp_path, FakeClock(boot=3.0))
    assert len(await store.take_webhooks(60)) == 1
    await store.close()


async def test_one_that_cannot_be_written_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, **_: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("swath.backends.sqlite.database.open_writer", full)
    with pytest.raises(UserError, match="former version"):
        SqliteStore.open(folder, FakeClock())


async def test_a_later_version_is_refused(folder: Path) -> None:
    await SqliteStore.open(folder, FakeClock()).close()
    with closing(sqlite3.connect(folder / "swath.db")) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (SCHEMA_VERSION + 1,))
    with pytest.raises(UserError, match="another version"):
        SqliteStore.open(folder, FakeClock())
