"""What authors can do in a browser (B3), each helper on a page of our own, in a real Chromium."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.fetch.browser.tab.session import BrowserSession
from tests.unit.fetch.browser.launching import until
from tests.unit.fetch.browser.visited_site import HOST, VisitedSite, html, moved, visited_site
from tests.unit.fetch.browser.visiting import RecordingGate, launched_browser, visiting

pytestmark = [pytest.mark.req("B3"), pytest.mark.asyncio(loop_scope="module")]

FORM = """<h1>Form</h1><form id=f action="/sent" method=post><input name=who><select name=year><option>2024<option>2025
</select><input type=checkbox name=agree value=yes><button id=go>Send</button></form>
<p id=typed></p><script>document.querySelector('[name=who]').onkeyup = e =>
document.getElementById('typed').textContent += e.key</script>"""
LAZY = """<h1>Rows</h1><div id=rows></div><script>
let n = 0;
const row = () => rows.insertAdjacentHTML('beforeend', `<p style="height:200px">row ${++n}</p>`);
const more = () => { for (let i = 0; i < 10; i++) row() };
more();
const near = () => innerHeight + scrollY > document.documentElement.scrollHeight - 50;
onscroll = () => { if (n < 40 && near()) setTimeout(more, 50) };
</script>"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        site.answers |= {
            "/": html("<title>Home</title><h1>Home</h1><a id=next href='/next'>next</a>"),
            "/next": html("<h1>Next</h1><p class=x>a</p><p class=x>b</p>", "Set-Cookie: seen=yes"),
            "/form": html(FORM),
            "/sent": html("<h1>Sent</h1>"),
            "/lazy": html(LAZY),
            "/late": html(
                "<h1>Late</h1><div id=d></div><script>setTimeout(() => d.innerHTML = '<b id=b>come</b>', 150)</script>"
            ),
            "/frames": html("<h1>Out</h1><iframe id=in src='/inner'></iframe>"),
            "/inner": html('<h1>In</h1><input id=i><button id=b onclick="this.textContent = i.value">press</button>'),
            "/windows": html(
                "<h1>W</h1><a id=w href='/next' target=_blank>new</a>"
                "<button id=o onclick=\"window.open('/next')\">o</button>"
                "<form action='/next' method=post target=_blank><button id=posts>p</button></form>"
            ),
            "/files": html(
                "<h1>F</h1><a id=att href='/att'>a</a><a id=dl href='/next' download>d</a>"
                "<button id=blob onclick=\"const a = document.createElement('a'); a.download = 'x.txt';"
                "a.href = window.URL.createObjectURL(new Blob(['made here'])); a.click()\">b</button>"
            ),
            "/att": html("PDF one", 'Content-Disposition: attachment; filename="../../x"', kind="application/pdf"),
            "/inline": html("PDF two", kind="application/pdf"),
            "/picture": html("<h1>P</h1><img src='/a.png'><link rel=stylesheet href='/a.css'>"),
            "/a.png": html("", kind="image/png"),
            "/a.css": html("h1 { color: red }", kind="text/css"),
            "/asks": html("<h1>Asks</h1><button id=b onclick=\"document.title = confirm('Sure?')\">b</button>"),
            "/json": html('{"a": [1, 2]}', kind="application/json"),
            "/latin": b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\n"
            b"Content-Length: 10\r\n\r\n<h1>\xe9</h1>",
            "/moved": moved("/next"),
        }
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def gate() -> RecordingGate:
    return RecordingGate()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(launched: ChromiumProcess, site: VisitedSite, gate: RecordingGate) -> AsyncIterator[BrowserSession]:
    site.asked.clear()
    async with visiting(launched, site.port, gate, base_url=HOST) as browser:
        yield browser


async def test_the_page_is_the_dom_with_status_and_headers_of_its_document(browser: BrowserSession) -> None:
    await browser.goto("/moved")
    page = await browser.page("detail")
    assert (page.url, page.status, page.name) == (f"{HOST}/next", 200, "detail")
    assert page.body == b'<html><head></head><body><h1>Next</h1><p class="x">a</p><p class="x">b</p></body></html>'
    assert page.page.exchange is not None
    assert ("content-type", "text/html; charset=utf-8") in page.page.exchange.response_headers
    assert list(browser.kept) == ["detail"]
    assert await browser.cookies() == {"seen": "yes"}
    assert browser.requests == 2


