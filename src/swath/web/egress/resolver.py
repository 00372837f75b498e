"""Names to addresses, through the system's resolver. It may be slow or overloaded, so it is asked little.

Asked by the guard; its answers are not yet to be trusted.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Final, Protocol

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.ports.clock import Clock
from swath.web.egress.addresses import IPAddress

__all__ = ["Answer", "Resolver", "SystemResolver"]

_GOOD_SECONDS: Final = 60.0
_BAD_SECONDS: Final = 5.0
_MOST_AT_ONCE: Final = 16  # each holds a thread; more of them only make a resolver in trouble slower
_MOST_KEPT: Final = 4_096
_TIMEOUT_SECONDS: Final = 10.0
_UNKNOWN: Final = frozenset(
    code for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if (code := getattr(socket, name, None)) is not None
)


class Answer(msgspec.Struct, frozen=True):
    """The addresses of a name, best first, and until when they may be used, on the boot clock."""

    addresses: tuple[IPAddress, ...]
    good_until: float = 0.0


class Resolver(Protocol):
    """Looks names up."""

    async def look_up(self, host: str) -> Answer:
        """Raises Failed: dns_unknown when there is no such name, dns_temporary when nobody can tell now."""
        ...


class _Kept(msgspec.Struct, frozen=True):
    good_until: float
    answer: Answer | Failure


class SystemResolver:
    """Implements Resolver on getaddrinfo. One question per name at a time, whoever asks; answers are kept a while."""

    def __init__(self, clock: Clock, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[_Kept]] = {}
        # Threads of its own: a name server that hangs must not hold up what else the process does in threads.
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="swath-dns")

    async def look_up(self, host: str) -> Answer:
        """See Resolver."""
        kept = self._kept.get(host)
        if kept is None or kept.good_until <= self._clock.boot():
            task = self._under_way.get(host)
            if task is None:
                task = self._under_way[host] = asyncio.create_task(self._ask(host))
            kept = await asyncio.shield(task)  # one who stops waiting does not stop it for the others
        if isinstance(kept.answer, Failure):
            raise Failed(kept.answer)
        return kept.answer

    async def _ask(self, host: str) -> _Kept:
        try:
            found = await self._found(host)
            seconds = _BAD_SECONDS if isinstance(found, Failure) else _GOOD_SECONDS
            good_until = self._clock.boot() + seconds
            kept = _Kept(good_until, found if isinstance(found, Failure) else Answer(found, good_until))
            self._kept[host] = kept
            self._kept.move_to_end(host)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return kept
        finally:
            del self._under_way[host]

    async def _found(self, host: str) -> tuple[IPAddress, ...] | Failure:
        ask = partial(socket.getaddrinfo, host.encode("ascii"), None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                infos = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except socket.gaierror as error:
            if error.errno in _UNKNOWN:
                return Failure.of(FailureKind.DNS_UNKNOWN, f"there is no such name as {host}")
            return Failure.of(FailureKind.DNS_TEMPORARY, f"{host} could not be looked up: {error.strerror}")
        except (OSError, RuntimeError, ValueError) as error:  # time over, no thread to be had, a name that is none
            return Failure.of(FailureKind.DNS_TEMPORARY, f"{host} could not be looked up: {type(error).__name__}")
        addresses = tuple(dict.fromkeys(ip_address(str(info[4][0]).partition("%")[0]) for info in infos))
        if not addresses:
            return Failure.of(FailureKind.DNS_UNKNOWN, f"{host} has no address")
        return addresses
