"""Exits: the only ways out of our browsers: a port on loopback for each context, and one where nothing gets out.

Before: Chromium, which is told to use them as proxies. After: exit_line.py carries each connection past the guard.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from swath.browser.exits.dial import Dialler, ExitLimits, authority_of
from swath.browser.exits.exit import Way
from swath.browser.exits.line import ExitLine
from swath.browser.exits.peers import is_of
from swath.browser.exits.traffic import Traffic
from swath.domain.errors import Failed
from swath.domain.failure import Failure
from swath.web.address import canonical
from swath.web.egress.guard import Guard
from swath.web.relay import closed

__all__ = ["ContextExit", "ExitLimits", "Exits"]

_LOOPBACK = "127.0.0.1"
_GONE = (OSError, EOFError, asyncio.CancelledError)


class ContextExit:
    """Implements Exit. Made by Exits; closed by whoever closes the context. Until it serves, nothing may leave.

    `user` is whose processes may use it; None: anybody's, for the port where nothing gets out.
    """

    def __init__(self, dialler: Dialler, limits: ExitLimits, user: int | None) -> None:
        self._dialler = dialler
        self._limits = limits
        self._user = user
        self._server: asyncio.Server | None = None
        self._traffic = Traffic(None, 0)
        self._lines: set[asyncio.Task[None]] = set()  # also those of attempts that are over

    async def start(self) -> None:
        """Listens on a port that the system chooses."""
        self._server = await asyncio.start_server(self._accept, _LOOPBACK, 0)

    async def close(self) -> None:
        """Closes every line."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @property
    def port(self) -> int:
        """See Exit."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    @property
    def token(self) -> str:
        """See Exit."""
        return self._traffic.token

    @property
    def sent_bytes(self) -> int:
        """See Exit."""
        return self._traffic.sent_bytes

    @property
    def received_bytes(self) -> int:
        """See Exit."""
        return self._traffic.received_bytes

    @property
    def requests(self) -> int:
        """See Exit."""
        return self._traffic.requests

    @property
    def overrun(self) -> Failure | None:
        """See Exit."""
        return self._traffic.overrun

    def serve(self, way: Way | None, most_bytes: int) -> None:
        """See Exit."""
        self._traffic.end()
        self._traffic = Traffic(way, most_bytes)

    def trouble(self, url: str) -> Failure | None:
        """See Exit."""
        try:
            return self._traffic.trouble(authority_of(canonical(url)))
        except Failed:
            return None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        traffic, task = self._traffic, asyncio.current_task()
        if task is None or len(traffic.lines) >= self._limits.most_lines or not self._is_ours(writer):
            writer.transport.abort()
            return
        for lines in (traffic.lines, self._lines):
            lines.add(task)
            task.add_done_callback(lines.discard)
        try:
            await ExitLine(traffic, self._dialler, self._limits.idle_seconds, (reader, writer)).run()
        except _GONE:
            writer.transport.abort()  # nobody waits for this task: the browser sees its connection end
        finally:
            await closed(writer)

    def _is_ours(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the browser that it was made for is at the other end."""
        if self._user is None:
            return True
        with suppress(OSError, TypeError):
            return is_of(self._user, writer.get_extra_info("peername")[:2], writer.get_extra_info("sockname")[:2])
        return False


class Exits:
    """One per process. `ca_file`: certificates to trust besides the usual, of proxies that are spoken to by TLS."""

    def __init__(
        self,
        guard: Guard,
        limits: ExitLimits | None = None,
        *,
        ca_file: Path | None = None,
    ) -> None:
        self._limits = limits or ExitLimits()
        self._open: set[ContextExit] = set()
        self._dialler = Dialler(guard, self, self._limits, ca_file)
        self._deny: ContextExit | None = None

    async def start(self) -> None:
        """Opens the port that a browser is launched with: what it says by itself goes there, and no further."""
        self._deny = await self._open_for(None)

    async def open(self, user: int | None = None) -> ContextExit:
        """The exit of one context, on a port of its own. `user` is whom its browser runs as, if not as we do."""
        return await self._open_for(os.geteuid() if user is None else user)

    async def _open_for(self, user: int | None) -> ContextExit:
        made = ContextExit(self._dialler, self._limits, user)
        await made.start()
        self._open = {known for known in self._open if known.port} | {made}
        return made

    async def close(self) -> None:
        """All of them."""
        for known in self._open:
            await known.close()
        self._open = set()

    @property
    def deny_port(self) -> int:
        """Where nothing gets out."""
        return 0 if self._deny is None else self._deny.port

    @property
    def denied(self) -> int:
        """How often something was asked for there."""
        return 0 if self._deny is None else self._deny.requests

    def __contains__(self, port: object) -> bool:
        """Whether a port is that of an exit."""
        return any(known.port == port for known in self._open)
