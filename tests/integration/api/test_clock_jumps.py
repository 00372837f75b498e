"""A real controller, which works too, whose wall clock really jumps while it runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness.wall_clocks import ShiftedClock
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.service_key import Scope, new_key
from tests.integration.api.serving import Place, Served

pytestmark = pytest.mark.req("Z10")

DAY = 86_400.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await what():
            await asyncio.sleep(0.1)


def clock_of(place: Place) -> ShiftedClock:
    """A wall clock for all processes that are started there from now on."""
    clock = ShiftedClock(place.folder / "clock")
    place.environment.update(clock.environment(place.environment))
    return clock


def jumps_seen(place: Place) -> int:
    """As the store remembers them; a store that remembers none has seen none."""
    with closing(sqlite3.connect(place.folder / "data" / "swath.db")) as db:
        row = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return -1 if row is None else int(json.loads(row[0])["jumps"])


async def status_code(served: Served, path: str, key: str | None = None) -> int:
    headers = {} if key is None else {"X-Service-Key": key}
    return (await served.client.get(path, headers=headers)).status_code


@pytest.mark.req("J5")
async def test_a_jump_of_the_wall_clock_deletes_no_job(place: Place) -> None:
    """Reproduced: 14 seconds at 400 days ahead deleted every job that was to be kept for a year."""
    clock = clock_of(place)
    async with place.serving() as served:
        order = {
            "job_id": "kept",
            "scraper_id": "example-mock",
            "items": [{"item_id": "1", "input": {}}],
            "execution_policy": {"retention_days": 365},
        }
        await served.ask("POST", "/jobs", json=order)
        await served.until("kept", "completed")

        async def seen(jumps: int) -> bool:
            gone = await status_code(served, "/jobs/kept/status") != 200
            return gone or jumps_seen(place) >= jumps

        await until(lambda: seen(0))
        for number, days in enumerate((400, 0), 1):
            clock.set(days * DAY)
            await until(lambda number=number: seen(number))  # type: ignore[misc]
            assert await status_code(served, "/jobs/kept/status") == 200, "the job is still there"
        assert (await served.until("kept", "completed"))["counts"]["success"] == 1
        assert await served.stopped() == 0
    process = served.process
    assert process.stderr is not None
    assert b"the wall clock jumped by +34560" in await process.stderr.read()


@pytest.mark.req("I5")
async def test_no_jump_of_the_wall_clock_gives_a_key_more_time(place: Place) -> None:
    clock = clock_of(place)
    store = SqliteStore.open(place.folder / "data", SystemClock())

    async def key(seconds: float | None) -> str:
        expires_at = None if seconds is None else time.time() + seconds
        made, text = new_key("robot", (Scope.READ,), time.time(), expires_at)
        await store.add_key(made)
        return text.reveal()

    try:
        lasting, hour = await key(None), await key(3_600)
        async with place.serving() as served:
            await until(lambda: answers(served, hour, 200))
            short, over_at = await key(6), time.monotonic() + 6
            clock.set(-400 * DAY)
            while not await answers(served, short, 200) and time.monotonic() < over_at:
                await asyncio.sleep(0.1)  # until the controller has read it; a slow machine may need too long
            await until(lambda: answers(served, short, 401))
            assert await answers(served, hour, 200)
            clock.set(400 * DAY)  # now it may be refused early
            await until(lambda: answers(served, hour, 401))
            clock.set(0)
            new = await key(3_600)
            await until(lambda: answers(served, new, 200))
            assert await answers(served, hour, 401), "it was seen expired, so it stays so"
            assert await answers(served, lasting, 200)
            assert await served.stopped() == 0
        clock.set(-400 * DAY)  # and over a restart
        async with place.serving() as served:
            for shown, code in ((short, 401), (hour, 401), (new, 200)):
                await until(lambda shown=shown, code=code: answers(served, shown, code))  # type: ignore[misc]
    finally:
        await store.close()


async def answers(served: Served, shown: str, code: int) -> bool:
    return await status_code(served, "/jobs", shown) == code
