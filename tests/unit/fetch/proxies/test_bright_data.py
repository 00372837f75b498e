"""Bright Data's grammar is built, and its refusals are read by code; none of them is the site's fault (P4)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import BadInput
from swath.domain.failure import RULES, Culprit, FailureKind, ProxyEffect
from swath.domain.proxy_products import ProxyLocation, ProxyType
from swath.domain.secret import Secret
from swath.fetch.proxies.config import ProxyConfig, Zone
from swath.fetch.proxies.providers.bright_data import (
    CODES,
    BrightData,
    check_url,
    read_refusal,
    read_unlocker_refusal,
    username,
)
from swath.fetch.proxies.route import Route

K = FailureKind
SETUP = ProxyConfig(
    url="http://brd.superproxy.io:44445",
    customer="hl_1",
    zones={
        ProxyType.DATACENTER: Zone("dc", Secret("pw1")),
        ProxyType.RESIDENTIAL: Zone("res", Secret("pw2")),
        ProxyType.WEB_UNLOCKER: Zone("unl", Secret("pw3")),
    },
    ca_file=Path("brd.crt"),
)


def user_of(route: Route) -> str:
    assert route.username is not None
    return route.username.reveal()


@pytest.mark.req("P1")
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (ProxyLocation(), "brd-customer-hl_1-zone-res"),
        (ProxyLocation(country="US"), "brd-customer-hl_1-zone-res-country-us"),
        (
            ProxyLocation(country="us", state="AZ", city="Phoenix", zip="85001", session="aB3"),
            "brd-customer-hl_1-zone-res-country-us-state-az-city-phoenix-zip-85001-session-aB3",
        ),
        (ProxyLocation(country="eu"), "brd-customer-hl_1-zone-res-country-eu"),
    ],
)
def test_user_names_are_built_by_the_grammar(place: ProxyLocation, name: str) -> None:
    assert username("hl_1", "res", place) == name


@pytest.mark.req("P1")
def test_each_route_has_an_identity_of_its_own_unless_the_policy_names_one() -> None:
    provider = BrightData(SETUP)
    for tier in (ProxyType.DATACENTER, ProxyType.RESIDENTIAL):
        names = {user_of(provider.route(tier, ProxyLocation(country="us"))) for _ in range(20)}
        assert len(names) == 20
        assert all(re.fullmatch(r"brd-customer-hl_1-zone-\w+-country-us-session-[0-9a-z]+", name) for name in names)
        named = {user_of(provider.route(tier, ProxyLocation(session="mine"))) for _ in range(3)}
        assert {name.rpartition("-zone-")[2].partition("-")[2] for name in named} == {"session-mine"}
    assert user_of(provider.route(ProxyType.WEB_UNLOCKER, ProxyLocation())) == "brd-customer-hl_1-zone-unl"


def test_a_step_of_a_ladder_is_asked_only_for_what_it_takes() -> None:
    route = BrightData(SETUP).route(ProxyType.WEB_UNLOCKER, ProxyLocation(country="us", session="x1"))
    assert user_of(route) == "brd-customer-hl_1-zone-unl-country-us"


def test_only_products_that_open_tls_are_given_the_providers_certificate() -> None:
    provider = BrightData(SETUP)
    trusted = {tier: provider.route(tier, ProxyLocation()).ca_file for tier in SETUP.zones}
    assert trusted == {
        ProxyType.DATACENTER: None,
        ProxyType.RESIDENTIAL: Path("brd.crt"),
        ProxyType.WEB_UNLOCKER: Path("brd.crt"),
    }


@pytest.mark.req("Z7")
@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@brd.superproxy.io:44445",
        "http://h:hunter2",
        "socks5://h:1",
        "http://h",
        "h:1",
        "http://h:1/x",
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_without_showing_what_is_in_it(url: str) -> None:
    with pytest.raises(BadInput, match="SWATH_PROXY_URL") as refused:
        check_url(url, "SWATH_PROXY_URL")
    assert "hunter2" not in str(refused.value)


# -- refusals ----------------------------------------------------------------------------------------------------------

LISTED = {  # as the provider's documents have them: status and whether trying again can help
    "client_10000": (407, K.ACCESS_POLICY),
    "client_10002": (407, K.ACCESS_POLICY),
    "client_10020": (407, K.ACCESS_POLICY),
    "client_10040": (407, K.ACCESS_POLICY),
    "client_10061": (400, K.ACCESS_POLICY),
    "client_10100": (502, K.ACCESS_POLICY),
    "client_10110": (429, K.RATE_LIMITED),
    "policy_20050": (403, K.ACCESS_POLICY),
    "policy_20051": (403, K.ACCESS_POLICY),
    "policy_20090": (403, K.ACCESS_POLICY),
    "policy_20130": (402, K.ACCESS_POLICY),
    "policy_20140": (402, K.ACCESS_POLICY),
    "policy_20223": (429, K.RATE_LIMITED),
    "peer_30040": (408, K.PROXY),
    "target_40001": (502, K.DNS_UNKNOWN),
    "target_40020": (502, K.TIMEOUT),
    "kyc_required": (403, K.ACCESS_POLICY),
    "business_account_required": (403, K.ACCESS_POLICY),
    "ub_bad_endpoint_robots": (400, K.ACCESS_POLICY),
    # not listed anywhere, judged by their family
    "client_19999": (403, K.ACCESS_POLICY),
    "client_19998": (502, K.PROXY),
    "policy_29999": (403, K.ACCESS_POLICY),
    "policy_29998": (429, K.RATE_LIMITED),
    "peer_39999": (502, K.PROXY),
    "target_49999": (502, K.CONNECT),
}


def carriers(code: str) -> list[tuple[tuple[str, str], ...]]:
    details = f'brd.superproxy.io; received-status=403; error="http_request_denied"; details="{code}: some text"'
    return [
        (("x-brd-err-code", code),),
        (("x-brd-error-code", code),),
        (("content-type", "text/html"), ("proxy-status", details)),
        (("x-brd-error", f"Request failed ({code}) for some reason"),),
    ]


@pytest.mark.req("P4")
@pytest.mark.parametrize("tunnel", [True, False])
@pytest.mark.parametrize("code", LISTED)
def test_a_code_counts_wherever_it_stands_and_whatever_the_status(code: str, tunnel: bool) -> None:
    status, kind = LISTED[code]
    for headers in carriers(code):
        for given_status in {status, 200} if kind is not K.RATE_LIMITED and not code.endswith("98") else {status}:
            failure = read_refusal(given_status, headers, tunnel=tunnel)
            assert failure is not None, headers
            assert failure.kind is kind, headers
            assert code in failure.message


@pytest.mark.req("P4", "H2")
@pytest.mark.parametrize("code", CODES)
def test_no_refusal_is_a_block_of_the_site_or_climbs(code: str) -> None:
    kind, hint = CODES[code]
    assert kind not in {K.BLOCKED, K.CAPTCHA}
    assert RULES[kind].proxy is not ProxyEffect.CLIMB
    assert len(hint) > 10
    if not code.startswith("target_") and kind is not K.RATE_LIMITED:
        assert RULES[kind].culprit is Culprit.PROXY
        assert not RULES[kind].site_circuit


@pytest.mark.req("P4")
def test_the_two_codes_that_share_their_text_are_told_apart_and_the_hint_helps() -> None:
    failure = read_refusal(403, (("x-brd-err-code", "policy_20051"), ("x-brd-error", "Forbidden target")), tunnel=True)
    other = read_refusal(403, (("x-brd-err-code", "policy_20050"), ("x-brd-error", "Forbidden target")), tunnel=True)
    assert failure is not None
    assert other is not None
    assert "government" in failure.message
    assert "KYC" in failure.message
    assert "KYC" not in other.message


@pytest.mark.req("P4")
def test_an_empty_200_with_a_code_or_a_bad_inner_status_is_no_success() -> None:
    failure = read_refusal(200, (("content-length", "0"), ("x-brd-error-code", "policy_20050")), tunnel=False)
    assert failure is not None
    assert failure.kind is K.ACCESS_POLICY
    inner = read_refusal(200, (("content-length", "0"), ("x-brd-status-code", "502")), tunnel=False)
    assert inner is not None
    assert inner.kind is K.PROXY


@pytest.mark.req("P4")
@pytest.mark.parametrize("status", [200, 204, 206])
@pytest.mark.parametrize(
    "body",
    [b"", b" \r\n\t" * 500, b"\xef\xbb\xbf\n", b"<!DOCTYPE html><html lang=en><head></head>\n<body></body></html>"],
)
def test_a_blank_answer_of_the_unlocker_is_no_page_and_of_the_others_the_sites(status: int, body: bytes) -> None:
    bare = read_unlocker_refusal(status, (("x-brd-ip", "203.0.113.1"),), tunnel=False, body=body)
    assert bare is not None
    assert (bare.kind, "format json" in bare.message) == (K.PROXY, True)
    assert read_refusal(status, (), tunnel=False, body=body) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"0"), (200, b"<html><body><script src=/a.js></script></body></html>"), (404, b""), (301, b""), (200, None)],
)
def test_what_the_unlocker_brings_is_the_sites_if_there_is_anything_in_it(status: int, body: bytes | None) -> None:
    assert read_unlocker_refusal(status, (), tunnel=False, body=body) is None


@pytest.mark.req("P4")
@pytest.mark.parametrize("header", ["x-brd-err-code", "x-brd-error-code"])
@pytest.mark.parametrize(
    ("spelt", "shown"),
    [
        ("Policy_20050", "policy_20050"),
        ("POLICY-20050", "policy_20050"),
        ("20050", "policy_20050"),
        ('"policy 20050"', "policy_20050"),
        ("policy_20050: forbidden", "policy_20050"),
        ("E!", "unknown code"),
        ("user brd-customer-hl_1 may not", "unknown code"),
    ],
)
def test_a_code_is_a_refusal_however_it_is_spelt(header: str, spelt: str, shown: str) -> None:
    failure = read_refusal(200, ((header, spelt),), tunnel=False, body=b"<p>a page</p>")
    assert failure is not None
    assert (failure.kind, shown in failure.message) == (K.ACCESS_POLICY, True)
    assert "hl_1" not in failure.message


@pytest.mark.req("P4")
@pytest.mark.parametrize("status", [502, 504])
def test_what_the_provider_did_not_fetch_is_its_own_failure(status: int) -> None:
    failure = read_refusal(status, (("server", "nginx"),), tunnel=False, body=b"Bad Gateway")
    assert failure is not None
    assert failure.kind is K.PROXY


@pytest.mark.parametrize("status", [200, 301, 403, 404, 429, 500, 502, 503])
def test_a_sites_own_answer_is_the_sites(status: int) -> None:
    headers = (
        ("x-brd-ip", "203.0.113.1"),
        ("x-brd-timeline", "x"),
        ("proxy-status", "brd.superproxy.io; received-status=200"),
    )
    for read in (read_refusal, read_unlocker_refusal):
        assert read(status, headers, tunnel=False) is None


@pytest.mark.req("P4")
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, K.PROXY), (403, K.ACCESS_POLICY), (407, K.PROXY), (429, K.RATE_LIMITED), (502, K.PROXY), (504, K.PROXY)],
)
def test_a_tunnel_that_is_refused_without_a_code_is_the_proxys(status: int, kind: FailureKind) -> None:
    failure = read_refusal(status, (), tunnel=True)
    assert failure is not None
    assert failure.kind is kind


def test_a_wait_that_the_provider_asks_for_is_kept() -> None:
    failure = read_refusal(429, (("x-brd-err-code", "client_10110"), ("retry-after", "7")), tunnel=False)
    assert failure is not None
    assert failure.retry_after_seconds == 7
    large = read_refusal(429, (("x-brd-err-code", "client_10110"), ("retry-after", "9999999999")), tunnel=False)
    assert large is not None
    assert large.retry_after_seconds == 999_999_999, "it asks for a wait, which is capped where it is kept"
    odd = read_refusal(429, (("x-brd-err-code", "client_10110"), ("retry-after", "Wed, 21 Oct")), tunnel=True)
    assert odd is not None
    assert odd.retry_after_seconds is None


@pytest.mark.req("Z7")
def test_a_providers_own_text_which_may_name_the_account_is_not_passed_on() -> None:
    failure = read_refusal(407, (("x-brd-error", "user brd-customer-hl_1-zone-res denied"),), tunnel=True)
    assert failure is not None
    assert "brd-customer" not in failure.message


@pytest.mark.req("Z6")
@given(
    status=st.integers(100, 999),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["x-brd-err-code", "x-brd-error-code", "proxy-status", "x-brd-error", "retry-after", "x"]),
            st.text(max_size=80),
        ),
        max_size=5,
    ),
    tunnel=st.booleans(),
)
def test_whatever_an_answer_holds_is_read_without_a_stumble(
    status: int, headers: list[tuple[str, str]], tunnel: bool
) -> None:
    read_unlocker_refusal(status, tuple(headers), tunnel=tunnel)
