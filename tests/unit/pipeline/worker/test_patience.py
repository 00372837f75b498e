import asyncio

import pytest

from swath.pipeline.worker.item_timeout import ItemTimeout
from tests.support.virtual_time import at_once

pytestmark = pytest.mark.req("S2", "H1")


@at_once
async def test_time_spent_waiting_is_not_the_attempts_own() -> None:
    patience = ItemTimeout()
    async with patience.limit(0.05):
        with patience.waiting():
            await asyncio.sleep(0.12)
        await asyncio.sleep(0.01)


@at_once
async def test_the_rest_of_the_time_counts_as_before() -> None:
    async def attempt(patience: ItemTimeout) -> None:
        async with patience.limit(0.05):
            await asyncio.sleep(0.03)
            with patience.waiting():
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)

    with pytest.raises(TimeoutError):
        await attempt(ItemTimeout())


@at_once
async def test_the_time_stands_still_until_the_last_of_several_waits_is_over() -> None:
    patience = ItemTimeout()

    async def wait(seconds: float) -> None:
        with patience.waiting():
            await asyncio.sleep(seconds)

    async def attempt() -> None:
        async with patience.limit(0.05):
            await asyncio.gather(wait(0.02), wait(0.12))
            await asyncio.sleep(10)

    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await attempt()
    assert asyncio.get_running_loop().time() - began >= 0.169


@at_once
async def test_a_wait_that_is_cancelled_leaves_the_time_running() -> None:
    patience = ItemTimeout()

    async def wait() -> None:
        with patience.waiting():
            await asyncio.sleep(10)

    async def attempt() -> None:
        async with patience.limit(0.05):
            task = asyncio.create_task(wait())
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        await attempt()


@at_once
async def test_an_attempt_that_is_cancelled_at_its_end_stays_cancelled() -> None:
    patience = ItemTimeout()

    async def attempt() -> None:
        async with patience.limit(0.01):
            await asyncio.sleep(10)

    task = asyncio.create_task(attempt())
    patience.on_expiry = task.cancel  # the worker stops at the very moment at which the time is over
    await asyncio.wait({task})
    assert task.cancelled()


@at_once
async def test_it_says_once_that_the_time_is_over_and_nothing_after_the_end() -> None:
    told: list[str] = []
    slow, fast = ItemTimeout(), ItemTimeout()
    slow.on_expiry = lambda: told.append("slow")
    fast.on_expiry = lambda: told.append("fast")
    async with fast.limit(0.02):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with slow.limit(0.02):
            await asyncio.sleep(10)
    await asyncio.sleep(0.03)
    assert told == ["slow"]
