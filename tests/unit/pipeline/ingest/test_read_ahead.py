"""Blocking iteration beside the event loop: bounded, stoppable, and errors come through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator

import pytest

from swath.pipeline.ingest.sources.file_and_stream import ReadAhead


async def test_values_come_in_order_and_then_the_end() -> None:
    async with ReadAhead(lambda: (number for number in range(100))) as values:
        assert [value async for value in values] == list(range(100))
        assert [value async for value in values] == []


async def test_an_error_comes_after_the_values_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise ValueError("broken")

    async with ReadAhead(failing) as values:
        assert await anext(values) == 1
        with pytest.raises(ValueError, match="broken"):
            await anext(values)


async def test_an_error_before_the_first_value_comes_through() -> None:
    def refusing() -> Generator[int, None, None]:
        raise ValueError("refused")

    async with ReadAhead(refusing) as values:
        with pytest.raises(ValueError, match="refused"):
            await anext(values)


async def test_no_more_is_read_than_there_is_room() -> None:
    read = 0
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def counted() -> Generator[int, None, None]:
        nonlocal read
        for number in range(100):
            read = number + 1
            if read == 3:
                loop.call_soon_threadsafe(arrived.set)
            yield number

    async with ReadAhead(counted, depth=2) as values:
        await arrived.wait()  # two handed over, the third read and waiting
        await asyncio.sleep(0.01)
        assert read == 3
        assert await anext(values) == 0


async def test_leaving_early_closes_a_generator_that_waits_for_room() -> None:
    full, closed = threading.Event(), threading.Event()

    def endless() -> Generator[int, None, None]:
        try:
            yield 1
            full.set()  # the one place is taken; the next value has to wait
            while True:
                yield 2
        finally:
            closed.set()

    async with ReadAhead(endless, depth=1):
        assert await asyncio.to_thread(full.wait, 5)
        await asyncio.sleep(0.01)
    assert await asyncio.to_thread(closed.wait, 5)


async def test_a_read_that_never_returns_holds_up_nobody() -> None:
    release = threading.Event()

    def stuck() -> Generator[int, None, None]:
        yield 1
        release.wait(5)
        yield 2

    async def take_all() -> None:
        async with ReadAhead(stuck) as values:
            async for _ in values:
                pass

    task = asyncio.create_task(take_all())
    await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await task
    release.set()
