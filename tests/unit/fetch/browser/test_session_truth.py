"""Every document of the main frame passes the gate, whoever asked for it, and means what it would mean over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from swath.demo.county import pages as county
from swath.domain.errors import Failed, LeaseLost, NotFound, SiteUnavailable
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.domain.site_policy import Signature, SignatureKind, SitePolicy
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.messages import Request, Response
from tests.unit.fetch.browser.launching import until
from tests.unit.fetch.browser.visited_site import HOST, VisitedSite, html, moved, visited_site
from tests.unit.fetch.browser.visiting import RecordingGate, launched_browser, visiting

pytestmark = [pytest.mark.req("K7", "H2"), pytest.mark.asyncio(loop_scope="module")]

EMPTY_404 = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
SKELETON = html(
    "<!doctype html><title>Portal</title><noscript>You need to enable JavaScript to run this app.</noscript>"
    "<div id=root></div><script>setTimeout(() => root.innerHTML = '<h1>Records</h1>', 100)</script>"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        site.answers |= {
            "/": html(
                "<h1>Home</h1><a id=a href='/next'>n</a><form id=f action='/one' method=post><button>s</button></form>"
            ),
            "/next": html("<h1>Next</h1>"),
            "/one": moved("/two"),
            "/two": moved("/next", "303 See Other"),
            "/meta": html("<meta http-equiv=refresh content='0;url=/next'>"),
            "/script": html("<h1>S</h1><script>location = '/next'</script>"),
            "/later": html("<h1>L</h1><script>setTimeout(() => location = '/next', 50)</script>"),
            "/framed": html("<h1>F</h1><iframe src='/in'></iframe><img src='/a.png'><script>fetch('/data')</script>"),
            "/in": html("<h1>In</h1>"),
            "/busy": html("<h1>Slow down</h1>", "Retry-After: 7", status="429 Too Many Requests"),
        }
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def gate() -> RecordingGate:
    return RecordingGate()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(launched: ChromiumProcess, site: VisitedSite, gate: RecordingGate) -> AsyncIterator[BrowserSession]:
    async with visiting(launched, site.port, gate, base_url=HOST) as browser:
        yield browser


def passed(*paths: str) -> list[str]:
    """As the gate saw it: one after the other, each left before the next entered."""
    return [event for path in paths for event in (f"enter {path}", f"leave {path}")]


def events(gate: RecordingGate) -> list[str]:
    return [" ".join(event.split()[:2]) for event in gate.events]


async def click(browser: BrowserSession) -> None:
    await browser.goto("/")
    await browser.click("#a")


async def send(browser: BrowserSession) -> None:
    await browser.goto("/")
    await browser.submit("#f")


async def refresh(browser: BrowserSession) -> None:
    await browser.goto("/meta")
    await browser.wait_for("h1")


async def script(browser: BrowserSession) -> None:
    await browser.goto("/script")
    await browser.wait_for_text("Next")


async def later(browser: BrowserSession) -> None:
    await browser.goto("/later")
    await browser.wait_for_text("Next")


@pytest.mark.req("W3", "S2")
@pytest.mark.parametrize(
    ("walk", "paths"),
    [
        (click, ("/", "/next")),
        (send, ("/", "/one", "/two", "/next")),
        (refresh, ("/meta", "/next")),
        (script, ("/script", "/next")),
        (later, ("/later", "/next")),
    ],
)
async def test_each_document_passes_the_gate_and_leaves_before_the_next(
    browser: BrowserSession,
    gate: RecordingGate,
    site: VisitedSite,
    walk: Callable[[BrowserSession], Coroutine[Any, Any, None]],
    paths: tuple[str, ...],
) -> None:
    await walk(browser)
    await until(lambda: not gate.open)
    assert events(gate) == passed(*paths)
    assert gate.most_open == 1
    assert site.paths() == list(paths)
    assert browser.requests <= len(paths)


async def test_frames_pictures_and_calls_of_a_page_belong_to_it(browser: BrowserSession, gate: RecordingGate) -> None:
    await browser.goto("/framed", wait="networkidle")
    assert events(gate) == passed("/framed")


async def test_a_429_reaches_the_gate_with_its_status_and_the_author_with_its_wait(
    browser: BrowserSession, gate: RecordingGate
) -> None:
    with pytest.raises(Failed) as raised:
        await browser.goto("/busy")
    assert (raised.value.failure.kind, raised.value.failure.retry_after_seconds) == (FailureKind.RATE_LIMITED, 7)
    await until(lambda: not gate.open)
    assert gate.events == ["enter /busy", "leave /busy 429"]


@pytest.mark.req("W2", "W3")
@pytest.mark.parametrize(
    "refusal",
    [
        LeaseLost("the lease is gone"),
        SiteUnavailable("site.example", "it is closed", 60),
        Failed(Failure.of(FailureKind.ROBOTS_DENIED, "robots.txt denies it")),
    ],
    ids=["lease lost", "site held", "robots"],
)
@pytest.mark.parametrize("by_click", [False, True], ids=["goto", "click"])
async def test_what_the_gate_refuses_never_reaches_the_site(
    launched: ChromiumProcess, site: VisitedSite, refusal: Exception, by_click: bool
) -> None:
    gate = RecordingGate()
    gate.refusals["/next"] = refusal  # type: ignore[assignment]
    async with visiting(launched, site.port, gate, base_url=HOST) as browser:
        await browser.goto("/")
        with pytest.raises(type(refusal)) as raised:
            await (browser.click("#a") if by_click else browser.goto("/next"))
        assert raised.value is refusal
        if isinstance(refusal, Failed):
            await browser.goto("/")  # of which the session does not end
        else:
            with pytest.raises(type(refusal)):
                await browser.goto("/")
    assert "/next" not in site.paths()


async def test_time_at_the_gate_is_nobodys(launched: ChromiumProcess, site: VisitedSite) -> None:
    gate = RecordingGate()
    gate.hold_seconds = 1.2
    timeouts = Timeouts(request_seconds=1, navigation_seconds=1)
    async with visiting(launched, site.port, gate, base_url=HOST, timeouts=timeouts) as browser:
        await browser.goto("/")
        await browser.click("#a")
        assert (await browser.page()).text_of("h1") == "Next"


# -- the same answer means the same over HTTP and in a browser ---------------------------------------------------------


class Saying:
    """A transport with one answer."""

    def __init__(self, raw: bytes) -> None:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
        self._answer = Response(url=f"{HOST}/it", status=int(first.split()[1]), headers=pairs, body=body)

    async def send(self, request: Request) -> Response:
        return self._answer

    async def close(self) -> None:
        pass


def raw(response: Any, *headers: str) -> bytes:
    """An answer of the demo county."""
    return html(response.body.decode(), *headers, status=f"{response.status} X")


async def verdict(fetching: Coroutine[Any, Any, Any]) -> str:
    try:
        await fetching
    except Failed as failed:
        return failed.failure.kind.value
    except NotFound:
        return "not_found"
    return "page"


CAPTCHA = html(
    "<title>Just a moment...</title><h1>Checking if the site connection is secure</h1>"
    "<form id=challenge-form></form><div class=cf-turnstile></div>",
    "cf-mitigated: challenge",
    status="403 Forbidden",
)
SIGNATURE = SitePolicy(
    action_delay_ms=(0, 0), signatures=(Signature(kind=SignatureKind.NOT_FOUND, body="no such parcel"),)
)


@pytest.mark.parametrize(
    ("answer", "policy", "expected"),
    [
        (raw(county.BLOCKED), None, "blocked"),
        (CAPTCHA, None, "captcha"),
        (raw(county.MAINTENANCE), None, "maintenance"),
        (raw(county.RUNTIME_ERROR), None, "server_error"),
        (raw(county.NOT_FOUND), None, "not_found_page"),
        (EMPTY_404, None, "not_found_page"),
        (html(""), None, "server_error"),
        (
            html("<h1>Hello</h1>", "WWW-Authenticate: Basic realm=x", status="401 No"),
            None,
            "credential",
        ),
        (html("<h1>Sorry, there is no such parcel</h1>"), SIGNATURE, "not_found"),
        (html("<h1>I am a teapot</h1>", status="418 Teapot"), None, "http_error"),
        (html("<h1>Parcel</h1><p>Owner: SMITH"), None, "page"),
        (SKELETON, None, "page"),
    ],
)
async def test_an_answer_means_the_same_as_over_http(
    launched: ChromiumProcess, site: VisitedSite, answer: bytes, policy: SitePolicy | None, expected: str
) -> None:
    site.answers["/it"] = answer
    gate, over_http = RecordingGate(policy), RecordingGate(policy)
    web = WebSession(Saying(answer), Timeouts(), _Clock(), gate=over_http)
    assert await verdict(web.get(f"{HOST}/it")) == expected
    async with visiting(launched, site.port, gate) as browser:
        assert await verdict(browser.goto(f"{HOST}/it")) == expected
        if expected not in {"page", "not_found"}:
            assert browser.refused is not None
            assert browser.refused.status == Saying(answer)._answer.status
            assert [failure.kind.value for failure in gate.blamed] == [expected]
        elif expected == "not_found":
            assert list(browser.kept) == ["html"]


class _Clock:
    def now(self) -> float:
        return 1_750_000_000.0

    def boot(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_a_wall_that_comes_while_one_waits_is_told_at_once(browser: BrowserSession, site: VisitedSite) -> None:
    site.answers["/next"] = raw(county.BLOCKED)
    await browser.goto("/")
    await browser.evaluate("() => void setTimeout(() => location = '/next', 100)")
    with pytest.raises(Failed) as raised:
        await browser.wait_for("#never", seconds=5)
    assert raised.value.failure.kind == FailureKind.BLOCKED


async def test_a_wall_that_scripts_draw_is_seen_when_the_page_is_taken(
    browser: BrowserSession, site: VisitedSite
) -> None:
    body = county.BLOCKED.body.decode().partition("<body>")[2].partition("</body>")[0]
    text = body.replace("`", "").replace("\\", "")
    site.answers["/drawn"] = html(
        f"<h1>x</h1><template id=t>{text}</template><script>setTimeout(() => {{"
        "document.title = 'Access denied'; document.body.innerHTML = t.innerHTML }, 500)</script>"
    )
    await browser.goto("/drawn", wait="#banner")
    with pytest.raises(Failed) as raised:
        await browser.page("detail")
    assert raised.value.failure.kind == FailureKind.BLOCKED
    assert not browser.kept


async def test_a_status_that_is_expected_is_an_answer(browser: BrowserSession) -> None:
    await browser.goto("/busy", expect_status=(429,))
    assert (await browser.page()).status == 429


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://site.example:1/", FailureKind.EGRESS_DENIED),
        ("https://site.example/", FailureKind.PROXY),
        (f"{HOST}/cut", FailureKind.SERVER_ERROR),
    ],
)
async def test_a_page_that_is_not_reached_says_why(
    browser: BrowserSession, site: VisitedSite, url: str, kind: FailureKind, gate: RecordingGate
) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.close()

    site.answers["/cut"] = cut
    with pytest.raises(Failed) as raised:
        await browser.goto(url)
    assert raised.value.failure.kind == kind
    await until(lambda: not gate.open)
    await browser.goto("/next")
    assert (await browser.page()).text_of("h1") == "Next"


async def test_a_picture_is_taken_of_what_failed_and_of_nothing_else(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port, base_url=HOST) as well:
        await well.goto("/")
    assert well.downloads == []
    with pytest.raises(Failed):
        async with visiting(launched, site.port, base_url=HOST) as badly:
            await badly.goto("/busy")
    assert [(kept.name, kept.body[:4]) for kept in badly.downloads] == [("screenshot.png", b"\x89PNG")]
