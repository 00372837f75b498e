"""Limits shared by all requests of a controller: connections per address, bulk loads at once, depth of the task queue
(I5).

When no connection is free, the idle ones of the address that has most of them are closed. Loads of one job wait for
each other. The queue depth is read from the store and counted here between two reads.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.ports.clock import Clock
from swath.ports.lease_store import LeaseStore

__all__ = [
    "MIN_BYTES_PER_SECOND",
    "RESERVED_CONNECTIONS",
    "ConnectionAdmission",
    "ConnectionLimits",
    "ConnectionPhase",
    "EvictableConnection",
    "LoadLimits",
    "QueueDepth",
    "UploadSpeed",
    "address_key",
]

RESERVED_CONNECTIONS: Final = 50  # connections beyond the limit, for /health, /readiness and keys of `admin`
_IPV6_BITS: Final = 64  # one customer has a network of so many bits to choose addresses from


class ConnectionPhase(Enum):
    """What a connection is doing."""

    OPENING = auto()  # its request has not come, or not to the end of its headers
    BUSY = auto()  # a request is under way, and its caller was let in
    OPEN_TO_ALL = auto()  # one is under way for which nobody was asked who sends it
    IDLE = auto()  # it was answered, and may be used again


class ConnectionAdmission(Enum):
    """What a new connection gets."""

    FREE = auto()
    RESERVE = auto()  # all others are busy: only what the reserve is for is answered on it
    ADDRESS_FULL = auto()
    FULL = auto()


class EvictableConnection(Protocol):
    """What protocol.py has for each."""

    def make_room(self, phase: ConnectionPhase) -> None:
        """Ends at once; `phase` is the one in which it was found."""
        ...


class ConnectionLimits:
    """Those of one listener. `per_address`: so many may be open from one address."""

    def __init__(self, per_address: int) -> None:
        self._per_address = per_address
        self._clients: dict[str, _AddressConnections] = {}
        self._of: dict[EvictableConnection, _AddressConnections] = {}

    def __len__(self) -> int:
        return len(self._of)

    def enter(self, connection: EvictableConnection, client: str, most: int) -> ConnectionAdmission:
        """Takes one up, if there is room or room can be made; `most` may be open in all."""
        known = self._clients.get(client, _AddressConnections(client))
        if len(known) >= self._per_address and not self._free(known):
            return ConnectionAdmission.ADDRESS_FULL
        full = len(self._of) >= most and not self._free(_address_with_most_waiting(self._clients.values()))
        if full and len(self._of) >= most + RESERVED_CONNECTIONS:
            return ConnectionAdmission.FULL
        self._clients[client] = self._of[connection] = known
        known.phases[ConnectionPhase.OPENING][connection] = None
        return ConnectionAdmission.RESERVE if full else ConnectionAdmission.FREE

    def note(self, connection: EvictableConnection, phase: ConnectionPhase) -> None:
        """From now on it is in this phase. One that has left stays away."""
        client = self._of.get(connection)
        if client is not None and connection not in client.phases[phase]:
            client.remove(connection)
            client.phases[phase][connection] = None

    def leave(self, connection: EvictableConnection) -> None:
        """It is closed. Harmless when it has left before."""
        client = self._of.pop(connection, None)
        if client is not None:
            client.remove(connection)
            if not len(client):
                self._clients.pop(client.name, None)

    def _free(self, client: _AddressConnections | None) -> bool:
        """Ends that connection of the client which is the first to make room, if there is one."""
        found = None if client is None else client.oldest()
        if found is None:
            return False
        connection, phase = found
        self.leave(connection)
        connection.make_room(phase)
        return True


class _AddressConnections:
    """The connections of one address, by phase; in each the one that has been in it for longest comes first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.phases: dict[ConnectionPhase, dict[EvictableConnection, None]] = {phase: {} for phase in ConnectionPhase}

    def __len__(self) -> int:
        return sum(map(len, self.phases.values()))

    def remove(self, connection: EvictableConnection) -> None:
        for found in self.phases.values():
            found.pop(connection, None)

    def oldest(self) -> tuple[EvictableConnection, ConnectionPhase] | None:
        for phase in (ConnectionPhase.OPENING, ConnectionPhase.IDLE, ConnectionPhase.OPEN_TO_ALL):
            for connection in self.phases[phase]:
                return connection, phase
        return None


def _address_with_most_waiting(clients: Iterable[_AddressConnections]) -> _AddressConnections | None:
    def greed(client: _AddressConnections) -> tuple[int, int]:
        return len(client.phases[ConnectionPhase.OPENING]) + len(client.phases[ConnectionPhase.OPEN_TO_ALL]), len(
            client.phases[ConnectionPhase.IDLE]
        )

    return max(clients, key=greed, default=None)


