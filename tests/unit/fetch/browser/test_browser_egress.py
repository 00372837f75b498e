"""Z4 through a real Chromium: whatever a page does, nothing of it reaches a private address; without the guard it does.

And what Chromium does by itself: nothing comes to a context's exit but what its page asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from patchright.async_api import Error, Page

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.chromium.environment import driver_environment
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions, launch
from swath.fetch.browser.chromium.process_tag import ProcessTag
from swath.fetch.egress.forward_proxy.browser_proxy import DISABLED_FEATURES, BrowserProxies, ContextForwardProxy
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.egress.resolver import DnsAnswer
from tests.unit.fetch.browser.egress_pages import CLICKS, SURE, Canary, Pages, UdpCanary
from tests.unit.fetch.browser.exit_scene import PLENTY, StraightWay, exits
from tests.unit.fetch.browser.launching import until, windows_may_load
from tests.unit.fetch.egress.spellings import NAMES, spellings
from tests.unit.fetch.http.sites import TableResolver

pytestmark = [pytest.mark.req("Z4"), pytest.mark.asyncio(loop_scope="module")]

PUBLIC = "1.1.1.1"


class NoGuard(EgressGuard):
    """The broken build: lets everything through. What would end on another machine ends on this one, as where a network
    leads there; so each address that is said to be closed can be seen to be open without the guard."""

    async def check_origin(self, origin: str) -> EgressTarget:
        authority = origin.partition("://")[2]
        allowed = authority if authority.rpartition(":")[2].isdigit() else f"{authority}:80"
        target = await EgressGuard(self._resolver, self._clock, allow_private=[allowed]).check_origin(origin)
        return EgressTarget(target.scheme, target.host, target.port, (ip_address("127.0.0.1"),))


class Net:
    """A browser, the port where it may say nothing, a site that pages may visit, and a canary that they may not."""

    def __init__(self, deny: BrowserProxies, launched: ChromiumProcess, pages: Pages, canary: Canary) -> None:
        self.deny, self.launched, self.pages, self.canary = deny, launched, pages, canary
        self.way = StraightWay()

    @asynccontextmanager
    async def page(
        self, guard: type[EgressGuard] = EgressGuard, **names: list[str]
    ) -> AsyncIterator[tuple[Page, ContextForwardProxy]]:
        """In a context of its own, with an exit of its own."""
        self.way, self.canary.hits = StraightWay(), []
        async with exits([f"127.0.0.1:{self.pages.port}"], {**NAMES, **names}, guard=guard) as made:
            exit_ = await made.open(self.launched.user)
            exit_.serve(self.way, PLENTY)
            async with asyncio.timeout(60):
                context = await self.launched.browser.new_context(proxy={"server": f"http://127.0.0.1:{exit_.port}"})
                try:
                    yield await context.new_page(), exit_
                finally:
                    await context.close()

    def asked(self) -> int:
        """How often the canary was asked for."""
        return sum(f":{self.canary.port}/" in url for url in self.way.asked)

    async def settled(self) -> int:
        """The same, when nothing has come for a while: what still does is not taken for what comes next."""
        before = -1
        while before < self.asked():
            before = self.asked()
            await asyncio.sleep(0.3)
        return before


async def _net(stack: AsyncExitStack, folder: Path) -> Net:
    canary = await stack.enter_async_context(Canary())
    pages = await stack.enter_async_context(Pages(canary.url))
    deny = await stack.enter_async_context(exits())
    with windows_may_load():  # by the guard alone they must not get far
        launched = await launch(LaunchOptions(chromium=find(), data=folder, deny_port=deny.deny_port))
    stack.push_async_callback(launched.close)
    return Net(deny, launched, pages, canary)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def net(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Net]:
    async with AsyncExitStack() as stack:
        yield await _net(stack, tmp_path_factory.mktemp("data"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loose(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Net]:
    """The same without our flags: what shows that the tests below can fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "swath.fetch.browser.chromium.launch.EGRESS_FLAGS",
            ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",),
        )
        async with AsyncExitStack() as stack:
            yield await _net(stack, tmp_path_factory.mktemp("data"))


