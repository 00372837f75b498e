"""Requests through proxies, over the wire: what comes through, what it costs, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.fakes.listener import Listener
from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone, Refusal, Style
from harness.fakes.proxies.certificates import Authority
from harness.fakes.proxies.faulty import Fault, FaultyProxy
from harness.fakes.proxies.http_messages import read_request
from swath.domain.errors import Failed
from swath.domain.failure import RULES, Culprit, FailureKind
from swath.domain.proxy_products import ProxyLocation, ProxyType
from swath.domain.secret import Secret
from swath.fetch.egress.guard import EgressTarget
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.tls_errors import ProxyTunnel, refusal_reason_behind
from swath.fetch.http.client.transport import ProxiedTransport, RoutedTransport
from swath.fetch.http.messages import Request, Response
from swath.fetch.proxies.config import ProxyConfig, Zone
from swath.fetch.proxies.providers.bright_data import BrightData
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.fetch.proxies.route import Route
from tests.unit.fetch.http.proxied import HOST, PAGE, Names, Site, failure_of, proxied

pytestmark = pytest.mark.req("H1", "P2")

K = FailureKind
DATACENTER, RESIDENTIAL, UNLOCKER = ProxyType.DATACENTER, ProxyType.RESIDENTIAL, ProxyType.WEB_UNLOCKER
PASSWORDS = {DATACENTER: "canary-dc", RESIDENTIAL: "canary-res", UNLOCKER: "canary-unl"}


@pytest.fixture(scope="module")
def site_authority() -> Authority:
    return Authority("Site CA")


class World:
    """A plain and a TLS site, a provider and a plain proxy before them, and the transport."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.plain, self.secure = Site(), Site(authority)
        self.hosts: dict[str, int] = {}
        zones = {tier.value: FakeZone(tier.value, PASSWORDS[tier]) for tier in PASSWORDS}
        self.provider = FakeBrightData("hl_1", zones, self.hosts)
        self.proxy = FaultyProxy(self.hosts, "me:canary-login")
        self._folder, self._authority = folder, authority

    async def open(self, stack: AsyncExitStack) -> None:
        for one in (self.plain, self.secure, self.provider, self.proxy):
            await stack.enter_async_context(one)
        self.hosts |= {f"{HOST}:80": self.plain.port, f"{HOST}:443": self.secure.port, "x.gov:80": self.plain.port}
        self.transport = await stack.enter_async_context(
            proxied(
                [f"127.0.0.1:{self.provider.port}", f"127.0.0.1:{self.proxy.port}"],
                self._authority.write(self._folder / "site.pem"),
                limits=ResponseLimits(body_bytes=200_000),
            )
        )
        setup = ProxyConfig(
            url=self.provider.url,
            customer="hl_1",
            zones={tier: Zone(tier.value, Secret(password)) for tier, password in PASSWORDS.items()},
            ca_file=self.provider.authority.write(self._folder / "provider.pem"),
        )
        self.bright_data = BrightData(setup)

    def through_provider(
        self,
        tier: ProxyType,
        url: str = f"http://{HOST}/",
        place: ProxyLocation = ProxyLocation(),  # noqa: B008 it is frozen
    ) -> Request:
        if tier is not DATACENTER:  # it opens TLS itself, and fetches from a site that it reaches in the clear
            self.hosts[f"{HOST}:443"] = self.plain.port
        return Request(url=url, route=self.bright_data.route(tier, place), connect_timeout_seconds=2)

    def route(self, login: str = "me:canary-login") -> Route:
        (one,) = parse_proxies([Secret(f"http://{login}@127.0.0.1:{self.proxy.port}")])
        return one.route(ProxyLocation())

    def through_proxy(self, url: str, route: Route | None = None, *, waits: bool = False) -> Request:
        """`waits`: nothing will come, so that it is not waited for longer than it takes to get there."""
        route, seconds = route or self.route(), 0.3 if waits else 10.0
        return Request(url=url, route=route, connect_timeout_seconds=seconds, request_timeout_seconds=2 * seconds)


@pytest.fixture
async def world(tmp_path: Path, site_authority: Authority) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        made = World(tmp_path, site_authority)
        await made.open(stack)
        yield made


