"""Sessions in browsers of our own: contexts with a face and a way out, fresh or kept (B4, B1, B2)."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.fetch.browser.chromium.find import Chromium, find
from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions, launch
from swath.fetch.browser.fingerprint.profile import engine_here
from swath.fetch.browser.fingerprint.regions import region_of
from swath.fetch.browser.pool.instance import PoolOptions, browser_crashed
from swath.fetch.browser.pool.pool import BrowserPool
from swath.fetch.browser.providers.local import ContextFactory, LocalOptions, LocalProvider
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.sessions.manager import SessionManager
from swath.fetch.browser.sessions.session_slot import ManagerOptions, SessionSlot
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxies
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.messages import UnrestrictedGate
from tests.unit.fetch.browser.launching import is_dead, processes_of, until
from tests.unit.fetch.browser.remote_pages import counting_site

pytestmark = [pytest.mark.req("B4"), pytest.mark.asyncio(loop_scope="module")]

_PLENTY_BYTES = 1 << 24
_OPTIONS = LocalOptions(open_seconds=60.0, close_seconds=3.0, state_seconds=2.0, most_kept=3)


class Scene:
    """A pool of one browser with two places, and a site."""

    def __init__(self, site: str, data: Path) -> None:
        clock = SystemClock()
        chromium = find()
        self.site = site
        self.exits = BrowserProxies(
            EgressGuard(SystemResolver(clock), clock, allow_private=[site.removeprefix("http://").rstrip("/")])
        )
        self.launched: list[ChromiumProcess] = []
        self.pool = BrowserPool(
            PoolOptions(browsers=1, concurrency=2, acquire_seconds=60), clock, lambda: self._launch(chromium, data)
        )
        self.provider = LocalProvider(
            self.pool,
            ContextFactory(self.exits, lambda version: engine_here(version, headless=True), Random(8)),
            _OPTIONS,
        )

    async def _launch(self, chromium: Chromium, data: Path) -> ChromiumProcess:
        self.launched.append(await launch(LaunchOptions(chromium=chromium, data=data, deny_port=self.exits.deny_port)))
        return self.launched[-1]

    async def open(self, session: ProviderSession, wish: TabRequest) -> BrowserTab:
        opened = await session.open(wish)
        assert opened.exit is not None
        opened.exit.serve(UnrestrictedGate(), _PLENTY_BYTES)
        return opened

    async def item(self, session: ProviderSession, wish: TabRequest) -> tuple[str, str]:
        """How often the site has seen us, by cookie and by storage."""
        opened = await self.open(session, wish)
        try:
            return await self.seen(opened)
        finally:
            await opened.close()

    async def seen(self, opened: BrowserTab) -> tuple[str, str]:
        async with asyncio.timeout(60):
            await opened.page.goto(self.site)
            stored = await opened.page.evaluate("(localStorage.n = Number(localStorage.n || 0) + 1) - 1")
            return await opened.page.title(), str(stored)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with counting_site() as site:
        made = Scene(site, tmp_path_factory.mktemp("data"))
        await made.exits.start()
        yield made
        await made.provider.close()
        await made.exits.close()
        assert all(is_dead(pid) for launched in made.launched for pid in processes_of(launched))


@pytest_asyncio.fixture(loop_scope="module")
async def session(scene: Scene) -> AsyncIterator[ProviderSession]:
    made = await scene.provider.create()
    yield made
    await scene.provider.destroy(made)
    await until(lambda: scene.pool.stats.in_use == 0)


_FRESH = TabRequest(site="site.example")
_KEEPING = TabRequest(site="site.example", keeps=True)


@pytest.mark.req("B1", "B2")
async def test_every_item_has_a_context_a_face_and_a_way_out_of_its_own(scene: Scene, session: ProviderSession) -> None:
    ports, widths = set(), []
    for _ in range(3):
        opened = await scene.open(session, _FRESH)
        assert opened.exit is not None
        assert await scene.seen(opened) == ("0", "0")
        ports.add(opened.exit.port)
        widths.append(await opened.page.evaluate("[innerWidth, innerHeight].join()"))
        assert opened.exit.received_bytes > 0
        await opened.close()

    assert len(ports) == 3
    assert all(first != second for first, second in itertools.pairwise(widths))


@pytest.mark.req("B2", "property 15")
async def test_a_context_shows_the_region_of_its_way_out(scene: Scene, session: ProviderSession) -> None:
    opened = await scene.open(session, TabRequest(site="site.example", region=region_of("DE")))

    await scene.seen(opened)
    told = await opened.page.evaluate("[Intl.DateTimeFormat().resolvedOptions().timeZone, navigator.language].join()")

    assert told in {"Europe/Berlin,de-DE", "Europe/Berlin,de"}
    await opened.close()


@pytest.mark.req("B1", "B3")
async def test_what_is_kept_lives_on_in_its_session_and_nowhere_else(scene: Scene, session: ProviderSession) -> None:
    other = await scene.provider.create()

    assert await scene.item(session, _KEEPING) == ("0", "0")
    assert await scene.item(session, _KEEPING) == ("1", "1")
    assert await scene.item(session, _FRESH) == ("0", "0")
    assert await scene.item(session, TabRequest(site="other.example", keeps=True)) == ("0", "0")
    assert await scene.item(session, TabRequest(site="site.example", keeps=True, owner="another job")) == ("0", "0")
    assert await scene.item(other, _KEEPING) == ("0", "0")
    assert await scene.item(session, _KEEPING) == ("2", "2")
    await scene.provider.destroy(other)


@pytest.mark.req("B1", "Z6")
async def test_a_kept_page_knows_nothing_of_where_the_item_before_has_been(
    scene: Scene, session: ProviderSession
) -> None:
    pages = set()
    for _ in range(2):
        opened = await session.open(_KEEPING)
        pages.add(opened.page)
        async with BrowserSession(opened, UnrestrictedGate(), SystemClock(), SessionOptions()) as browser:
            for number in range(3):
                await browser.goto(f"{scene.site}?{number}")
            assert await browser.evaluate("history.length") == 4  # with the empty page that it began with
    assert len(pages) == 1, "or it would prove nothing"


@pytest.mark.req("B1", "property 12")
async def test_a_browser_has_served_as_many_pages_as_were_loaded_in_it(scene: Scene, session: ProviderSession) -> None:
    before = scene.pool.stats.pages_processed
    opened = await scene.open(session, _FRESH)
    opened.loads = 6
    await opened.close()
    assert scene.pool.stats.pages_processed == before + 6


@pytest.mark.req("B1", "property 12")
async def test_what_is_kept_is_carried_over_when_the_browser_is_recycled(
    scene: Scene, session: ProviderSession
) -> None:
    await scene.item(session, _KEEPING)
    opened = await scene.open(session, _KEEPING)
    face = await opened.page.evaluate("[innerWidth, innerHeight, devicePixelRatio].join()")
    assert await scene.seen(opened) == ("1", "1")
    for member in scene.pool.members:
        member.due = "a test"
    await opened.close()
    await until(scene.launched[-1].gone.is_set)

    opened = await scene.open(session, _KEEPING)

    assert await scene.seen(opened) == ("2", "2")
    assert await opened.page.evaluate("[innerWidth, innerHeight, devicePixelRatio].join()") == face
    await opened.close()


@pytest.mark.req("B1", "W3")
async def test_a_browser_that_dies_under_an_item_takes_nothing_with_it_that_was_written_down(
    scene: Scene, session: ProviderSession
) -> None:
    assert await scene.item(session, _KEEPING) == ("0", "0")
    opened = await scene.open(session, _KEEPING)
    assert await scene.seen(opened) == ("1", "1")

    await scene.launched[-1].kill()
    with pytest.raises(Exception, match=r"closed|gone"):
        await scene.seen(opened)
    async with asyncio.timeout(60):
        await opened.close()

    assert await scene.item(session, _KEEPING) == ("1", "1")


@pytest.mark.req("Z6", "W3")
async def test_a_page_that_never_comes_back_costs_no_more_than_its_context(
    scene: Scene, session: ProviderSession
) -> None:
    assert await scene.item(session, _KEEPING) == ("0", "0")
    opened = await scene.open(session, _KEEPING)
    await scene.seen(opened)
    await opened.page.evaluate("void setTimeout(() => { while (true); })")

    async with asyncio.timeout(60):
        await opened.close()
        assert await scene.item(session, _KEEPING) == ("1", "1")
    assert scene.pool.stats.in_use == 0


async def test_kill_ends_the_browser_and_the_session_goes_on_in_another(scene: Scene, session: ProviderSession) -> None:
    opened = await scene.open(session, _FRESH)
    killed = scene.launched[-1]

    async with asyncio.timeout(60):
        await opened.kill()
        await opened.close()

    assert killed.gone.is_set()
    assert await scene.item(session, _FRESH) == ("0", "0")


@pytest.mark.req("W3")
async def test_an_item_that_goes_away_while_its_page_is_opened_leaves_nothing(
    scene: Scene, session: ProviderSession
) -> None:
    await scene.item(session, _FRESH)
    browser = scene.launched[-1].browser
    for turns in (1, 3, 10, 30):
        opening = asyncio.ensure_future(session.open(_FRESH))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()

    await until(lambda: scene.pool.stats.in_use == 0)
    assert browser.contexts == []


async def test_contexts_of_a_browser_are_made_one_after_the_other(
    scene: Scene, session: ProviderSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.item(session, _FRESH)
    browser = scene.launched[-1].browser
    made, at_once, most = browser.new_context, 0, 0

    async def counted(**options: object) -> object:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await made(**options)  # type: ignore[arg-type]
        finally:
            at_once -= 1

    monkeypatch.setattr(browser, "new_context", counted)
    other = await scene.provider.create()
    both = await asyncio.gather(session.open(_FRESH), other.open(_FRESH))

    assert most == 1
    for opened in both:
        await opened.close()
    await scene.provider.destroy(other)


async def test_no_more_sites_are_kept_than_a_session_may(scene: Scene, session: ProviderSession) -> None:
    for number in range(_OPTIONS.most_kept + 1):
        await scene.item(session, TabRequest(site=f"{number}.example", keeps=True))

    assert await scene.item(session, TabRequest(site="1.example", keeps=True)) == ("1", "1")
    assert await scene.item(session, TabRequest(site="0.example", keeps=True)) == ("0", "0")
    await until(lambda: len(scene.launched[-1].browser.contexts) == _OPTIONS.most_kept)


@pytest.mark.req("B5", "B6")
async def test_items_are_placed_on_sessions_and_a_crash_is_one_items_misfortune(scene: Scene) -> None:
    manager = SessionManager(scene.provider, ManagerOptions(max_sessions=2, open_seconds=60), SystemClock())
    waiting = [(number, f"{number % 2}.example") for number in range(8)]
    ended: dict[int, object] = {}

    async def work(number: int, seat: SessionSlot, site: str) -> None:
        try:
            async with manager.visit(seat, TabRequest(site=site, keeps=True)) as opened:
                assert opened.exit is not None
                opened.exit.serve(UnrestrictedGate(), _PLENTY_BYTES)
                if number == 3:
                    await opened.kill()
                try:
                    ended[number] = await scene.seen(opened)
                except Exception:  # noqa: BLE001 as browser/session/session.py says it
                    raise browser_crashed("it was killed") from None
        except Failed as failed:
            ended[number] = failed.failure.kind
            waiting.append((number + 100, site))

    async with asyncio.TaskGroup() as group, asyncio.timeout(100):
        while waiting or manager.stats.sessions == () or any(s.current_load for s in manager.active):
            while manager.free and waiting and (picked := manager.pick(waiting)) is not None:
                site = dict(waiting)[picked[0]]
                waiting.remove((picked[0], site))
                group.create_task(work(picked[0], picked[1], site))
            await asyncio.sleep(0.01)

    assert {number % 100 for number, end in ended.items() if isinstance(end, tuple)} == set(range(8))
    assert ended[3] == "browser_crash"
    assert manager.stats.items_processed >= 8
    for stats in manager.active:
        assert await manager.destroy(stats.session_id)
