"""Pauses between actions stay in the policy's range, and zero switches them off."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.site_policy import SitePolicy
from swath.fetch.browser.tab.action_runner import action_delay_seconds

ranges = st.tuples(st.integers(0, 600_000), st.integers(0, 600_000)).map(lambda pair: (min(pair), max(pair)))


@pytest.mark.req("B2", "property 17")
@given(ranges, st.integers(0, 2**64).map(Random))
def test_action_delays_stay_in_the_configured_range(range_ms: tuple[int, int], draw: Random) -> None:
    for _ in range(10):
        assert range_ms[0] / 1_000 <= action_delay_seconds(range_ms, draw) <= range_ms[1] / 1_000


@pytest.mark.req("B2", "property 17")
def test_the_default_is_half_a_second_to_two_and_not_always_the_same() -> None:
    draw = Random(1)
    drawn = [action_delay_seconds(SitePolicy().action_delay_ms, draw) for _ in range(100)]
    assert 0.5 <= min(drawn) < 0.7
    assert 1.8 < max(drawn) <= 2.0


@pytest.mark.req("B2", "property 17")
def test_zero_switches_them_off() -> None:
    assert action_delay_seconds((0, 0), Random(1)) == 0
