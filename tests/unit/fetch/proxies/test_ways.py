"""Which way out an attempt takes: the job's wish before the site's, steps as needed, and only what is well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swath.domain.errors import BadInput, Failed, SiteUnavailable
from swath.domain.execution_policy import Proxy
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.domain.site_policy import SitePolicy
from swath.fetch.proxies.config import Price, ProxyConfig, Zone
from swath.fetch.proxies.route import Route
from swath.fetch.proxies.selector import ProxySelector, check_proxy_request
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState

K = FailureKind
SITE = SitePolicy()
CLIMBING = SitePolicy(proxy_ladder=(ProxyType.NONE, ProxyType.DATACENTER, ProxyType.RESIDENTIAL))
FULL = ProxyConfig(
    customer="hl_1",
    zones={tier: Zone(tier.value, Secret("pw")) for tier in (ProxyType.DATACENTER, ProxyType.RESIDENTIAL)},
    custom_urls=(Secret("http://u:p@one.example:1"), Secret("http://u:p@two.example:1")),
)


class Door:
    """Answers knocks as it is told, and remembers them."""

    def __init__(self) -> None:
        self.opens = True
        self.knocks: list[tuple[str, str, int]] = []

    async def __call__(self, scheme: str, host: str, port: int) -> bool:
        self.knocks.append((scheme, host, port))
        return self.opens


def ways(
    setup: ProxyConfig = FULL, clock: FakeClock | None = None, book: MemorySiteState | None = None
) -> ProxySelector:
    return ProxySelector(setup, clock or FakeClock(), Door(), book)


def tier_of(route: Route | None) -> str:
    return "none" if route is None else route.tier.value


def proxy(**policy: Any) -> Proxy:
    return Proxy.model_validate(policy)


@pytest.mark.req("P3")
@pytest.mark.parametrize(
    ("wish", "site", "tier"),
    [
        (proxy(), SITE, "none"),
        (proxy(type="datacenter"), SITE, "datacenter"),
        (proxy(type="datacenter"), CLIMBING, "datacenter"),
        (proxy(), CLIMBING, "none"),
        (proxy(), SitePolicy(proxy_ladder=(ProxyType.DATACENTER,)), "datacenter"),
        (proxy(ladder=["none"]), SitePolicy(proxy_ladder=(ProxyType.DATACENTER,)), "none"),
        (proxy(ladder=["residential"]), CLIMBING, "residential"),
        # a site's wish for what is not set up here is left out
        (proxy(), SitePolicy(proxy_ladder=(ProxyType.WEB_UNLOCKER,)), "none"),
        (proxy(), SitePolicy(proxy_ladder=(ProxyType.WEB_UNLOCKER, ProxyType.CUSTOM)), "custom"),
    ],
)
def test_the_jobs_own_wish_wins_over_the_sites(wish: Proxy, site: SitePolicy, tier: str) -> None:
    assert tier_of(ways().choose("job", wish, "site", site)) == tier


@pytest.mark.req("P3")
def test_an_item_that_was_blocked_takes_the_next_step_and_others_do_not() -> None:
    one = ways()
    assert tier_of(one.choose("job", proxy(), "site", CLIMBING, {ProxyType.NONE})) == "datacenter"
    assert tier_of(one.choose("job", proxy(), "site", CLIMBING)) == "none"
    both = {ProxyType.NONE, ProxyType.DATACENTER, ProxyType.RESIDENTIAL}
    assert tier_of(one.choose("job", proxy(), "site", CLIMBING, both)) == "residential"


@pytest.mark.req("P3")
def test_a_job_that_is_blocked_three_times_begins_higher_at_that_site_alone() -> None:
    one = ways()
    for _ in range(3):
        route = one.choose("job", proxy(), "site", CLIMBING)
        one.tried("job", "site", route, K.BLOCKED)
    assert tier_of(one.choose("job", proxy(), "site", CLIMBING)) == "datacenter"
    assert tier_of(one.choose("job", proxy(), "other", CLIMBING)) == "none"
    assert tier_of(one.choose("job-2", proxy(), "site", CLIMBING)) == "none"


@pytest.mark.req("P3", "P4")
def test_what_the_provider_refuses_does_not_climb() -> None:
    one = ways()
    policy = SitePolicy(proxy_ladder=(ProxyType.DATACENTER, ProxyType.RESIDENTIAL))
    for _ in range(10):
        one.tried("job", "site", one.choose("job", proxy(), "site", policy), K.ACCESS_POLICY)
    assert tier_of(one.choose("job", proxy(), "site", policy)) == "datacenter"


@pytest.mark.req("P3")
async def test_a_site_s_step_is_remembered_across_jobs_and_processes_where_the_site_wants_it() -> None:
    book = MemorySiteState(FakeClock())
    one = ways(book=book)
    keen = CLIMBING.model_copy(update={"remember_tier": True})
    for name, policy in (("keen", keen), ("shy", CLIMBING)):
        for _ in range(3):
            one.tried("job", name, one.choose("job", proxy(), name, policy), K.BLOCKED)
    await one.run_once()
    assert {name: state.tier for name, state in (await book.states()).items() if state.tier} == {"keen": "datacenter"}
    another = ways(book=book)
    await another.run_once()
    assert tier_of(another.choose("job-2", proxy(), "keen", keen)) == "datacenter"
    assert tier_of(another.choose("job-2", proxy(), "shy", CLIMBING)) == "none"


MIXED = ProxyConfig(
    custom_urls=(
        Secret("http://u-{country}:p@placed.example:1"),
        Secret("http://u:p@plain.example:1"),
        Secret("http://u-{country}-{state}:p@finer.example:1"),
    ),
    cooldown_seconds=0,
)
BY_SITE = SitePolicy(proxy_ladder=(ProxyType.CUSTOM,))


@pytest.mark.req("P2", "P4")
@pytest.mark.parametrize("by", ["job", "ladder", "site"])
@pytest.mark.parametrize(
    ("place", "name"),
    [
        ({}, "plain.example:1"),
        ({"country": "us"}, "placed.example:1"),
        ({"country": "us", "state": "az"}, "finer.example:1"),
    ],
)
def test_only_listed_proxies_that_fit_the_place_take_part(by: str, place: dict[str, str], name: str) -> None:
    one = ways(MIXED)
    wish, site = _wish(by, place)
    for _ in range(4):
        route = one.choose("job", wish, "site", site)
        assert route is not None
        assert route.name == name


@pytest.mark.req("P2", "P4")
@pytest.mark.parametrize("by", ["job", "ladder", "site"])
def test_a_place_that_no_listed_proxy_fits_is_refused_with_the_reason(by: str) -> None:
    wish, site = _wish(by, {"country": "us", "city": "mesa"})
    with pytest.raises(Failed) as raised:
        ways(MIXED).choose("job", wish, "site", site)
    assert raised.value.failure.kind is K.ACCESS_POLICY
    assert "its address has no {city}" in raised.value.failure.message


def test_a_proxy_that_fits_and_is_unwell_is_a_proxy_that_failed() -> None:
    one = ways(MIXED)
    wish, site = _wish("job", {"country": "us"})
    one.tried("job", "site", one.choose("job", wish, "site", site), K.PROXY)
    with pytest.raises(Failed) as raised:
        one.choose("job", wish, "site", site)
    assert raised.value.failure.kind is K.PROXY
    assert "all 1 failed" in raised.value.failure.message


def _wish(by: str, place: dict[str, str]) -> tuple[Proxy, SitePolicy]:
    if by == "site":
        # a job's own place, left over for what the site chooses
        asked = proxy(type="custom", **place).model_copy(update={"type": ProxyType.NONE})
        return asked, BY_SITE
    return proxy(**({"type": "custom"} if by == "job" else {"ladder": ["custom"]}), **place), SITE


# -- who is well -------------------------------------------------------------------------------------------------------


@pytest.mark.req("P2", "property 18", "property 20")
def test_listed_proxies_take_turns_and_a_site_waits_while_all_cool_down() -> None:
    clock = FakeClock()
    one = ways(clock=clock)
    custom = proxy(type="custom")
    taken = [one.choose("job", custom, "site", SITE) for _ in range(2)]
    assert [route.name for route in taken if route] == ["one.example:1", "two.example:1"]
    with pytest.raises(SiteUnavailable) as held:
        one.choose("job", custom, "site", SITE)
    assert held.value.wait_seconds == 30
    assert one.choose("job", custom, "other", SITE) is not None
    clock.advance(30)
    assert one.choose("job", custom, "site", SITE) is not None


@pytest.mark.req("P2")
def test_a_look_before_the_job_uses_up_no_turn_and_waits_for_none() -> None:
    one, custom = ways(clock=FakeClock()), proxy(type="custom")
    assert tier_of(one.look(custom, "site", SITE)) == "custom"
    assert tier_of(one.look(proxy(), "site", SITE)) == "none"
    taken = [one.choose("job", custom, "site", SITE) for _ in range(2)]
    assert [route.name for route in taken if route] == ["one.example:1", "two.example:1"]
    assert tier_of(one.look(custom, "site", SITE)) == "custom"


@pytest.mark.req("P2", "property 19", "property 21")
async def test_a_dead_proxy_is_left_out_until_it_answers_and_without_any_the_failure_says_so() -> None:
    clock, door = FakeClock(), Door()
    one = ProxySelector(FULL, clock, door)
    custom = proxy(type="custom")
    for site in ("a", "b"):
        route = one.choose("job", custom, site, SITE)
        one.tried("job", site, route, K.PROXY)
    with pytest.raises(Failed, match="no healthy proxy of type custom: all 2 failed") as failed:
        one.choose("job", custom, "c", SITE)
    assert failed.value.failure.kind is K.PROXY
    assert failed.value.failure.retry_after_seconds == 60
    door.opens = False
    clock.advance(60)
    await one.run_once()
    with pytest.raises(Failed):
        one.choose("job", custom, "c", SITE)
    door.opens = True
    clock.advance(60)
    await one.run_once()
    assert door.knocks == [("http", "one.example", 1), ("http", "two.example", 1)] * 2
    assert one.choose("job", custom, "c", SITE) is not None
    health = one.health()[ProxyType.CUSTOM]
    assert [(one.successes, one.failures) for one in health.values()] == [(0, 1), (0, 1)]


@pytest.mark.req("P2")
def test_a_providers_endpoint_has_no_cool_down_and_survives_a_bad_exit() -> None:
    one = ways()
    wish = proxy(type="residential")
    for _ in range(4):
        one.tried("job", "site", one.choose("job", wish, "site", SITE), K.PROXY)
    one.tried("job", "site", one.choose("job", wish, "site", SITE), None)
    for _ in range(5):
        one.tried("job", "site", one.choose("job", wish, "site", SITE), K.PROXY)
    with pytest.raises(Failed, match="no healthy proxy of type residential"):
        one.choose("job", wish, "site", SITE)


@pytest.mark.req("P2")
@pytest.mark.parametrize("kind", [None, K.BLOCKED, K.SERVER_ERROR, K.INVALID_OUTPUT, K.TIMEOUT, K.ACCESS_POLICY])
def test_what_is_not_the_proxys_fault_leaves_it_well(kind: FailureKind | None) -> None:
    one = ways()
    route = one.choose("job", proxy(type="custom"), "site", SITE)
    one.tried("job", "site", route, kind)
    health = one.health()[ProxyType.CUSTOM]["one.example:1"]
    assert (health.well, health.failures, health.successes) == (True, 0, 0 if kind is K.TIMEOUT else 1)


# -- before a job, and its price ---------------------------------------------------------------------------------------


@pytest.mark.req("P1", "Z5")
@pytest.mark.parametrize(
    ("setup", "wish", "said"),
    [
        (
            ProxyConfig(),
            {"type": "residential"},
            "set SWATH_PROXY_CUSTOMER and SWATH_PROXY_RESIDENTIAL_ZONE and SWATH_PROXY_RESIDENTIAL_PASSWORD",
        ),
        (FULL, {"type": "web_unlocker"}, "SWATH_PROXY_WEB_UNLOCKER_ZONE"),
        (FULL, {"ladder": ["none", "datacenter", "web_unlocker"]}, "web_unlocker is not set up"),
        (ProxyConfig(), {"type": "custom"}, "set SWATH_PROXY_CUSTOM_URLS"),
        (FULL, {"type": "custom", "country": "us"}, "its address has no {country}, so it takes no country"),
        (
            ProxyConfig(custom_urls=(Secret("http://u-{country}:p@h.example:1"),)),
            {"type": "custom"},
            "so the policy must say a country",
        ),
        (
            ProxyConfig(customer="x", zones=FULL.zones, ca_file=Path("nowhere.crt")),
            {"type": "residential"},
            "SWATH_PROXY_CA_FILE: there is no file nowhere.crt",
        ),
    ],
)
def test_a_job_that_asks_for_what_is_not_set_up_is_refused_with_the_variable_to_set(
    setup: ProxyConfig, wish: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        check_proxy_request(setup, proxy(**wish))
    assert said in str(refused.value)


@pytest.mark.req("P1")
def test_a_job_that_asks_for_what_is_there_or_for_nothing_is_let_in() -> None:
    for wish in ({}, {"type": "datacenter"}, {"ladder": ["none", "datacenter", "residential"]}, {"type": "custom"}):
        check_proxy_request(FULL, proxy(**wish))


def test_a_worker_where_the_way_is_not_set_up_says_so() -> None:
    with pytest.raises(Failed, match="not set up where this worker runs: set SWATH_PROXY_CUSTOM_URLS") as failed:
        ways(ProxyConfig()).choose("job", proxy(type="custom"), "site", SITE)
    assert failed.value.failure.kind is K.ACCESS_POLICY


@pytest.mark.req("P3")
def test_cost_is_by_gigabyte_and_by_thousand_requests_and_nothing_where_no_price_is_given() -> None:
    one = ways(ProxyConfig(prices={ProxyType.RESIDENTIAL: Price(8.0), ProxyType.WEB_UNLOCKER: Price(None, 1.5)}))
    assert one.price(ProxyType.RESIDENTIAL, 500_000_000, 10) == 4.0
    assert one.price(ProxyType.WEB_UNLOCKER, 500_000_000, 2_000) == 3.0
    assert one.price(ProxyType.DATACENTER, 500_000_000, 2_000) == 0.0


def test_what_is_kept_in_mind_of_jobs_is_bounded() -> None:
    one = ways()
    for number in range(5_000):
        one.choose(f"job-{number}", proxy(), "site", CLIMBING)
    assert len(one._climbs) <= 4_096
