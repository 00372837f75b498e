"""Answers that the items of a job share: what is sent, what is kept, and that no two sessions are mixed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed, LeaseLost, NotFound
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Exchange, Page
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.client.cache import (
    LARGEST_BYTES,
    AttemptCache,
    CacheKey,
    PendingFetch,
    ResponseCache,
    cache_key,
    is_cacheable,
)
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.messages import Headers, Request, Response, UnrestrictedGate
from swath.observability.counters import FIGURES
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import answer

pytestmark = pytest.mark.req("H4")

A, B = "http://site.example/a", "http://site.example/b"


class Site:
    """Answers as it is told, when it is let, and remembers what it was asked and how much of it at once."""

    def __init__(self, respond: Callable[[Request], Response] = lambda request: answer(request.url)) -> None:
        self.respond = respond
        self.requests: list[Request] = []
        self.open = asyncio.Event()
        self.open.set()
        self.under_way = self.most_under_way = 0

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.open.wait()
            return self.respond(request)
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        pass


def visit(site: Site, cache: ResponseCache, job_id: str = "job", clock: FakeClock | None = None) -> WebSession:
    """The session of one attempt."""
    return WebSession(
        site, Timeouts(), clock or FakeClock(), None, UnrestrictedGate(), AttemptCache(cache, job_id, nullcontext)
    )


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_what_many_items_ask_for_is_fetched_once() -> None:
    site, cache, clock, before = Site(), ResponseCache(), FakeClock(), FIGURES.cache_hits
    fetched_at, visits = clock.now(), [visit(site, cache, clock=clock) for _ in range(50)]
    for web in visits:
        page = await web.get(A, name="shared")
        assert (page.name, page.body, page.page.fetched_at) == ("shared", b"<p>fine", fetched_at)
        clock.advance(1.0)
    assert len(site.requests) == 1
    assert sum(web.requests for web in visits) == 1
    assert sum(web.bytes for web in visits) == len(b"<p>fine")
    assert [web.kept["shared"].from_cache for web in visits] == [False] + [True] * 49
    assert FIGURES.cache_hits - before == 49


async def test_a_hit_asks_the_gate_for_nothing() -> None:
    class Closed(UnrestrictedGate):
        async def enter(self, request: Request) -> Request:
            raise LeaseLost("over")

    site, cache = Site(), ResponseCache()
    await visit(site, cache).get(A)
    hit = WebSession(site, Timeouts(), FakeClock(), None, Closed(), AttemptCache(cache, "job", nullcontext))
    assert (await hit.get(A)).body == b"<p>fine"
    with pytest.raises(LeaseLost):
        await hit.get(B)


async def test_a_session_without_a_cache_sends_everything() -> None:
    site = Site()
    for _ in range(3):
        await WebSession(site, Timeouts(), FakeClock()).get(A)
    assert len(site.requests) == 3


async def test_a_download_that_many_items_share_is_fetched_once() -> None:
    site, cache = Site(), ResponseCache()
    visits = [visit(site, cache) for _ in range(3)]
    for number, web in enumerate(visits):
        await web.download(A, f"bill-{number}.pdf")
    assert [(web.downloads[0].name, web.downloads[0].body) for web in visits] == [
        (f"bill-{number}.pdf", b"<p>fine") for number in range(3)
    ]
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "headers",
    [
        (("cache-control", "no-store"),),
        (("cache-control", "private, No-Store , max-age=60"),),
        (("cache-control", "private"), ("cache-control", "no-store")),
        (("set-cookie", "session=1"),),
        (("vary", "*"),),
    ],
)
async def test_what_the_site_wants_nobody_to_keep_is_fetched_by_each(headers: Headers) -> None:
    site, cache = Site(lambda request: answer(request.url, headers=headers)), ResponseCache()
    for _ in range(3):
        assert not (await visit(site, cache).get(A)).page.from_cache
    assert len(site.requests) == 3


@pytest.mark.parametrize("headers", [(("cache-control", "private, max-age=0"),), (("vary", "Accept, Cookie"),)])
async def test_other_words_of_the_site_do_not_matter_inside_a_job(headers: Headers) -> None:
    site, cache = Site(lambda request: answer(request.url, headers=headers)), ResponseCache()
    for _ in range(3):
        await visit(site, cache).get(A)
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"broken"),
        (403, b"no"),
        (429, b"slow"),
        (404, b"gone"),
        (200, b"<title>Just a moment...</title>"),
        (200, b""),
    ],
)
async def test_failures_and_walls_are_never_kept(status: int, body: bytes) -> None:
    html = (("content-type", "text/html"),)
    site, cache = Site(lambda request: answer(request.url, body, status, html)), ResponseCache()
    for _ in range(2):
        with pytest.raises(Failed):
            await visit(site, cache).get(A)
    site.respond = lambda request: answer(request.url)
    assert (await visit(site, cache).get(A)).body == b"<p>fine"
    assert len(site.requests) == 3


async def test_the_word_that_there_is_no_such_record_is_not_kept() -> None:
    class Told(UnrestrictedGate):
        def policy(self, url: str) -> SitePolicy:
            return SitePolicy.model_validate({"signatures": [{"kind": "not_found", "body": "no such parcel"}]})

    site, cache = Site(lambda request: answer(request.url, b"<p>no such parcel")), ResponseCache()
    for _ in range(2):
        with pytest.raises(NotFound):
            await WebSession(site, Timeouts(), FakeClock(), None, Told(), AttemptCache(cache, "job", nullcontext)).get(
                A
            )
    assert len(site.requests) == 2


async def test_an_answer_that_nobody_looked_at_is_not_given_to_others() -> None:
    site, cache = Site(lambda request: answer(request.url, b"<title>Just a moment...</title>")), ResponseCache()
    await visit(site, cache).get(A, expect_status=(200,))
    site.respond = lambda request: answer(request.url)
    assert (await visit(site, cache).get(A)).body == b"<p>fine"
    assert (await visit(site, cache).get(A, expect_status=(200,))).page.from_cache


async def test_redirects_are_sent_and_the_page_behind_them_is_shared() -> None:
    def respond(request: Request) -> Response:
        return answer(A, status=302, headers=(("location", B),)) if request.url == A else answer(B)

    site, cache = Site(respond), ResponseCache()
    for _ in range(3):
        assert (await visit(site, cache).get(A)).url == B
    assert [request.url for request in site.requests] == [A, B, A, A]


async def test_posts_and_requests_for_something_new_are_always_sent() -> None:
    site, cache = Site(), ResponseCache()
    for _ in range(2):
        await visit(site, cache).post(A, {"a": 1})
        await visit(site, cache).get(A, headers={"cache-control": "max-age=0, no-cache"})
    assert len(site.requests) == 4


# -- sessions ----------------------------------------------------------------------------------------------------------


def echo(request: Request) -> Response:
    """Says who asks: what a site shows to one visitor only."""
    return answer(
        request.url, repr([value for name, value in request.headers if name in {"Cookie", "X-User"}]).encode()
    )


@pytest.mark.req("H4", "H1")
async def test_visitors_with_other_cookies_get_pages_of_their_own() -> None:
    def respond(request: Request) -> Response:
        if request.url.startswith(B):
            return answer(request.url, headers=(("set-cookie", f"session={request.url[-1]}"),))
        return echo(request)

    site, cache = Site(respond), ResponseCache()
    for visitor in ("1", "2", "1"):
        web = visit(site, cache)
        await web.get(f"{B}?{visitor}")
        assert (await web.get(A)).text == repr([f"session={visitor}"])
    assert [request.url for request in site.requests].count(A) == 2


async def test_headers_of_the_author_keep_visitors_apart() -> None:
    site, cache = Site(echo), ResponseCache()
    for user in ("jane", "joe", "jane"):
        assert (await visit(site, cache).get(A, headers={"X-User": user})).text == repr([user])
    assert len(site.requests) == 2


async def test_a_cookie_that_comes_while_another_is_waited_for_stays_out_of_it() -> None:
    """What is kept under a request without cookies was asked for without cookies."""

    def respond(request: Request) -> Response:
        if request.url == B:
            return answer(B, headers=(("set-cookie", "session=secret"),))
        if len(site.requests) == 1:
            raise Failed(Failure.of(FailureKind.CONNECT, "reset"))
        return echo(request)

    site, cache = Site(respond), ResponseCache()
    site.open.clear()
    first = asyncio.create_task(visit(site, cache).get(A))
    await settled()
    web = visit(site, cache)
    second = asyncio.create_task(web.get(A))
    await settled()
    third = asyncio.create_task(web.get(B))
    await settled()
    site.requests = site.requests[:1]
    site.open.set()
    await third
    with pytest.raises(Failed):
        await first
    await second
    assert (await visit(site, cache).get(A)).text == "[]"


async def test_jobs_share_nothing() -> None:
    site, cache = Site(), ResponseCache()
    for job_id in ("one", "two"):
        await visit(site, cache, job_id).get(A)
    assert len(site.requests) == 2


# -- at once -----------------------------------------------------------------------------------------------------------


async def test_requests_at_the_same_time_share_one() -> None:
    site, cache = Site(), ResponseCache()
    site.open.clear()
    visits = [visit(site, cache) for _ in range(20)]
    under_way = [asyncio.create_task(web.get(A)) for web in visits]
    await settled()
    assert len(site.requests) == 1
    site.open.set()
    assert {page.body for page in await asyncio.gather(*under_way)} == {b"<p>fine"}
    assert (len(site.requests), sum(web.requests for web in visits)) == (1, 1)


@pytest.mark.parametrize("number", [0, 3])
async def test_an_attempt_that_is_cancelled_takes_no_other_with_it(number: int) -> None:
    """The first is the one that sends; when it is gone, one of the others does."""
    site, cache = Site(), ResponseCache()
    site.open.clear()
    under_way = [asyncio.create_task(visit(site, cache).get(A)) for _ in range(5)]
    await settled()
    under_way.pop(number).cancel()
    await settled()
    assert site.under_way == 1
    site.open.set()
    assert {page.body for page in await asyncio.gather(*under_way)} == {b"<p>fine"}
    assert len(site.requests) == (2 if number == 0 else 1)


async def test_after_a_failure_those_who_waited_ask_for_themselves() -> None:
    def respond(request: Request) -> Response:
        if len(site.requests) == 1:
            raise Failed(Failure.of(FailureKind.CONNECT, "reset"))
        return answer(request.url)

    site, cache = Site(respond), ResponseCache()
    site.open.clear()
    under_way = [asyncio.create_task(visit(site, cache).get(A)) for _ in range(5)]
    await settled()
    site.open.set()
    came = await asyncio.gather(*under_way, return_exceptions=True)
    assert [isinstance(one, Failed) for one in came] == [True, False, False, False, False]


async def test_nobody_waits_for_a_page_that_is_not_to_be_kept() -> None:
    site, cache = Site(lambda request: answer(request.url, headers=(("cache-control", "no-store"),))), ResponseCache()
    await visit(site, cache).get(A)
    site.open.clear()
    under_way = [asyncio.create_task(visit(site, cache).get(A)) for _ in range(5)]
    await settled()
    assert site.most_under_way == 5
    site.open.set()
    await asyncio.gather(*under_way)


async def test_waiting_for_anothers_answer_is_told_as_waiting() -> None:
    waits: list[str] = []

    @contextmanager
    def waiting() -> Iterator[None]:
        waits.append("begins")
        yield
        waits.append("ends")

    site, cache = Site(), ResponseCache()
    site.open.clear()
    first = asyncio.create_task(visit(site, cache).get(A))
    await settled()
    web = WebSession(site, Timeouts(), FakeClock(), None, UnrestrictedGate(), AttemptCache(cache, "job", waiting))
    second = asyncio.create_task(web.get(A))
    await settled()
    assert waits == ["begins"]
    site.open.set()
    await asyncio.gather(first, second)
    assert waits == ["begins", "ends"]


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_memory_is_bounded_and_what_was_used_last_stays() -> None:
    site = Site(lambda request: answer(request.url, b"x" * 10_000))
    cache = ResponseCache(most_bytes=100_000, most_answers=1_000)
    for number in range(50):
        await visit(site, cache).get(A)
        await visit(site, cache).get(f"{B}/{number}")
        assert cache.bytes <= 100_000
    assert 5 <= len(cache) <= 10
    assert [request.url for request in site.requests].count(A) == 1


async def test_the_number_of_answers_is_bounded_too() -> None:
    site, cache = Site(), ResponseCache(most_answers=10)
    for number in range(50):
        await visit(site, cache).get(f"{B}/{number}")
    assert len(cache) == 10
    cache.drop([key for request in site.requests if (key := cache_key("job", request)) is not None])
    assert (len(cache), cache.bytes) == (0, 0)


async def test_a_large_answer_is_not_kept() -> None:
    site, cache = Site(lambda request: answer(request.url, b"x" * (LARGEST_BYTES + 1))), ResponseCache()
    for _ in range(2):
        await visit(site, cache).get(A)
    assert len(site.requests) == 2
    assert cache.bytes < 1_000


async def test_what_a_job_no_longer_asks_for_is_forgotten() -> None:
    site, cache = Site(), ResponseCache()
    await visit(site, cache, "over").get(A)
    await visit(site, cache, "runs").get(A)
    cache.sweep()
    assert len(cache) == 2, "both have asked since the last time"
    await visit(site, cache, "runs").get(A)
    cache.sweep()
    assert len(cache) == 1
    await visit(site, cache, "runs").get(A)
    assert len(site.requests) == 2


async def test_what_a_failed_attempt_was_given_is_fetched_anew() -> None:
    site, cache = Site(), ResponseCache()
    await visit(site, cache).get(A)
    view = AttemptCache(cache, "job", nullcontext)
    assert (await WebSession(site, Timeouts(), FakeClock(), None, UnrestrictedGate(), view).get(A)).page.from_cache
    view.forget()
    assert not (await visit(site, cache).get(A)).page.from_cache


# -- the key -----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["Accept", "Cookie", "Authorization", "User-Agent", "X-A", "X-B"])
values = st.text("ab;= ", max_size=4)
requests = st.builds(
    Request,
    url=st.sampled_from([A, B, f"{A}?q=1", f"{A}?q=2"]),
    method=st.sampled_from(["GET", "HEAD"]),
    headers=st.dictionaries(names, values, max_size=4).map(lambda headers: tuple(headers.items())),
    largest_bytes=st.sampled_from([None, 10]),
)


def meaning(request: Request) -> tuple[object, ...]:
    """All of a request that a site can see, in any order, and what we would refuse of its answer."""
    return (
        *(request.url, request.method, request.largest_bytes),
        frozenset((name.lower(), value) for name, value in request.headers),
    )


def changed(one: Request, headers: dict[str, str], url: str | None) -> Request:
    """Nearly the same request: most pairs of two that are made apart differ in everything."""
    return msgspec.structs.replace(
        one, url=one.url if url is None else url, headers=tuple((dict(one.headers) | headers).items())
    )


near = st.builds(
    lambda one, headers, url: (one, changed(one, headers, url)),
    requests,
    st.dictionaries(names, values, max_size=1),
    st.sampled_from([None, A, B]),
)


@given(near)
def test_two_requests_have_one_key_if_and_only_if_they_ask_for_the_same(pair: tuple[Request, Request]) -> None:
    one, other = pair
    assert (cache_key("job", one) == cache_key("job", other)) == (meaning(one) == meaning(other))
    assert cache_key("job", one) != cache_key("another", one)


@given(requests, st.permutations(range(4)))
def test_order_and_case_of_header_names_do_not_matter(request: Request, order: list[int]) -> None:
    shuffled = tuple(request.headers[at] for at in order if at < len(request.headers))
    same = Request(
        url=f"{request.url}#part",
        method=request.method,
        headers=tuple((name.upper(), value) for name, value in shuffled),
        largest_bytes=request.largest_bytes,
    )
    assert cache_key("job", same) == cache_key("job", request)


@pytest.mark.parametrize(
    "request_",
    [
        Request(url=A, method="POST"),
        Request(url=A, method="PUT"),
        Request(url=A, body=b"x"),
        Request(url=A, headers=(("Cache-Control", "no-cache"),)),
        Request(url=A, headers=(("cache-control", "max-age=0,NO-STORE"),)),
    ],
)
def test_some_requests_are_nobody_elses(request_: Request) -> None:
    assert cache_key("job", request_) is None


@pytest.mark.parametrize(("status", "kept"), [(199, False), (200, True), (206, True), (299, True), (304, False)])
def test_only_successes_are_kept(status: int, kept: bool) -> None:
    assert is_cacheable(Page(name="html", url=A, status=status, body=b"", exchange=Exchange(method="GET"))) is kept


async def test_a_claim_is_settled_whatever_happens_in_it() -> None:
    cache = ResponseCache()
    key = CacheKey("job", "GET", A, (), None)
    for error in (Failed(Failure.of(FailureKind.CONNECT, "reset")), LeaseLost("over"), asyncio.CancelledError()):
        claim = await cache.find(key, nullcontext)
        assert isinstance(claim, PendingFetch)
        with pytest.raises(type(error)), claim:
            raise error
    assert isinstance(await asyncio.wait_for(cache.find(key, nullcontext), HANGING_SECONDS), PendingFetch)
