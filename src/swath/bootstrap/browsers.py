"""Builds the browsers of a process when the first item needs one.

The browser layer is imported only then: work over HTTP needs neither a browser nor its driver.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.http.messages import Transport
from swath.observability.counters import FIGURES
from swath.ports.clock import Clock
from swath.settings import Settings

if TYPE_CHECKING:
    from swath.fetch.browser.browser_access import BrowserAccess
    from swath.fetch.browser.providers.protocol import BrowserProvider
    from swath.fetch.browser.sessions.manager import SessionManager

__all__ = ["LazyBrowsers", "require_browser"]

_SWEEP_SECONDS: Final = 60.0
_SETTINGS: Final = ("browser", "chromium")  # how the names of those about browsers begin


def require_browser(settings: Settings) -> None:
    """Raises BadInput, with what to do, when no browser scraper can run here."""
    if importlib.util.find_spec("patchright") is None:
        raise BadInput("browser scrapers need the extra `browser`: pip install 'swath[browser]'")
    if settings.browser_provider == "cdp" and settings.browser_cdp_url is None:
        raise BadInput("SWATH_BROWSER_PROVIDER is cdp, so SWATH_BROWSER_CDP_URL must say where that browser is")
    if settings.browser_provider == "browserbase" and settings.browserbase_api_key is None:
        raise BadInput("SWATH_BROWSER_PROVIDER is browserbase, so SWATH_BROWSERBASE_API_KEY must be set")
    if settings.browser_provider == "local":
        from swath.fetch.browser.chromium.find import find

        find(settings.chromium, settings.browser_user)


class LazyBrowsers:
    """Makes them once, at the first call, inside the running loop."""

    def __init__(self, settings: Settings, clock: Clock, guard: EgressGuard, transport: Transport) -> None:
        self._settings = settings
        self._clock = clock
        self._guard = guard
        self._transport = transport
        self._desk: BrowserAccess | None = None
        self._checking: asyncio.Task[None] | None = None
        self._checked = False
        self._failure: str | None = None

    def __call__(self, on_free: Callable[[], None]) -> BrowserAccess:
        """Raises BadInput when there can be none. `on_free` is called when a seat is free again."""
        desk = self._made()
        desk.manager.on_free = on_free
        return desk

    def _made(self) -> BrowserAccess:
        if self._desk is None:
            require_browser(self._settings)
            makers = {"local": self._local, "cdp": self._cdp, "browserbase": self._browserbase}
            desk = self._desk = makers[self._settings.browser_provider]()
            FIGURES.browsers = lambda: desk.figures
        return self._desk

    @property
    def expected(self) -> bool:
        """Whether this process is to have browsers: a setting of theirs was changed, or an item has needed one."""
        return self._desk is not None or any(
            getattr(self._settings, field.name) != field.default
            for field in msgspec.structs.fields(Settings)
            if field.name.startswith(_SETTINGS)
        )

    async def check(self) -> None:
        """Returns when a browser can be had; starts one if none runs. Raises BadInput, PoolExhausted."""
        await self._made().check()
        self._checked = True

    def check_again(self) -> None:
        """Checks in the background, unless that is being done or nothing is wrong."""
        idle = self._checking is None or self._checking.done()
        if idle and (not self._checked or self.trouble is not None):
            self._checking = asyncio.get_running_loop().create_task(self._find_out())

    async def _find_out(self) -> None:
        self._failure = None
        try:
            await self.check()
        except (BadInput, Failed) as error:
            self._failure = str(error)

    @property
    def stats(self) -> dict[str, int] | None:
        """For health and metrics. None: no item has needed a browser yet."""
        return None if self._desk is None else self._desk.figures

    @property
    def trouble(self) -> str | None:
        """Why no browser can be had now, if that is so."""
        return self._failure if self._desk is None else self._desk.trouble

    @property
    def ready(self) -> bool:
        """Whether one has been started, or is there for items elsewhere, and nothing has gone wrong since."""
        return self._checked and self.trouble is None

    async def close(self) -> None:
        """If there are any."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        if self._desk is not None:
            FIGURES.browsers = None
            await self._desk.close()

    def _local(self) -> BrowserAccess:
        from swath.fetch.browser.browser_access import BrowserAccess
        from swath.fetch.browser.chromium.display import Display, find_display_program
        from swath.fetch.browser.chromium.find import find
        from swath.fetch.browser.chromium.launch import ChromiumProcess, LaunchOptions, launch
        from swath.fetch.browser.chromium.orphans import reap
        from swath.fetch.browser.chromium.process_tag import family_of
        from swath.fetch.browser.fingerprint.profile import engine_here
        from swath.fetch.browser.pool.health import HealthMonitor
        from swath.fetch.browser.pool.instance import PoolOptions
        from swath.fetch.browser.pool.pool import BrowserPool
        from swath.fetch.browser.providers.local import ContextFactory, LocalProvider
        from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxies

        settings, clock = self._settings, self._clock
        chromium = find(settings.chromium, settings.browser_user)
        exits = BrowserProxies(self._guard, ca_file=settings.proxy_ca_file)

        program = None if settings.browser_headless else find_display_program()
        display = None if program is None else Display(program, chromium.sandbox.leash)

        async def start() -> ChromiumProcess:
            if not exits.deny_port:
                await exits.start()
            screen = None if display is None else await display.screen()
            return await launch(
                LaunchOptions(chromium=chromium, data=settings.data, deny_port=exits.deny_port, display=screen)
            )

        async def leave() -> None:
            await exits.close()
            if display is not None:
                await display.close()

        options = PoolOptions(
            browsers=settings.browsers,
            concurrency=settings.browser_concurrency,
            most_pages=settings.browser_pages,
            most_memory_bytes=settings.browser_mib << 20,
            most_age_seconds=60 * settings.browser_minutes,
        )
        pool = BrowserPool(options, clock, start)
        keeper = HealthMonitor(pool, clock, lambda: reap(family_of(settings.data)))
        draw = random.Random()  # noqa: S311 no secret
        rooms = ContextFactory(exits, lambda version: engine_here(version, headless=display is None), draw)
        return BrowserAccess(self._manager(LocalProvider(pool, rooms), options.places), clock, pool, keeper.run, leave)

    def _cdp(self) -> BrowserAccess:
        from swath.fetch.browser.chromium.process_tag import family_of
        from swath.fetch.browser.providers.cdp import CdpProvider

        settings = self._settings
        assert settings.browser_cdp_url is not None  # noqa: S101 require_browser has looked
        most = settings.browser_sessions or 1
        provider = CdpProvider(settings.browser_cdp_url, self._clock, family_of(settings.data), most_sessions=most)
        return self._elsewhere(provider, most)

    def _browserbase(self) -> BrowserAccess:
        from swath.fetch.browser.chromium.process_tag import family_of
        from swath.fetch.browser.providers.browserbase import BrowserbaseApi, BrowserbaseOptions, BrowserbaseProvider

        settings = self._settings
        assert settings.browserbase_api_key is not None  # noqa: S101 require_browser has looked
        most = settings.browser_sessions or settings.browser_concurrency or settings.browsers
        options = BrowserbaseOptions(
            most_sessions=most,
            creations_per_minute=settings.browserbase_creations_per_minute,
            project_id=settings.browserbase_project,
            region=settings.browserbase_region,
        )
        api = BrowserbaseApi(self._transport, settings.browserbase_api_key, self._clock, settings.browserbase_url)
        provider = BrowserbaseProvider(api, self._clock, family_of(settings.data), options)
        return self._elsewhere(provider, most)

    def _elsewhere(self, provider: BrowserProvider, most: int) -> BrowserAccess:
        """Their drivers are here, and those of a worker that died have to be cleared away too."""
        from swath.fetch.browser.browser_access import BrowserAccess
        from swath.fetch.browser.chromium.orphans import reap
        from swath.fetch.browser.chromium.process_tag import family_of
        from swath.fetch.browser.pool.health import OrphanSweeper

        family = family_of(self._settings.data)
        sweeper = OrphanSweeper(self._clock, lambda: reap(family), _SWEEP_SECONDS)
        return BrowserAccess(self._manager(provider, most), self._clock, keep=sweeper.run, guard=self._guard)

    def _manager(self, provider: BrowserProvider, most: int) -> SessionManager:
        from swath.fetch.browser.sessions.manager import SessionManager
        from swath.fetch.browser.sessions.session_slot import ManagerOptions

        options = ManagerOptions(
            max_sessions=self._settings.browser_sessions or most,
            session_timeout_seconds=self._settings.browser_session_seconds,
        )
        return SessionManager(provider, options, self._clock)