async def every_way(net: Net, page: Page) -> None:
    """Whatever a page can do, and whatever leads there by the address bar."""
    with suppress(Error):  # what hangs or fails is not the point
        await page.goto(f"{net.pages.url}/egress", timeout=15_000)
        await page.wait_for_function("document.title == 'done'", timeout=2_000)
    for name in CLICKS:
        with suppress(Error):
            await page.click(f"#{name}", timeout=3_000, no_wait_after=True)
    canary, site = net.canary.url, net.pages.url
    for url in (
        f"{canary}/goto",
        f"{site}/redirect?status=301&to={canary}/goto-301",
        f"{site}/redirect?status=302&to={canary}/goto-302",
        f"{site}/refresh?to={canary}/goto-refresh",
        f"{site}/location?to={canary}/goto-location",
    ):
        before = await net.settled()
        with suppress(Error):
            await page.goto(url, timeout=5_000)
        await until(lambda before=before: net.asked() > before)  # type: ignore[misc] # bound in the loop


async def test_no_way_of_a_page_reaches_the_canary(net: Net) -> None:
    async with net.page() as (page, exit_):
        await every_way(net, page)
        await until(lambda: net.asked() >= len(SURE))  # all of them were tried, and came to the exit
        failure = exit_.trouble(net.canary.url)
        assert failure is not None
        assert failure.kind is FailureKind.EGRESS_DENIED
        assert exit_.received_bytes > 0
        assert net.canary.hits == []


async def test_without_the_guard_each_of_these_ways_reaches_it(net: Net) -> None:
    async with net.page(NoGuard) as (page, _):
        await every_way(net, page)
        with suppress(AssertionError):
            await until(lambda: set(net.canary.hits) >= SURE, 20)
        assert SURE - set(net.canary.hits) == set()


# Which of them a page could not even ask for: those are gone to by the address bar.
FETCH_ALL = """async urls => {
  const wrong = [];
  await Promise.allSettled(urls.map(async url => {
    const parsed = new URL(url, location.href);
    if (parsed.username || parsed.password || parsed.host === location.host) { wrong.push(url); return; }
    return fetch(url, {mode: "no-cors", cache: "no-store"}); }));
  return wrong; }"""


async def tried_spellings(net: Net, guard: type[EgressGuard]) -> tuple[int, int, int]:
    """How many spellings of a private address there are, how many came to the exit, and how many were let out; those
    that a name server may change included."""
    async with net.page(guard, **{"rebind.example": ["127.0.0.1"]}) as (page, exit_):
        await page.goto(f"{net.pages.url}/plain")
        urls = [*spellings(net.canary.port), f"http://rebind.example:{net.canary.port}/"]
        before = exit_.requests
        for url in await page.evaluate(FETCH_ALL, urls):
            with suppress(Error):
                await page.goto(url, timeout=5_000)
        return len(urls), exit_.requests - before, len(net.canary.hits)


async def test_no_spelling_of_a_private_address_is_reached(net: Net) -> None:
    there_are, asked, let_out = await tried_spellings(net, EgressGuard)
    assert let_out == 0
    assert asked >= there_are, "or some of them were not tried"


async def test_without_the_guard_each_spelling_is_reached(net: Net) -> None:
    there_are, _, let_out = await tried_spellings(net, NoGuard)
    assert let_out >= there_are


async def test_a_name_that_changes_its_mind_gains_nothing(net: Net) -> None:
    """Rebinding: public while it is checked, this machine when it is looked up again; only what was checked counts."""

    class Changing(TableResolver):
        async def look_up(self, host: str) -> DnsAnswer:
            found = await super().look_up(host)
            self.names["rebind.example"] = ["127.0.0.1"]
            return found

    checked: list[EgressTarget] = []

    class Dialled(EgressGuard):
        async def check(self, url: str) -> EgressTarget:
            target = await super().check(url)
            if target.host == "rebind.example":  # a test does not leave this machine
                checked.append(target)
                raise Failed(Failure.of(FailureKind.CONNECT, "not to be dialled in a test"))
            return target

    net.way, net.canary.hits = StraightWay(), []
    async with net.page(Dialled, **{"rebind.example": [PUBLIC]}) as (page, exit_):
        exits_guard = exit_._dialler._guard
        exits_guard._resolver = Changing(exits_guard._resolver.names)  # type: ignore[attr-defined] # a table, above
        url = f"http://rebind.example:{net.canary.port}/"
        kinds = []
        for _ in range(3):
            with suppress(Error):
                await page.goto(url, timeout=5_000)
            failure = exit_.trouble(url)
            kinds.append(None if failure is None else failure.kind)
        assert kinds[0] is FailureKind.CONNECT
        assert set(kinds[1:]) == {FailureKind.EGRESS_DENIED}
        assert [str(address) for target in checked for address in target.addresses] == [PUBLIC]
        assert net.canary.hits == []


