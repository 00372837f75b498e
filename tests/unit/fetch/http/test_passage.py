import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from swath.backends.clock import SystemClock
from swath.demo.county import DemoCountyServer
from swath.domain.circuit_breaker import CircuitState
from swath.domain.errors import Failed, LeaseLost, SiteUnavailable
from swath.domain.execution_policy import ExecutionPolicy, ProxyType
from swath.domain.failure import RULES, Culprit, Failure, FailureKind
from swath.domain.item import SuccessOutcome
from swath.domain.job import Job
from swath.fetch.http.client import request_gate as passage_module
from swath.fetch.http.client.demo_proof import DemoProof
from swath.fetch.http.client.request_gate import DemoSite, Network, SiteRequestGate
from swath.fetch.http.messages import Request, Response, UnreadableResponse
from swath.fetch.sites.policies import Site
from swath.fetch.sites.rate_limiter import Permit, RateLimiter
from swath.observability.counters import ProcessCounters
from swath.observability.prometheus import render_metrics
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState
from tests.support.network import FreePacer, open_network
from tests.unit.fetch.http.sites import TableTransport, answer

SITE = "http://county.example"
PAGE = f"{SITE}/page"
ROBOTS = f"{SITE}/robots.txt"
BREAKER = {"window": 2, "failures": 1, "reopen_seconds": 120}


class Desk:
    """A network over a table of answers, and passages through it. The clock stands on a Sunday afternoon."""

    def __init__(self, answers: dict[str, Response | Exception] | None = None, **policy: Any) -> None:
        self.clock = FakeClock()
        self.book = MemorySiteState(self.clock)
        self.site = TableTransport({PAGE: answer(PAGE), **(answers or {})})
        self.network: Network = open_network(self.site, self.clock, self.book, **policy)
        self.waits = 0
        self.lost = False

    def passage(self, **throttling: float) -> SiteRequestGate:
        policy = ExecutionPolicy.model_validate({"throttling": throttling})
        return SiteRequestGate(self.network, Job(job_id="j", scraper_id="x", policy=policy), self._lease, self._waiting)

    async def visit(self, passage: SiteRequestGate, url: str = PAGE, status: int = 200) -> Request:
        request = await passage.enter(Request(url=url))
        passage.leave(request, answer(url, status=status), None)
        return request

    def _lease(self) -> None:
        if self.lost:
            raise LeaseLost("over")

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waits += 1
        yield


def failure(kind: FailureKind) -> Failure:
    return Failure.of(kind, "so it was")


@pytest.mark.req("H5", "J3")
async def test_what_robots_txt_denies_is_not_fetched() -> None:
    denying = answer(ROBOTS, b"User-agent: *\nDisallow: /page\n")
    desk = Desk({ROBOTS: denying, f"{SITE}/open": answer(f"{SITE}/open")}, robots="obey")
    with pytest.raises(Failed) as failed:
        await desk.visit(desk.passage())
    assert failed.value.failure.kind is FailureKind.ROBOTS_DENIED
    await desk.visit(desk.passage(), f"{SITE}/open")
    assert [request.url for request in desk.site.requests] == [ROBOTS]


