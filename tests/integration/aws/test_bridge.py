"""All talk with AWS has a thread of its own, and a time that hosts share."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.shared_clock import SharedClock
from swath.domain.errors import BadInput, StoreUnavailable
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock


@pytest.fixture
def bridge() -> Iterator[EventLoopThread]:
    bridge = EventLoopThread()
    yield bridge
    bridge.close()


@pytest.mark.req("W4")
async def test_work_on_the_callers_loop_does_not_hold_up_the_bridge(bridge: EventLoopThread) -> None:
    done: list[float] = []

    async def beat() -> None:
        for _ in range(3):
            await asyncio.sleep(0.05)
            done.append(time.monotonic())

    beating = asyncio.ensure_future(bridge.run(beat))
    await asyncio.sleep(0)
    until = time.monotonic() + HANGING_SECONDS
    while len(done) < 3 and time.monotonic() < until:
        time.sleep(0.01)  # nothing else can run on this loop
    freed = time.monotonic()
    await beating
    assert len(done) == 3
    assert done[-1] < freed


async def test_loops_of_other_threads_may_use_the_bridge_and_errors_come_back(bridge: EventLoopThread) -> None:
    async def loop_of() -> int:
        return id(asyncio.get_running_loop())

    async def fail() -> None:
        raise BadInput("no")

    here = await bridge.run(loop_of)
    there = await asyncio.to_thread(lambda: asyncio.run(bridge.run(loop_of)))
    inside = await bridge.run(lambda: bridge.run(loop_of))
    assert here == there == inside != id(asyncio.get_running_loop())
    with pytest.raises(BadInput):
        await bridge.run(fail)


@pytest.mark.req("W3")
async def test_cancelling_the_caller_cancels_the_call(bridge: EventLoopThread) -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang() -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(ended.set)
            raise

    calling = asyncio.ensure_future(bridge.run(hang))
    await began.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.wait_for(ended.wait(), 60)


@pytest.mark.req("W3")
async def test_closing_the_bridge_ends_what_runs_and_refuses_more(bridge: EventLoopThread) -> None:
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang() -> None:
        loop.call_soon_threadsafe(began.set)
        await asyncio.sleep(60)

    calling = asyncio.ensure_future(bridge.run(hang))
    await began.wait()
    bridge.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await calling
    with pytest.raises(StoreUnavailable, match="closed"):
        await bridge.run(hang)
    assert not bridge._thread.is_alive()


@pytest.mark.req("Q3")
def test_hosts_with_other_boot_clocks_share_a_time_that_does_not_jump() -> None:
    one, two = FakeClock(boot=1_000.0), FakeClock(boot=777_000.0)
    here, there = SharedClock(one), SharedClock(two)
    one.jump_wall(-3_600)
    one.advance(10)
    two.advance(10)

    assert here.now() == there.now() == FakeClock().now() + 10
    due = here.from_boot(one.boot() + 5)
    assert there.to_boot(due) == two.boot() + 5
    assert here.to_boot(due) == one.boot() + 5
