import asyncio
from contextlib import suppress

import pytest

from swath.fetch.http.client.content_decoding import ResponseBody
from swath.fetch.http.client.limits import BodyProgress, Deadlines, StallDetector, TimeLimit
from tests.support.virtual_time import run_at_once

pytestmark = pytest.mark.req("H3", "Z6")

WINDOW_SECONDS = 0.2
ENOUGH = b"x" * 2_000  # bytes for one window


def _limit() -> TimeLimit:
    return TimeLimit(Deadlines(), asyncio.get_running_loop().time() + 60)


async def read(chunks: list[tuple[float, bytes]], grace_seconds: float = WINDOW_SECONDS) -> bool:
    """Whether a body that comes in such chunks, each after so many seconds, is given up as too slow."""
    stalls, timer = StallDetector(Deadlines(), 10_000, WINDOW_SECONDS, grace_seconds), _limit()
    pace, body = BodyProgress(timer), ResponseBody([], 100_000)
    try:
        async with timer:
            stalls.begin(pace, body)
            for seconds, chunk in chunks:
                await asyncio.sleep(seconds)
                body.feed(chunk)
            stalls.end(pace)
            await asyncio.sleep(3 * WINDOW_SECONDS)  # what has ended is not looked at any more
    except TimeoutError:
        assert pace.too_slow
        return True
    return pace.too_slow


def test_a_body_may_begin_slowly() -> None:
    slow = [(0.6, b""), (0.0, ENOUGH)]
    assert not run_at_once(read(slow, grace_seconds=5))
    assert run_at_once(read(slow))


def test_a_body_that_begins_well_and_then_drips_is_given_up() -> None:
    assert run_at_once(read([(0.0, ENOUGH * 10), *[(0.02, b"x")] * 100]))


def test_a_body_that_brings_enough_in_every_window_is_not() -> None:
    assert not run_at_once(read([(0.05, ENOUGH)] * 20))


def test_a_body_that_stops_coming_is_given_up() -> None:
    assert run_at_once(read([(0.0, ENOUGH), (30.0, b"")]))


@pytest.mark.parametrize(
    ("unseen_bytes", "seconds", "given_up"), [(0, 0.6, True), (5_000, 0.4, False), (5_000, 1.5, True)]
)
def test_a_body_of_which_nothing_is_seen_has_the_time_that_its_bytes_may_take(
    unseen_bytes: int, seconds: float, given_up: bool
) -> None:
    async def read_unseen() -> bool:
        stalls, timer = StallDetector(Deadlines(), 10_000, WINDOW_SECONDS, WINDOW_SECONDS), _limit()
        pace = BodyProgress(timer)
        with suppress(TimeoutError):
            async with timer:
                stalls.begin(pace, ResponseBody([], 100_000), unseen_bytes=unseen_bytes)
                await asyncio.sleep(seconds)
                stalls.end(pace)
        return pace.too_slow

    assert run_at_once(read_unseen()) == given_up