# -- what comes through ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_page_comes_through_a_plain_proxy_and_its_bytes_are_counted_both_ways(
    world: World, scheme: str
) -> None:
    request = world.through_proxy(f"{scheme}://{HOST}/page?a=1#x")
    response = await world.transport.send(request)
    assert (response.status, response.body) == (200, PAGE)
    route = request.route
    assert route is not None
    assert route.meter.received_bytes > len(PAGE)
    assert route.meter.sent_bytes > 50
    assert (response.wire_bytes, route.meter.requests) == (route.meter.bytes, 1)
    assert world.transport._gateway.trip(route).connect_seconds == request.connect_timeout_seconds
    seen = {"http": f"GET http://{HOST}/page?a=1", "https": f"CONNECT {HOST}:443"}
    assert world.proxy.requests == [seen[scheme]]


async def test_a_post_and_its_body_come_through(world: World) -> None:
    for scheme, site in (("http", world.plain), ("https", world.secure)):
        request = Request(url=f"{scheme}://{HOST}/p", method="POST", body=b"x" * 100_000, route=world.route())
        assert (await world.transport.send(request)).status == 200
        assert site.bodies == [b"x" * 100_000]


async def test_requests_of_one_route_share_a_connection_and_those_of_another_do_not(world: World) -> None:
    first, second = world.through_provider(DATACENTER), world.through_provider(DATACENTER)
    for request in (first, first, second):
        for scheme in ("http", "https"):
            sent = Request(url=f"{scheme}://{HOST}/", route=request.route)
            assert (await world.transport.send(sent)).status == 200
    tunnels = [seen for seen in world.provider.seen if seen.tunnel]
    assert len(tunnels) == 2
    assert len({seen.flags["session"] for seen in tunnels}) == 2


async def test_bytes_of_each_answer_add_up_to_those_of_the_route(world: World) -> None:
    route = world.route()
    answers = [await world.transport.send(world.through_proxy(f"https://{HOST}/{n}", route)) for n in range(3)]
    assert sum(answer.wire_bytes for answer in answers) == route.meter.bytes
    assert answers[0].wire_bytes > answers[1].wire_bytes > len(PAGE)  # the first paid for the handshake


@pytest.mark.req("P1")
@pytest.mark.parametrize("tier", [RESIDENTIAL, UNLOCKER])
async def test_a_provider_that_opens_tls_is_trusted_by_its_own_certificate_for_its_routes_only(
    world: World, tier: ProxyType
) -> None:
    response = await world.transport.send(world.through_provider(tier, f"https://{HOST}/"))
    assert (response.status, response.body) == (200, PAGE)
    assert response.header("x-brd-ip") is not None
    assert [seen.tunnel for seen in world.provider.seen] == [True, False]
    # The same certificate, shown by somebody else's proxy, is worth nothing.
    liar = Site(world.provider.authority)
    async with liar:
        world.hosts[f"{HOST}:443"] = liar.port
        assert (await failure_of(world.transport, world.through_proxy(f"https://{HOST}/"))).kind is K.TLS
        assert liar.requests == []


@pytest.mark.req("H2")
async def test_a_certificate_that_is_refused_behind_a_proxy_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def counted(tunnel: ProxyTunnel, target: EgressTarget, ca_file: Path | None) -> str | None:
        asked.append(target.host)
        return await refusal_reason_behind(tunnel, target, ca_file)

    monkeypatch.setattr("swath.fetch.http.client.transport.refusal_reason_behind", counted)
    async with Site(Authority("Somebody")) as stranger:
        world.hosts |= {f"{HOST}:443": stranger.port, "other.example:443": world.secure.port}
        for host, reason in (
            (HOST, "unable to get local issuer certificate"),
            ("other.example", "Hostname mismatch, certificate is not valid for 'other.example'"),
        ):
            for _ in range(2):
                failed = await failure_of(world.transport, world.through_proxy(f"https://{host}/"))
                assert failed.kind is K.TLS
                assert failed.message == f"the certificate is not trusted at https://{host}/: {reason}"
        assert stranger.requests == world.secure.requests == []
    assert asked == [HOST, "other.example"], "each is asked why only once"


