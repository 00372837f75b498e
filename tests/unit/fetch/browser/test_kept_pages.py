"""Pages of kept contexts: handed to the next item of the site when the last one left them well, and empty."""

import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patchright.async_api import Page

from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.providers.protocol import ProviderSession, TabRequest
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.session import BrowserSession
from swath.recordings.player.play import play
from tests.unit.fetch.browser.launching import is_dead, processes_of, until
from tests.unit.fetch.browser.remote_pages import counting_site
from tests.unit.fetch.browser.test_local_sessions import Scene
from tests.unit.fetch.browser.visiting import RecordingGate
from tests.unit.recordings.player.playing import recording

pytestmark = [pytest.mark.req("B1", "B3", "B4"), pytest.mark.asyncio(loop_scope="module")]

_KEEPING = TabRequest(site="site.example", keeps=True)
_OPTIONS = SessionOptions(screenshot="never")


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


async def visit(
    scene: Scene, session: ProviderSession, script: str = "1", *, raw: bool = False, fails: bool = False
) -> tuple[Page, str, RecordingGate]:
    """One item: its page, what a script on it said, and what the gate saw."""
    opened, gate = await session.open(_KEEPING), RecordingGate()
    async with BrowserSession(opened, gate, SystemClock(), _OPTIONS) as browser:
        await browser.goto(scene.site)
        said = str(await browser.evaluate(script))
        if raw:
            assert browser.raw is opened.page
        if fails:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "as a test asked for"))
    return opened.page, said, gate


async def test_the_next_item_has_the_page_and_nothing_of_the_last_one_on_it(
    scene: Scene, session: ProviderSession
) -> None:
    first, _, gate = await visit(scene, session, "self.left = 1; setInterval(() => { document.title = 'mine' }, 1)")
    heard = list(gate.events)
    waited_at = first.url

    second, said, _ = await visit(scene, session, "[self.left, document.title].join()")

    assert waited_at == "about:blank"
    assert second is first
    assert said == ",1"  # the site has seen it once before; its script is gone
    assert gate.events == heard  # the last item hears nothing of the next one


async def test_a_page_is_closed_that_did_not_end_well_or_was_in_other_hands(
    scene: Scene, session: ProviderSession
) -> None:
    first, _, _ = await visit(scene, session, raw=True)
    assert first.is_closed()
    with pytest.raises(Failed, match="as a test asked for"):
        await visit(scene, session, fails=True)
    second, said, _ = await visit(scene, session, "document.title")
    assert not second.is_closed()
    assert said == "2"  # all the same it is the context that is kept


async def test_a_page_that_asks_to_stay_goes_all_the_same(scene: Scene, session: ProviderSession) -> None:
    opened, gate = await session.open(_KEEPING), RecordingGate()
    async with BrowserSession(opened, gate, SystemClock(), _OPTIONS) as browser:
        await browser.goto(scene.site)
        await browser.evaluate("addEventListener('beforeunload', event => event.preventDefault())")
        await browser.click("h1")  # or Chromium would not ask
    assert opened.page.is_closed() or opened.page.url == "about:blank"
    _, said, _ = await visit(scene, session, "document.title")
    assert said == "1"


@pytest.mark.req("A5")
async def test_a_window_that_a_recording_has_resized_is_kept_in_its_old_size(
    scene: Scene, session: ProviderSession
) -> None:
    """Chrome begins every recording with a size; what can be touched goes with its page."""
    before, size, _ = await visit(scene, session, "[innerWidth, innerHeight].join()")
    small: dict[str, Any] = {"do": "set_viewport", "width": 640, "height": 481}
    steps = [small, {**small, "width": 641}, {"do": "goto", "url": scene.site}]
    for steps_of_one, is_kept in ((steps, True), ([{**small, "touch": True}, *steps[2:]], False)):
        opened = await session.open(_KEEPING)
        async with BrowserSession(opened, RecordingGate(), SystemClock(), _OPTIONS) as browser:
            await play(recording(*steps_of_one), {}, browser)
            assert await browser.evaluate("innerHeight") == 481
        after, said, _ = await visit(scene, session, "[innerWidth, innerHeight].join()")
        assert (opened.page is before, after is before, said) == (True, is_kept, size)


@pytest.mark.req("property 12")
async def test_a_place_is_given_back_when_the_driver_is_gone_at_the_end(scene: Scene, session: ProviderSession) -> None:
    opened = await session.open(_KEEPING)
    async with BrowserSession(opened, RecordingGate(), SystemClock(), _OPTIONS) as browser:
        await browser.goto(scene.site)
        os.kill(scene.launched[-1].driver_pid, signal.SIGKILL)
        await until(scene.launched[-1].gone.is_set)
    await until(lambda: scene.pool.stats.in_use == 0)
    await visit(scene, session)
