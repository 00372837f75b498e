"""Sessions for tests: one Chromium for a module, a context on it for each, and a gate that remembers what passed it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swath.backends.clock import SystemClock
from swath.domain.errors import SwathError
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure
from swath.domain.site_policy import SitePolicy
from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions, launch
from swath.fetch.browser.pool.instance import BrowserProcess
from swath.fetch.browser.request import SessionOptions
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.egress.forward_proxy.browser_egress import ContextProxy
from swath.fetch.http.messages import Request, Response
from swath.fetch.proxies.route import Route
from tests.unit.fetch.browser.launching import refusing_port

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Page

QUICK = Timeouts(request_seconds=2, navigation_seconds=6)


class RecordingGate:
    """A gate with a memory. `refusals`: what it raises for a path. `hold_seconds`: how long each waits there."""

    def __init__(self, policy: SitePolicy | None = None) -> None:
        self.events: list[str] = []
        self.open: set[int] = set()
        self.most_open = 0
        self.blamed: list[Failure] = []
        self.failures: list[Failure] = []
        self.refusals: dict[str, SwathError] = {}
        self.hold_seconds = 0.0
        self._policy = policy or SitePolicy(action_delay_ms=(0, 0))
        self._kept: list[Request] = []  # so that no id comes twice

    async def enter(self, request: Request) -> Request:
        path = _path(request.url)
        if self.hold_seconds:
            await asyncio.sleep(self.hold_seconds)
        if path in self.refusals:
            self.events.append(f"refuse {path}")
            raise self.refusals[path]
        self.events.append(f"enter {path}")
        self._kept.append(request)
        self.open.add(id(request))
        self.most_open = max(self.most_open, len(self.open))
        return request

    def leave(self, request: Request, response: Response | None, failure: Failure | None) -> None:
        self.open.remove(id(request))
        if failure is not None:
            self.failures.append(failure)
        self.events.append(f"leave {_path(request.url)} {None if response is None else response.status}")

    def blame(self, url: str, failure: Failure) -> None:
        self.blamed.append(failure)

    def policy(self, url: str) -> SitePolicy:
        return self._policy

    def route(self, url: str) -> Route | None:
        return None


def _path(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2]


class Stand:
    """Implements Opened on a context of a launched browser."""

    def __init__(self, launched: ChromiumProcess, context: BrowserContext, page: Page) -> None:
        self.launched = launched
        self.context = context
        self.page = page
        self.running: BrowserProcess | None = launched
        self.exit: ContextProxy | None = None
        self.keeps_page = False
        self.loads = 0
        self.closed = 0
        self.killed = 0

    def admit(self, window: str) -> None:
        self.launched.admit(window)

    async def close(self) -> None:
        self.closed += 1
        with suppress(Exception):
            async with asyncio.timeout(60):
                await self.context.close()

    async def kill(self) -> None:
        self.killed += 1
        await self.launched.kill()


@asynccontextmanager
async def launched_browser(folder: Path) -> AsyncIterator[ChromiumProcess]:
    with refusing_port() as port:
        launched = await launch(LaunchOptions(chromium=find(), data=folder, deny_port=port))
        try:
            yield launched
        finally:
            await launched.close()


async def stand(launched: ChromiumProcess, port: int, **options: Any) -> Stand:
    proxy = {"server": f"http://127.0.0.1:{port}"}
    context = await launched.browser.new_context(proxy=proxy, **options)  # type: ignore[arg-type]
    return Stand(launched, context, await context.new_page())


@asynccontextmanager
async def visiting(
    launched: ChromiumProcess, port: int, gate: RecordingGate | None = None, **options: Any
) -> AsyncIterator[BrowserSession]:
    """A session of its own, with quick timeouts. Afterwards nothing may be open at the gate any more."""
    place = await stand(launched, port)
    gate = gate or RecordingGate()
    options = {"timeouts": QUICK, **options}
    try:
        async with BrowserSession(place, gate, SystemClock(), SessionOptions(**options)) as browser:
            yield browser
    finally:
        assert not gate.open
        assert place.closed == 1
