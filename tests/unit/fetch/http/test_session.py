import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from swath.demo.county import DemoCountyServer, FaultSettings
from swath.domain.errors import Failed, LeaseLost
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Request, Response, UnrestrictedGate
from swath.fetch.http.page.page import WebPage
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import answer, loopback_transport, session

A, B, C = "http://site.example/a", "http://site.example/b", "http://site.example/c"


def to(url: str, target: str, status: int = 302, *more: tuple[str, str]) -> Response:
    return answer(url, status=status, headers=(("location", target), *more))


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    made = loopback_transport()
    yield made
    await made.close()


class CountingGate(UnrestrictedGate):
    """Lets so many requests pass, and then the lease is gone."""

    def __init__(self, most: int = 1_000) -> None:
        self.most, self.entered, self.left = most, 0, 0
        self.failures: list[FailureKind] = []

    async def enter(self, request: Request) -> Request:
        if self.entered == self.most:
            raise LeaseLost("over")
        self.entered += 1
        return request

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        self.left += 1
        self.failures += [] if failure is None else [failure.kind]


async def test_a_page_knows_where_when_and_how_it_was_got() -> None:
    clock = FakeClock()
    headers = (("content-type", "text/html; charset=windows-1252"),)
    web, _ = session({A: answer(A, b"caf\xe9", headers=headers)}, base_url="http://site.example", clock=clock)
    page = await web.get("/a")
    assert (page.url, page.status, page.body, page.text) == (A, 200, b"caf\xe9", "café")
    assert (page.page.content_type, page.page.charset) == ("text/html", "cp1252")
    assert page.page.fetched_at == clock.now()


async def test_requests_carry_default_headers_that_can_be_replaced() -> None:
    web, transport = session({A: answer(A)})
    await web.get(A)
    assert transport.header("user-agent")
    assert transport.header("accept-encoding") == "gzip, deflate, br, zstd"
    await web.get(A, headers={"user-agent": "mine", "X-One": "1"})
    assert transport.header("User-Agent") == "mine"
    assert sum(name.lower() == "user-agent" for name, _ in transport.requests[-1].headers) == 1
    assert transport.header("x-one") == "1"


async def test_timeouts_of_the_policy_reach_the_transport() -> None:
    web, transport = session({A: answer(A)})
    await web.get(A)
    assert transport.requests[0].connect_timeout_seconds == Timeouts().connect_seconds
    assert transport.requests[0].request_timeout_seconds == Timeouts().request_seconds


async def test_redirects_are_followed_and_every_hop_is_a_request() -> None:
    gate = CountingGate()
    web, transport = session(
        {f"POST {A}": to(A, "/b"), f"GET {B}": to(B, C, 307), f"GET {C}": answer(C, b"end")},
        gate=gate,
    )
    page = await web.post(A, data={"x": "1"})
    assert (page.url, page.body) == (C, b"end")
    assert [request.method for request in transport.requests] == ["POST", "GET", "GET"]
    assert web.requests == gate.entered == gate.left == 3


async def test_cookies_set_on_a_hop_are_sent_on_the_next() -> None:
    web, transport = session({A: to(A, "/b", 302, ("set-cookie", "s=1; Path=/")), B: answer(B)})
    await web.get(A)
    assert [transport.header("cookie", n) for n in (0, 1)] == [None, "s=1"]
    await web.get(B, headers={"Cookie": "own=2"})
    assert transport.header("cookie") == "own=2; s=1"


@pytest.mark.req("K1")
async def test_sessions_do_not_share_cookies() -> None:
    answers: dict[str, Response | Exception] = {A: answer(A, headers=(("set-cookie", "s=1"),))}
    first, _ = session(answers)
    second, seen = session(answers)
    await first.get(A)
    await second.get(A)
    assert seen.header("cookie") is None


async def test_endless_redirects_end_as_a_failure_after_ten() -> None:
    web, _ = session({A: to(A, B), B: to(B, A)})
    with pytest.raises(Failed, match="more than 10 redirects") as raised:
        await web.get(A)
    assert raised.value.failure.kind == FailureKind.NAVIGATION
    assert web.requests == 11


