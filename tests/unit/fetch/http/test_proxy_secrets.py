"""Canary passwords are planted where a proxy's can stand, everything is made to fail, and all that is said is read."""

from __future__ import annotations

import asyncio
import base64
import logging
import traceback
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner

from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone, Refusal
from harness.fakes.proxies.faulty import Fault, FaultyProxy
from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput, SwathError
from swath.domain.execution_policy import Proxy
from swath.domain.proxy_products import ProxyLocation, ProxyType
from swath.domain.site_policy import SitePolicy
from swath.entrypoints.cli.main import root
from swath.fetch.http.messages import Request
from swath.fetch.proxies.providers.bright_data import BrightData
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.fetch.proxies.route import Route
from swath.fetch.proxies.selector import ProxySelector
from swath.settings import Settings, load
from tests.unit.fetch.http.proxied import HOST, Site, proxied

pytestmark = pytest.mark.req("Z7", "property 39")

CANARIES = {"zone": "Canary-Zone-7f3a", "custom": "Canary/Custom@9b1c"}
USER = "canary-user"
FORMS = [
    form
    for text in (*CANARIES.values(), "Canary/Custom%409b1c")
    for form in (text, quote(text, safe=""), base64.b64encode(text.encode()).decode()[4:-4])
]
FORMS += [base64.b64encode(f"{USER}:{CANARIES['custom']}".encode()).decode()[4:-4]]


def check(said: str, where: str) -> None:
    for form in FORMS:
        assert form not in said, f"{where} shows a password"


def environment(proxy_url: str, custom_port: int) -> dict[str, str]:
    return {
        "SWATH_PROXY_URL": proxy_url,
        "SWATH_PROXY_CUSTOMER": "hl_1",
        "SWATH_PROXY_DATACENTER_ZONE": "dc",
        "SWATH_PROXY_DATACENTER_PASSWORD": CANARIES["zone"],
        "SWATH_PROXY_CUSTOM_URLS": f"http://{USER}:{quote(CANARIES['custom'], safe='')}@127.0.0.1:{custom_port}",
    }


def shown(error: BaseException) -> str:
    """An exception with all that it came from."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def test_the_forms_that_are_looked_for_would_be_found() -> None:
    with pytest.raises(AssertionError):
        check(f"x {CANARIES['zone']} y", "")
    header = base64.b64encode(f"{USER}:{CANARIES['custom']}".encode()).decode()
    with pytest.raises(AssertionError):
        check(f"Basic {header}", "")
    assert all(len(form) > 8 for form in FORMS)


def test_settings_show_none_of_it_in_any_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    for name, value in environment("http://127.0.0.1:1", 2).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SWATH_PROXY_RESIDENTAL_PASWORD", CANARIES["zone"])  # misspelt, and so no setting
    reading = load()
    setup = reading.settings.proxies
    for thing in (reading, reading.settings, setup, BrightData(setup), parse_proxies(setup.custom_urls)):
        check(f"{thing!r} {thing}", type(thing).__name__)
    check(str(msgspec.to_builtins(reading.settings, enc_hook=str)), "the settings as JSON")
    for arguments in (["config", "show"], ["config", "show", "--json"], ["doctor"], ["doctor", "--json"]):
        check(CliRunner().invoke(root, arguments).output, " ".join(arguments))
    check(caplog.text, "the log")
    with pytest.raises(TypeError):
        msgspec.json.encode(setup)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SWATH_PROXY_URL", "http://me:{0}@brd.superproxy.io:1"),
        ("SWATH_PROXY_URL", "{0}"),
        ("SWATH_PROXY_CUSTOM_URLS", "ftp://u:{0}@h:1"),
        ("SWATH_PROXY_CUSTOM_URLS", "http://u:{0}@h:1"),
        ("SWATH_PROXY_CUSTOM_URLS", "http://u:{0}x@h:port"),
        ("SWATH_PROXY_DATACENTER_PASSWORD", "{0}\n"),
        ("SWATH_PROXY_DATACENTER_PRICE_PER_GB", "many"),
    ],
)
def test_a_setting_that_is_refused_is_not_shown(name: str, value: str, tmp_path: Path) -> None:
    planted = value.format(CANARIES["custom"])
    with pytest.raises(BadInput, match=name) as refused:
        load({name: planted, "HOME": str(tmp_path)})
    check(shown(refused.value), name)
    file = tmp_path / "swath.toml"
    field = name.removeprefix("SWATH_").lower()
    file.write_text(f"{field} = {msgspec.json.encode(planted).decode()}\n")
    with pytest.raises(BadInput, match=field) as refused:
        load({"SWATH_CONFIG": str(file)})
    check(shown(refused.value), str(file.name))
    file.write_text(f"{field} = [{msgspec.json.encode(planted).decode()}, 7]\n")
    with pytest.raises(BadInput, match=field) as refused:
        load({"SWATH_CONFIG": str(file)})
    check(shown(refused.value), str(file.name))


async def test_no_failure_of_any_kind_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with Site() as site:
        hosts = {f"{HOST}:80": site.port, f"{HOST}:443": site.port}
        provider = FakeBrightData("hl_1", {"dc": FakeZone("datacenter", CANARIES["zone"])}, hosts)
        proxy = FaultyProxy(hosts, f"{USER}:{CANARIES['custom']}")
        async with provider, proxy:
            settings = load(environment(provider.url, proxy.port)).settings
            async with proxied([f"127.0.0.1:{provider.port}", f"127.0.0.1:{proxy.port}"]) as transport:
                ways = ProxySelector(settings.proxies, SystemClock(), transport.knock)
                await _go_wrong(said, settings, ways, transport.send, (provider, proxy))
                said.append(repr(vars(ways)) + repr(vars(transport)) + repr(transport._gateway.__dict__))
    said += [Path("/proc/self/cmdline").read_text(), caplog.text]
    for text in said:
        check(text, text[:200])
    assert len(said) > 40


async def _go_wrong(
    said: list[str], settings: Settings, ways: ProxySelector, send: object, servers: tuple[FakeBrightData, FaultyProxy]
) -> None:
    provider, proxy = servers
    wishes = {"datacenter": Proxy(type=ProxyType.DATACENTER), "custom": Proxy(type=ProxyType.CUSTOM)}
    number = 0
    for code in ("", "client_10000", "policy_20051", "peer_30040"):
        provider.refuse = {HOST: Refusal(code)} if code else {}
        for fault in Fault:
            proxy.fault = fault
            for name, wish in wishes.items():
                number += 1
                try:
                    route = ways.choose("job", wish, f"site-{number}", SitePolicy())
                    said.append(repr(route) + str(route))
                    for scheme in ("http", "https"):
                        await _sent(said, send, scheme, route)
                except SwathError as error:
                    said.append(shown(error))
                ways.tried("job", name, None, None)
            if code:
                break
    said.append(repr(BrightData(settings.proxies).route(ProxyType.DATACENTER, ProxyLocation(country="us"))))


async def _sent(said: list[str], send: object, scheme: str, route: Route | None) -> None:
    request = Request(url=f"{scheme}://{HOST}/", route=route, connect_timeout_seconds=0.1, request_timeout_seconds=0.2)
    said.append(repr(request))
    try:
        response = await send(request)  # type: ignore[operator] # a bound method, handed on
        said.append(repr(response))
    except SwathError as error:
        said.append(shown(error))
    except asyncio.CancelledError as error:
        said.append(shown(error))
        raise