async def test_what_scripts_made_is_in_it(browser: BrowserSession) -> None:
    await browser.goto("/late", wait="#b")
    assert (await browser.page()).text_of("#b") == "come"
    assert await browser.evaluate("() => n = 1, document.title") == ""
    assert await browser.evaluate("x => x + 1", 2) == 3
    await browser.goto("/late")
    await browser.wait_for_text("come")
    await browser.wait_for_function("() => document.getElementById('b')")
    await browser.goto("/late", wait="domcontentloaded")
    await browser.wait_for("#b", state="attached")
    assert await browser.text("#b") == "come"


async def test_json_and_other_charsets(browser: BrowserSession) -> None:
    await browser.goto("/json")
    page = await browser.page()
    assert page.json() == {"a": [1, 2]}
    assert page.page.content_type == "application/json"
    await browser.goto("/latin")
    assert (await browser.page()).text_of("h1") == "é"


async def test_forms_by_hand(browser: BrowserSession, site: VisitedSite) -> None:
    await browser.goto("/form")
    await browser.type("[name=who]", "ab", key_delay_ms=0)
    assert await browser.text("#typed") == "ab"
    await browser.fill("[name=who]", "Müller")
    await browser.select("[name=year]", "2025")
    await browser.check("[name=agree]")
    await browser.hover("#go")
    await browser.click("#go")
    assert (await browser.page()).text_of("h1") == "Sent"
    assert site.asked[-1].body == b"who=M%C3%BCller&year=2025&agree=yes"


async def test_forms_at_once(browser: BrowserSession, site: VisitedSite) -> None:
    await browser.goto("/form")
    await browser.submit("#f", {"who": "x", "year": "2025", "agree": True})
    assert site.asked[-1].body == b"who=x&year=2025&agree=yes"
    await browser.back()
    assert (await browser.page()).text_of("h1") == "Form"
    await browser.press("[name=who]", "Enter")
    assert (await browser.page()).text_of("h1") == "Sent"


async def test_rows_that_come_on_scrolling(browser: BrowserSession) -> None:
    await browser.goto("/lazy")
    await browser.scroll()
    assert await browser.scroll_to_end(rest_ms=300) >= 3
    assert await browser.count("#rows p") == 40
    await browser.goto("/lazy")
    assert await browser.scroll_to_end(most=1) == 1


async def test_frames(browser: BrowserSession) -> None:
    await browser.goto("/frames")
    inner = browser.frame("#in")
    await inner.fill("#i", "hello")
    await inner.click("#b")
    await inner.wait_for("#b")
    assert await inner.text("#b") == "hello"
    assert (await inner.page()).text_of("h1") == "In"


async def test_windows_are_shut_unless_they_are_wanted(
    browser: BrowserSession, gate: RecordingGate, site: VisitedSite
) -> None:
    await browser.goto("/windows")
    await browser.click_window("#w")
    assert (await browser.page()).text_of("h1") == "Next"
    assert (await browser.page()).url == f"{HOST}/next"
    await browser.close_window()
    assert (await browser.page()).text_of("h1") == "W"
    assert site.paths() == ["/windows", "/next"]
    assert gate.events == ["enter /windows", "leave /windows 200", "enter /next", "leave /next 200"]
    for opens in ("#o", "#posts", "#w"):
        await browser.click(opens)
        await until(lambda: len(browser.raw.context.pages) == 1)
    assert (await browser.page()).text_of("h1") == "W"
    assert site.paths() == ["/windows", "/next"], "what nobody wants has left past the gate"
    assert len(gate.events) == 4


async def test_files_never_get_a_name_of_the_sites(browser: BrowserSession) -> None:
    await browser.goto("/files")
    one = await browser.download("one.pdf", click="#att", content_type="application/pdf")
    assert one.body == b"PDF one"
    await browser.download("two.html", click="#dl")
    await browser.download("three.pdf", url="/inline")
    made = await browser.download("four.txt", click="#blob")
    assert made.body == b"made here"
    assert [kept.name for kept in browser.downloads] == ["one.pdf", "two.html", "three.pdf", "four.txt"]
    assert browser.downloads[1].body.startswith(b"<h1>Next")
    assert browser.url == f"{HOST}/files"