async def test_bytes_are_counted_over_all_hops() -> None:
    first = Response(url=A, status=302, headers=(("location", B),), wire_bytes=100)
    web, _ = session({A: first, B: Response(url=B, status=500, wire_bytes=30)})
    with pytest.raises(Failed):
        await web.get(A)
    assert web.bytes == 130


async def test_a_status_that_is_no_success_is_a_failure_unless_expected() -> None:
    web, _ = session({A: answer(A, b"gone", status=404)})
    with pytest.raises(Failed) as raised:
        await web.get(A)
    assert raised.value.failure.kind == FailureKind.NOT_FOUND_PAGE
    page = await web.get(A, expect_status=(404,))
    assert (page.status, page.body) == (404, b"gone")


@pytest.mark.req("S6")
async def test_a_retry_after_date_is_counted_from_the_clock() -> None:
    clock = FakeClock(now=1_445_412_480.0)
    headers = (("retry-after", "Wed, 21 Oct 2015 07:30:00 GMT"),)
    web, _ = session({A: answer(A, status=429, headers=headers)}, clock=clock)
    with pytest.raises(Failed) as raised:
        await web.get(A)
    assert raised.value.failure.retry_after_seconds == 120


@pytest.mark.req("K2")
async def test_named_pages_are_kept_in_order_and_others_are_not() -> None:
    web, _ = session({A: answer(A, b"1"), B: answer(B, b"2"), C: answer(C, b"3")})
    await web.get(B, name="second")
    await web.get(A)
    await web.post(A, name="first")
    assert list(web.kept) == ["second", "first"]
    assert web.kept["second"].name == "second"
    again = await web.get(C, name="second")
    assert list(web.kept) == ["second", "first"]
    assert web.kept["second"] is again.page
    web.keep(again, "third")
    assert web.kept["third"].body == b"3"


@pytest.mark.req("W2")
async def test_a_lost_lease_stops_the_session_before_the_next_request() -> None:
    gate = CountingGate(most=1)
    web, transport = session({A: to(A, B), B: answer(B)}, gate=gate)
    with pytest.raises(LeaseLost):
        await web.get(A)
    assert len(transport.requests) == gate.left == 1


async def test_a_request_that_fails_leaves_the_gate_too() -> None:
    gate = CountingGate()
    web, _ = session({A: answer(A, status=503), B: Failed(Failure.of(FailureKind.CONNECT, "reset"))}, gate=gate)
    for url in (A, B):
        with pytest.raises(Failed):
            await web.get(url)
    assert (gate.entered, gate.left, gate.failures) == (2, 2, [FailureKind.CONNECT])


@pytest.mark.req("R2")
async def test_a_page_knows_what_was_sent_and_what_came_beside_it() -> None:
    class Marking(UnrestrictedGate):
        async def enter(self, request: Request) -> Request:
            return msgspec.structs.replace(request, headers=(*request.headers, ("X-Gate", "passed")))

    came = (("content-type", "text/html"), ("x-two", "1"), ("x-two", "2"))
    web, transport = session({A: to(A, B, 302, ("set-cookie", "seen=1")), B: answer(B, headers=came)}, gate=Marking())
    page = (await web.post(A, {"q": "1"}, name="found")).page
    assert page.exchange is not None
    assert (page.exchange.method, page.exchange.response_headers) == ("GET", came)
    assert page.exchange.request_headers is transport.requests[-1].headers, "as it was sent, and no copy"
    assert page.exchange.request_headers[-2:] == (("Cookie", "seen=1"), ("X-Gate", "passed"))
    assert web.kept["found"].exchange is page.exchange


@pytest.mark.req("R2")
async def test_the_answer_that_was_refused_knows_its_exchange_too() -> None:
    web, _ = session({A: answer(A, status=500, headers=(("x-why", "no"),))})
    with pytest.raises(Failed):
        await web.post(A, b"x")
    assert web.refused is not None
    assert web.refused.exchange is not None
    assert (web.refused.exchange.method, web.refused.exchange.response_headers) == ("POST", (("x-why", "no"),))


@pytest.mark.req("K1")
async def test_a_page_with_an_exchange_that_is_none_cannot_be_kept() -> None:
    web, _ = session({A: answer(A)})
    page = await web.get(A)
    odd: Any = ("GET", A)
    with pytest.raises(TypeError, match="exchange of a page must be Exchange, not tuple"):
        web.keep(WebPage(msgspec.structs.replace(page.page, exchange=odd)))


