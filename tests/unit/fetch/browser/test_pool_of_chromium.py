"""The pool with real browsers: recycling, crashes, hangs and the end, and that nothing is left behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.fetch.browser.chromium.launch import ChromiumProcess, launch
from swath.fetch.browser.pool.health import HealthMonitor
from swath.fetch.browser.pool.instance import BrowserSlot, PoolOptions
from swath.fetch.browser.pool.pool import BrowserPool
from tests.unit.fetch.browser.launching import browser_pid, folder_of, launching, processes_of, refusing_port, until

pytestmark = pytest.mark.req("B1", "W3")

OpenPool = Callable[..., AbstractAsyncContextManager[tuple[BrowserPool, list[ChromiumProcess]]]]


@pytest.fixture
def open_pool(tmp_path: Path) -> OpenPool:
    """A pool and all that it ever launched; at the end nothing of those may be left."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[tuple[BrowserPool, list[ChromiumProcess]]]:
        launched: list[ChromiumProcess] = []
        with refusing_port() as port:
            how = launching(tmp_path, port, answer_seconds=3.0, close_seconds=2.0)

            async def start() -> ChromiumProcess:
                launched.append(await launch(how))
                return launched[-1]

            options = {"browsers": 1, "acquire_seconds": 60.0, **options}
            pool = BrowserPool(PoolOptions(**options), SystemClock(), start)
            try:
                yield pool, launched
            finally:
                async with asyncio.timeout(60):
                    await pool.close()
                for one in launched:
                    assert processes_of(one) == set()
                    assert not folder_of(one.mark).exists()

    return opened


async def visit(pool: BrowserPool) -> ChromiumProcess:
    """One item: a fresh context with one page."""
    place = await pool.acquire()
    context = await place.browser.new_context()
    page = await context.new_page()
    await page.set_content("<h1>here</h1>")
    assert await page.inner_text("h1") == "here"
    await context.close()
    pool.release(place)
    return of(place)


def of(place: BrowserSlot) -> ChromiumProcess:
    assert isinstance(place.running, ChromiumProcess)
    return place.running


@pytest.mark.req("property 12")
async def test_real_browsers_are_recycled_after_their_pages_and_by_memory(open_pool: OpenPool) -> None:
    async with open_pool(most_pages=2) as (pool, launched):
        seen = [await visit(pool) for _ in range(3)]
        assert [launched.index(one) for one in seen] == [0, 0, 1]
        await until(lambda: processes_of(launched[0]) == set())
        assert pool.stats.recycled_count == 1
        assert pool.stats.pages_processed == 3
        keeper = HealthMonitor(pool, SystemClock(), lambda: 0)
        await keeper.run_once()
        stats = pool.stats
        assert (stats.browsers, stats.recycled_count, stats.versions) == (1, 1, (seen[0].version,))
        assert stats.memory_bytes > 50 << 20
        pool.options = PoolOptions(browsers=1, most_memory_bytes=stats.memory_bytes * 3 // 4)
        await keeper.run_once()
        assert (pool.stats.browsers, pool.stats.recycled_count) == (0, 2)
        await until(lambda: processes_of(launched[1]) == set())


async def test_browsers_that_die_or_hang_are_replaced(open_pool: OpenPool) -> None:
    async with open_pool(concurrency=2) as (pool, launched):
        for fault in ("browser killed", "driver killed", "browser frozen", "call hangs"):
            await _one_fault(pool, fault)
            assert await visit(pool) is launched[-1]
        assert len(launched) == 5
        assert pool.stats.crashed_count == 4


async def _one_fault(pool: BrowserPool, fault: str) -> None:
    place, other = await pool.acquire(), await pool.acquire()
    assert of(place) is of(other)
    page = await place.browser.new_page()
    hang = asyncio.create_task(page.evaluate("while (true) {}"))
    await asyncio.sleep(0)
    if fault == "call hangs":
        pool.release(place, broken=True)
    else:
        pid = of(place).driver_pid if fault == "driver killed" else browser_pid(of(place))
        os.kill(pid, signal.SIGSTOP if fault == "browser frozen" else signal.SIGKILL)
    if fault == "browser frozen":
        await HealthMonitor(pool, SystemClock(), lambda: 0).run_once()
    async with asyncio.timeout(60):
        await other.lost.wait()
        assert isinstance((await asyncio.gather(hang, return_exceptions=True))[0], Exception)
    with pytest.raises(Failed, match="browser_crash"):
        _ = other.browser
    pool.release(other)
    pool.release(place)


async def test_close_while_pages_run_and_one_is_starting_leaves_nothing(open_pool: OpenPool) -> None:
    async with open_pool(browsers=2) as (pool, _):
        place = await pool.acquire()
        page = await place.browser.new_page()
        spin = asyncio.create_task(page.evaluate("while (true) {}"))
        starting = asyncio.create_task(pool.acquire())
        await asyncio.sleep(0)
    for error in await asyncio.gather(spin, starting, return_exceptions=True):
        assert isinstance(error, Exception)
