"""Browserbase's REST API: create, list, get and release sessions. Typed, bounded, and repeated where that can help.

Used by browserbase.py. The key goes into a header and nowhere else; the address that a session is reached at holds a
signing key, so it is a secret from the moment it is read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.retry import asked_seconds
from swath.domain.secret import Secret
from swath.ports.clock import Clock
from swath.web.classify import retry_after_seconds
from swath.web.transport import Request, Response, Transport

__all__ = ["API_URL", "BrowserbaseApi", "Created", "Unanswered", "View"]

API_URL: Final = "https://api.browserbase.com"
_TRIES: Final = 3
_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 15.0  # whoever asks for more is told so by the failure, and waited for elsewhere
_LARGEST_BYTES: Final = 8 * 1024 * 1024
_REPEATED: Final = frozenset({408, 409, 429})

_Told = TypeVar("_Told")
Status = Literal["PENDING", "RUNNING", "ERROR", "TIMED_OUT", "COMPLETED"]


class View(msgspec.Struct, frozen=True, rename="camel"):
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


class Created(msgspec.Struct, frozen=True):
    """A session that has been made, and the address to reach it at."""

    view: View
    connect_url: Secret


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    connect_url: str


class Unanswered(Failed):
    """Nobody can tell whether the request has been carried out."""


class BrowserbaseApi:
    """`url` is another than the usual one in tests only."""

    def __init__(self, transport: Transport, key: Secret, clock: Clock, url: str = API_URL) -> None:
        self._transport = transport
        self._key = key
        self._clock = clock
        self._url = url.rstrip("/")

    async def create(self, order: dict[str, Any]) -> Created:
        """Not repeated when it may have been carried out: that would be paid twice. Raises Unanswered then, or Failed:
        credential, rate_limited, access_policy, browser_crash."""
        response = await self._ask("POST", "/v1/sessions", order, safe=False)
        try:
            view, line = _read(response, View), _read(response, _Line)
        except Failed as failed:
            raise Unanswered(failed.failure) from None
        if not line.connect_url.startswith("wss://" if self._url.startswith("https:") else ("wss://", "ws://")):
            raise Unanswered(Failure.of(FailureKind.BROWSER_CRASH, "Browserbase names no address to connect to"))
        return Created(view, Secret(line.connect_url))

    async def list_sessions(self, status: Status | None = None) -> list[View]:
        """All of the project's, or those of one status."""
        query = "" if status is None else f"?status={status}"
        return _read(await self._ask("GET", f"/v1/sessions{query}"), list[View])

    async def get(self, session_id: str) -> View | None:
        """None: there is no such session."""
        response = await self._ask("GET", f"/v1/sessions/{quote(session_id, safe='')}", allowed=frozenset({404}))
        return None if response.status == 404 else _read(response, View)

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
                unclear = isinstance(failed, Unanswered)
                if not tries_left or not _may_help(failed) or (unclear and not safe) or pause > _LONGEST_WAIT_SECONDS:
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
            raise _not_reached(failed.failure) from None
        if response.status < 300 or response.status in allowed:
            return response
        raise _refused(response, self._clock.now())


def _may_help(failed: Failed) -> bool:
    return isinstance(failed, Unanswered) or failed.failure.kind in {
        FailureKind.RATE_LIMITED,
        FailureKind.BROWSER_CRASH,
    }


def _not_reached(failure: Failure) -> Failed:
    """The browser is what is missing, whatever kept us from the place where it is to be had."""
    told = Failure.of(FailureKind.BROWSER_CRASH, f"Browserbase is not reached: {failure.kind}")
    never_sent = {FailureKind.DNS_TEMPORARY, FailureKind.DNS_UNKNOWN, FailureKind.EGRESS_DENIED, FailureKind.TLS}
    return Failed(told) if failure.kind in never_sent else Unanswered(told)


def _refused(response: Response, now: float) -> Failed:
    """Their words are not repeated: they may repeat ours."""
    status = response.status
    told = f"Browserbase answers {status}"
    if status in {401, 403}:
        return Failed(Failure.of(FailureKind.CREDENTIAL, f"{told}: the API key is refused; check it and its project"))
    if status == 402:
        return Failed(Failure.of(FailureKind.ACCESS_POLICY, f"{told}: the plan's minutes are used up"))
    if status == 429:
        wait = _asked_wait(response, now)
        message = f"{told}: too many sessions at once or in a minute; see the limits of its plan"
        return Failed(Failure.of(FailureKind.RATE_LIMITED, message, wait))
    if status in _REPEATED or status >= 500:
        failure = Failure.of(FailureKind.BROWSER_CRASH, told, _asked_wait(response, now))
        return Failed(failure) if status == 409 else Unanswered(failure)
    return Failed(Failure.of(FailureKind.ACCESS_POLICY, f"{told}: it does not take this order of a session"))


def _asked_wait(response: Response, now: float) -> float | None:
    milliseconds = (response.header("retry-after-ms") or "").strip()
    asked = asked_seconds(milliseconds)
    if asked is not None:
        return asked / 1_000
    return retry_after_seconds(response.header("retry-after"), now)


def _read(response: Response, kind: type[_Told]) -> _Told:
    try:
        return msgspec.json.decode(response.body, type=kind)
    except msgspec.MsgspecError:
        raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "Browserbase answers with something else")) from None
