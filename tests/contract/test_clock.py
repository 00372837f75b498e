"""Both clocks keep the contract of the port, and the fake one does what tests need of it."""

import asyncio
import time

import pytest

from swath.backends.clock import SystemClock
from tests.contract.suites import ClockContract
from tests.contract.suites.clock import PassTime
from tests.support.clock import FakeClock


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()

    @pytest.fixture
    def pass_time(self) -> PassTime:
        return time.sleep


class TestFakeClock(ClockContract):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def pass_time(self, clock: FakeClock) -> PassTime:
        return clock.advance


def test_the_system_clock_shows_the_time_of_the_system() -> None:
    assert SystemClock().now() == pytest.approx(time.time(), abs=5)


@pytest.mark.req("W2")
@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that runs in suspend")
def test_boot_is_a_clock_that_runs_in_suspend_and_is_the_same_for_all_processes() -> None:
    assert SystemClock().boot() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


def test_a_fake_clock_stands_still_until_it_is_told() -> None:
    clock = FakeClock(now=100.0, boot=5.0)
    assert (clock.now(), clock.boot()) == (100.0, 5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.boot()) == (102.5, 7.5)


def test_a_jump_of_the_wall_clock_moves_only_now() -> None:
    clock = FakeClock(now=100.0, boot=5.0)
    clock.jump_wall(-50)
    assert (clock.now(), clock.boot()) == (50.0, 5.0)


async def test_a_jump_of_the_wall_clock_wakes_nobody() -> None:
    clock = FakeClock()
    asleep = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    clock.jump_wall(3_600)
    await asyncio.sleep(0)
    assert not asleep.done()
    assert clock.sleeping == 1
    asleep.cancel()


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = FakeClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 9), ("soon", 3), ("as soon", 3), ("never", 20)):
            task = tasks.create_task(sleeper(name, seconds))
        await asyncio.sleep(0)
        assert clock.sleeping == 4
        clock.advance(2)
        await asyncio.sleep(0)
        assert woken == []
        clock.advance(8)
        await asyncio.sleep(0)
        assert woken == ["soon", "as soon", "late"]
        assert clock.sleeping == 1
        task.cancel()
