"""P2: whose turn it is, who is left out, and what the counters say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.fetch.proxies.pool import ProxyPool
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("P2")

NAMES = ["a", "b", "c", "d"]


def pool(clock: FakeClock, cooldown_seconds: float = 0.0, patience: int = 1) -> ProxyPool[str]:
    return ProxyPool({name: name for name in NAMES}, clock, cooldown_seconds=cooldown_seconds, patience=patience)


@pytest.mark.req("property 18")
@given(unwell=st.sets(st.sampled_from(NAMES)), takes=st.integers(1, 20))
def test_round_robin_visits_healthy_proxies_only_in_order(unwell: set[str], takes: int) -> None:
    one = pool(FakeClock())
    for name in unwell:
        one.failed(name)
    healthy = [name for name in NAMES if name not in unwell]
    taken = [one.take("site").name for _ in range(takes)]
    if not healthy:
        assert set(taken) == {None}
    else:
        assert taken == [healthy[at % len(healthy)] for at in range(takes)]


@pytest.mark.req("property 19", "property 21")
@given(events=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=30))
def test_a_failed_proxy_is_marked_and_left_out_and_the_counters_equal_the_events(
    events: list[tuple[str, bool]],
) -> None:
    one = pool(FakeClock())
    for name, good in events:
        if good:
            one.succeeded(name)
        else:
            one.failed(name)
    for name in NAMES:
        health = one.health[name]
        assert health.successes == sum(n == name and good for n, good in events)
        assert health.failures == sum(n == name and not good for n, good in events)
        assert health.well == (health.failures == 0)
    assert {one.take("site").name for _ in NAMES} <= {*one.well, None}


@pytest.mark.req("property 20")
@given(steps=st.lists(st.tuples(st.sampled_from(["x", "y"]), st.floats(0, 20)), max_size=60))
def test_no_proxy_meets_the_same_site_twice_inside_its_cool_down(steps: list[tuple[str, float]]) -> None:
    clock = FakeClock()
    one = pool(clock, cooldown_seconds=30.0)
    met: dict[tuple[str, str], float] = {}
    for site, pause in steps:
        clock.advance(pause)
        taken = one.take(site)
        if taken.name is None:
            waits = [met[name, site] + 30.0 - clock.boot() for name in NAMES]
            assert taken.wait_seconds == pytest.approx(min(waits))
            continue
        assert clock.boot() - met.get((taken.name, site), -1e9) >= 30.0 - 1e-6
        met[taken.name, site] = clock.boot()


async def test_a_proxy_that_answers_again_takes_part_after_the_re_check_and_not_before() -> None:
    clock, asked = FakeClock(), list[str]()
    up = {"a": False, "b": True}

    async def answers(name: str) -> bool:
        asked.append(name)
        return up[name]

    one = pool(clock)
    one.failed("a")
    one.failed("b")
    clock.advance(59)
    await one.run_once(60, answers)
    assert asked == []
    clock.advance(1)
    await one.run_once(60, answers)
    assert (asked, one.well) == (["a", "b"], ["b", "c", "d"])
    up["a"] = True
    await one.run_once(60, answers)  # "a" has just been looked at
    assert one.well == ["b", "c", "d"]
    clock.advance(60)
    await one.run_once(60, answers)
    assert one.well == NAMES


async def test_an_endpoint_with_many_exits_is_left_out_after_several_failures_in_a_row_only() -> None:
    clock = FakeClock()
    one = pool(clock, patience=3)
    for _ in range(5):
        one.failed("a")
        one.failed("a")
        one.succeeded("a")
    assert "a" in one.well
    for _ in range(3):
        one.failed("a")
    assert "a" not in one.well

    async def answers(_: str) -> bool:
        return True

    clock.advance(60)
    await one.run_once(60, answers)
    one.failed("a")  # it came back on trial
    assert "a" not in one.well


def test_meetings_of_long_ago_are_forgotten() -> None:
    clock = FakeClock()
    one = pool(clock, cooldown_seconds=30.0)
    for number in range(10_500):
        one.take(f"site-{number}")
        clock.advance(1)
    assert len(one._last_at) < 10_100