# -- what goes by no proxy ---------------------------------------------------------------------------------------------

STUN = """async port => {
  const ice = [{urls: "stun:127.0.0.1:" + port}, {urls: "stun:localhost:" + port}];
  const peer = new RTCPeerConnection({iceServers: ice});
  peer.createDataChannel("x");
  const seen = [];
  const over = new Promise(done => {
    peer.onicecandidate = e => e.candidate ? seen.push(e.candidate.candidate) : done() });
  await peer.setLocalDescription(await peer.createOffer());
  await Promise.race([over, new Promise(done => setTimeout(done, 3000))]);
  peer.close();
  return seen; }"""


async def stun(net: Net) -> tuple[int, list[str]]:
    async with UdpCanary.open() as canary, net.page() as (page, _):
        await page.goto(f"{net.pages.url}/plain")
        candidates = await page.evaluate(STUN, canary.port)
        return canary.datagrams, candidates


async def test_no_udp_leaves(net: Net) -> None:
    assert await stun(net) == (0, [])


async def test_without_our_flags_udp_leaves(loose: Net) -> None:
    datagrams, candidates = await stun(loose)
    assert datagrams > 0
    assert candidates


TURN = """async port => {
  const turn = {urls: `turn:127.0.0.1:${port}?transport=tcp`, username: "a", credential: "b"};
  const peer = window.kept = new RTCPeerConnection({iceServers: [turn], iceTransportPolicy: "relay"});
  peer.createDataChannel("x");
  await peer.setLocalDescription(await peer.createOffer()); }"""


async def turned(net: Net, guard: type[EgressGuard]) -> int:
    """How often a relay was reached that a page has named for calls; it was asked for."""
    async with Canary() as relay, net.page(guard) as (page, _):
        await page.goto(f"{net.pages.url}/plain")
        await page.evaluate(TURN, relay.port)
        await until(lambda: any(url.endswith(f":{relay.port}/") for url in net.way.asked))
        if guard is NoGuard:
            await until(lambda: bool(relay.hits))
        await page.evaluate("kept.close()")
        return len(relay.hits)


async def test_no_relay_for_calls_is_reached(net: Net) -> None:
    assert await turned(net, EgressGuard) == 0


async def test_without_the_guard_one_is_reached(net: Net) -> None:
    assert await turned(net, NoGuard) > 0


async def quiet(net: Net) -> tuple[set[str], int]:
    """Which hosts a context's exit was asked for while a page with a form was loaded, left and loaded again."""
    async with net.page() as (page, _):
        for path in ("/plain", "/plain?1"):
            await page.goto(f"{net.pages.url}{path}")
        await page.fill("[name=user]", "somebody")
        await page.click("a")
        await page.wait_for_url("**/plain?2")
        with suppress(AssertionError):
            await until(lambda: any(":443" in url or "https" in url for url in net.way.asked), 1.0)
        return {url.partition("://")[2] for url in net.way.asked}, net.deny.denied


async def test_chromium_says_nothing_by_itself(net: Net) -> None:
    assert await quiet(net) == ({f"127.0.0.1:{net.pages.port}/"}, 0)


async def test_without_our_flags_it_does(loose: Net) -> None:
    hosts, denied = await quiet(loose)
    assert any("google" in host for host in hosts)  # which of its services differs between versions
    assert denied > 0


async def test_our_list_of_features_has_all_of_the_drivers(net: Net) -> None:
    """Chromium takes the last list only, so a driver that adds to its own would lose what it added."""
    assert net.launched.pid is not None
    lists = [
        set(word.partition("=")[2].split(","))
        for word in psutil.Process(net.launched.pid).cmdline()
        if word.startswith("--disable-features=")
    ]
    assert lists[-1] == set(DISABLED_FEATURES)
    assert all(theirs <= lists[-1] for theirs in lists)
    bypasses = [word for word in psutil.Process(net.launched.pid).cmdline() if word.startswith("--proxy-bypass-list")]
    assert bypasses == ["--proxy-bypass-list=<-loopback>"]


async def test_the_driver_is_not_told_to_leave_loopback_unproxied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLAYWRIGHT_DISABLE_FORCED_CHROMIUM_PROXIED_LOOPBACK", "1")
    assert "PLAYWRIGHT" not in json.dumps(driver_environment(ProcessTag.new("x"), tmp_path))