async def test_downloads_are_kept_by_file_name() -> None:
    pdf = answer(A, b"%PDF", headers=(("content-type", "application/pdf"),))
    web, _ = session({A: pdf, B: answer(B, b"<p>bill of 2024", headers=(("content-type", "text/html"),))})
    await web.download(A, "bill.pdf", content_type="application/pdf")
    await web.download(A, "bill.pdf")
    (kept,) = web.downloads
    assert (kept.name, kept.body, kept.page.url) == ("bill.pdf", b"%PDF", A)
    assert not web.kept
    with pytest.raises(Failed, match=r"text/html, not application/pdf") as raised:
        await web.download(B, "other.pdf", content_type="application/pdf")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED
    assert len(web.downloads) == 1


@pytest.mark.parametrize(
    ("data", "json", "content_type", "body"),
    [
        ({"a": "1 2", "b": [3, 4]}, None, "application/x-www-form-urlencoded", b"a=1+2&b=3&b=4"),
        ([("a", 1), ("a", 2)], None, "application/x-www-form-urlencoded", b"a=1&a=2"),
        (None, {"a": [1, None]}, "application/json", b'{"a":[1,null]}'),
        (b"raw", None, "application/octet-stream", b"raw"),
        (None, None, "application/x-www-form-urlencoded", b""),
    ],
)
async def test_posts_carry_fields_json_or_bytes(data: object, json: object, content_type: str, body: bytes) -> None:
    web, transport = session({A: answer(A)})
    await web.post(A, data, json=json)  # type: ignore[arg-type]  # one parameter for all shapes
    assert transport.header("content-type") == content_type
    assert transport.requests[0].body == body


async def test_the_demo_county_can_be_walked(transport: DirectTransport) -> None:
    async with DemoCountyServer() as county:
        web = WebSession(transport, Timeouts(), FakeClock(), county.base_url)
        page = await web.get("/search")
        assert page.url.endswith("/disclaimer?next=/search")
        search = await page.form("#disclaimer").submit()
        detail = await search.form("#lookup").fill(parcel="200-14-030").submit(name="detail")
        detail.expect("h1", "Parcel detail")
        assert detail.url == f"{county.base_url}/parcel/200-14-030"
        assert web.requests == county.counters.requests == 6
        assert list(web.kept) == ["detail"]


async def test_many_sessions_at_once_stay_apart(transport: DirectTransport) -> None:
    parcels = [f"300-10-{n:03d}" for n in range(10, 30)]

    async def walk(county: DemoCountyServer, parcel: str) -> WebPage:
        web = WebSession(transport, Timeouts(), FakeClock(), county.base_url)
        search = await (await web.get("/search")).form("#disclaimer").submit()
        return await search.form("#lookup").fill(parcel=parcel).submit()

    async with DemoCountyServer(FaultSettings(latency_ms=2, latency_jitter_ms=5)) as county:
        pages = await asyncio.gather(*(walk(county, parcel) for parcel in parcels))
    for parcel, page in zip(parcels, pages, strict=True):
        assert page.text_of("#parcelNumber") == parcel or parcel in page.text_of("#divError", "")


@pytest.mark.parametrize(
    ("switches", "kind"),
    [
        (FaultSettings(rate_429=1.0, retry_after_seconds=7), FailureKind.RATE_LIMITED),
        (FaultSettings(block_rate=1.0), FailureKind.BLOCKED),
        (FaultSettings(failure_rate=1.0), FailureKind.SERVER_ERROR),
        (FaultSettings(drop_rate=1.0), FailureKind.CONNECT),
    ],
)
async def test_faults_of_a_site_have_their_kinds(
    transport: DirectTransport, switches: FaultSettings, kind: FailureKind
) -> None:
    async with DemoCountyServer(switches) as county:
        web = WebSession(transport, Timeouts(), FakeClock(), county.base_url)
        with pytest.raises(Failed) as raised:
            await web.get("/search")
    assert raised.value.failure.kind == kind
    assert raised.value.failure.retry_after_seconds == (7 if kind == FailureKind.RATE_LIMITED else None)
