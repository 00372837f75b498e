"""Who listens to the embedded store: told across threads, of other processes too, and at no cost while nobody does."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from swath.backends.change_feed import MOST_NAMED, ChangeBroadcaster
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from tests.contract.suites.builders import batch, claimed, finished, new_job, ready, success
from tests.contract.suites.change_feed import hears, quiet
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I2", "I3")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(tmp_path, SystemClock())
    yield store
    await store.close()


def _lookouts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "swath-store-news"]


async def test_what_this_process_changes_is_told_by_name(store: SqliteStore) -> None:
    await ready(store, items=40)
    news = store.news()
    await quiet(news)
    lease = await claimed(store)
    assert await news.hear(HANGING_SECONDS) == {"job"}
    await finished(store, lease, [success(1)])
    assert await news.hear(HANGING_SECONDS) == {"job"}
    for number in range(3):
        await store.order(new_job(f"one-{number}"), batch(0, 1, "a"))
    await asyncio.sleep(0.1)  # several looks at the file, which must not take our own commits for those of others
    assert await news.hear(HANGING_SECONDS) == {"one-0", "one-1", "one-2"}
    news.close()


async def test_a_renewal_is_no_news(store: SqliteStore) -> None:
    await ready(store)
    lease = await claimed(store)
    news = store.news()
    await store.renew("worker", [lease.fence])
    assert await news.hear(0.1) == set()
    news.close()


async def test_a_change_of_another_process_is_noticed_at_once_and_names_nobody(
    store: SqliteStore, tmp_path: Path
) -> None:
    await ready(store)
    news = store.news()
    await quiet(news)
    for number in range(10):
        waiting = asyncio.create_task(news.hear(20 * HANGING_SECONDS))
        await asyncio.sleep(0.01 * number)
        with closing(sqlite3.connect(tmp_path / "swath.db")) as db, db:
            db.execute("UPDATE jobs SET served = served + 1")
        assert await asyncio.wait_for(waiting, HANGING_SECONDS) is None
    news.close()


async def test_what_another_process_changed_while_nobody_asked_is_not_missed(
    store: SqliteStore, tmp_path: Path
) -> None:
    await ready(store)
    news = store.news()
    await quiet(news)
    other = SqliteStore.open(tmp_path, SystemClock())
    await other.pause("job")
    await other.close()
    assert await news.hear(HANGING_SECONDS) is None
    news.close()


async def test_a_change_in_another_thread_wakes_who_listens(store: SqliteStore) -> None:
    await ready(store)
    news = store.news()
    await quiet(news)
    thread = threading.Thread(target=lambda: asyncio.run(_pause(store)))
    waiting = asyncio.create_task(news.hear(HANGING_SECONDS))
    await asyncio.sleep(0)
    thread.start()
    assert await waiting == {"job"}
    thread.join()
    news.close()


async def _pause(store: SqliteStore) -> None:
    await store.pause("job")


async def test_a_change_is_told_though_whoever_made_it_has_given_up(store: SqliteStore) -> None:
    await ready(store)
    news = store.news()
    await quiet(news)
    gate = threading.Event()
    store._db._writer.submit(gate.wait)
    pausing = asyncio.create_task(store.pause("job"))
    await asyncio.sleep(0)
    blocked = store._db._writer.submit(lambda: None)
    gate.set()
    await asyncio.wrap_future(blocked)
    pausing.cancel()
    with suppress(asyncio.CancelledError):
        await pausing
    await hears(news)
    news.close()


async def test_nothing_runs_while_nobody_listens(store: SqliteStore) -> None:
    before = len(_lookouts())
    first, second = store.news(), store.news()
    assert len(_lookouts()) == before + 1
    first.close()
    assert len(_lookouts()) == before + 1
    second.close()
    deadline = time.monotonic() + 60
    while len(_lookouts()) > before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert len(_lookouts()) == before
    third = store.news()
    await store.submit(new_job())
    await hears(third)
    third.close()


async def test_a_store_that_is_closed_is_not_looked_at_any_more(tmp_path: Path) -> None:
    before = len(_lookouts())
    store = SqliteStore.open(tmp_path, SystemClock())
    store.news()
    await store.close()
    deadline = time.monotonic() + 60
    while len(_lookouts()) > before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert len(_lookouts()) == before


async def test_who_does_not_ask_for_long_is_told_that_any_may_have_changed() -> None:
    bulletin = ChangeBroadcaster()
    news = bulletin.listen()
    for number in range(MOST_NAMED):
        bulletin.tell([str(number)])
    heard = await news.hear(0)
    assert heard is not None
    assert len(heard) == MOST_NAMED
    for number in range(MOST_NAMED + 1):
        bulletin.tell([str(number)])
    assert await news.hear(0) is None
    assert await news.hear(0) == set()
    news.close()


def test_a_listener_whose_loop_is_gone_keeps_nobody_from_being_told() -> None:
    bulletin = ChangeBroadcaster()
    news = bulletin.listen()

    async def give_up() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await news.hear(HANGING_SECONDS)

    asyncio.run(give_up())
    bulletin.tell(["job"])

    async def ask() -> object:
        return await news.hear(0)

    assert asyncio.run(ask()) == {"job"}
