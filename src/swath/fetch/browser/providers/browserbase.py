"""Sessions at Browserbase, created by its REST API and used over CDP.

A session costs at least a minute, so items share them. Each is released by id; those of a process that died are
found
by our tag and released at the next start. Requests are repeated only where that cannot create a second session. The
API
key goes into a header and nowhere else; the address of a session contains a signing key and is a secret too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.retry import parse_retry_after
from swath.domain.secret import Secret
from swath.fetch.browser.chromium.process_tag import ProcessTag, owner_is_alive
from swath.fetch.browser.providers.cdp import RemoteLimits, RemoteSession, SharedDriver
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from swath.fetch.http.blocks.classify import retry_after_seconds
from swath.fetch.http.messages import Request, Response, Transport
from swath.ports.clock import Clock

__all__ = [
    "API_URL",
    "BrowserbaseApi",
    "BrowserbaseOptions",
    "BrowserbaseProvider",
    "CreatedSession",
    "ExternalProxy",
    "OutcomeUnknown",
    "SessionRecord",
]

API_URL: Final = "https://api.browserbase.com"
_TRIES: Final = 3
_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 15.0  # whoever asks for more is told so by the failure, and waited for elsewhere
_LARGEST_BYTES: Final = 8 * 1024 * 1024
_REPEATED: Final = frozenset({408, 409, 429})

_Decoded = TypeVar("_Decoded")
SessionStatus = Literal["PENDING", "RUNNING", "ERROR", "TIMED_OUT", "COMPLETED"]


class SessionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What list and get tell of a session."""

    id: str
    status: str
    created_at: datetime
    expires_at: datetime
    keep_alive: bool = False
    user_metadata: dict[str, Any] | None = None

    @property
    def lifetime_seconds(self) -> float:
        """By their clock alone, which need not agree with ours."""
        return (self.expires_at - self.created_at).total_seconds()


class CreatedSession(msgspec.Struct, frozen=True):
    """A session that has been made, and the address to reach it at."""

    view: SessionRecord
    connect_url: Secret


class _ConnectAddress(msgspec.Struct, frozen=True, rename="camel"):
    connect_url: str


class OutcomeUnknown(Failed):
    """Nobody can tell whether the request has been carried out."""


class BrowserbaseApi:
    """`url` is another than the usual one in tests only."""

    def __init__(self, transport: Transport, key: Secret, clock: Clock, url: str = API_URL) -> None:
        self._transport = transport
        self._key = key
        self._clock = clock
        self._url = url.rstrip("/")

    async def create(self, order: dict[str, Any]) -> CreatedSession:
        """Not repeated when it may have been carried out: that would be paid twice. Raises Unanswered then, or Failed:
        credential, rate_limited, access_policy, browser_crash."""
        response = await self._ask("POST", "/v1/sessions", order, safe=False)
        try:
            view, line = _decode(response, SessionRecord), _decode(response, _ConnectAddress)
        except Failed as failed:
            raise OutcomeUnknown(failed.failure) from None
        if not line.connect_url.startswith("wss://" if self._url.startswith("https:") else ("wss://", "ws://")):
            raise OutcomeUnknown(Failure.of(FailureKind.BROWSER_CRASH, "Browserbase names no address to connect to"))
        return CreatedSession(view, Secret(line.connect_url))

    async def list_sessions(self, status: SessionStatus | None = None) -> list[SessionRecord]:
        """All of the project's, or those of one status."""
        query = "" if status is None else f"?status={status}"
        return _decode(await self._ask("GET", f"/v1/sessions{query}"), list[SessionRecord])

    async def get(self, session_id: str) -> SessionRecord | None:
        """None: there is no such session."""
        response = await self._ask("GET", f"/v1/sessions/{quote(session_id, safe='')}", allowed=frozenset({404}))
        return None if response.status == 404 else _decode(response, SessionRecord)

    async def release(self, session_id: str, project_id: str | None = None) -> None:
        """It ends at once. May be said again, also of one that has ended or never was."""
        order = {"status": "REQUEST_RELEASE"} | ({} if project_id is None else {"projectId": project_id})
        path = f"/v1/sessions/{quote(session_id, safe='')}"
        await self._ask("POST", path, order, allowed=frozenset({400, 404, 410, 422}))

    async def _ask(
        self,
        method: str,
        path: str,
        order: dict[str, Any] | None = None,
        *,
        safe: bool = True,
        allowed: frozenset[int] = frozenset(),
    ) -> Response:
        """`safe`: doing it twice does no harm."""
        wait_seconds = _FIRST_WAIT_SECONDS
        for tries_left in reversed(range(_TRIES)):
            try:
                return await self._asked_once(method, path, order, allowed)
            except Failed as failed:
                asked = failed.failure.retry_after_seconds
                pause = wait_seconds if asked is None else asked
                unclear = isinstance(failed, OutcomeUnknown)
                if (
                    not tries_left
                    or not _is_retryable(failed)
                    or (unclear and not safe)
                    or pause > _LONGEST_WAIT_SECONDS
                ):
                    raise
                await self._clock.sleep(pause)
                wait_seconds *= 2
        raise AssertionError("the last try returns or raises")

    async def _asked_once(
        self, method: str, path: str, order: dict[str, Any] | None, allowed: frozenset[int]
    ) -> Response:
        request = Request(
            url=self._url + path,
            method=method,
            headers=(("x-bb-api-key", self._key.reveal()), ("accept", "application/json"))
            + ((("content-type", "application/json"),) if order is not None else ()),
            body=b"" if order is None else msgspec.json.encode(order),
            request_timeout_seconds=60.0,
            largest_bytes=_LARGEST_BYTES,
        )
        try:
            response = await self._transport.send(request)
        except Failed as failed:
            raise _unreachable(failed.failure) from None
        if response.status < 300 or response.status in allowed:
            return response
        raise _api_refused(response, self._clock.now())


