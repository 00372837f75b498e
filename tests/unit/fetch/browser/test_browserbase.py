"""Sessions at Browserbase, against a fake of it that hands out real Chromiums (B4)."""

import asyncio
import json
import logging
import os
import signal
import sys
import textwrap
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.fakes.browserbase.server import FakeBrowserbase
from harness.fakes.browserbase.sessions import Plan
from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.orphans import reap
from swath.fetch.browser.chromium.process_tag import ProcessTag, family_of
from swath.fetch.browser.providers.browserbase import (
    BrowserbaseApi,
    BrowserbaseOptions,
    BrowserbaseProvider,
    ExternalProxy,
)
from swath.fetch.browser.providers.cdp import SharedDriver
from swath.fetch.browser.providers.protocol import BrowserTab, TabRequest
from swath.fetch.browser.sessions.manager import SessionManager
from swath.fetch.browser.sessions.session_slot import ManagerOptions
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import SystemResolver
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Transport
from tests.unit.fetch.browser.remote_pages import counting_site

pytestmark = [pytest.mark.req("B4"), pytest.mark.asyncio(loop_scope="module")]

_KEY = "bb_live_0123456789abcdef"


class _QuickClock(SystemClock):
    """Sleeps are written down and not slept, and time passes when a test says so."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.now_is = 1_000.0

    def boot(self) -> float:
        return self.now_is

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[FakeBrowserbase]:
    async with FakeBrowserbase(_KEY, Plan(most_sessions=3, creations_per_minute=1_000)) as fake:
        yield fake


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site() -> AsyncIterator[str]:
    async with counting_site() as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def transport(server: FakeBrowserbase) -> AsyncIterator[Transport]:
    clock = SystemClock()
    made = DirectTransport(EgressGuard(SystemResolver(clock), clock, allow_private=[f"127.0.0.1:{server.port}"]))
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def clean(server: FakeBrowserbase) -> AsyncIterator[None]:
    """Each test begins with a plan that nobody has used, and leaves no browser."""
    server.sessions.all.clear()
    server.asked.clear()
    server.orders.clear()
    yield
    left = server.sessions.running()
    await server.sessions.close()
    assert left == []


class _LastingDriver(SharedDriver):
    """One for all tests: providers close theirs, and it takes a second to start."""

    async def close(self) -> None:
        """Not yet."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def driver(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[_LastingDriver]:
    made = _LastingDriver(family_of(tmp_path_factory.mktemp("driver")))
    yield made
    await SharedDriver.close(made)


class _Setting:
    """All that stands between a test and the fake."""

    def __init__(self, server: FakeBrowserbase, transport: Transport, driver: SharedDriver, family: str) -> None:
        self.server = server
        self._driver = driver
        self.clock = _QuickClock()
        self.api = BrowserbaseApi(transport, Secret(_KEY), self.clock, server.url)
        self._family = family

    def provider(self, **options: Any) -> BrowserbaseProvider:
        chosen = {"most_sessions": 3, "creations_per_minute": 100} | options
        made = BrowserbaseProvider(self.api, self.clock, self._family, BrowserbaseOptions(**chosen))
        made._driver = self._driver
        return made


@pytest.fixture
def setting(server: FakeBrowserbase, transport: Transport, driver: _LastingDriver, tmp_path: Path) -> _Setting:
    return _Setting(server, transport, driver, family_of(tmp_path))


async def _seen(opened: BrowserTab, url: str) -> str:
    async with asyncio.timeout(60):
        await opened.page.goto(url)
        return await opened.page.title()


async def test_sessions_are_created_listed_told_and_released(setting: _Setting) -> None:
    created = await setting.api.create({"timeout": 120, "keepAlive": True, "userMetadata": {"a": "b"}})

    view = created.view
    assert (view.status, view.lifetime_seconds, view.user_metadata) == ("RUNNING", 120, {"a": "b"})
    assert [listed.id for listed in await setting.api.list_sessions("RUNNING")] == [view.id]
    told = await setting.api.get(view.id)
    assert told is not None
    assert told.status == "RUNNING"

    for _ in range(2):
        await setting.api.release(view.id)
    await setting.api.release("never-was")

    told = await setting.api.get(view.id)
    assert told is not None
    assert told.status == "COMPLETED"
    assert await setting.api.list_sessions("RUNNING") == []
    assert await setting.api.get("never-was") is None


async def test_a_wrong_key_is_a_credential_failure_and_no_answer_is_asked_for_twice(
    setting: _Setting, transport: Transport
) -> None:
    api = BrowserbaseApi(transport, Secret("bb_live_wrong"), setting.clock, setting.server.url)

    with pytest.raises(Failed) as raised:
        await api.list_sessions()

    assert raised.value.failure.kind is FailureKind.CREDENTIAL
    assert setting.server.asked == ["GET /v1/sessions"]


