"""Authenticates callers by service key, and limits the rate and the number of their requests and event streams (I5).

Keys are read from the store every few seconds, so a revoked key stops working soon in every controller. While there
are
no keys, only programs on this machine are allowed, unless the request shows signs of a proxy in front of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.service_key import Scope, ServiceKey, key_id_of, key_matches
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.limits import address_key
from swath.ports.clock import Clock
from swath.ports.store import KeyRing

if TYPE_CHECKING:
    from fastapi import Request

    from swath.settings import Settings

__all__ = [
    "MAX_STREAMS",
    "NO_VALID_KEY",
    "RESERVED_STREAMS",
    "Authenticator",
    "Caller",
    "CallerLimits",
    "forwarding_evidence",
    "is_loopback",
]

KEY_CACHE_SECONDS: Final = 2.0  # for which what the store said of its keys is believed
KEY_READ_SECONDS: Final = 5.0  # that the store may take to say it
MAX_KEY_AGE_SECONDS: Final = 300.0  # for which it is believed while the store does not answer: metrics and health go on
MAX_TRACKED_CALLERS: Final = 10_000  # whose pace is remembered; the one who was silent longest makes room
NO_VALID_KEY: Final = "every service key has expired or was revoked, so nobody is let in"
WRONG_KEY_COST: Final = 10.0  # a wrong key costs as much as so many requests: guessing is slow
_CHALLENGE_HEADERS: Final = {"WWW-Authenticate": "X-Service-Key"}


class Caller(msgspec.Struct, frozen=True):
    """Who asks. `key_id` is None for somebody on this machine while there are no keys at all. `name` is what its share
    of anything is counted by, and `own` what others cannot guess, from which it gets names that are its alone."""

    key_id: str | None
    scopes: tuple[Scope, ...]
    name: str = ""
    own: bytes = b""

    def own_name(self, given: str) -> str:
        """Of what this caller calls so; the same word of another caller is another name."""
        return hmac.digest(self.own, given.encode(), "sha256").hex()[:32]


class _RequestBudget(msgspec.Struct):
    """Requests that a caller may still make at once, as of a moment on the boot clock."""

    tokens: float
    at: float


class Authenticator:
    """Shared by all requests of a process. `requests_per_minute` is for each key, or each peer without one."""

    def __init__(self, ring: KeyRing, clock: Clock, requests_per_minute: int) -> None:
        self._ring = ring
        self._clock = clock
        self._per_minute = requests_per_minute
        self._keys: dict[str, ServiceKey] = {}
        self._read_at = self._asked_at = self._read_wall = -math.inf
        self._seen_expired: set[str] = set()  # and they stay so, whatever the clock shows next
        self._reading = asyncio.Lock()
        self._paces: OrderedDict[str, _RequestBudget] = OrderedDict()

    async def admit(self, shown: Sequence[str], peer: str | None, scope: Scope, relayed: str | None = None) -> Caller:
        """The caller, if its key is right and allows that; `relayed` is what speaks for others behind the peer.

        Raises ApiError, and StoreUnavailable."""
        await self._refresh()
        address = f"address {address_key(peer)}"
        caller = Caller(None, (Scope.ADMIN,), address) if not self._keys and not shown else self._known(shown, address)
        self._take(caller.name, 1.0)
        if caller.key_id is None:
            _require_local_caller(peer, relayed)
        if not any(_scope_includes(held, scope) for held in caller.scopes):
            raise ApiError(ErrorCode.FORBIDDEN, f"this key does not allow that: it needs the scope {scope}")
        return caller

    async def still_admits(self, caller: Caller) -> bool:
        """Whether the key of a request that goes on is neither revoked nor expired. A caller without one stays while
        there are no keys. Raises StoreUnavailable when the keys could not be read for too long."""
        await self._refresh()
        if caller.key_id is None:
            return not self._keys
        key = self._keys.get(caller.key_id)
        return key is not None and key.alive(self._latest()) and key.key_id not in self._seen_expired

    def _known(self, shown: Sequence[str], address: str) -> Caller:
        text, now = shown[0] if len(shown) == 1 else "", self._latest()
        key = self._keys.get(key_id_of(text) or "")
        if key is not None and key.over(now):
            self._seen_expired.add(key.key_id)
        if not key_matches(key, text, now) or key is None or key.key_id in self._seen_expired:
            self._take(address, WRONG_KEY_COST if shown else 1.0)
            wrong = "the service key in the header X-Service-Key is wrong, expired or revoked"
            told = wrong if shown else "give a service key in the header X-Service-Key"
            if not any(one.alive(now) for one in self._keys.values()) and self._keys:
                told = f"{NO_VALID_KEY}; make one with `swath keys create NAME`"
            raise ApiError(ErrorCode.AUTHENTICATION_ERROR, told, headers=_CHALLENGE_HEADERS)
        own = hashlib.sha256(f"own {key.digest}".encode()).digest()
        return Caller(key.key_id, key.scopes, f"key {key.key_id}", own)

    def _latest(self) -> float:
        """The wall time, but not less than when the keys were read plus what has passed since."""
        return max(self._clock.now(), self._read_wall + self._clock.boot() - self._read_at)

    async def _refresh(self) -> None:
        """One of those who wait reads; the others find it done. Raises StoreUnavailable when too long nobody could."""
        if self._clock.boot() - self._asked_at >= KEY_CACHE_SECONDS:
            async with self._reading:
                if self._clock.boot() - self._asked_at >= KEY_CACHE_SECONDS:
                    await self._read()
        if self._clock.boot() - self._read_at > MAX_KEY_AGE_SECONDS:
            raise StoreUnavailable("the store does not answer, so no key can be checked", WaitingFor.STORE)

    async def _read(self) -> None:
        with suppress(StoreUnavailable, TimeoutError):  # a store that can be read only lets callers in too
            async with asyncio.timeout(KEY_READ_SECONDS):
                await self._ring.expire_keys(self._seen_expired)
        with suppress(StoreUnavailable, TimeoutError):  # what was known before holds on for a while
            async with asyncio.timeout(KEY_READ_SECONDS):
                self._keys = {key.key_id: key for key in await self._ring.keys()}
            self._read_at, self._read_wall = self._clock.boot(), self._clock.now()
        self._asked_at = self._clock.boot()

    def _take(self, who: str, cost: float) -> None:
        """Raises ApiError when the caller has asked for too much in the last minute."""
        now, per_second = self._clock.boot(), self._per_minute / 60
        pace = self._paces.pop(who, None) or _RequestBudget(float(self._per_minute), now)
        pace.tokens = min(float(self._per_minute), pace.tokens + (now - pace.at) * per_second)
        pace.at = now
        self._paces[who] = pace
        if len(self._paces) > MAX_TRACKED_CALLERS:
            self._paces.popitem(last=False)
        if pace.tokens < cost:
            wait_seconds = math.ceil((cost - pace.tokens) / per_second)
            message = f"too many requests: more than {self._per_minute:,} a minute; try again in {wait_seconds} s"
            raise ApiError(ErrorCode.RATE_LIMITED, message, retry_after=wait_seconds)
        pace.tokens -= cost


def _require_local_caller(peer: str | None, relayed: str | None) -> None:
    """While nobody has made a key, whoever sits at this machine may do everything, and nobody else anything."""
    if peer is None or not is_loopback(peer):
        relayed = "it comes from elsewhere"
    if relayed is not None:
        told = (
            f"there are no service keys yet, so only programs on this machine may ask, and not by this way: {relayed}"
        )
        cure = "make a key with `swath keys create NAME`, and send it in the header X-Service-Key"
        raise ApiError(ErrorCode.AUTHENTICATION_ERROR, f"{told}; {cure}", headers=_CHALLENGE_HEADERS)


def _scope_includes(held: Scope, scope: Scope) -> bool:
    order = list(Scope)
    return order.index(held) >= order.index(scope)


def is_loopback(host: str) -> bool:
    """Whether that is an address of this very machine, or its name."""
    try:
        found = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


# What proxies, load balancers and content networks put on what they pass on. What programs send by themselves, such as
# X-Request-ID, traceparent and X-Amzn-Trace-Id, says nothing: whatever adds the last one adds X-Forwarded-For as well.
_PROXY_HEADERS: Final = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-original-url",
        "x-envoy-external-address",
        "x-azure-clientip",
        "x-azure-fdid",
        "x-proxyuser-ip",
        "x-appengine-user-ip",
        "client-ip",
        "true-client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "cdn-loop",
        "x-amz-cf-id",
    }
)
_PROXY_HEADER_PREFIXES: Final = ("x-forwarded", "cf-", "tailscale-")


def forwarding_evidence(request: Request, settings: Settings) -> str | None:
    """What speaks for it, in words for people; None when nothing does."""
    if settings.allowed_hosts:
        return "SWATH_ALLOWED_HOSTS is set"
    added = next(_proxy_headers(request.headers.keys()), None)
    if added is not None:
        return f"it has the header {added}"
    host = _host_name(request.headers.get("host", ""))
    if not (is_loopback(host) or host.endswith(".localhost")):
        return "its Host is not this machine"
    if request.scope.get("http_version") == "1.0":  # as nginx sends it, if nobody says otherwise
        return "it came as HTTP/1.0"
    return None


def _proxy_headers(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIXES):
            yield name.title()


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host.lower()}").hostname or "").rstrip(".")
    except ValueError:
        return ""


MAX_STREAMS: Final = 1_000  # of a controller
RESERVED_STREAMS: Final = 50  # beyond those, for keys of `admin`
RETRY_AFTER_SECONDS: Final = 10.0


class CallerLimits:
    """One per controller."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @contextmanager
    def request(self, caller: Caller, most: int) -> Iterator[None]:
        """One request of that caller is under way. Raises ApiError rate_limited when `most` are already."""
        with _count_while_open(self._requests, caller, most, "requests under way", "SWATH_REQUESTS_AT_ONCE"):
            yield

    @contextmanager
    def stream(self, caller: Caller, most: int) -> Iterator[None]:
        """One of the caller's event streams. Raises ApiError rate_limited when it has `most`, or all have too many."""
        room = MAX_STREAMS + (RESERVED_STREAMS if Scope.ADMIN in caller.scopes else 0)
        if self._streams.total() >= room:
            raise _too_many("no more event streams can be opened here just now")
        with _count_while_open(self._streams, caller, most, "event streams open", "SWATH_STREAMS_PER_KEY"):
            yield


@contextmanager
def _count_while_open(counted: Counter[str], caller: Caller, most: int, what: str, setting: str) -> Iterator[None]:
    who = caller.name
    if counted[who] >= most:
        whose = "this address" if caller.key_id is None else "this key"
        raise _too_many(f"{whose} has {counted[who]:,} {what}, and may not have more ({setting})")
    counted[who] += 1
    try:
        yield
    finally:
        counted[who] -= 1
        if not counted[who]:
            del counted[who]


def _too_many(told: str) -> ApiError:
    return ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS)
