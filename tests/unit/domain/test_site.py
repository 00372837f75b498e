"""Site policies, field by field: what has a meaning is taken, what has none is refused with a hint (D1)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from swath.domain.site_policy import Breaker, Rate, RobotsMode, SitePolicy

pytestmark = pytest.mark.req("D1")


def test_everything_has_a_default() -> None:
    policy = SitePolicy()
    assert (policy.breaker.window, policy.breaker.failures, policy.breaker.reopen_seconds) == (10, 5, 120)
    assert policy.robots is RobotsMode.OBEY
    assert policy.as_yaml() == {}


def test_a_rate_is_so_many_in_so_long() -> None:
    assert Rate(tokens=30, per_seconds=60).per_second == 0.5


@pytest.mark.parametrize(
    "domain", ["example.com", "a.b.example.com", "localhost:8080", "127.0.0.1:9", "[::1]:80", "xn--bcher-kva.example"]
)
def test_domains_are_host_names(domain: str) -> None:
    assert SitePolicy(domains=(domain,)).domains == (domain,)


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"domains": ["http://example.com"]}, "without scheme or path"),
        ({"domains": ["Example.com"]}, "small letters"),
        ({"domains": ["example.com/a"]}, "without scheme or path"),
        ({"domains": [""]}, "no host name"),
        ({"rate": {"tokens": 0}}, "greater than 0"),
        ({"rate": {"tokens": float("nan")}}, "finite"),
        ({"rate": {"per_seconds": float("inf")}}, "less than or equal|finite"),
        ({"slow_down_seconds": float("nan")}, "less than or equal"),
        ({"breaker": {"reopen_seconds": float("nan")}}, "less than or equal"),
        ({"breaker": {"failures": 11}}, "can never be reached in a window of 10"),
        ({"concurrency": 0}, "greater than or equal to 1"),
        ({"action_delay_ms": [900, 100]}, "smaller to a larger"),
        ({"signatures": [{"kind": "blocked"}]}, "fits every page"),
        ({"signatures": [{"kind": "blocked", "body": "("}]}, "no regular expression"),
        ({"signatures": [{"kind": "sad", "body": "x"}]}, "Input should be"),
        ({"robots": "sometimes"}, "obey"),
        ({"speed": 3}, "Extra inputs"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SitePolicy.model_validate(given)


def test_only_what_was_set_is_written() -> None:
    given = {"domains": ["a.example"], "rate": {"tokens": 2.0}, "breaker": {"failures": 3}, "robots": "warn"}
    assert SitePolicy.model_validate(given).as_yaml() == given
    assert SitePolicy(breaker=Breaker(failures=3)).as_yaml() == {"breaker": {"failures": 3}}