@pytest.mark.parametrize(
    ("status", "asks_for", "kind", "asked", "slept"),
    [
        (429, 7.0, FailureKind.RATE_LIMITED, 3, [7.0, 7.0]),
        (429, 40.0, FailureKind.RATE_LIMITED, 1, []),
        (500, None, FailureKind.BROWSER_CRASH, 3, [0.5, 1.0]),
        (503, 2.0, FailureKind.BROWSER_CRASH, 3, [2.0, 2.0]),
        (408, None, FailureKind.BROWSER_CRASH, 3, [0.5, 1.0]),
        (409, None, FailureKind.BROWSER_CRASH, 3, [0.5, 1.0]),
        (402, None, FailureKind.ACCESS_POLICY, 1, []),
        (400, None, FailureKind.ACCESS_POLICY, 1, []),
    ],
)
async def test_refusals_are_repeated_where_that_can_help_and_named(
    setting: _Setting, status: int, asks_for: float | None, kind: FailureKind, asked: int, slept: list[float]
) -> None:
    setting.server.refuse_next(status, times=asked, retry_after_seconds=asks_for)

    with pytest.raises(Failed) as raised:
        await setting.api.list_sessions()

    failure = raised.value.failure
    assert (failure.kind, failure.retry_after_seconds) == (kind, asks_for)
    assert (len(setting.server.asked), setting.clock.slept) == (asked, slept)
    assert await setting.api.list_sessions() == []


async def test_after_two_refusals_the_third_try_is_good(setting: _Setting) -> None:
    setting.server.refuse_next(429, retry_after_seconds=1.0)
    setting.server.refuse_next(409)
    provider = setting.provider()

    session = await provider.create()

    assert session.session_id in setting.server.sessions.all
    await provider.close()


async def test_many_short_items_share_one_session_and_cost_one_minute(setting: _Setting, site: str) -> None:
    provider = setting.provider()
    manager = SessionManager(provider, ManagerOptions(max_sessions=3), setting.clock)

    seen = []
    for keeps in (True, True, False, False, True):
        picked = manager.pick([(0, "site.example")])
        assert picked is not None
        async with manager.visit(picked[1], TabRequest(site="site.example", keeps=keeps)) as opened:
            assert opened.exit is None
            seen.append(await _seen(opened, site))

    assert seen == ["0", "1", "0", "0", "0"]  # what is kept is gone when one comes that must not see it
    assert [stats.items_processed for stats in manager.active] == [5]
    assert (len(setting.server.sessions.all), setting.server.sessions.billed_minutes()) == (1, 1)
    await manager.close()


async def test_a_session_that_dies_under_an_item_fails_it_and_the_next_gets_another(
    setting: _Setting, server: FakeBrowserbase, site: str
) -> None:
    manager = SessionManager(setting.provider(), ManagerOptions(max_sessions=1), setting.clock)

    async def item(meanwhile: Callable[[], Awaitable[None]] | None = None) -> str:
        picked = manager.pick([(0, "site.example")])
        assert picked is not None
        async with manager.visit(picked[1], TabRequest(site="site.example")) as opened:
            title = await _seen(opened, site)
            if meanwhile is not None:
                await meanwhile()
                with pytest.raises(Exception, match="closed"):
                    await _seen(opened, site)
                await opened.kill()
                raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "the page is gone"))
            return title

    async def killed() -> None:
        await server.sessions.running()[0].chromium.kill()

    assert await item() == "0"
    with pytest.raises(Failed):
        await item(killed)
    assert await item() == "0"

    # And between two items nobody notices.
    (alive,) = server.sessions.running()
    await server.sessions.end(alive, "TIMED_OUT")
    assert await item() == "0"
    assert [session.status for session in server.sessions.all.values()] == ["ERROR", "TIMED_OUT", "RUNNING"]
    await manager.close()


async def test_we_keep_to_the_limits_by_ourselves(setting: _Setting) -> None:
    provider = setting.provider(most_sessions=1, creations_per_minute=2)
    first = await provider.create()
    asked = len(setting.server.asked)

    with pytest.raises(Failed, match="all 1 Browserbase sessions are in use"):
        await provider.create()
    await provider.destroy(first)
    await provider.destroy(await provider.create())
    with pytest.raises(Failed, match="2 Browserbase sessions were made within a minute") as raised:
        await provider.create()

    assert raised.value.failure.retry_after_seconds == 60
    assert raised.value.failure.kind is FailureKind.RATE_LIMITED
    assert len(setting.server.asked) == asked + 3  # two releases and one creation
    setting.clock.now_is += 60
    await provider.create()
    await provider.close()


async def test_their_limits_are_waited_for(setting: _Setting, server: FakeBrowserbase) -> None:
    others = [await server.sessions.create({"keepAlive": True}) for _ in range(3)]
    provider = setting.provider()

    with pytest.raises(Failed) as raised:
        await provider.create()

    assert raised.value.failure.kind is FailureKind.RATE_LIMITED
    assert setting.clock.slept == [1.0, 1.0]
    assert {session.id for session in server.sessions.running()} == {session.id for session in others}
    await provider.close()
    await server.sessions.close()


