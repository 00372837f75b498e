"""Proxies by their addresses: read without ever showing them, with places for what a policy asks for."""

from __future__ import annotations

import pytest

from swath.domain.errors import BadInput
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyLocation
from swath.domain.secret import Secret
from swath.fetch.proxies.providers.custom import parse_proxies, read_refusal

pytestmark = pytest.mark.req("P1")


def parsed(*urls: str) -> list[tuple[str, str, str, int, str | None, str | None]]:
    return [
        (
            one.name,
            one.scheme,
            one.host,
            one.port,
            None if one.username is None else one.username.reveal(),
            None if one.password is None else one.password.reveal(),
        )
        for one in parse_proxies([Secret(url) for url in urls])
    ]


def test_addresses_are_taken_apart() -> None:
    assert parsed("http://me:p%40ss%2F@proxy.example:8000/", "https://p2.example", "http://[2001:db8::1]:3128") == [
        ("proxy.example:8000", "http", "proxy.example", 8000, "me", "p@ss/"),
        ("p2.example:443", "https", "p2.example", 443, None, None),
        ("[2001:db8::1]:3128", "http", "2001:db8::1", 3128, None, None),
    ]


def test_several_accounts_at_one_address_are_several_proxies() -> None:
    names = [name for name, *_ in parsed("http://a:1@p.example:1", "http://b:2@p.example:1", "http://c:3@p.example:1")]
    assert names == ["p.example:1", "p.example:1 (2)", "p.example:1 (3)"]


@pytest.mark.req("Z5", "Z7", "property 39")
@pytest.mark.parametrize(
    "url",
    [
        "socks5://u:hunter2@h:1",
        "hunter2",
        "http://u:hunter2@:1",
        "http://u:hunter2@h:99999",
        "http://u:hunter2@h:port",
        "http://u:hunt/er2@h:1",
        "http://u:hunter2@h:1/path",
        "http://u:hunter2@h:1?q=1",
        "http://[u:hunter2",
        "http://u:{hunter2}@h:1",
        "http://u-{}:hunter2@h:1",
    ],
)
def test_an_address_that_cannot_be_used_is_named_by_its_number_and_not_shown(url: str) -> None:
    with pytest.raises(BadInput, match="SWATH_PROXY_CUSTOM_URLS: address 2 ") as refused:
        parse_proxies([Secret("http://u:p@fine.example:1"), Secret(url)])
    assert "hunt" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_places_are_filled_with_what_the_policy_asks_for() -> None:
    (one,) = parse_proxies([Secret("http://customer-me-cc-{country}-sessid-{session}:pw@pr.example:7777")])
    route = one.route(ProxyLocation(country="US", session="abc"))
    assert route.username is not None
    assert route.username.reveal() == "customer-me-cc-US-sessid-abc"
    fresh = {
        r.username.reveal() for _ in range(5) if (r := one.route(ProxyLocation(country="us"))).username is not None
    }
    assert len(fresh) == 5
    assert one.objection(ProxyLocation(country="us")) is None
    assert "so the policy must say a country" in (one.objection(ProxyLocation()) or "")
    assert "so it takes no city" in (one.objection(ProxyLocation(country="us", city="phoenix")) or "")


@pytest.mark.req("P4")
@pytest.mark.parametrize(
    ("status", "headers", "tunnel", "kind"),
    [
        (407, (), False, FailureKind.PROXY),
        (407, (), True, FailureKind.PROXY),
        (403, (), True, FailureKind.ACCESS_POLICY),
        (429, (("retry-after", "3"),), True, FailureKind.RATE_LIMITED),
        (502, (), True, FailureKind.PROXY),
        (302, (), True, FailureKind.PROXY),
        (503, (("x-squid-error", "ERR_CONNECT_FAIL 111"),), False, FailureKind.PROXY),
        (403, (("x-squid-error", "ERR_ACCESS_DENIED 0"),), False, FailureKind.ACCESS_POLICY),
        (502, (("proxy-status", 'p.example; error="connection_refused"'),), False, FailureKind.PROXY),
        (200, (("proxy-status", "p.example; received-status=200"),), False, None),
        (403, (), False, None),
        (502, (), False, None),
        (502, (("proxy-agent", "Privoxy"),), False, FailureKind.PROXY),
        (403, (("proxy-authenticate", "Basic"),), False, FailureKind.ACCESS_POLICY),
        (503, (("server", "squid/5.7"),), False, FailureKind.PROXY),
        (403, (("server", "tinyproxy/1.11"),), False, FailureKind.ACCESS_POLICY),
        (504, (("via", "1.1 proxy.example (squid/5.7)"),), False, FailureKind.PROXY),
        (403, (("x-cache", "MISS from proxy"),), False, FailureKind.ACCESS_POLICY),
        # passed on by such a proxy, or by one that the site has before it
        (403, (("server", "nginx"), ("via", "1.1 proxy.example (squid/5.7)")), False, None),
        (502, (("via", "1.1 abc.cloudfront.example (CloudFront)"), ("x-cache", "Error from cloudfront")), False, None),
        (200, (("via", "1.1 proxy.example (squid/5.7)"),), False, None),
        (404, (("via", "1.1 proxy.example (squid/5.7)"),), False, None),
    ],
)
def test_what_a_plain_proxy_says_of_its_own(
    status: int, headers: tuple[tuple[str, str], ...], tunnel: bool, kind: FailureKind | None
) -> None:
    failure = read_refusal(status, headers, tunnel=tunnel)
    assert (None if failure is None else failure.kind) is kind