async def test_without_its_certificate_the_failure_says_what_to_set(world: World, tmp_path: Path) -> None:
    setup = ProxyConfig(
        url=world.provider.url, customer="hl_1", zones={RESIDENTIAL: Zone("residential", Secret("canary-res"))}
    )
    route = BrightData(setup).route(RESIDENTIAL, ProxyLocation())
    failure = await failure_of(world.transport, Request(url=f"https://{HOST}/", route=route))
    assert failure.kind is K.ACCESS_POLICY
    assert "SWATH_PROXY_CA_FILE" in failure.message


@pytest.mark.req("P1")
async def test_what_the_policy_asks_for_reaches_the_provider_and_a_session_keeps_its_exit(world: World) -> None:
    place = ProxyLocation(country="us", state="AZ", session="mine")
    for _ in range(2):
        await world.transport.send(world.through_provider(RESIDENTIAL, place=place))
    await world.transport.send(world.through_provider(RESIDENTIAL))
    first, second, other = world.provider.seen
    assert first.flags == {"country": "us", "state": "az", "session": "mine"}
    assert first.exit_ip == second.exit_ip != other.exit_ip


# -- the provider says no ----------------------------------------------------------------------------------------------

REFUSALS = [
    ("policy_20051", K.ACCESS_POLICY),
    ("policy_20130", K.ACCESS_POLICY),
    ("client_10100", K.ACCESS_POLICY),
    ("client_10110", K.RATE_LIMITED),
    ("policy_20223", K.RATE_LIMITED),
    ("peer_30040", K.PROXY),
    ("target_40001", K.DNS_UNKNOWN),
    ("kyc_required", K.ACCESS_POLICY),
]


@pytest.mark.req("P4")
@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("code", "kind"), REFUSALS)
async def test_a_refusal_is_read_by_its_code_in_the_clear_and_from_a_failed_connect(
    world: World, code: str, kind: FailureKind, scheme: str, style: Style
) -> None:
    world.provider.refuse[HOST] = Refusal(code, style)
    failure = await failure_of(world.transport, world.through_provider(DATACENTER, f"{scheme}://{HOST}/"))
    assert failure.kind is kind
    assert code in failure.message
    assert world.provider.refused[code] == 1


@pytest.mark.req("P4")
@pytest.mark.parametrize("style", Style)
async def test_a_refusal_inside_a_tunnel_that_the_provider_opens_is_read_too(world: World, style: Style) -> None:
    request = world.through_provider(UNLOCKER, f"https://{HOST}/")
    assert (await world.transport.send(request)).status == 200
    world.provider.refuse[HOST] = Refusal("policy_20050", style)
    failure = await failure_of(world.transport, request)
    assert failure.kind is K.ACCESS_POLICY


@pytest.mark.req("P4")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_government_sites_and_wrong_passwords_are_told_with_what_to_do(world: World, scheme: str) -> None:
    failure = await failure_of(world.transport, world.through_provider(RESIDENTIAL, f"{scheme}://x.gov/"))
    assert (failure.kind, "KYC" in failure.message) == (K.ACCESS_POLICY, True)
    wrong = ProxyConfig(url=world.provider.url, customer="hl_1", zones={DATACENTER: Zone("datacenter", Secret("old"))})
    route = BrightData(wrong).route(DATACENTER, ProxyLocation())
    failure = await failure_of(world.transport, Request(url=f"{scheme}://{HOST}/", route=route))
    assert failure.kind is K.ACCESS_POLICY
    assert "client_10000" in failure.message
    assert "SWATH_PROXY_CUSTOMER" in failure.message
    assert world.plain.requests == world.secure.requests == []


@pytest.mark.req("P4")
async def test_a_site_cannot_pass_for_the_provider_where_the_provider_cannot_speak(world: World) -> None:
    world.secure.extra = {"x-brd-err-code": "client_10020"}
    world.secure.status = 403
    response = await world.transport.send(world.through_provider(DATACENTER, f"https://{HOST}/"))
    assert response.status == 403


async def test_an_empty_answer_of_the_unlocker_is_no_page(world: World) -> None:
    world.plain.page = b""
    failure = await failure_of(world.transport, world.through_provider(UNLOCKER, f"https://{HOST}/"))
    assert failure.kind is K.PROXY


class Raw(Listener):
    """Answers every request with the same bytes, and then closes or goes silent."""

    def __init__(self, *pieces: bytes, closes: bool = True) -> None:
        super().__init__()
        self._pieces, self._closes = pieces, closes

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in self._pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)
        if not self._closes:
            await asyncio.Event().wait()