async def test_a_file_that_is_no_file_or_too_large_is_a_failure(browser: BrowserSession) -> None:
    await browser.goto("/files")
    for kind, options in (
        (FailureKind.LAYOUT_CHANGED, {"click": "#dl", "content_type": "application/pdf"}),
        (FailureKind.TOO_LARGE, {"url": "/att", "largest_bytes": 3}),
        (FailureKind.NOT_FOUND_PAGE, {"url": "/missing"}),
    ):
        with pytest.raises(Failed) as raised:
            await browser.download("x", **options)
        assert raised.value.failure.kind == kind
    assert browser.downloads == []


async def test_a_page_that_is_a_file_says_what_to_do(browser: BrowserSession) -> None:
    with pytest.raises(Failed, match=r"is a file \(application/pdf\), not a page; get it with download"):
        await browser.goto("/inline")


@pytest.mark.req("H2", "Z6")
async def test_a_picture_that_the_browser_cannot_take_is_its_failure(
    browser: BrowserSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Chromium says of a page of 100,000 by 100,000 pixels, and now and then on a busy machine."""
    said = "Page.screenshot: Protocol error (Page.captureScreenshot): Unable to capture screenshot"

    async def refused(**_options: object) -> bytes:
        raise browser._calls.driver_error(said)

    await browser.goto("/")
    with monkeypatch.context() as patch:
        patch.setattr(browser._calls.page, "screenshot", refused)
        with pytest.raises(Failed, match="browser_crash: the browser could not take a picture"):
            await browser.screenshot()
    await browser.screenshot()
    assert [kept.name for kept in browser.downloads] == ["screenshot.png"]


@pytest.mark.req("R1")
async def test_pictures_and_print(browser: BrowserSession) -> None:
    await browser.goto("/")
    await browser.screenshot()
    await browser.screenshot("all.png", full_page=True)
    await browser.pdf("print.pdf")
    assert [(kept.name, kept.body[:4]) for kept in browser.downloads] == [
        ("screenshot.png", b"\x89PNG"),
        ("all.png", b"\x89PNG"),
        ("print.pdf", b"%PDF"),
    ]


async def test_what_is_blocked_is_not_asked_for(launched: ChromiumProcess, site: VisitedSite) -> None:
    site.asked.clear()
    async with visiting(launched, site.port, base_url=HOST, block=("image",)) as browser:
        await browser.goto("/picture")
        assert site.paths() == ["/picture", "/a.css"]
        await browser.block("image", "stylesheet")
        await browser.goto("/picture?again")
        assert site.paths()[2:] == ["/picture?again"]
        with pytest.raises(ValueError, match="block: 'script' cannot be left out; one of image, font"):
            await browser.block("script")
        await browser.block()
        await browser.goto("/picture?all")
        assert "/a.png" in site.paths()


async def test_dialogs_are_answered_and_what_they_said_is_known(browser: BrowserSession) -> None:
    await browser.goto("/asks")
    await browser.click("#b")
    assert browser.dialogs == ["Sure?"]
    assert await browser.evaluate("() => document.title") == "true"
    browser.answer_no()
    await browser.click("#b")
    assert await browser.evaluate("() => document.title") == "false"


async def test_what_is_missing_is_told_with_its_selector(browser: BrowserSession) -> None:
    await browser.goto("/")
    with pytest.raises(Failed, match="has no #nothing") as raised:
        await browser.click("#nothing")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED
    with pytest.raises(Failed, match="waiting for #nothing") as raised:
        await browser.wait_for("#nothing", seconds=0.2)
    assert raised.value.failure.kind == FailureKind.TIMEOUT
    assert (await browser.page()).text_of("h1") == "Home"


@pytest.mark.req("Z4")
@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "chrome://version", "view-source:http://a/", "javascript:1", "data:,x"]
)
async def test_other_schemes_are_refused(browser: BrowserSession, url: str) -> None:
    with pytest.raises(Failed, match="is no http or https address") as raised:
        await browser.goto(url)
    assert raised.value.failure.kind == FailureKind.INVALID_INPUT
