"""A real Chromium behind an exit: TLS, what is counted, attempts one after the other in one context, and the proxy's
password, which Chromium never has."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
import pytest_asyncio
from patchright.async_api import Error, Page

from harness.fakes.hostile_site.behaviour import Authority, Proof
from harness.fakes.proxies.faulty import Fault, FaultyProxy
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyLocation
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions, launch
from swath.fetch.egress.forward_proxy.browser_egress import BROWSER_PROXY_HEADER
from swath.fetch.egress.forward_proxy.browser_proxy import ContextForwardProxy
from swath.fetch.proxies.providers.custom import parse_proxies
from tests.unit.fetch.browser.egress_pages import Pages
from tests.unit.fetch.browser.exit_scene import PLENTY, StraightWay, exits
from tests.unit.fetch.browser.launching import folder_of, processes_of, until

pytestmark = [pytest.mark.req("Z4", "Z7", "P3"), pytest.mark.asyncio(loop_scope="module")]

USER, PASSWORD = "canary-user", "Canary/Pass@7f3a91"
FORMS = [
    form.encode()
    for form in (
        *(PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD)),
        *(base64.b64encode(text.encode()).decode()[4:-4] for text in (PASSWORD, f"{USER}:{PASSWORD}")),
    )
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with AsyncExitStack() as stack:
        deny = await stack.enter_async_context(exits())
        data = tmp_path_factory.mktemp("data")
        made = await launch(LaunchOptions(chromium=find(), data=data, deny_port=deny.deny_port))
        stack.push_async_callback(made.close)
        yield made


@asynccontextmanager
async def behind(
    launched: ChromiumProcess, *allowed: str, way: StraightWay | None = None, most_bytes: int = PLENTY
) -> AsyncIterator[tuple[Page, ContextForwardProxy]]:
    """A page whose context has an exit, which serves an attempt."""
    async with exits(allowed) as made:
        exit_ = await made.open(launched.user)
        exit_.serve(way or StraightWay(), most_bytes)
        async with asyncio.timeout(60):
            server = f"http://127.0.0.1:{exit_.port}"
            context = await launched.browser.new_context(proxy={"server": server}, ignore_https_errors=True)
            try:
                yield await context.new_page(), exit_
            finally:
                await context.close()


@pytest.mark.parametrize("secure", [False, True])
async def test_what_is_counted_is_what_the_site_sent(launched: ChromiumProcess, secure: bool) -> None:
    pages = Pages()
    pages._tls = Authority().context(Proof.GOOD, ["http/1.1"]) if secure else None
    async with pages, AsyncExitStack() as stack:
        page, exit_ = await stack.enter_async_context(behind(launched, f"127.0.0.1:{pages.port}"))
        before = pages.sent_bytes
        response = await page.goto(f"{pages.url}/bytes?count=400000")
        assert response is not None
        assert response.status == 200
        await until(lambda: exit_.received_bytes >= pages.sent_bytes - before)
        assert exit_.received_bytes == pytest.approx(pages.sent_bytes - before, rel=0.1)
        assert 0 < exit_.sent_bytes < 20_000
        assert exit_.trouble(pages.url) is None


async def test_too_much_is_cut_and_told(launched: ChromiumProcess) -> None:
    async with Pages() as pages, behind(launched, f"127.0.0.1:{pages.port}", most_bytes=500_000) as (page, exit_):
        with suppress(Error):
            await page.goto(f"{pages.url}/bytes?count=3000000", wait_until="commit", timeout=10_000)
        await until(lambda: exit_.overrun is not None)
        assert exit_.overrun is not None
        assert exit_.overrun.kind is FailureKind.TOO_LARGE
        assert exit_.received_bytes < 1_500_000


async def test_a_kept_context_serves_one_attempt_after_the_other(launched: ChromiumProcess) -> None:
    async with Pages() as pages, behind(launched, f"127.0.0.1:{pages.port}") as (page, exit_):
        for number in range(3):
            way = StraightWay()
            exit_.serve(way, PLENTY)
            assert (exit_.requests, exit_.received_bytes) == (0, 0)
            response = await page.goto(f"{pages.url}/plain?{number}")
            assert response is not None
            assert response.status == 200
            assert f"{pages.url}/" in way.asked
        exit_.serve(None, PLENTY)
        answers: list[tuple[int, str | None]] = []
        page.on(
            "response", lambda response: answers.append((response.status, response.headers.get(BROWSER_PROXY_HEADER)))
        )
        with pytest.raises(Error, match="ERR_HTTP_RESPONSE_CODE_FAILURE"):  # as of any error without a body
            await page.goto(f"{pages.url}/plain?last")
        assert answers[0] == (403, exit_.token)
        failure = exit_.trouble(pages.url)
        assert failure is not None
        assert failure.kind is FailureKind.EGRESS_DENIED


async def test_why_a_navigation_failed_can_be_told(launched: ChromiumProcess) -> None:
    async with behind(launched) as (page, exit_):
        for url in ("https://nowhere.example/", "http://nowhere.example/"):
            with suppress(Error):
                await page.goto(url, timeout=10_000)
            failure = exit_.trouble(url)
            assert failure is not None
            assert failure.kind is FailureKind.DNS_UNKNOWN


# -- the upstream proxy's password -------------------------------------------------------------------------------------


@asynccontextmanager
async def proxied(launched: ChromiumProcess) -> AsyncIterator[tuple[Page, ContextForwardProxy, FaultyProxy]]:
    async with Pages() as pages, FaultyProxy({}, f"{USER}:{PASSWORD}") as proxy:
        proxy._hosts["county.example:80"] = proxy._hosts["county.example:443"] = pages.port
        (one,) = parse_proxies([Secret(f"http://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{proxy.port}")])
        way = StraightWay(one.route(ProxyLocation()))
        async with behind(launched, f"127.0.0.1:{proxy.port}", way=way) as (page, exit_):
            yield page, exit_, proxy


def found_in(launched: ChromiumProcess) -> list[str]:
    """Where the password shows: command lines, environments, and all files of the profile."""
    texts: list[tuple[str, bytes]] = []
    for pid in processes_of(launched):
        with suppress(psutil.Error, OSError):
            texts.append((f"cmdline of {pid}", Path(f"/proc/{pid}/cmdline").read_bytes()))
            texts.append((f"environ of {pid}", Path(f"/proc/{pid}/environ").read_bytes()))
    folder = folder_of(launched.mark)
    texts += [(str(file.name), file.read_bytes()) for file in _files(folder)]
    assert len(texts) > 10
    return [where for where, text in texts if any(form in text for form in FORMS)]


def _files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        with suppress(OSError):
            if file.is_file() and file.stat().st_size < 50_000_000:
                yield file


async def test_the_proxys_password_is_nowhere_in_chromium(launched: ChromiumProcess) -> None:
    async with proxied(launched) as (page, exit_, proxy):
        response = await page.goto("http://county.example/plain")
        assert response is not None
        assert response.status == 200
        assert "GET http://county.example/plain" in proxy.requests
        assert await page.title() == "plain"
        assert found_in(launched) == []
        assert exit_.received_bytes > 0
        planted = folder_of(launched.mark) / "planted"
        planted.write_bytes(b"x " + FORMS[-1] + b" y")
        assert found_in(launched) == ["planted"]
        planted.unlink()


async def test_a_password_on_a_command_line_would_be_found(launched: ChromiumProcess) -> None:
    """As one who gives the whole address of a proxy to Chromium would do; so the scan sees what is there."""
    assert launched.pid is not None
    shown = Path(f"/proc/{launched.pid}/cmdline").read_bytes()
    assert b"--proxy-server=http://127.0.0.1:" in shown
    patched = [f for f in (b"--proxy-server=http://127.0.0.1:",) if f in shown]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.unit.fetch.browser.test_browser_exits.FORMS", patched)
        assert any(where.startswith("cmdline") for where in found_in(launched))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(Fault.REFUSES_LOGIN, FailureKind.PROXY), (Fault.FORBIDS, FailureKind.ACCESS_POLICY)],
)
async def test_a_refusal_of_the_proxy_is_told_for_a_navigation(
    launched: ChromiumProcess, fault: Fault, expected: FailureKind
) -> None:
    async with proxied(launched) as (page, exit_, proxy):
        proxy.fault = fault
        with suppress(Error):
            await page.goto("https://county.example/", timeout=10_000)
        failure = exit_.trouble("https://county.example/")
        assert failure is not None
        assert failure.kind is expected
        assert not any(form.decode() in failure.message for form in FORMS)
