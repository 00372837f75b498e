"""Sessions at any endpoint that speaks CDP: a Chromium that somebody runs, or a service that hands one out per line.

Each session is a line of its own. Its address is the operator's word, so no guard is asked; it may hold a key, so it is
not shown. What leaves such a browser is not ours to carry or to count.
"""

from __future__ import annotations

import itertools
from urllib.parse import urlsplit

from swath.browser.opened import ProviderSession
from swath.browser.providers.attached import AttachedSession, AttachLimits
from swath.browser.providers.shared_driver import SharedDriver
from swath.domain.errors import BadInput
from swath.domain.secret import Secret
from swath.ports.clock import Clock

__all__ = ["CdpProvider"]


class CdpProvider:
    """Implements Provider. `most_sessions` above one is for endpoints where every line leads to a browser of its own:
    a single Chromium has one context for all of them, and their cookies would mix."""

    name = "cdp"

    def __init__(
        self, endpoint: Secret, clock: Clock, family: str, *, most_sessions: int = 1, limits: AttachLimits | None = None
    ) -> None:
        """`family`: see browser/chromium/mark.py. Raises BadInput for an address that cannot be one."""
        self.most_sessions = most_sessions
        self._endpoint = endpoint
        self._where = _shown(endpoint)
        self._clock = clock
        self._limits = limits or AttachLimits()
        self._driver = SharedDriver(family)
        self._numbers = itertools.count(1)
        self._sessions: dict[str, AttachedSession] = {}
        self._left_origins: set[str] = set()

    async def create(self) -> ProviderSession:
        """See Provider."""
        session_id = f"cdp-{next(self._numbers)}"
        # With several sessions each line has a browser of its own.
        left_origins = self._left_origins if self.most_sessions == 1 else None
        parts = (self._endpoint, self._where, self._driver, self._clock, self._limits, left_origins)
        session = AttachedSession(session_id, *parts)
        await session.connect()
        self._sessions[session_id] = session
        return session

    async def destroy(self, session: ProviderSession) -> None:
        """See Provider. The browser lives on; only our line to it ends."""
        ours = self._sessions.pop(session.session_id, None)
        if ours is not None:
            await ours.disconnect()

    async def close(self) -> None:
        """See Provider."""
        for session in tuple(self._sessions.values()):
            await self.destroy(session)
        await self._driver.close()


def _shown(endpoint: Secret) -> str:
    """Host and port: where it is can be told, not by which key."""
    try:
        parts = urlsplit(endpoint.reveal())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in {"ws", "wss", "http", "https"} or not host:
        raise BadInput("the CDP endpoint is no address; write it like ws://host:9222/… or http://host:9222")
    return host if port is None else f"{host}:{port}"
