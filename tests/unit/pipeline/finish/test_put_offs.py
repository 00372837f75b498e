"""What has failed is tried again later, and later each time."""

import pytest

from swath.pipeline.retrying import FORGET_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, FailureBackoff
from tests.support.clock import FakeClock


@pytest.mark.req("Z10")
def test_each_failure_in_a_row_doubles_the_wait_up_to_a_bound() -> None:
    clock = FakeClock()
    put_offs = FailureBackoff[str](clock)
    for seconds in (1.0, 2.0, 4.0, 8.0, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS):
        put_offs.failed("job", OSError("broken"))
        clock.advance(seconds - 0.25)
        assert put_offs.waiting == {"job"}
        clock.advance(0.25)
        assert put_offs.waiting == set()
    put_offs.worked("job")
    put_offs.failed("job", OSError("broken"))
    clock.advance(1.0)
    assert put_offs.waiting == set()


@pytest.mark.req("Z10")
def test_the_same_error_is_news_once() -> None:
    clock = FakeClock()
    put_offs = FailureBackoff[str](clock)
    assert put_offs.failed("job", OSError("broken"))
    assert not put_offs.failed("job", OSError("broken"))
    assert put_offs.failed("job", OSError("worse"))
    assert put_offs.failed("other", OSError("worse"))
    put_offs.worked("job")
    assert put_offs.failed("job", OSError("worse"))


@pytest.mark.req("Z8")
def test_what_nobody_comes_back_to_is_forgotten() -> None:
    clock = FakeClock()
    put_offs = FailureBackoff[int](clock)
    put_offs.failed(1, OSError("broken"))
    clock.advance(FORGET_BACKOFF_SECONDS + 2)
    assert put_offs.waiting == set()
    assert put_offs.failed(1, OSError("broken")), "as if it were the first time"
