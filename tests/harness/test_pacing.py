import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench.pacing import LATE_SECONDS, Plan, measure, measure_until_well, worst_window


def worst_by_force(stamps: list[float], rate: float) -> float:
    """Every window that begins and ends at a request, and every window of just a second."""
    ordered = sorted(stamps)
    allowance = 1 + rate * LATE_SECONDS
    spans = [(j - i + 1, max(1.0, b - a)) for i, a in enumerate(ordered) for j, b in enumerate(ordered) if j >= i]
    return max(count - rate * span - allowance for count, span in spans)


@pytest.mark.req("Z3")
@given(
    stamps=st.lists(st.floats(0, 5), min_size=1, max_size=30),
    rate=st.sampled_from([0.5, 3.0, 20.0]),
)
def test_the_worst_window_is_found(stamps: list[float], rate: float) -> None:
    assert worst_window(stamps, rate) == pytest.approx(worst_by_force(stamps, rate))


@pytest.mark.req("Z3")
def test_an_even_stream_keeps_to_the_rate_and_a_faster_one_does_not() -> None:
    even = [n / 50 for n in range(500)]
    assert worst_window(even, 50.0) <= 0
    assert worst_window([stamp * 0.9 for stamp in even], 50.0) > 0
    assert worst_window([*even, *(5.0 for _ in range(4))], 50.0) > 0, "a burst"


@pytest.mark.req("Z3", "S2", "D2")
async def test_rate_holds_at_the_site_over_processes_jobs_and_a_kill(tmp_path: Path) -> None:
    plan = Plan(processes=2, items=60, rate=30.0, concurrency=64, kills=1, seed=random.randrange(1000))
    found = await asyncio.wait_for(measure_until_well(tmp_path, plan), 200)
    assert found.requests >= 120
    assert found.well, found


@pytest.mark.req("Z3")
async def test_workers_that_do_not_keep_to_the_rate_are_found_out(tmp_path: Path) -> None:
    """A busy machine may slow them down to the rate, so they are measured until they are not."""
    for number in range(6):
        hasty = Plan(processes=1, items=40, rate=30.0, concurrency=64, haste=1.5)
        folder = tmp_path / str(number)
        folder.mkdir()
        if not (found := await asyncio.wait_for(measure(folder, hasty), 200)).well:
            return
    pytest.fail(f"it always kept to the rate: {found}")


@pytest.mark.req("Z3", "S1", "D1")
async def test_concurrency_holds_at_the_site_over_processes_and_jobs(tmp_path: Path) -> None:
    found = await asyncio.wait_for(measure(tmp_path, Plan(processes=2, items=40, concurrency=4)), 100)
    assert found.requests >= 80
    assert found.peak_open <= 4
    assert found.peak_open == 4, "and it is used"