async def test_an_answer_that_is_lost_leaves_no_session_behind(setting: _Setting, server: FakeBrowserbase) -> None:
    provider = setting.provider()
    await provider.destroy(await provider.create())
    server.lose_next_answer()

    with pytest.raises(Failed, match="Browserbase is not reached"):
        await provider.create()
    (lost,) = server.sessions.running()
    session = await provider.create()

    assert [running.id for running in server.sessions.running()] == [session.session_id]
    assert lost.status == "COMPLETED"
    await provider.close()


async def test_a_release_that_fails_is_made_up_for(setting: _Setting, server: FakeBrowserbase) -> None:
    provider = setting.provider()
    session = await provider.create()
    server.refuse_next(500, times=3)

    await provider.destroy(session)
    assert len(server.sessions.running()) == 1
    await provider.close()

    assert server.sessions.running() == []


async def test_what_a_session_is_ordered_with(setting: _Setting, server: FakeBrowserbase) -> None:
    proxy = ExternalProxy(server="http://proxy.example:22225", username="user", password=Secret("pass"))
    provider = setting.provider(timeout_seconds=600, region="eu-central-1", project_id="p", proxy=proxy)

    session = await provider.create()

    (order,) = server.orders
    assert ProcessTag.read(order.pop("userMetadata")["swath"]) is not None
    assert order == {
        "timeout": 600,
        "keepAlive": True,
        "region": "eu-central-1",
        "projectId": "p",
        "browserSettings": {
            "solveCaptchas": False,
            "recordSession": False,
            "logSession": False,
            "ignoreCertificateErrors": False,
        },
        "proxies": [
            {"type": "external", "server": "http://proxy.example:22225", "username": "user", "password": "pass"}
        ],
    }
    assert session.expires_at == setting.clock.boot() + 600
    await provider.close()


async def test_without_keep_alive_a_session_ends_with_its_line(setting: _Setting, server: FakeBrowserbase) -> None:
    provider = setting.provider(keep_alive=False)
    session = await provider.create()
    (running,) = server.sessions.running()

    await session.line.disconnect()  # type: ignore[attr-defined]

    await _until(lambda: running.status == "COMPLETED")
    with pytest.raises(Failed, match="browser_crash: the Browserbase session has ended: COMPLETED"):
        await session.open(TabRequest(site="a"))
    await provider.close()


_CHILD = """
    import asyncio, sys
    from swath.backends.clock import SystemClock
    from swath.fetch.browser.providers.browserbase import BrowserbaseProvider
    from swath.fetch.browser.providers.browserbase import BrowserbaseApi
    from swath.domain.secret import Secret
    from swath.fetch.egress.guard import EgressGuard
    from swath.fetch.egress.resolver import SystemResolver
    from swath.fetch.http.client.transport import DirectTransport

    async def main(url, key, family):
        clock = SystemClock()
        guard = EgressGuard(SystemResolver(clock), clock, allow_private=[url.removeprefix("http://")])
        api = BrowserbaseApi(DirectTransport(guard), Secret(key), clock, url)
        session = await BrowserbaseProvider(api, clock, family).create()
        print(session.session_id, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main(*sys.argv[1:]))
"""


async def test_leftovers_of_a_killed_process_are_released_and_those_of_the_living_are_not(
    setting: _Setting, server: FakeBrowserbase, tmp_path: Path
) -> None:
    strangers = await server.sessions.create({"keepAlive": True, "userMetadata": {"swath": "somebody else's"}})
    family = family_of(tmp_path)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(_CHILD), server.url, _KEY, family), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    async with asyncio.timeout(60):
        session_id = (await child.stdout.readline()).decode().strip()
    provider = setting.provider()
    mine = await provider.create()
    assert session_id in {session.id for session in server.sessions.running()}
    await provider.destroy(mine)

    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    successor = setting.provider()
    assert await successor.release_leftovers() == 1
    await asyncio.to_thread(reap, family)  # its driver's folder too

    assert [session.id for session in server.sessions.running()] == [strangers.id]
    await provider.close()
    await successor.close()
    await server.sessions.close()


@pytest.mark.req("Z7")
async def test_the_key_and_the_address_of_a_session_are_in_no_log_and_no_error(
    setting: _Setting, server: FakeBrowserbase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    provider = setting.provider()
    session = await provider.create()
    (running,) = server.sessions.running()
    signing_key = running.signing_key
    told += [repr(provider.__dict__), repr(session.__dict__), repr(vars(session)["line"].__dict__)]
    await running.chromium.kill()
    await _until(lambda: running.status == "ERROR")
    session.line._was_there = False  # type: ignore[attr-defined] # as if it were the first time that it is refused

    async def told_by(call: Awaitable[object]) -> None:
        try:
            await call
        except Failed as failed:
            told.append("".join(traceback.format_exception(failed)) + json.dumps(failed.failure.message))

    await told_by(session.line.connect())  # type: ignore[attr-defined]
    await told_by(session.open(TabRequest(site="a")))
    server.refuse_next(500, times=3)
    await told_by(provider.create())
    server.refuse_next(401)
    await told_by(provider.create())
    await provider.close()

    assert len(told) == 7
    for text in (*told, caplog.text):
        assert signing_key not in text
        assert _KEY not in text


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)