def _is_retryable(failed: Failed) -> bool:
    return isinstance(failed, OutcomeUnknown) or failed.failure.kind in {
        FailureKind.RATE_LIMITED,
        FailureKind.BROWSER_CRASH,
    }


def _unreachable(failure: Failure) -> Failed:
    """The browser is what is missing, whatever kept us from the place where it is to be had."""
    told = Failure.of(FailureKind.BROWSER_CRASH, f"Browserbase is not reached: {failure.kind}")
    never_sent = {FailureKind.DNS_TEMPORARY, FailureKind.DNS_UNKNOWN, FailureKind.EGRESS_DENIED, FailureKind.TLS}
    return Failed(told) if failure.kind in never_sent else OutcomeUnknown(told)


def _api_refused(response: Response, now: float) -> Failed:
    """Their words are not repeated: they may repeat ours."""
    status = response.status
    told = f"Browserbase answers {status}"
    if status in {401, 403}:
        return Failed(Failure.of(FailureKind.CREDENTIAL, f"{told}: the API key is refused; check it and its project"))
    if status == 402:
        return Failed(Failure.of(FailureKind.ACCESS_POLICY, f"{told}: the plan's minutes are used up"))
    if status == 429:
        wait = _retry_after(response, now)
        message = f"{told}: too many sessions at once or in a minute; see the limits of its plan"
        return Failed(Failure.of(FailureKind.RATE_LIMITED, message, wait))
    if status in _REPEATED or status >= 500:
        failure = Failure.of(FailureKind.BROWSER_CRASH, told, _retry_after(response, now))
        return Failed(failure) if status == 409 else OutcomeUnknown(failure)
    return Failed(Failure.of(FailureKind.ACCESS_POLICY, f"{told}: it does not take this order of a session"))


def _retry_after(response: Response, now: float) -> float | None:
    milliseconds = (response.header("retry-after-ms") or "").strip()
    asked = parse_retry_after(milliseconds)
    if asked is not None:
        return asked / 1_000
    return retry_after_seconds(response.header("retry-after"), now)


def _decode(response: Response, kind: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(response.body, type=kind)
    except msgspec.MsgspecError:
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "Browserbase answers with something else")) from None


_TAG_KEY: Final = "swath"
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
        limits: RemoteLimits | None = None,
    ) -> None:
        self.options = options or BrowserbaseOptions()
        self.most_sessions = self.options.most_sessions
        self._api = api
        self._clock = clock
        self._mark = ProcessTag.new(family)
        self._limits = limits or RemoteLimits()
        self._driver = SharedDriver(family)
        self._turn = asyncio.Lock()
        self._created: deque[float] = deque()
        self._sessions: dict[str, _BrowserbaseSession] = {}
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
                session = self._session(await self._api.create(_session_request(self.options, self._mark)))
            except Failed as failed:
                self._unclear = isinstance(failed, OutcomeUnknown)
                raise
            self._unclear = False
        try:
            await session.line.connect()
        except BaseException:
            await self.destroy(session)
            raise
        return session

    def _session(self, created: CreatedSession) -> _BrowserbaseSession:
        line = RemoteSession(
            created.view.id, created.connect_url, "Browserbase", self._driver, self._clock, self._limits
        )
        session = self._sessions[created.view.id] = _BrowserbaseSession(line, self._api)
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
        mark = ProcessTag.read(str((metadata or {}).get(_TAG_KEY, "")))
        if mark is None or mark.family != self._mark.family or session_id in self._sessions:
            return False
        return mark == self._mark or not owner_is_alive(mark)

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


class _BrowserbaseSession:
    """Implements ProviderSession."""

    def __init__(self, line: RemoteSession, api: BrowserbaseApi) -> None:
        self.session_id = line.session_id
        self.expires_at: float | None = None
        self.line = line
        self._api = api

    @property
    def gone(self) -> bool:
        """See ProviderSession."""
        return self.line.gone

    async def open(self, wish: TabRequest) -> BrowserTab:
        """See ProviderSession. Where the line was cut, they know whether there is still something at its other end."""
        if not self.line.connected:
            view = await self._api.get(self.session_id)
            if view is None or view.status not in _LIVE:
                told = "is gone" if view is None else f"has ended: {view.status}"
                raise Failed(Failure.of(FailureKind.BROWSER_CRASH, f"the Browserbase session {told}"))
        return await self.line.open(wish)


def _session_request(options: BrowserbaseOptions, mark: ProcessTag) -> dict[str, Any]:
    order: dict[str, Any] = {
        "timeout": options.timeout_seconds,
        "keepAlive": options.keep_alive,
        "userMetadata": {_TAG_KEY: str(mark)},
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
        order["proxies"] = [_proxy_settings(options.proxy)]
    elif options.their_proxies:
        order["proxies"] = True
    return order


def _proxy_settings(proxy: ExternalProxy) -> dict[str, str]:
    told = {"type": "external", "server": proxy.server}
    if proxy.username is not None:
        told["username"] = proxy.username
    if proxy.password is not None:
        told["password"] = proxy.password.reveal()
    return told