def address_key(peer: str | None) -> str:
    """By which name the connections and requests of an address count: of IPv6 the network that one customer has."""
    try:
        found = ip_address((peer or "").partition("%")[0])
    except ValueError:
        return peer or ""
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    network = int(found) >> _IPV6_BITS << _IPV6_BITS
    return f"{IPv6Address(network)}/{_IPV6_BITS}"


LOAD_LOCK_SECONDS: Final = 5.0
MAX_LOADS: Final = 4
LOAD_WAIT_SECONDS: Final = 60.0  # that a sender waits, with its body unread, until another is done
SPEED_WINDOW_SECONDS: Final = 30.0  # over which a pace is measured; whoever waits for a place waits longer
MIN_BYTES_PER_SECOND: Final = 1 << 10


class LoadLimits:
    """One per controller. Loads through two controllers at once are told apart by the store: one gets a conflict."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()
        self._places = asyncio.Semaphore(MAX_LOADS)
        self._waiting = 0

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for a place."""
        return self._waiting > 0

    @asynccontextmanager
    async def turn(self, job_id: str, seconds: float = LOAD_LOCK_SECONDS) -> AsyncIterator[None]:
        """The job is the caller's while the context lasts. Raises ApiError conflict when that takes too long."""
        lock = self._locks.setdefault(job_id, asyncio.Lock())
        self._users[job_id] += 1
        try:
            await _acquire_lock(lock, job_id, seconds)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._users[job_id] -= 1
            if not self._users[job_id]:
                del self._users[job_id], self._locks[job_id]

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the few that read at once. Raises ApiError rate_limited when none gets free."""
        self._waiting += 1
        try:
            async with asyncio.timeout(LOAD_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            told = f"{MAX_LOADS} loads are under way here; try again later"
            raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=LOAD_WAIT_SECONDS) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()


class UploadSpeed:
    """How fast a sender sends: only the time counts in which we wait for it, not that in which we hold it up."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._bytes = 0

    def is_slow(self, waited_seconds: float, came_bytes: int) -> bool:
        """Whether it sent too little, told whenever enough time has passed to say so."""
        self._seconds += waited_seconds
        self._bytes += came_bytes
        if self._seconds < SPEED_WINDOW_SECONDS:
            return False
        slow = self._bytes < MIN_BYTES_PER_SECOND * self._seconds
        self._seconds, self._bytes = 0.0, 0
        return slow


async def _acquire_lock(lock: asyncio.Lock, job_id: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await lock.acquire()
    except TimeoutError:
        told = f"another load of job {job_id!r} is under way; wait until it is over"
        raise ApiError(ErrorCode.CONFLICT, told, retry_after=seconds) from None


DEPTH_CACHE_SECONDS: Final = 1.0
MIN_READ_INTERVAL_SECONDS: Final = 0.05  # between two looks, however many are turned away
QUEUE_RETRY_SECONDS: Final = 5


class QueueDepth:
    """One per controller."""

    def __init__(self) -> None:
        self._known = 0
        self._ordered = 0  # since the store was last asked
        self._coming = 0  # let in, and not ordered yet
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    @asynccontextmanager
    async def room(self, book: LeaseStore, clock: Clock, tasks: int, limit: int) -> AsyncIterator[None]:
        """There is room for so many tasks, which are ordered inside. Raises ApiError queue_full."""
        if clock.boot() - self._read_at > DEPTH_CACHE_SECONDS:
            await self._read(book, clock, DEPTH_CACHE_SECONDS)
        if self._depth + tasks > limit:
            await self._read(book, clock, MIN_READ_INTERVAL_SECONDS)
        if self._depth + tasks > limit:
            told = f"{self._depth:,} tasks wait already, and no more than {limit:,} may; try again later"
            raise ApiError(ErrorCode.QUEUE_FULL, told, retry_after=QUEUE_RETRY_SECONDS)
        self._coming += tasks
        try:
            yield
            self._ordered += tasks
        finally:
            self._coming -= tasks

    @property
    def _depth(self) -> int:
        return self._known + self._ordered + self._coming

    async def _read(self, book: LeaseStore, clock: Clock, older_than: float) -> None:
        """One of those who want to know asks the store; the others find it done."""
        async with self._reading:
            if clock.boot() - self._read_at > older_than:
                ordered = self._ordered  # all of these are among what the store will tell
                backlog = await book.backlog()
                self._known = sum(job.pending for job in backlog if job.on_demand)
                self._ordered -= ordered
                self._read_at = clock.boot()
