import asyncio

import pytest

from swath.pipeline.execute.patience import Patience

pytestmark = pytest.mark.req("S2", "H1")


async def test_time_spent_waiting_is_not_the_attempts_own() -> None:
    patience = Patience()
    async with patience.limit(0.05):
        with patience.waiting():
            await asyncio.sleep(0.12)
        await asyncio.sleep(0.01)
    assert patience.waited_seconds >= 0.12


async def test_the_rest_of_the_time_counts_as_before() -> None:
    async def attempt(patience: Patience) -> None:
        async with patience.limit(0.05):
            await asyncio.sleep(0.03)
            with patience.waiting():
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)

    with pytest.raises(TimeoutError):
        await attempt(Patience())


async def test_the_time_stands_still_until_the_last_of_several_waits_is_over() -> None:
    patience = Patience()

    async def wait(seconds: float) -> None:
        with patience.waiting():
            await asyncio.sleep(seconds)

    async with patience.limit(0.05):
        await asyncio.gather(wait(0.02), wait(0.12))
    assert 0.12 <= patience.waited_seconds < 0.2, "waits at the same time count once"


async def test_a_wait_under_way_is_counted() -> None:
    patience = Patience()
    with patience.waiting():
        await asyncio.sleep(0.02)
        assert patience.waited_seconds >= 0.02


async def test_a_wait_that_is_cancelled_leaves_the_time_running() -> None:
    patience = Patience()

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
