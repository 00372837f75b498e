"""Sessions in a browser that somebody else runs, at any endpoint that speaks CDP (B4)."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.fakes.browserbase.server import FakeBrowserbase
from harness.fakes.browserbase.sessions import LocalChromium
from harness.fakes.listener import Listener
from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput, Failed
from swath.domain.failure import FailureKind
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.process_tag import family_of
from swath.fetch.browser.providers.cdp import CdpProvider, RemoteLimits, RemoteSession
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from tests.unit.fetch.browser.remote_pages import counting_site

pytestmark = [pytest.mark.req("B4"), pytest.mark.asyncio(loop_scope="module")]

_LIMITS = RemoteLimits(connect_tries=2, first_wait_seconds=0.01)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[LocalChromium]:
    made = await LocalChromium.start()
    yield made
    await made.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site() -> AsyncIterator[str]:
    async with counting_site() as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def session(chromium: LocalChromium, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProviderSession]:
    provider = _provider(chromium.url, tmp_path_factory.mktemp("data"))
    yield await provider.create()
    await provider.close()


class _Silent(Listener):
    """Takes every connection, and says nothing."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()


def _provider(url: str, data: Path, limits: RemoteLimits = _LIMITS) -> CdpProvider:
    return CdpProvider(Secret(url), SystemClock(), family_of(data), limits=limits)


async def _seen(opened: BrowserTab, url: str) -> tuple[str, str]:
    """How often the site has seen us, by cookie and by storage."""
    async with asyncio.timeout(60):
        await opened.page.goto(url)
        stored = await opened.page.evaluate("(localStorage.n = Number(localStorage.n || 0) + 1) - 1")
        return await opened.page.title(), str(stored)


async def _item(session: ProviderSession, url: str, *, keeps: bool, owner: str = "") -> tuple[str, str]:
    opened = await session.open(TabRequest(site="site.example", keeps=keeps, owner=owner))
    try:
        return await _seen(opened, url)
    finally:
        await opened.close()


async def test_items_work_in_the_context_that_is_there_and_leave_its_pages_alone(
    session: ProviderSession, site: str
) -> None:
    opened = await session.open(TabRequest(site="site.example"))
    browser = opened.context.browser
    assert browser is not None
    assert browser.contexts == [opened.context]
    before = [page for page in opened.context.pages if page is not opened.page]
    assert len(before) == 1
    await _seen(opened, site)
    async with opened.context.expect_page() as popup:
        await opened.page.evaluate("void window.open('about:blank')")
    await popup.value

    await opened.close()

    assert opened.context.pages == before
    assert opened.exit is None


async def test_nothing_of_an_item_is_seen_by_the_next_unless_it_is_kept(session: ProviderSession, site: str) -> None:
    assert await _item(session, site, keeps=False) == ("0", "0")
    assert await _item(session, site, keeps=False) == ("0", "0")
    assert await _item(session, site, keeps=True) == ("0", "0")
    assert await _item(session, site, keeps=True) == ("1", "1")
    assert await _item(session, site, keeps=False) == ("0", "0")
    assert await _item(session, site, keeps=True) == ("0", "0")
    assert await _item(session, site, keeps=True, owner="another job") == ("0", "0")
    assert await _item(session, site, keeps=True, owner="another job") == ("1", "1")


async def test_what_a_page_writes_when_it_is_left_is_not_seen_by_the_next(session: ProviderSession, site: str) -> None:
    opened = await session.open(TabRequest(site="site.example"))
    await _seen(opened, site)
    await opened.page.evaluate("void addEventListener('pagehide', () => { localStorage.n = 7 })")
    await opened.close()
    assert await _item(session, site, keeps=True, owner="a job") == ("0", "0")


async def test_sessions_with_browsers_of_their_own_know_what_is_left_in_each(
    chromium: LocalChromium, site: str, tmp_path: Path
) -> None:
    family = family_of(tmp_path)
    provider = CdpProvider(Secret(chromium.url), SystemClock(), family, most_sessions=2, limits=_LIMITS)
    first, second = await provider.create(), await provider.create()
    assert isinstance(first, RemoteSession)
    await _item(first, site, keeps=True, owner="a job")
    await _item(second, site, keeps=False)
    assert len(first.left_origins) == 1  # for all that the other has wiped in its own
    await provider.close()


async def test_a_line_that_was_cut_is_made_again(session: ProviderSession, site: str) -> None:
    assert isinstance(session, RemoteSession)
    await session.disconnect()

    assert (await _item(session, site, keeps=False))[0] == "0"


async def test_the_endpoint_may_be_an_http_address(chromium: LocalChromium, site: str, tmp_path: Path) -> None:
    provider = _provider(f"http://127.0.0.1:{chromium.port}", tmp_path)

    session = await provider.create()
    assert (await _item(session, site, keeps=False))[0] == "0"
    for _ in range(2):
        await provider.destroy(session)
    again = await provider.create()
    opened = await again.open(TabRequest(site="site.example"))
    await opened.kill()
    assert again.gone
    assert chromium.alive
    await provider.close()


@pytest.mark.req("W3", "Z7")
async def test_who_cannot_connect_is_told_why_within_a_bound_and_the_address_is_not_told(tmp_path: Path) -> None:
    limits = RemoteLimits(connect_tries=2, first_wait_seconds=0.01, connect_seconds=0.5)
    async with FakeBrowserbase() as refusing, _Silent() as silent:
        for url, kind, told in (
            (f"ws://127.0.0.1:{refusing.port}/?signingKey=my-own-key", FailureKind.CREDENTIAL, "401"),
            (f"ws://127.0.0.1:{silent.port}/?token=my-own-key", FailureKind.BROWSER_CRASH, "no browser answers"),
            ("http://127.0.0.1:1/?token=my-own-key", FailureKind.BROWSER_CRASH, "cannot connect"),
        ):
            provider = _provider(url, tmp_path, limits)
            async with asyncio.timeout(60):
                with pytest.raises(Failed) as raised:
                    await provider.create()
                await provider.close()
            assert raised.value.failure.kind is kind
            assert told in raised.value.failure.message
            assert "my-own-key" not in "".join(traceback.format_exception(raised.value)) + repr(provider.__dict__)


@pytest.mark.parametrize("address", ["", "localhost:9222", "file:///etc/passwd", "ws://", "ws://host:port/"])
async def test_an_address_that_is_none_is_refused_at_once(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="write it like ws://host:9222"):
        _provider(address, tmp_path)


async def test_a_browser_that_dies_is_a_crash_for_its_item_and_for_the_next(site: str, tmp_path: Path) -> None:
    chromium = await LocalChromium.start()
    provider = _provider(chromium.url, tmp_path)
    session = await provider.create()
    opened = await session.open(TabRequest(site="site.example"))

    await chromium.kill()
    with pytest.raises(Exception, match="closed"):
        await _seen(opened, site)
    await opened.close()

    with pytest.raises(Failed, match="browser_crash: cannot connect to the browser at 127"):
        await session.open(TabRequest(site="site.example"))
    await provider.close()
