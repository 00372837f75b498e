"""Whatever a page or its browser does, an attempt ends in bounded time, in a documented kind, and costs nobody else."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab import session
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.egress.forward_proxy.browser_egress import RouteChooser
from tests.unit.fetch.browser.launching import is_dead, renderers_of, until
from tests.unit.fetch.browser.visited_site import HOST, Answer, VisitedSite, html, moved, visited_site
from tests.unit.fetch.browser.visiting import RecordingGate, launched_browser, stand, visiting

pytestmark = [pytest.mark.req("Z6", "W3"), pytest.mark.asyncio(loop_scope="module")]

BRISK = Timeouts(request_seconds=4, navigation_seconds=5)
MOST_SECONDS = 60.0  # of any of these, on a machine that does ten other things


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment\r\nContent-Type: application/zip\r\n\r\n")
    for _ in range(10_000):
        writer.write(b"x" * 65_536)
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>x</h1>")
    await writer.drain()
    await asyncio.sleep(60)


PAGES: dict[str, Answer] = {
    "/": html("<h1>Home</h1>"),
    "/alerts": html("<h1>A</h1><script>setTimeout(() => { while (true) alert('again') }, 50)</script>"),
    "/asks-to-stay": html(
        "<h1>B</h1><input id=i><script>onbeforeunload = e => { e.preventDefault(); return 'stay' }</script>"
    ),
    "/prints": html("<h1>P</h1><script>for (let i = 0; i < 50; i++) print()</script>"),
    "/windows": html("<h1>W</h1><button id=b onclick=\"window.open('/')\">w</button>"),
    "/refreshes": html("<meta http-equiv=refresh content=0><h1>again</h1>"),
    "/goes-on": html("<h1>on</h1><script>location = '/goes-on?' + Math.random()</script>"),
    "/redirects": moved("/redirects"),
    "/loops-at-once": html("<h1>x</h1><script>while (true);</script>"),
    "/loops-later": html("<h1>x</h1><script>setTimeout(() => { while (true); }, 100)</script>"),
    "/grows": html("<h1>x</h1><script>document.body.append('x'.repeat(500000))</script>"),
    "/throws-files": html("<h1>x</h1><iframe src='/file'></iframe><script>onload = () => location = '/file'</script>"),
    "/becomes-a-file": moved("/file"),
    "/file": html("MZ", "Content-Disposition: attachment; filename=x.exe", kind="application/octet-stream"),
    "/endless": endless,
    "/silent": silent,
    "/drips": dripping,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        site.answers |= PAGES
        yield site


Visit = Callable[[BrowserSession], Awaitable[object]]


def goes_to(path: str, then: Visit | None = None) -> Visit:
    async def visit(browser: BrowserSession) -> None:
        await browser.goto(path)
        if then is not None:
            await then(browser)

    return visit


async def waits(browser: BrowserSession) -> None:
    await browser.wait_for("#never", seconds=20)


async def clicks(browser: BrowserSession) -> None:
    for _ in range(20):
        await browser.click("#b")


async def reads_late(browser: BrowserSession) -> None:
    await asyncio.sleep(0.3)
    await browser.page()


@pytest.mark.parametrize(
    ("visit", "kind", "told"),
    [
        (goes_to("/alerts", waits), FailureKind.NAVIGATION, "more than 50 dialogs"),
        (goes_to("/windows", clicks), FailureKind.NAVIGATION, "more than 5 windows"),
        (goes_to("/refreshes", waits), FailureKind.NAVIGATION, "more than 10 pages, one after the other"),
        (goes_to("/goes-on", waits), FailureKind.NAVIGATION, "more than 10 pages, one after the other"),
        (goes_to("/redirects"), FailureKind.NAVIGATION, "more than 10 pages, one after the other"),
        (goes_to("/loops-at-once"), FailureKind.TIMEOUT, "its scripts never end"),
        (goes_to("/loops-later", reads_late), FailureKind.TIMEOUT, "its scripts never end"),
        (goes_to("/grows", BrowserSession.page), FailureKind.TOO_LARGE, "has more than 100,000 bytes"),
        (goes_to("/silent"), FailureKind.TIMEOUT, "took longer than 5 s"),
        (goes_to("/drips"), FailureKind.TIMEOUT, "took longer than 5 s"),
    ],
)
async def test_a_hostile_page_costs_its_attempt_and_nobody_else(
    launched: ChromiumProcess, site: VisitedSite, visit: Visit, kind: FailureKind, told: str
) -> None:
    started = time.monotonic()
    limits: dict[str, Any] = {
        "most_documents": 10,
        "most_windows": 5,
        "most_page_bytes": 100_000,
        "screenshot": "never",
    }
    with pytest.raises(Failed, match=told) as raised:
        async with visiting(launched, site.port, base_url=HOST, timeouts=BRISK, **limits) as browser:
            await visit(browser)
    assert raised.value.failure.kind == kind
    assert time.monotonic() - started < MOST_SECONDS
    async with visiting(launched, site.port, base_url=HOST) as another:
        await another.goto("/")
        assert (await another.page()).text_of("h1") == "Home"


async def test_a_page_that_loops_leaves_no_process_behind(launched: ChromiumProcess, site: VisitedSite) -> None:
    with pytest.raises(Failed):
        async with visiting(launched, site.port, base_url=HOST, timeouts=BRISK, screenshot="never") as browser:
            await browser.goto("/loops-at-once")

    def at_rest() -> bool:
        try:
            return all(process.cpu_percent(0.1) < 50 for process in renderers_of(launched))
        except psutil.NoSuchProcess:  # it went while it was looked at
            return False

    await until(at_rest)


async def test_a_page_that_asks_to_stay_is_left_all_the_same(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/asks-to-stay")
        await browser.fill("#i", "changed")
        await browser.goto("/")
        assert (await browser.page()).text_of("h1") == "Home"
        await browser.goto("/asks-to-stay")
        await browser.fill("#i", "changed")


async def test_a_page_that_prints_is_an_ordinary_page(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/prints")
        assert (await browser.page()).text_of("h1") == "P"


async def test_files_that_nobody_asked_for_are_not_saved(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/throws-files", wait="domcontentloaded")
        await browser.wait_for("h1")
        assert (await browser.page()).text_of("h1") == "x"
        assert browser.downloads == []
    assert list(launched.downloads.iterdir()) == []


@pytest.mark.parametrize(("when", "wait"), [("DOMContentLoaded", "domcontentloaded"), ("load", "load"), ("load", "h1")])
async def test_a_page_that_throws_a_file_as_it_comes_is_a_page(
    launched: ChromiumProcess, site: VisitedSite, when: str, wait: str
) -> None:
    site.answers["/throws-one"] = html(
        f"<h1>x</h1><script>addEventListener('{when}', () => location = '/file')</script>"
    )
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/throws-one", wait=wait)
        assert (await browser.page()).text_of("h1") == "x"
        assert browser.downloads == []


async def test_an_address_that_is_a_file_is_told_of_whatever_the_page_before_throws(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        for address in ("/file", "/becomes-a-file"):
            await browser.goto("/throws-files", wait="domcontentloaded")
            with pytest.raises(Failed, match=rf"{address} is a file \(application/octet-stream\), not a page"):
                await browser.goto(address)
        await browser.goto("/")
        assert (await browser.page()).text_of("h1") == "Home"


async def test_an_endless_file_is_read_up_to_its_cap(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/")
        with pytest.raises(Failed) as raised:
            await browser.download("x.zip", url="/endless", largest_bytes=300_000)
        assert raised.value.failure.kind == FailureKind.TOO_LARGE
        assert (await browser.page()).text_of("h1") == "Home"


# -- the browser dies --------------------------------------------------------------------------------------------------


@pytest.mark.req("B1")
async def test_a_renderer_that_is_killed_is_a_crash_at_once(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port, base_url=HOST) as browser:
        await browser.goto("/")
        for process in renderers_of(launched):
            process.kill()
        with pytest.raises(Failed) as raised:
            await browser.wait_for("#never", seconds=20)
        assert raised.value.failure.kind == FailureKind.BROWSER_CRASH
        with pytest.raises(Failed, match="died"):
            await browser.goto("/")
    async with visiting(launched, site.port, base_url=HOST) as another:
        await another.goto("/")


@pytest.mark.req("B1")
async def test_a_browser_that_is_killed_is_a_crash_at_once(tmp_path: Path, site: VisitedSite) -> None:
    async with launched_browser(tmp_path) as doomed:
        started = time.monotonic()
        with pytest.raises(Failed) as raised:  # noqa: PT012 the end of the session belongs to it
            async with visiting(doomed, site.port, base_url=HOST) as browser:
                await browser.goto("/")
                assert doomed.pid is not None
                os.killpg(doomed.pid, signal.SIGKILL)
                await browser.wait_for("#never", seconds=20)
        assert raised.value.failure.kind == FailureKind.BROWSER_CRASH
        assert time.monotonic() - started < MOST_SECONDS


@pytest.mark.req("B1")
async def test_a_browser_that_hangs_before_anything_is_opened_is_killed_and_blamed_on_no_page(
    tmp_path: Path, site: VisitedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_BEGIN_SECONDS", 1.0)
    async with launched_browser(tmp_path) as frozen:
        place = await stand(frozen, site.port)
        assert frozen.pid is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        with pytest.raises(Failed, match="did not come back from: beginning") as raised:
            async with BrowserSession(place, RecordingGate(), SystemClock(), SessionOptions()):
                pytest.fail("it cannot begin")
        assert raised.value.failure.kind == FailureKind.BROWSER_CRASH
        assert place.killed == 1
        assert is_dead(frozen.pid)


@pytest.mark.req("B1")
async def test_a_browser_that_hangs_is_killed(tmp_path: Path, site: VisitedSite) -> None:
    async with launched_browser(tmp_path) as frozen:
        place = await stand(frozen, site.port)
        options = SessionOptions(timeouts=BRISK, base_url=HOST)
        pid = frozen.pid
        assert pid is not None
        with pytest.raises(Failed, match="did not come back") as raised:  # noqa: PT012 so does its end here
            async with BrowserSession(place, RecordingGate(), SystemClock(), options) as browser:
                await browser.goto("/")
                os.kill(pid, signal.SIGSTOP)
                await browser.page()
        assert raised.value.failure.kind == FailureKind.BROWSER_CRASH
        assert place.killed == 1
        assert is_dead(pid)


# -- what the way out knows --------------------------------------------------------------------------------------------


class TroubledExit:
    """An exit that has something to tell: for what Chromium cannot know behind a proxy."""

    port = 0
    token = "a1b2"
    sent_bytes = 10
    received_bytes = 1_234
    requests = 1

    def __init__(self, trouble: Failure | None = None, overrun: Failure | None = None) -> None:
        self._trouble = trouble
        self.too_much = overrun
        self._overrun: Failure | None = None
        self.served: list[tuple[RouteChooser | None, int]] = []

    @property
    def overrun(self) -> Failure | None:
        return self._overrun

    def run_over(self) -> Failure | None:
        """From now on more has come than may; what is then to be told."""
        self._overrun = self.too_much
        return self.too_much or self._trouble

    def serve(self, way: RouteChooser | None, most_bytes: int) -> None:
        self.served.append((way, most_bytes))

    def trouble(self, url: str) -> Failure | None:
        told, self._trouble = self._trouble, None
        return told


async def test_an_answer_of_the_exits_own_is_no_answer_of_the_sites(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    place = await stand(launched, site.port)
    denied = Failure.of(FailureKind.EGRESS_DENIED, "a private address")
    place.exit, gate = TroubledExit(trouble=denied), RecordingGate()
    site.answers["/not-let"] = b"HTTP/1.1 403 No\r\nx-swath-exit: a1b2\r\nContent-Length: 0\r\n\r\n"
    site.answers["/pretends"] = html("<h1>Blocked</h1>", "x-swath-exit: guessed", status="403 No")
    options = SessionOptions(timeouts=BRISK, base_url=HOST, screenshot="never")
    async with BrowserSession(place, gate, SystemClock(), options) as browser:
        with pytest.raises(Failed) as raised:
            await browser.goto("/not-let")
        assert raised.value.failure == denied
        assert gate.failures == [denied]
        with pytest.raises(Failed) as raised:
            await browser.goto("/pretends")
        assert raised.value.failure.kind == FailureKind.BLOCKED


@pytest.mark.parametrize(
    "exit_",
    [
        TroubledExit(trouble=Failure.of(FailureKind.DNS_UNKNOWN, "there is no such name")),
        TroubledExit(trouble=Failure.of(FailureKind.EGRESS_DENIED, "a private address")),
        TroubledExit(overrun=Failure.of(FailureKind.TOO_LARGE, "more than may come")),
    ],
    ids=["name", "private", "overrun"],
)
async def test_the_way_out_knows_better_than_chromium(
    launched: ChromiumProcess, site: VisitedSite, exit_: TroubledExit
) -> None:
    place = await stand(launched, site.port)
    place.exit = exit_
    gate = RecordingGate()
    with pytest.raises(Failed) as raised:  # noqa: PT012 and here
        async with BrowserSession(place, gate, SystemClock(), SessionOptions(timeouts=BRISK, most_bytes=77)) as browser:
            known = exit_.run_over()
            await browser.goto("https://site.example/")
    assert raised.value.failure == known
    assert exit_.served == [(gate, 77)]
    assert browser.bytes == 1_234
