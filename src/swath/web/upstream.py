"""Upstream: a connection to a proxy, at an address that the guard has checked, with a tunnel through it if wanted.

Before: the gateway of the HTTP client, and the exits of browsers. What goes wrong is told to the trip.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.web.egress.guard import Guard
from swath.web.relay import HEAD_BYTES, closed, read_head
from swath.web.trip import Line, Trip

__all__ = ["Dial", "ProxyDial", "Streams", "open_upstream"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, str, int], Awaitable[Streams]]  # scheme, host, port of a proxy; raises Failed or OSError

_K = FailureKind
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?")


class ProxyDial:
    """Implements Dial. `ca_file`: certificates to trust besides the usual, of proxies that are spoken to by TLS."""

    def __init__(self, guard: Guard, ca_file: Path | None = None) -> None:
        self._guard = guard
        self._ca_file = ca_file

    async def __call__(self, scheme: str, host: str, port: int) -> Streams:
        """A connection to a proxy, at an address that was checked. Raises Failed or OSError."""
        try:
            target = await self._guard.check_proxy(host, port)
        except Failed as failed:
            if failed.failure.kind not in {_K.DNS_TEMPORARY, _K.DNS_UNKNOWN}:
                raise
            raise OSError("the proxy's name cannot be looked up") from None
        tls = _tls_to_proxy(self._ca_file) if scheme == "https" else None
        for address in target.addresses[:-1]:
            with suppress(OSError):
                return await _connected(str(address), port, tls, host)
        return await _connected(str(target.addresses[-1]), port, tls, host)


async def open_upstream(dial: Dial, trip: Trip, line: Line, *, tunnel: bool) -> Streams | None:
    """A connection to the trip's proxy, with a tunnel through it if one was asked for. None: the trip knows why not."""
    proxy: Streams | None = None
    try:
        async with asyncio.timeout(trip.connect_seconds):
            proxy = await dial(trip.scheme, trip.host, trip.port)
            if not tunnel or await _tunnelled(trip, line, proxy):
                return proxy
    except Failed as failed:
        trip.refused(line.authority, failed.failure)
    except TimeoutError:
        trip.failed(line.authority, "did not answer in time")
    except OSError:
        trip.failed(line.authority, "cannot be reached" if proxy is None else "closed the connection")
    except asyncio.IncompleteReadError as error:
        trip.failed(line.authority, "answered something that is no HTTP" if error.partial else "closed the connection")
    except asyncio.LimitOverrunError:
        trip.failed(line.authority, "answered something that is no HTTP")
    except asyncio.CancelledError:
        if proxy is not None:
            proxy[1].close()
        raise
    if proxy is not None:
        await closed(proxy[1])
    return None


async def _tunnelled(trip: Trip, line: Line, proxy: Streams) -> bool:
    authority = line.authority.encode()
    asked = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (authority, authority, trip.authorization)
    proxy[1].write(asked)
    trip.meter.sent_bytes += len(asked)
    head = await read_head(proxy[0])
    trip.meter.received_bytes += len(head.first) + sum(len(raw) + 2 for _, raw in head.fields) + 4
    status = _STATUS_LINE.fullmatch(head.first)
    if status is None:
        trip.failed(line.authority, "answered something that is no HTTP")
        return False
    if status[1].startswith(b"2"):
        return True
    headers = tuple(
        (name.decode("latin-1"), raw.partition(b":")[2].strip().decode("latin-1")) for name, raw in head.fields
    )
    refusal = trip.read_refusal(int(status[1]), headers, tunnel=True)
    if refusal is None:
        trip.failed(line.authority, f"made no tunnel ({int(status[1])})")
    else:
        trip.refused(line.authority, refusal)
    return False


async def _connected(address: str, port: int, tls: ssl.SSLContext | None, host: str) -> Streams:
    name = host if tls is not None else None
    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name, limit=HEAD_BYTES)


def _tls_to_proxy(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
