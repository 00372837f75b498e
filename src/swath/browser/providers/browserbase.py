"""Sessions at Browserbase: made by its REST API (browserbase_api.py), worked in over CDP (attached.py).

A session costs a minute at least, so browser/seats keeps them and items share them. None outlives its use: each is
released by name, at the end all of ours are, and those of a process that died are found by our mark at the next start.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final

import msgspec

from swath.browser.chromium.mark import Mark, alive
from swath.browser.opened import Opened, ProviderSession, Wish
from swath.browser.providers.attached import AttachedSession, AttachLimits
from swath.browser.providers.browserbase_api import BrowserbaseApi, Created, Unanswered
from swath.browser.providers.shared_driver import SharedDriver
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.secret import Secret
from swath.ports.clock import Clock

__all__ = ["BrowserbaseOptions", "BrowserbaseProvider", "ExternalProxy"]

_MARK: Final = "swath"
_MINUTE_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 30.0
_LIVE: Final = frozenset({"PENDING", "RUNNING"})


class ExternalProxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy of ours, by which sessions there are to go out."""

    server: str
    username: str | None = None
    password: Secret | None = None


class BrowserbaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The limits are those of the plan (the free one, unless said). `timeout_seconds` (60 to 21,600) is how long a
    session may live, and so the most that one costs which nobody releases. Captchas are not solved, and sessions not
    recorded, unless that is asked for: recordings hold what was typed."""

    most_sessions: int = 3
    creations_per_minute: int = 5
    timeout_seconds: int = 900
    keep_alive: bool = True
    project_id: str | None = None
    region: str | None = None
    their_proxies: bool = False
    proxy: ExternalProxy | None = None
    solve_captchas: bool = False
    record: bool = False


class BrowserbaseProvider:
    """Implements Provider. `family`: whose leftovers are ours to release; see browser/chromium/mark.py."""

    name = "browserbase"

    def __init__(
        self,
        api: BrowserbaseApi,
        clock: Clock,
        family: str,
        options: BrowserbaseOptions | None = None,
        limits: AttachLimits | None = None,
    ) -> None:
        self.options = options or BrowserbaseOptions()
        self.most_sessions = self.options.most_sessions
        self._api = api
        self._clock = clock
        self._mark = Mark.new(family)
        self._limits = limits or AttachLimits()
        self._driver = SharedDriver(family)
        self._turn = asyncio.Lock()
        self._created: deque[float] = deque()
        self._sessions: dict[str, _Session] = {}
        self._unclear = True  # whether there may be sessions of ours that we do not know
        self._owed: set[str] = set()  # not known to be released

    async def create(self) -> ProviderSession:
        """See Provider."""
        async with self._turn:
            if self._unclear or self._owed:
                await self.release_leftovers()
            self._must_be_allowed()
            self._created.append(self._clock.boot())
            self._unclear = True
            try:
                session = self._session(await self._api.create(_order(self.options, self._mark)))
            except Failed as failed:
                self._unclear = isinstance(failed, Unanswered)
                raise
            self._unclear = False
        try:
            await session.line.connect()
        except BaseException:
            await self.destroy(session)
            raise
        return session

    def _session(self, created: Created) -> _Session:
        line = AttachedSession(
            created.view.id, created.connect_url, "Browserbase", self._driver, self._clock, self._limits
        )
        session = self._sessions[created.view.id] = _Session(line, self._api)
        session.expires_at = self._created[-1] + created.view.lifetime_seconds
        return session

    def _must_be_allowed(self) -> None:
        """We keep to the plan's limits by ourselves: every refusal would cost somebody a try."""
        now = self._clock.boot()
        while self._created and self._created[0] <= now - _MINUTE_SECONDS:
            self._created.popleft()
        if len(self._sessions) >= self.options.most_sessions:
            message = f"all {self.options.most_sessions} Browserbase sessions are in use"
            raise Failed(Failure.of(FailureKind.RATE_LIMITED, message))
        if len(self._created) >= self.options.creations_per_minute:
            message = f"{self.options.creations_per_minute} Browserbase sessions were made within a minute"
            wait_seconds = self._created[0] + _MINUTE_SECONDS - now
            raise Failed(Failure.of(FailureKind.RATE_LIMITED, message, wait_seconds))

    async def destroy(self, session: ProviderSession) -> None:
        """See Provider. One that cannot be released now is found by its mark later."""
        ours = self._sessions.pop(session.session_id, None)
        if ours is None:
            return
        self._owed.add(ours.session_id)
        with suppress(Failed):
            await self._api.release(ours.session_id, self.options.project_id)
            self._owed.discard(ours.session_id)
        await ours.line.disconnect()

    async def release_leftovers(self) -> int:
        """How many sessions were released that no living process has in use: those of a former process of this family,
        and those of ours of which no answer told us. Raises Failed."""
        found = [
            view for view in await self._api.list_sessions("RUNNING") if self._is_left(view.id, view.user_metadata)
        ]
        for view in found:
            await self._api.release(view.id, self.options.project_id)
        self._unclear = False
        self._owed.clear()
        return len(found)

    def _is_left(self, session_id: str, metadata: dict[str, Any] | None) -> bool:
        mark = Mark.read(str((metadata or {}).get(_MARK, "")))
        if mark is None or mark.family != self._mark.family or session_id in self._sessions:
            return False
        return mark == self._mark or not alive(mark)

    async def close(self) -> None:
        """See Provider."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(self.destroy(session) for session in tuple(self._sessions.values())))
                async with self._turn:
                    if self._owed or (self._unclear and self._created):
                        with suppress(Failed):
                            await self.release_leftovers()
        await self._driver.close()


class _Session:
    """Implements ProviderSession."""

    def __init__(self, line: AttachedSession, api: BrowserbaseApi) -> None:
        self.session_id = line.session_id
        self.expires_at: float | None = None
        self.line = line
        self._api = api

    @property
    def gone(self) -> bool:
        """See ProviderSession."""
        return self.line.gone

    async def open(self, wish: Wish) -> Opened:
        """See ProviderSession. Where the line was cut, they know whether there is still something at its other end."""
        if not self.line.connected:
            view = await self._api.get(self.session_id)
            if view is None or view.status not in _LIVE:
                told = "is gone" if view is None else f"has ended: {view.status}"
                raise Failed(Failure.of(FailureKind.BROWSER_CRASH, f"the Browserbase session {told}"))
        return await self.line.open(wish)


def _order(options: BrowserbaseOptions, mark: Mark) -> dict[str, Any]:
    order: dict[str, Any] = {
        "timeout": options.timeout_seconds,
        "keepAlive": options.keep_alive,
        "userMetadata": {_MARK: str(mark)},
        "browserSettings": {
            "solveCaptchas": options.solve_captchas,
            "recordSession": options.record,
            "logSession": options.record,
            "ignoreCertificateErrors": False,  # what is wrong at a site is to be known
        },
    }
    if options.project_id is not None:
        order["projectId"] = options.project_id
    if options.region is not None:
        order["region"] = options.region
    if options.proxy is not None:
        order["proxies"] = [_proxy(options.proxy)]
    elif options.their_proxies:
        order["proxies"] = True
    return order


def _proxy(proxy: ExternalProxy) -> dict[str, str]:
    told = {"type": "external", "server": proxy.server}
    if proxy.username is not None:
        told["username"] = proxy.username
    if proxy.password is not None:
        told["password"] = proxy.password.reveal()
    return told
