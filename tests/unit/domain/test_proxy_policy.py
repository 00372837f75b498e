"""P1: what a product does not offer is refused when the policy is read, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from swath.domain.execution_policy import ExecutionPolicy, Proxy
from swath.domain.proxy_products import PRODUCTS, ProxyLocation, ProxyType, ladder_error, location_error

pytestmark = pytest.mark.req("P1")

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "datacenter", "country": "us", "state": "az"}, "datacenter takes no state: .* use residential"),
    ({"type": "datacenter", "country": "us", "city": "phoenix"}, "datacenter takes no city"),
    ({"type": "datacenter", "zip": "85001"}, "datacenter takes no zip"),
    ({"type": "web_unlocker", "country": "us", "state": "az"}, "web_unlocker takes no state"),
    ({"type": "web_unlocker", "session": "abc"}, "web_unlocker takes no session: .* keeps no identity"),
    ({"country": "us"}, "none takes no country: it goes out directly"),
    ({"ladder": ["none"], "country": "us"}, "none takes no country"),
    ({"type": "residential", "state": "az"}, "state goes only with country us"),
    ({"type": "residential", "country": "de", "state": "by"}, "state goes only with country us"),
    ({"type": "residential", "country": "de", "zip": "10115"}, "zip goes only with country us"),
    ({"type": "residential", "city": "phoenix"}, "city needs a country"),
    ({"type": "residential", "country": "us", "city": "san francisco"}, "without spaces, such as sanfrancisco"),
    ({"type": "residential", "country": "us", "zip": "8500"}, "zip must be five digits"),
    ({"type": "residential", "country": "usa"}, "country must be two letters"),
    ({"type": "residential", "country": ""}, "country must be two letters"),
    ({"type": "residential", "country": "us", "state": "arizona"}, "state must be two letters"),
    ({"type": "residential", "session": "a-b"}, "session must be letters and digits alone"),
    ({"type": "residential", "session": "a*"}, "session must be letters and digits alone"),
    ({"type": "residential", "session": "x" * 65}, "session"),
    ({"type": "custom", "session": "a:b@c"}, "session must be letters, digits and _ alone"),
    ({"type": "residential", "region": "west"}, "Extra inputs"),
    ({"ladder": ["datacenter", "datacenter"]}, "ladder names a step twice"),
    ({"ladder": ["residential", "datacenter"]}, "from dear to cheap; write datacenter, residential"),
    ({"ladder": ["datacenter", "none"]}, "none, the cheapest, after a dearer step"),
    ({"ladder": ["custom", "none"]}, "none, the cheapest, after a dearer step"),
    ({"type": "residential", "ladder": ["none", "datacenter"]}, "not where the ladder begins"),
    ({"ladder": ["none", "datacenter", "residential"], "country": "us", "state": "az"}, "datacenter takes no state"),
]


@pytest.mark.req("Z5")
@pytest.mark.parametrize(("proxy", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_not_offered_is_refused_with_the_reason(proxy: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ExecutionPolicy.model_validate({"proxy": proxy})


@pytest.mark.parametrize(
    "proxy",
    [
        {"type": "datacenter", "country": "us", "session": "abc123"},
        {"type": "residential", "country": "us", "state": "az", "city": "phoenix", "zip": "85001"},
        {"type": "residential", "country": "eu"},
        {"type": "residential", "country": "US", "city": "SanFrancisco"},
        {"type": "web_unlocker", "country": "de"},
        {"type": "custom", "country": "us", "state": "us_california"},
        {"ladder": ["none", "datacenter", "residential", "web_unlocker"], "country": "us"},
        {"ladder": ["none", "custom", "residential"]},
        {"ladder": ["datacenter", "custom"], "type": "datacenter"},
        {"ladder": ["none"]},
    ],
)
def test_what_is_offered_is_taken_and_comes_back_from_the_store(proxy: dict[str, Any]) -> None:
    policy = ExecutionPolicy.model_validate({"proxy": proxy})
    assert ExecutionPolicy.model_validate(policy.as_json()) == policy


def test_digits_in_a_policy_file_are_text_for_the_provider() -> None:
    assert Proxy.model_validate({"type": "residential", "country": "us", "zip": 85001}).zip == "85001"
    assert Proxy.model_validate({"type": "datacenter", "session": 7}).session == "7"


@pytest.mark.parametrize("tier", ProxyType)
def test_each_product_refuses_each_option_that_it_has_not(tier: ProxyType) -> None:
    whole = {"country": "us", "state": "az", "city": "phoenix", "zip": "85001", "session": "s1"}
    for name, value in whole.items():
        with_country = {"country": "us", name: value} if "country" in PRODUCTS[tier].options else {name: value}
        refused = location_error([tier], ProxyLocation(**with_country)) is not None
        assert refused == (name not in PRODUCTS[tier].options), name


def test_ladders_that_are_none() -> None:
    assert ladder_error([]) is None
    assert ladder_error([ProxyType.NONE, ProxyType.CUSTOM, ProxyType.WEB_UNLOCKER]) is None


def test_a_type_may_be_written_with_a_hyphen_as_providers_do() -> None:
    assert Proxy.model_validate({"type": "web-unlocker"}) == Proxy(type=ProxyType.WEB_UNLOCKER)
    assert Proxy.model_validate({"ladder": ["none", "web-unlocker"]}).ladder[-1] is ProxyType.WEB_UNLOCKER
    with pytest.raises(ValidationError, match="web_unlocker"):
        Proxy.model_validate({"type": "web-locker"})