@pytest.mark.req("H5")
@pytest.mark.parametrize(("mode", "asked"), [("warn", 1), ("ignore", 0)])
async def test_robots_txt_can_be_asked_without_being_obeyed_or_not_at_all(
    mode: str, asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk({ROBOTS: answer(ROBOTS, b"User-agent: *\nDisallow: /\n")}, robots=mode)
    for _ in range(3):
        await desk.visit(desk.passage())
    assert len(desk.site.requests) == asked
    assert len(caplog.messages) == asked, "once is enough"


@pytest.mark.req("H5")
async def test_robots_txt_is_followed_over_hops_under_the_same_rules() -> None:
    there = "http://other.example/robots"
    moved = answer(ROBOTS, status=301, headers=(("location", there),))
    desk = Desk({ROBOTS: moved, there: answer(there, b"User-agent: *\nDisallow: /page\n")}, robots="obey")
    assert not await desk.passage().robots_allow(PAGE)
    assert [request.url for request in desk.site.requests] == [ROBOTS, there]


@pytest.mark.req("H5")
@pytest.mark.parametrize("hop", [False, True])
async def test_robots_txt_that_could_not_be_read_is_asked_for_again_under_the_same_rules(
    hop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = "http://other.example/robots" if hop else ROBOTS
    rules = answer(there, b"User-agent: *\nDisallow: /page\n")
    desk = Desk({ROBOTS: answer(ROBOTS, status=301, headers=(("location", there),)), there: rules}, robots="obey")
    send, odd = desk.site.send, [there]

    async def sent(request: Request) -> Response:
        got = await send(request)
        if request.url in odd:
            odd.remove(request.url)
            raise UnreadableResponse(failure(FailureKind.SERVER_ERROR))
        return got

    monkeypatch.setattr(desk.site, "send", sent)
    assert not await desk.passage().robots_allow(PAGE)
    assert [request.url for request in desk.site.requests] == [*([ROBOTS] if hop else []), there, there]


@pytest.mark.req("H5", "S2")
async def test_a_crawl_delay_lowers_the_rate() -> None:
    rates: list[float | None] = []

    class Seen(RateLimiter):
        async def acquire(
            self, site: Site, *, rate: float | None = None, job: tuple[str, float] | None = None
        ) -> Permit:
            rates.append(rate)
            return await super().acquire(site, rate=rate, job=job)

    site = TableTransport({ROBOTS: answer(ROBOTS, b"User-agent: *\nCrawl-delay: 0.05\n"), PAGE: answer(PAGE)})
    network = open_network(site, SystemClock(), robots="obey", pacer=Seen, rate={"tokens": 1000})
    passage = SiteRequestGate(network, Job(job_id="j", scraper_id="x"), lambda: None, contextlib.nullcontext)
    passage.leave(await passage.enter(Request(url=PAGE)), answer(PAGE), None)
    assert rates == [None, 20.0]
    await network.pacer.close()


@pytest.mark.req("W2")
async def test_the_lease_is_asked_last_and_a_request_that_may_not_leave_holds_nothing() -> None:
    desk = Desk()
    desk.lost = True
    passage = desk.passage()
    with pytest.raises(LeaseLost):
        await passage.enter(Request(url=PAGE))
    assert desk.waits == 1


@pytest.mark.req("D3")
@pytest.mark.parametrize("kind", [kind for kind, rule in RULES.items() if rule.site_circuit])
async def test_an_attempt_that_fails_by_the_sites_fault_counts_in_its_circuit(kind: FailureKind) -> None:
    desk = Desk(breaker=BREAKER)
    passage = desk.passage()
    await desk.visit(passage)
    passage.end(None, failure(kind))
    await desk.network.circuits.close()
    assert desk.book.glance("county.example").state is CircuitState.OPEN
    with pytest.raises(SiteUnavailable, match=r"county\.example is left alone"):
        await desk.visit(desk.passage())


@pytest.mark.req("D3", "Z3")
@pytest.mark.parametrize("kind", [kind for kind, rule in RULES.items() if not rule.site_circuit])
async def test_a_dead_proxy_dead_dns_and_the_like_open_no_circuit(kind: FailureKind) -> None:
    desk = Desk(breaker=BREAKER)
    for _ in range(5):
        passage = desk.passage()
        await desk.visit(passage)
        passage.end(None, failure(kind))
    await desk.network.circuits.close()
    assert desk.book.glance("county.example").state is CircuitState.CLOSED
    assert RULES[kind].culprit is not Culprit.SITE or not RULES[kind].site_circuit


@pytest.mark.req("D3")
async def test_only_the_site_an_attempt_ended_at_is_blamed() -> None:
    other = "http://other.example/page"
    desk = Desk({other: answer(other)}, breaker=BREAKER)
    passage = desk.passage()
    await desk.visit(passage)
    await desk.visit(passage, other)
    passage.end(None, failure(FailureKind.SERVER_ERROR))
    await desk.network.circuits.close()
    assert desk.book.glance("county.example").state is CircuitState.CLOSED
    assert desk.book.glance("other.example").state is CircuitState.OPEN


@pytest.mark.req("D3")
async def test_a_failure_is_held_against_the_site_whose_answer_it_was_even_if_others_were_asked_since() -> None:
    other = "http://other.example/page"
    desk = Desk({other: answer(other)}, breaker=BREAKER)
    passage, broken = desk.passage(), failure(FailureKind.SERVER_ERROR)
    await desk.visit(passage)
    passage.blame(PAGE, broken)
    await desk.visit(passage, other)
    passage.end(None, failure(FailureKind.SERVER_ERROR))
    await desk.network.circuits.close()
    assert desk.book.glance("county.example").state is CircuitState.OPEN
    assert desk.book.glance("other.example").state is CircuitState.CLOSED


@pytest.mark.req("W2", "Z3")
async def test_a_request_of_an_attempt_that_is_over_is_refused_and_holds_nothing() -> None:
    clock = SystemClock()
    network = open_network(TableTransport({}), clock, pacer=RateLimiter, concurrency=1, rate={"tokens": 1000})
    job = Job(job_id="j", scraper_id="x")
    left = SiteRequestGate(network, job, lambda: None, contextlib.nullcontext)
    left.end(None, failure(FailureKind.TIMEOUT))
    for _ in range(3):
        with pytest.raises(LeaseLost):
            await left.enter(Request(url=PAGE))
    async with asyncio.timeout(60):
        passage = SiteRequestGate(network, job, lambda: None, contextlib.nullcontext)
        passage.leave(await passage.enter(Request(url=PAGE)), answer(PAGE), None)
    await network.pacer.close()


@pytest.mark.req("D3")
async def test_a_circuit_that_opens_stops_the_next_request_of_an_attempt_under_way() -> None:
    desk = Desk(breaker=BREAKER)
    first, second = desk.passage(), desk.passage()
    await desk.visit(first)
    await desk.visit(second)
    second.end(None, failure(FailureKind.CONNECT))
    await desk.network.circuits.close()
    with pytest.raises(SiteUnavailable):
        await desk.visit(first)


@pytest.mark.req("D3")
async def test_the_probe_that_succeeds_closes_the_circuit() -> None:
    desk = Desk(breaker=BREAKER)
    failing = desk.passage()
    await desk.visit(failing)
    failing.end(None, failure(FailureKind.CONNECT))
    await desk.network.circuits.close()
    desk.clock.advance(121)
    probe, other = desk.passage(), desk.passage()
    await desk.visit(probe)
    with pytest.raises(SiteUnavailable, match="a probe is under way"):
        await desk.visit(other)
    probe.end(SuccessOutcome.FOUND, None)
    await desk.network.circuits.close()
    assert desk.book.glance("county.example").state is CircuitState.CLOSED
    await desk.visit(desk.passage())


@pytest.mark.req("S7", "D2")
@pytest.mark.parametrize("status", [429, 503])
async def test_an_answer_that_asks_to_slow_down_halves_the_rate(status: int) -> None:
    desk = Desk(pacer=RateLimiter, rate={"tokens": 1000})
    await desk.visit(desk.passage(), status=status)
    for _ in range(10):
        await asyncio.sleep(0)
    assert (await desk.book.states())["county.example"].bucket.factor == 0.5
    await desk.network.pacer.close()


@pytest.mark.req("S8")
async def test_nothing_is_sent_outside_the_allowed_hours() -> None:
    desk = Desk(allowed_hours={"windows": [{"from": "00:00", "until": "00:01", "days": ["mon"]}]})
    with pytest.raises(SiteUnavailable, match="outside its allowed hours") as held:
        await desk.visit(desk.passage())
    assert held.value.wait_seconds > 3600
    assert desk.site.requests == []


@pytest.mark.req("S8")
async def test_a_request_that_waited_beyond_the_allowed_hours_is_not_sent() -> None:
    desk = Desk(allowed_hours={"windows": [{"from": "00:00", "until": "16:00"}]})
    passage = desk.passage()

    class Slow(FreePacer):
        async def acquire(
            self, site: Site, *, rate: float | None = None, job: tuple[str, float] | None = None
        ) -> Permit:
            desk.clock.advance(3_600)
            return await super().acquire(site)

    network = msgspec.structs.replace(desk.network, pacer=Slow(desk.book, desk.clock, "w"))
    late = SiteRequestGate(network, Job(job_id="j", scraper_id="x"), lambda: None, contextlib.nullcontext)
    await desk.visit(passage)
    with pytest.raises(SiteUnavailable, match="outside its allowed hours"):
        await late.enter(Request(url=PAGE))


@pytest.mark.req("S8", "H5")
async def test_not_even_robots_txt_is_fetched_outside_the_allowed_hours() -> None:
    closed = {"windows": [{"from": "00:00", "until": "00:30"}]}
    desk = Desk({ROBOTS: answer(ROBOTS)}, allowed_hours=closed, robots="obey")
    with pytest.raises(SiteUnavailable):
        await desk.passage().robots_allow(PAGE)
    assert desk.site.requests == []


@pytest.mark.req("O2")
async def test_every_request_is_counted_for_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ProcessCounters()
    monkeypatch.setattr(passage_module, "FIGURES", figures)
    pages = [f"{SITE}:8080/1", f"{SITE}/2", "http://archive.county.example/3", "http://[::1]:8010/4"]
    desk = Desk({ROBOTS: answer(ROBOTS), **{page: answer(page) for page in pages}}, robots="ignore")
    for page in pages:
        await desk.visit(desk.passage(), page)
    shown = {"county.example": 2, "archive.county.example": 1, "::1": 1}
    assert figures.domain_requests.shown() == shown
    text = render_metrics(figures).decode()
    for domain, count in shown.items():
        assert f'swath_domain_requests_total{{domain="{domain}"}} {count}.0' in text


@pytest.mark.req("P1")
async def test_without_a_policy_the_way_is_direct_and_costs_nothing() -> None:
    desk = Desk()
    passage = desk.passage()
    assert (await desk.visit(passage)).route is None
    assert (passage.tier, passage.cost) == (ProxyType.NONE, 0.0)


@pytest.mark.req("Z7")
@pytest.mark.parametrize("spelling", ["127.0.0.1:{}", "127.1:{}", "2130706433:0{}"])
async def test_each_way_to_the_demo_site_is_shut_for_scrapers_of_others(spelling: str) -> None:
    """A page, whatever a browser loads besides, and robots.txt, in any spelling of the address."""
    async with DemoCountyServer() as county:
        port = int(county.base_url.rpartition(":")[2])
        await _tries_the_demo_site(port, spelling.format(port))


async def _tries_the_demo_site(port: int, place: str) -> None:
    url = f"http://{place}/x"
    demo = DemoSite(f"127.0.0.1:{port}", str(port), frozenset({"demo-county"}), DemoProof("127.0.0.1", port))
    desk, obeying = Desk({url: answer(url)}), Desk({f"http://{place}/robots.txt": answer(url)}, robots="obey")
    network = msgspec.structs.replace(desk.network, demo=demo)
    job = Job(job_id="j", scraper_id="mine")
    for one in (job, msgspec.structs.replace(job, scraper_id="demo-county", scraper_source="/home/me/fake.py")):
        passage = SiteRequestGate(network, one, desk._lease, desk._waiting)
        with pytest.raises(Failed, match="open to the demo scrapers only"):
            passage.route(url)
        with pytest.raises(Failed, match="open to the demo scrapers only"):
            await passage.enter(Request(url=url))
        asking = SiteRequestGate(msgspec.structs.replace(obeying.network, demo=demo), one, desk._lease, desk._waiting)
        with pytest.raises(Failed, match="open to the demo scrapers only"):
            await asking.robots_allow(url)
    theirs = SiteRequestGate(
        network, msgspec.structs.replace(job, scraper_id="demo-county"), desk._lease, desk._waiting
    )
    assert theirs.route(url) is None
    await desk.visit(theirs, url)
