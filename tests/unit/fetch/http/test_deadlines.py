"""Many deadlines share one timer, and each is told in time."""

import asyncio
from typing import Any

import pytest

from swath.fetch.http.client.limits import Deadlines, TimeLimit
from tests.support.bounds import HANGING_SECONDS
from tests.support.virtual_time import at_once

pytestmark = pytest.mark.req("H1", "H3")


def limit(deadlines: Deadlines, seconds: float) -> TimeLimit:
    return TimeLimit(deadlines, asyncio.get_running_loop().time() + seconds)


async def over_after(deadlines: Deadlines, seconds: float) -> float:
    """How long a block lasted that would go on for ever."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with limit(deadlines, seconds):
            await asyncio.sleep(60)
    return loop.time() - began


async def test_each_ends_at_its_own_time_whatever_the_order_in_which_they_began() -> None:
    deadlines = Deadlines()
    lasted = await asyncio.gather(*(over_after(deadlines, seconds) for seconds in (0.15, 0.05, 0.1, -1.0)))
    for seconds, took in zip((0.15, 0.05, 0.1, 0.0), lasted, strict=True):
        assert seconds - 0.002 <= took < seconds + HANGING_SECONDS


@at_once
async def test_a_block_that_ends_in_time_is_left_alone_and_the_others_are_not() -> None:
    deadlines = Deadlines()
    later = asyncio.create_task(over_after(deadlines, 0.1))
    async with limit(deadlines, 0.05):
        await asyncio.sleep(0)
    await asyncio.sleep(0.07)
    assert await later >= 0.09


async def test_a_block_that_others_cancelled_stays_cancelled() -> None:
    deadlines = Deadlines()
    entered = asyncio.Event()

    async def work() -> None:
        async with limit(deadlines, 30):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_ends_it_early_ends_it_at_once() -> None:
    early = limit(Deadlines(), 30)
    asyncio.get_running_loop().call_soon(early.time_is_over)
    with pytest.raises(TimeoutError):
        async with early:
            await asyncio.sleep(60)
    assert early.expired
    early.time_is_over()
    await asyncio.sleep(0)


async def test_all_of_them_take_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def counted(when: float, *rest: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *rest)

    monkeypatch.setattr(loop, "call_at", counted)
    deadlines = Deadlines()
    for _ in range(20):
        async with limit(deadlines, 30):
            pass
    assert len(timers) == 1