@pytest.mark.req("P4")
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n \r\n",
    ],
)
async def test_an_answer_of_the_unlocker_without_a_body_is_no_page_however_it_is_framed(answer: bytes) -> None:
    async with Raw(answer) as unlocker, proxied([f"127.0.0.1:{unlocker.port}"]) as transport:
        zones = {UNLOCKER: Zone("unlocker", Secret("pw"))}
        setup = ProxyConfig(url=f"http://127.0.0.1:{unlocker.port}", customer="hl_1", zones=zones)
        request = Request(url=f"http://{HOST}/", route=BrightData(setup).route(UNLOCKER, ProxyLocation()))
        failure = await failure_of(transport, request)
    assert (failure.kind, "format json" in failure.message) == (K.PROXY, True)


# -- the proxy fails ---------------------------------------------------------------------------------------------------

FAULTS = [
    ("https", Fault.REFUSES_LOGIN, K.PROXY),
    ("https", Fault.FORBIDS, K.ACCESS_POLICY),
    ("https", Fault.FAILS, K.PROXY),
    ("https", Fault.HANGS, K.PROXY),
    ("https", Fault.CLOSES, K.PROXY),
    ("https", Fault.GARBAGE, K.PROXY),
    ("https", Fault.CLOSES_TUNNEL, K.PROXY),
    ("https", Fault.GARBAGE_IN_TUNNEL, K.PROXY),
    ("https", Fault.HANGS_IN_TUNNEL, K.PROXY),
    ("http", Fault.REFUSES_LOGIN, K.PROXY),
    ("http", Fault.HANGS, K.PROXY),
    ("http", Fault.CLOSES, K.PROXY),
    ("http", Fault.GARBAGE, K.PROXY),
    ("http", Fault.CUTS_ANSWER, K.PROXY),
]


@pytest.mark.req("P4", "D3", "Z6")
@pytest.mark.parametrize(("scheme", "fault", "kind"), FAULTS)
async def test_whatever_a_proxy_does_is_its_own_fault_and_opens_no_circuit_of_the_site(
    world: World, scheme: str, fault: Fault, kind: FailureKind
) -> None:
    world.proxy.fault = fault
    silent = fault in {Fault.HANGS, Fault.HANGS_IN_TUNNEL}
    failure = await failure_of(world.transport, world.through_proxy(f"{scheme}://{HOST}/", waits=silent))
    assert failure.kind is kind, failure
    assert RULES[failure.kind].culprit is Culprit.PROXY
    assert not RULES[failure.kind].site_circuit
    world.proxy.fault = Fault.NONE
    assert (await world.transport.send(world.through_proxy(f"{scheme}://{HOST}/"))).status == 200


NO_ANSWERS = {
    "garbage like HTTP": (b"Hello, I am no HTTP at all\r\n\r\n",),
    "one letter": (b"H",),
    "no number": (b"HTTP/1.1 OK\r\n\r\n",),
    "another protocol": (b"HTTP/9.9 200 OK\r\n\r\n",),
    "half a status line": (b"HTTP/1.1 2",),
    "half a head": (b"HTTP/1.1 200 OK\r\n", b"Content-Type: text/html\r\n"),
    "only an interim head": (b"HTTP/1.1 100 Continue\r\n\r\n",),
}


