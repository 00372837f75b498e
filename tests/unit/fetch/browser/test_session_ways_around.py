"""Ways around the gate that a browser has of its own: workers, pages loaded in advance, prompts for passwords."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.document import ServiceWorkerBypass
from swath.fetch.browser.tab.session import BrowserSession
from tests.unit.fetch.browser.visited_site import VisitedSite, html, visited_site
from tests.unit.fetch.browser.visiting import QUICK, RecordingGate, Stand, launched_browser, stand, visiting

pytestmark = [pytest.mark.req("K7", "H5", "S2"), pytest.mark.asyncio(loop_scope="module")]

LOCAL = "http://localhost"  # by the context's proxy as any other; over plain HTTP only such a name may have workers
WORKER = """
addEventListener('install', () => skipWaiting());
addEventListener('activate', event => event.waitUntil(clients.claim()));
addEventListener('fetch', event => event.respondWith(fetch(event.request)));
"""
REGISTERS = """<h1>Home</h1><a id=a href='WHERE'>x</a><script>
navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => { THEN });
</script>"""
CLAIMED = (
    "const done = () => document.body.insertAdjacentHTML('beforeend', '<p id=claimed>c</p>');"
    "if (navigator.serviceWorker.controller) done(); else navigator.serviceWorker.oncontrollerchange = done"
)
IN_ADVANCE = {
    "prefetch": [{"source": "list", "urls": [f"/fetched/{n}" for n in range(10)], "eagerness": "immediate"}],
    "prerender": [{"source": "list", "urls": ["/drawn/0", "/drawn/1"], "eagerness": "immediate"}],
}
NEEDS_PASSWORD = html("<h1>Who are you?</h1>", "WWW-Authenticate: Basic realm=x", status="401 No")
SAVES = """<h1>Files</h1><button id=big>b</button><script>big.onclick = () => {
const a = document.createElement('a'); a.download = 'x.bin';
a.href = URL.createObjectURL(new Blob([new Uint8Array(8 << 20)])); a.click() }</script>"""


class Staying(Stand):
    """Its context lives on for the next item, as that of a kept session does."""

    async def close(self) -> None:
        self.closed += 1
        await self.page.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        site.answers |= {
            "/worker.js": html(WORKER, kind="text/javascript"),
            "/403": html("<h1>Forbidden</h1>", status="403 Forbidden"),
            "/429": html("<h1>Slow down</h1>", status="429 Too Many Requests"),
            "/404": html("<h1>Not here</h1>", status="404 Not Found"),
            "/denied": html("<h1>Secret</h1>"),
            "/fine": html("<h1>Fine</h1>"),
            "/ahead": html(f"<h1>A</h1><script type=speculationrules>{json.dumps(IN_ADVANCE)}</script>"),
            "/locked": NEEDS_PASSWORD,
            "/shows-locked": html(
                "<h1>Page</h1><img src='/locked?1' onerror=\"img.textContent = 'none'\"><p id=img></p><p id=got></p>"
                "<p id=xhr></p><script>fetch('/locked?2').then(r => got.textContent = r.status);"
                "x = new XMLHttpRequest(); x.open('GET', '/locked?3', false); x.send(); xhr.textContent = x.status"
                "</script>"
            ),
            "/files": html(SAVES),
        }
        for where in ("/403", "/429", "/404", "/denied", "/fine"):
            site.answers[f"/home{where}"] = html(REGISTERS.replace("WHERE", where).replace("THEN", CLAIMED))
            site.answers[f"/hurried{where}"] = html(
                REGISTERS.replace("WHERE", where).replace("THEN", f"location = '{where}'")
            )
        yield site


async def hurry(browser: BrowserSession) -> None:
    await browser.goto(f"{LOCAL}/hurried/403")
    await browser.wait_for_text("Forbidden")
    await browser.page()


def refusing() -> RecordingGate:
    gate = RecordingGate()
    gate.refusals["/denied"] = Failed(Failure.of(FailureKind.ROBOTS_DENIED, "robots.txt says no"))
    return gate


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/403", FailureKind.BLOCKED),
        ("/429", FailureKind.RATE_LIMITED),
        ("/404", FailureKind.NOT_FOUND_PAGE),
        ("/denied", FailureKind.ROBOTS_DENIED),
    ],
)
async def test_what_lies_behind_a_service_worker_passes_the_gate_and_is_judged(
    launched: ChromiumProcess, site: VisitedSite, where: str, kind: FailureKind
) -> None:
    gate = refusing()
    async with visiting(launched, site.port, gate) as browser:
        await browser.goto(f"{LOCAL}/home{where}", wait="#claimed")
        assert await browser.raw.evaluate("navigator.serviceWorker.controller !== null")  # it sees nothing of this
        with pytest.raises(Failed) as raised:
            await browser.click("#a")
    assert raised.value.failure.kind is kind
    expected = f"refuse {where}" if kind is FailureKind.ROBOTS_DENIED else f"enter {where}"
    assert expected in gate.events
    assert (where in site.paths()) is (kind is not FailureKind.ROBOTS_DENIED)


async def test_a_window_that_a_service_worker_would_answer_passes_the_gate_and_is_judged(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    gate = RecordingGate()
    async with visiting(launched, site.port, gate) as browser:
        await browser.goto(f"{LOCAL}/home/403", wait="#claimed")
        await browser.evaluate("document.querySelector('#a').target = '_blank'")
        with pytest.raises(Failed) as raised:
            await browser.click_window("#a")
    assert raised.value.failure.kind is FailureKind.BLOCKED
    assert "enter /403" in gate.events


async def test_a_page_that_goes_on_as_soon_as_its_worker_is_ready_is_not_taken_for_a_success(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    gate = refusing()
    async with visiting(launched, site.port, gate) as browser:
        with pytest.raises(Failed) as raised:
            await hurry(browser)
    assert raised.value.failure.kind in {FailureKind.BLOCKED, FailureKind.NAVIGATION}


async def test_a_worker_that_an_earlier_item_left_behind_asleep_answers_nothing(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    first = await stand(launched, site.port)
    options = SessionOptions(timeouts=QUICK)
    place = Staying(launched, first.context, first.page)
    async with BrowserSession(place, RecordingGate(), SystemClock(), options) as browser:
        await browser.goto(f"{LOCAL}/home/fine", wait="#claimed")
        keeper = await first.context.new_cdp_session(browser.raw)
        await keeper.send("ServiceWorker.enable")
        await keeper.send("ServiceWorker.stopAllWorkers")
    gate = RecordingGate()
    place = Staying(launched, first.context, await first.context.new_page())
    async with BrowserSession(place, gate, SystemClock(), options) as browser:
        with pytest.raises(Failed) as raised:
            await browser.goto(f"{LOCAL}/403")
    await first.close()
    assert raised.value.failure.kind is FailureKind.BLOCKED
    assert "enter /403" in gate.events


async def test_a_document_that_came_past_the_gate_all_the_same_is_no_page(
    launched: ChromiumProcess, site: VisitedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blind(*_: object) -> None:
        """Documents are not led past workers."""

    monkeypatch.setattr(ServiceWorkerBypass, "seen", blind)
    async with visiting(launched, site.port) as browser:
        await browser.goto(f"{LOCAL}/home/403", wait="#claimed")
        with pytest.raises(Failed, match="localhost/403 was answered in the browser itself") as raised:
            await browser.click("#a")
    assert raised.value.failure.kind is FailureKind.NAVIGATION


@pytest.mark.req("Z3")
async def test_nothing_is_loaded_in_advance(launched: ChromiumProcess, site: VisitedSite) -> None:
    async with visiting(launched, site.port) as browser:
        await browser.goto(f"{LOCAL}/ahead")
        await asyncio.sleep(1.5)  # without the setting all twelve come within a third of it
        assert await browser.raw.evaluate("HTMLScriptElement.supports('speculationrules')")  # as everywhere
    assert site.paths() == ["/ahead"]


async def test_a_picture_or_a_call_that_needs_a_password_holds_up_nothing(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port) as browser:
        await browser.goto(f"{LOCAL}/shows-locked")
        await browser.wait_for("#got:has-text('401')")
        page = await browser.page()
    assert [page.text_of(where) for where in ("#img", "#got", "#xhr")] == ["none", "401", "401"]


async def test_a_page_that_needs_a_password_is_judged_by_its_answer(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port) as browser:
        with pytest.raises(Failed) as raised:
            await browser.goto(f"{LOCAL}/locked")
        assert browser.refused is not None
        assert (browser.refused.status, b"Who are you?" in browser.refused.body) == (401, True)
    assert raised.value.failure.kind is FailureKind.CREDENTIAL


@pytest.mark.req("B3")
async def test_a_file_of_the_pages_own_is_given_up_as_soon_as_it_is_too_large(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port) as browser:
        await browser.goto(f"{LOCAL}/files")
        with pytest.raises(Failed) as raised:
            await browser.download("x.bin", click="#big", largest_bytes=1 << 20)
        assert raised.value.failure.kind is FailureKind.TOO_LARGE
        assert len((await browser.download("x.bin", click="#big")).body) == 8 << 20


@pytest.mark.req("B3")
async def test_a_file_of_the_pages_own_that_cannot_be_written_is_a_failure_in_words(
    launched: ChromiumProcess, site: VisitedSite
) -> None:
    async with visiting(launched, site.port) as browser:
        await browser.goto(f"{LOCAL}/files")
        launched.downloads.chmod(0o500)
        try:
            with pytest.raises(Failed, match="could not write: canceled") as raised:
                await browser.download("x.bin", click="#big")
        finally:
            launched.downloads.chmod(0o700)
    assert raised.value.failure.kind is FailureKind.NAVIGATION
