"""Outgoing: the transport as the server sees it: nobody keeps an answer waiting, and no answer is lost to its sender.

Before: protocol.py has a connection. Whoever does not read what was written is cut off; whoever still sends when the
answer is out is listened to for a moment, since a socket that is closed over unread bytes takes the answer with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LINGER_SECONDS", "Outgoing"]

UNREAD_SECONDS: Final = 20.0  # for which nothing of what waits may be taken
STOPPING_SECONDS: Final = 5.0  # the same while the controller stops
LOOKS: Final = 5  # at what was taken, within that time
LINGER_SECONDS: Final = 5.0  # that a sender may go on after its answer
LINGER_BYTES: Final = 64 << 20  # that it may send by then, and of what was never a request:
LINGER_NONSENSE_BYTES: Final = 1 << 20

_log = logging.getLogger("swath.api")


class Outgoing(asyncio.Transport):
    """`arriving` tells whether a request is on its way that was not read to its end."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, arriving: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._arriving = arriving
        self._unread_seconds = UNREAD_SECONDS
        self._written = self._taken = 0
        self._may_drop = LINGER_BYTES
        self._taken_at = 0.0
        self._looking: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport. Nothing is written behind the end."""
        if self.is_closing():
            return
        self._transport.write(data)
        self._written += len(data)
        if self._looking is None and self._transport.get_write_buffer_size():
            self._taken_at = self._loop.time()
            self._look()

    def close(self) -> None:
        """Once: when the sender is done, or its time is over. Twice: at once."""
        if self._transport.is_closing():
            return
        if self._lingering is None and self._arriving():
            self._linger()
        else:
            self._transport.close()

    def close_now(self) -> None:
        """Without waiting for what the sender still has to say, or has not read: others need the room."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def refuse(self, answer: bytes) -> None:
        """The last that is written, to somebody of whom nobody knows what else is on its way."""
        self.write(answer)
        self._may_drop = LINGER_NONSENSE_BYTES
        self._linger()

    def _linger(self) -> None:
        self._lingering = self._loop.call_later(LINGER_SECONDS, self._transport.close)
        try:
            self._transport.write_eof()
        except OSError:  # the other side has gone
            self._transport.abort()
        self._transport.resume_reading()

    def drop(self, count: int) -> None:
        """So many bytes have come that nobody wants."""
        self._may_drop -= count
        if self._may_drop < 0:
            self._transport.close()

    def hurry(self) -> None:
        """The controller stops, and does not wait long for readers."""
        self._unread_seconds = min(self._unread_seconds, STOPPING_SECONDS)

    def lost(self) -> None:
        """The connection is no more."""
        for timer in (self._looking, self._lingering):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        """Cuts the connection when nothing was taken for too long; to close it would be to wait for the reader."""
        waits, now = self._transport.get_write_buffer_size(), self._loop.time()
        if self._written - waits > self._taken:
            self._taken, self._taken_at = self._written - waits, now
        if not waits:
            self._looking = None
        elif now - self._taken_at >= self._unread_seconds:
            _log.info("a caller did not read its answer for %g s; the connection was cut", self._unread_seconds)
            self._transport.abort()
        else:
            self._looking = self._loop.call_later(self._unread_seconds / LOOKS, self._look)

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._lingering is not None or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.resume_reading()