@pytest.mark.req("P4", "Z6")
@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("pieces", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_is_no_whole_head_is_never_the_sites(pieces: tuple[bytes, ...], closes: bool) -> None:
    async with Raw(*pieces, closes=closes) as broken, proxied([f"127.0.0.1:{broken.port}"]) as transport:
        (one,) = parse_proxies([Secret(f"http://u:p@127.0.0.1:{broken.port}")])
        seconds = 10.0 if closes else 0.5
        request = Request(url=f"http://{HOST}/", route=one.route(ProxyLocation()), request_timeout_seconds=seconds)
        failure = await failure_of(transport, request)
    assert failure.kind is K.PROXY, failure


async def test_an_answer_in_pieces_is_the_sites_and_so_is_what_happens_after_its_head() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    pieces = [head[at : at + 7] for at in range(0, len(head), 7)]
    for proxy, body in ((Raw(*pieces, b"hello"), b"hello"), (Raw(head, b"he", closes=False), None)):
        async with proxy, proxied([f"127.0.0.1:{proxy.port}"]) as transport:
            (one,) = parse_proxies([Secret(f"http://u:p@127.0.0.1:{proxy.port}")])
            seconds = 0.5 if body is None else 10.0
            request = Request(url=f"http://{HOST}/", route=one.route(ProxyLocation()), request_timeout_seconds=seconds)
            if body is None:
                assert (await failure_of(transport, request)).kind is K.TIMEOUT
            else:
                assert (await transport.send(request)).body == body


@pytest.mark.req("P4")
async def test_an_error_page_of_the_proxy_itself_is_its_own(world: World) -> None:
    squid = b"HTTP/1.1 503 Service Unavailable\r\nServer: squid/5.7\r\nContent-Length: 2\r\n\r\nno"
    async with Raw(squid) as proxy, proxied([f"127.0.0.1:{proxy.port}"]) as transport:
        (one,) = parse_proxies([Secret(f"http://u:p@127.0.0.1:{proxy.port}")])
        failure = await failure_of(transport, world.through_proxy(f"http://{HOST}/", one.route(ProxyLocation())))
    assert failure.kind is K.PROXY


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_dies_is_told_from_the_site_and_comes_back(world: World, scheme: str) -> None:
    request = world.through_proxy(f"{scheme}://{HOST}/")
    assert (await world.transport.send(request)).status == 200
    await world.proxy.stop()
    assert not await world.transport.knock("http", "127.0.0.1", world.proxy.port)
    assert (await failure_of(world.transport, request)).kind is K.PROXY
    await world.proxy.start()
    assert await world.transport.knock("http", "127.0.0.1", world.proxy.port)
    assert (await world.transport.send(request)).status == 200


async def test_a_proxy_that_dies_under_a_request_is_to_blame(world: World) -> None:
    for scheme, site in (("http", world.plain), ("https", world.secure)):
        site.hangs = True
        request = Request(url=f"{scheme}://{HOST}/", route=world.route())
        sent = asyncio.create_task(failure_of(world.transport, request))
        while not site.requests:
            await asyncio.sleep(0.002)
        await world.proxy.stop()
        assert (await sent).kind is K.PROXY
        await world.proxy.start()


async def test_a_wrong_login_is_the_proxys_407(world: World) -> None:
    for scheme in ("http", "https"):
        failure = await failure_of(world.transport, world.through_proxy(f"{scheme}://{HOST}/", world.route("me:wrong")))
        assert (failure.kind, "407" in failure.message) == (K.PROXY, True)


# -- the site fails ----------------------------------------------------------------------------------------------------


async def test_a_site_that_is_slow_behind_an_open_tunnel_is_the_sites_timeout(world: World) -> None:
    world.secure.hangs = True
    request = Request(url=f"https://{HOST}/", route=world.route(), request_timeout_seconds=1)
    assert (await failure_of(world.transport, request)).kind is K.TIMEOUT


@pytest.mark.parametrize("status", [403, 404, 429, 502, 503])
async def test_a_sites_own_status_is_an_answer(world: World, status: int) -> None:
    world.plain.status = world.secure.status = status
    for scheme in ("http", "https"):
        for request in (
            world.through_proxy(f"{scheme}://{HOST}/"),
            world.through_provider(DATACENTER, f"{scheme}://{HOST}/"),
        ):
            assert (await world.transport.send(request)).status == status


@pytest.mark.req("H3")
async def test_a_body_above_the_cap_is_too_large_by_proxy_too(world: World) -> None:
    world.plain.page = world.secure.page = b"x" * 300_000
    for scheme in ("http", "https"):
        assert (await failure_of(world.transport, world.through_proxy(f"{scheme}://{HOST}/"))).kind is K.TOO_LARGE


# -- where it may go ---------------------------------------------------------------------------------------------------


@pytest.mark.req("Z4")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://0x7f.1/", "https://[::1]/", "http://169.254.169.254/", "http://inside.example/"],
)
async def test_private_targets_are_refused_before_the_proxy_hears_of_them(world: World, url: str) -> None:
    allowed = [f"127.0.0.1:{world.proxy.port}"]
    async with proxied(allowed, names=Names(inside_example="10.0.0.7")) as transport:
        assert (await failure_of(transport, world.through_proxy(url))).kind is K.EGRESS_DENIED
    assert world.proxy.requests == []


