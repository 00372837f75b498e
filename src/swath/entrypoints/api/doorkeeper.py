"""Doorkeeper: knows the service keys, and how much each caller has asked of late (I5). Asked by gate.py.

Keys are read from the store every few seconds, so a revoked one opens nothing soon after, in every controller.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

import msgspec

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.service_key import Scope, ServiceKey, id_of, matches
from swath.entrypoints.api.connections import client_of
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.ports.clock import Clock
from swath.ports.key_ring import KeyRing

__all__ = ["NONE_ALIVE", "Caller", "Doorkeeper", "is_loopback"]

KEYS_SECONDS: Final = 2.0  # for which what the store said of its keys is believed
READ_SECONDS: Final = 5.0  # that the store may take to say it
STALE_SECONDS: Final = 300.0  # for which it is believed while the store does not answer: metrics and health go on
MOST_CALLERS: Final = 10_000  # whose pace is remembered; the one who was silent longest makes room
NONE_ALIVE: Final = "every service key has expired or was revoked, so nobody is let in"
WRONG_COST: Final = 10.0  # a wrong key costs as much as so many requests: guessing is slow
_ASKS_FOR_A_KEY: Final = {"WWW-Authenticate": "X-Service-Key"}


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


class _Pace(msgspec.Struct):
    """Requests that a caller may still make at once, as of a moment on the boot clock."""

    tokens: float
    at: float


class Doorkeeper:
    """Shared by all requests of a process. `requests_per_minute` is for each key, or each peer without one."""

    def __init__(self, ring: KeyRing, clock: Clock, requests_per_minute: int) -> None:
        self._ring = ring
        self._clock = clock
        self._per_minute = requests_per_minute
        self._keys: dict[str, ServiceKey] = {}
        self._read_at = self._asked_at = self._read_wall = -math.inf
        self._seen_expired: set[str] = set()  # and they stay so, whatever the clock shows next
        self._reading = asyncio.Lock()
        self._paces: OrderedDict[str, _Pace] = OrderedDict()

    async def admit(self, shown: Sequence[str], peer: str | None, scope: Scope, relayed: str | None = None) -> Caller:
        """The caller, if its key is right and allows that; `relayed` is what speaks for others behind the peer.

        Raises ApiError, and StoreUnavailable."""
        await self._refresh()
        address = f"address {client_of(peer)}"
        caller = Caller(None, (Scope.ADMIN,), address) if not self._keys and not shown else self._known(shown, address)
        self._take(caller.name, 1.0)
        if caller.key_id is None:
            _check_here(peer, relayed)
        if not any(_allows(held, scope) for held in caller.scopes):
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
        key = self._keys.get(id_of(text) or "")
        if key is not None and key.over(now):
            self._seen_expired.add(key.key_id)
        if not matches(key, text, now) or key is None or key.key_id in self._seen_expired:
            self._take(address, WRONG_COST if shown else 1.0)
            wrong = "the service key in the header X-Service-Key is wrong, expired or revoked"
            told = wrong if shown else "give a service key in the header X-Service-Key"
            if not any(one.alive(now) for one in self._keys.values()) and self._keys:
                told = f"{NONE_ALIVE}; make one with `swath keys create NAME`"
            raise ApiError(ErrorCode.AUTHENTICATION_ERROR, told, headers=_ASKS_FOR_A_KEY)
        own = hashlib.sha256(f"own {key.digest}".encode()).digest()
        return Caller(key.key_id, key.scopes, f"key {key.key_id}", own)

    def _latest(self) -> float:
        """The wall time, but not less than when the keys were read plus what has passed since."""
        return max(self._clock.now(), self._read_wall + self._clock.boot() - self._read_at)

    async def _refresh(self) -> None:
        """One of those who wait reads; the others find it done. Raises StoreUnavailable when too long nobody could."""
        if self._clock.boot() - self._asked_at >= KEYS_SECONDS:
            async with self._reading:
                if self._clock.boot() - self._asked_at >= KEYS_SECONDS:
                    await self._read()
        if self._clock.boot() - self._read_at > STALE_SECONDS:
            raise StoreUnavailable("the store does not answer, so no key can be checked", WaitingFor.STORE)

    async def _read(self) -> None:
        with suppress(StoreUnavailable, TimeoutError):  # a store that can be read only lets callers in too
            async with asyncio.timeout(READ_SECONDS):
                await self._ring.expire_keys(self._seen_expired)
        with suppress(StoreUnavailable, TimeoutError):  # what was known before holds on for a while
            async with asyncio.timeout(READ_SECONDS):
                self._keys = {key.key_id: key for key in await self._ring.keys()}
            self._read_at, self._read_wall = self._clock.boot(), self._clock.now()
        self._asked_at = self._clock.boot()

    def _take(self, who: str, cost: float) -> None:
        """Raises ApiError when the caller has asked for too much in the last minute."""
        now, per_second = self._clock.boot(), self._per_minute / 60
        pace = self._paces.pop(who, None) or _Pace(float(self._per_minute), now)
        pace.tokens = min(float(self._per_minute), pace.tokens + (now - pace.at) * per_second)
        pace.at = now
        self._paces[who] = pace
        if len(self._paces) > MOST_CALLERS:
            self._paces.popitem(last=False)
        if pace.tokens < cost:
            wait_seconds = math.ceil((cost - pace.tokens) / per_second)
            message = f"too many requests: more than {self._per_minute:,} a minute; try again in {wait_seconds} s"
            raise ApiError(ErrorCode.RATE_LIMITED, message, retry_after=wait_seconds)
        pace.tokens -= cost


def _check_here(peer: str | None, relayed: str | None) -> None:
    """While nobody has made a key, whoever sits at this machine may do everything, and nobody else anything."""
    if peer is None or not is_loopback(peer):
        relayed = "it comes from elsewhere"
    if relayed is not None:
        told = (
            f"there are no service keys yet, so only programs on this machine may ask, and not by this way: {relayed}"
        )
        cure = "make a key with `swath keys create NAME`, and send it in the header X-Service-Key"
        raise ApiError(ErrorCode.AUTHENTICATION_ERROR, f"{told}; {cure}", headers=_ASKS_FOR_A_KEY)


def _allows(held: Scope, scope: Scope) -> bool:
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
