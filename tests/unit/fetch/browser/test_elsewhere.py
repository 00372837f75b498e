"""A browser elsewhere is sent to no private address, and to none where a proxy of ours is asked for (B4, Z4)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

import pytest

from swath.backends.clock import SystemClock
from swath.bootstrap.browsers import LazyBrowsers
from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.process_tag import ProcessTag, browser_folder, family_of
from swath.fetch.browser.remote_gate import RemoteBrowserGate
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import DnsAnswer
from swath.fetch.http.messages import Request
from swath.fetch.proxies.route import Route
from swath.settings import Settings
from tests.unit.fetch.browser.launching import until
from tests.unit.fetch.browser.visiting import RecordingGate

pytestmark = pytest.mark.req("B4", "Z4")


class _Proxied(RecordingGate):
    """That of a job that asks for a proxy."""

    def route(self, url: str) -> Route | None:
        return Route(
            tier=ProxyType.DATACENTER, name="p", scheme="http", host="p", port=1, read_refusal=lambda *_, **__: None
        )


class _Names:
    """Implements Resolver."""

    async def look_up(self, host: str) -> DnsAnswer:
        raise NotImplementedError(host)


def _elsewhere(gate: RecordingGate, *allowed: str) -> RemoteBrowserGate:
    return RemoteBrowserGate(gate, EgressGuard(_Names(), SystemClock(), allow_private=allowed))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://169.254.169.254/latest", "http://localhost/", "http://[::1]/"]
)
async def test_a_private_address_is_refused_whatever_the_site_says_of_robots(url: str) -> None:
    gate = RecordingGate()
    with pytest.raises(Failed) as raised:
        await _elsewhere(gate).enter(Request(url=url))
    assert raised.value.failure.kind is FailureKind.EGRESS_DENIED
    assert gate.events == []


async def test_what_is_allowed_passes_the_gate_of_the_attempt() -> None:
    gate = RecordingGate()
    elsewhere = _elsewhere(gate, "127.0.0.1:8010")
    elsewhere.leave(await elsewhere.enter(Request(url="http://127.0.0.1:8010/app")), None, None)
    assert gate.events == ["enter /app", "leave /app None"]


@pytest.mark.req("P1")
async def test_where_a_proxy_is_asked_for_nobody_is_told_that_it_was_taken() -> None:
    gate = _Proxied()
    with pytest.raises(Failed, match=r"cannot go to .* by the proxy datacenter") as raised:
        await _elsewhere(gate).enter(Request(url="http://93.184.215.14/"))
    assert raised.value.failure.kind is FailureKind.ACCESS_POLICY
    assert gate.events == []


@pytest.mark.req("B1", "W3")
async def test_what_a_killed_worker_has_left_of_its_driver_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data, clock = tmp_path / "data", SystemClock()
    left = browser_folder(ProcessTag(family_of(data), 2**22 + 1, 1, "abcdef"))  # of no process: numbers end before
    left.mkdir()
    settings = Settings(data=data, browser_provider="cdp", browser_cdp_url=Secret("http://127.0.0.1:1"))
    desk = LazyBrowsers(settings, clock, EgressGuard(_Names(), clock), cast("Any", None))(lambda: None)
    try:
        await until(lambda: not left.exists())
    finally:
        await desk.close()