@pytest.mark.req("Z4")
async def test_a_proxy_at_a_private_address_is_not_dialled_unless_it_is_allowed(world: World) -> None:
    async with proxied([]) as transport:
        for scheme in ("http", "https"):
            failure = await failure_of(transport, world.through_proxy(f"{scheme}://{HOST}/"))
            assert failure.kind is K.EGRESS_DENIED
        assert not await transport.knock("http", "127.0.0.1", world.proxy.port)
    assert world.proxy.requests == []


async def test_a_proxy_whose_name_is_unknown_is_a_dead_proxy(world: World) -> None:
    (one,) = parse_proxies([Secret("http://u:p@gone.example:8000")])
    failure = await failure_of(world.transport, world.through_proxy(f"https://{HOST}/", one.route(ProxyLocation())))
    assert failure.kind is K.PROXY


async def test_a_proxy_may_itself_be_reached_by_tls(world: World, tmp_path: Path, site_authority: Authority) -> None:
    names = Names(proxy_example="127.0.0.1")
    async with FaultyProxy(world.hosts, "u:p", site_authority.context("proxy.example")) as proxy:
        allowed = [f"proxy.example:{proxy.port}"]
        (one,) = parse_proxies([Secret(f"https://u:p@proxy.example:{proxy.port}")])
        async with proxied(allowed, site_authority.write(tmp_path / "ca.pem"), names) as transport:
            for scheme in ("http", "https"):
                request = Request(url=f"{scheme}://{HOST}/", route=one.route(ProxyLocation()))
                assert (await transport.send(request)).body == PAGE
        async with proxied(allowed, None, names) as transport:  # nobody who vouches for it
            assert (
                await failure_of(transport, world.through_proxy(f"http://{HOST}/", one.route(ProxyLocation())))
            ).kind is K.PROXY


# -- its end -----------------------------------------------------------------------------------------------------------


async def test_lines_close_when_their_route_is_let_go_of(world: World) -> None:
    request: Request | None = world.through_proxy(f"https://{HOST}/")
    assert request is not None
    await world.transport.send(request)
    gateway = world.transport._gateway
    assert len(gateway._lines) == 1
    request = None
    gc.collect()
    for _ in range(200):
        if not gateway._lines:
            break
        await asyncio.sleep(0.005)
    assert not gateway._lines
    assert not gateway._by_token


async def test_after_it_is_closed_nothing_is_sent(world: World) -> None:
    await world.transport.close()
    assert (await failure_of(world.transport, world.through_proxy(f"http://{HOST}/"))).kind is K.INTERNAL


async def test_a_cancelled_request_is_cancelled(world: World) -> None:
    world.proxy.fault = Fault.HANGS
    task = asyncio.create_task(world.transport.send(Request(url=f"https://{HOST}/", route=world.route())))
    while not world.proxy.requests:
        await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_each_request_goes_the_way_it_names(world: World) -> None:
    class Direct:
        closed = False

        async def send(self, request: Request) -> Response:
            return Response(url=request.url, status=299)

        async def close(self) -> None:
            self.closed = True

    direct = Direct()
    routed = RoutedTransport(direct, world.transport)
    assert (await routed.send(Request(url=f"http://{HOST}/"))).status == 299
    assert (await routed.send(world.through_proxy(f"http://{HOST}/"))).status == 200
    await routed.close()
    assert direct.closed
    with pytest.raises(Failed):
        await routed.send(world.through_proxy(f"http://{HOST}/"))


async def test_many_routes_at_once_each_get_their_own_answer(world: World) -> None:
    async def one(number: int) -> tuple[int, bool]:
        fails = number % 3 == 0
        route = world.route("me:wrong" if fails else "me:canary-login")
        request = Request(url=f"https://{HOST}/{number}", route=route)
        try:
            return number, (await world.transport.send(request)).status == 200
        except Failed as failed:
            return number, not ("407" in failed.failure.message and fails)

    outcomes = await asyncio.gather(*(one(number) for number in range(30)))
    assert [good for number, good in outcomes if number % 3 == 0] == [False] * 10
    assert [good for number, good in outcomes if number % 3] == [True] * 20
    assert isinstance(world.transport, ProxiedTransport)
