"""Connections: who holds how many connections to the controller, and which of them make room for others (I5).

Before: protocol.py has a new one. Nobody knows yet what will be asked on it, so room is made at the cost of connections
on which nothing is under way for anybody who was let in: first those whose request has not come yet, of the address
that has most of them. An answer that is open to all, and not read, is no reason to keep others out.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

__all__ = ["RESERVED", "Connection", "Connections", "Phase", "Room", "client_of"]

RESERVED: Final = 50  # connections beyond the limit, for /health, /readiness and keys of `admin`
_IPV6_BITS: Final = 64  # one customer has a network of so many bits to choose addresses from


class Phase(Enum):
    """What a connection is doing."""

    OPENING = auto()  # its request has not come, or not to the end of its headers
    BUSY = auto()  # a request is under way, and its caller was let in
    OPEN_TO_ALL = auto()  # one is under way for which nobody was asked who sends it
    IDLE = auto()  # it was answered, and may be used again


class Room(Enum):
    """What a new connection gets."""

    FREE = auto()
    RESERVE = auto()  # all others are busy: only what the reserve is for is answered on it
    ADDRESS_FULL = auto()
    FULL = auto()


class Connection(Protocol):
    """What protocol.py has for each."""

    def make_room(self, phase: Phase) -> None:
        """Ends at once; `phase` is the one in which it was found."""
        ...


class Connections:
    """Those of one listener. `per_address`: so many may be open from one address."""

    def __init__(self, per_address: int) -> None:
        self._per_address = per_address
        self._clients: dict[str, _Client] = {}
        self._of: dict[Connection, _Client] = {}

    def __len__(self) -> int:
        return len(self._of)

    def enter(self, connection: Connection, client: str, most: int) -> Room:
        """Takes one up, if there is room or room can be made; `most` may be open in all."""
        known = self._clients.get(client, _Client(client))
        if len(known) >= self._per_address and not self._free(known):
            return Room.ADDRESS_FULL
        full = len(self._of) >= most and not self._free(_greediest(self._clients.values()))
        if full and len(self._of) >= most + RESERVED:
            return Room.FULL
        self._clients[client] = self._of[connection] = known
        known.phases[Phase.OPENING][connection] = None
        return Room.RESERVE if full else Room.FREE

    def note(self, connection: Connection, phase: Phase) -> None:
        """From now on it is in this phase. One that has left stays away."""
        client = self._of.get(connection)
        if client is not None and connection not in client.phases[phase]:
            client.remove(connection)
            client.phases[phase][connection] = None

    def leave(self, connection: Connection) -> None:
        """It is closed. Harmless when it has left before."""
        client = self._of.pop(connection, None)
        if client is not None:
            client.remove(connection)
            if not len(client):
                self._clients.pop(client.name, None)

    def _free(self, client: _Client | None) -> bool:
        """Ends that connection of the client which is the first to make room, if there is one."""
        found = None if client is None else client.oldest()
        if found is None:
            return False
        connection, phase = found
        self.leave(connection)
        connection.make_room(phase)
        return True


class _Client:
    """The connections of one address, by phase; in each the one that has been in it for longest comes first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.phases: dict[Phase, dict[Connection, None]] = {phase: {} for phase in Phase}

    def __len__(self) -> int:
        return sum(map(len, self.phases.values()))

    def remove(self, connection: Connection) -> None:
        for found in self.phases.values():
            found.pop(connection, None)

    def oldest(self) -> tuple[Connection, Phase] | None:
        for phase in (Phase.OPENING, Phase.IDLE, Phase.OPEN_TO_ALL):
            for connection in self.phases[phase]:
                return connection, phase
        return None


def _greediest(clients: Iterable[_Client]) -> _Client | None:
    def greed(client: _Client) -> tuple[int, int]:
        return len(client.phases[Phase.OPENING]) + len(client.phases[Phase.OPEN_TO_ALL]), len(client.phases[Phase.IDLE])

    return max(clients, key=greed, default=None)


def client_of(peer: str | None) -> str:
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
