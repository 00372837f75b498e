"""SqsQueue: one worker's end of the work queue on SQS. A message is a hint; whoever is told asks the store.

Hidden from others for the length of a lease and kept so by signs of life, a hint whose worker dies wakes somebody else.
messages.py speaks to SQS, receiver.py waits there; both on the loop of bridge.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from swath.backends.aws.calls.bridge import Bridge
from swath.backends.aws.calls.client import AwsClients
from swath.backends.aws.queue.messages import Messages, Received
from swath.backends.aws.queue.receiver import Receiver
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.work_queue import Hint

__all__ = ["SqsQueue"]

T = TypeVar("T")

PATIENCE_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 3.0


class SqsQueue:
    """Implements WorkQueue. Its clients should be its own: they are kept busy waiting, and lose patience early."""

    def __init__(self, bridge: Bridge, clients: AwsClients, name: str, lease_seconds: float) -> None:
        self._bridge = bridge
        self._messages = Messages(clients, name, lease_seconds)
        self._receiver = Receiver(self._messages)
        self._held: list[Received] = []
        self._lock = threading.Lock()  # signs of life may come from another thread
        self._closed = False

    @property
    def patience_seconds(self) -> float:
        return PATIENCE_SECONDS

    async def announce(self, hints: Sequence[Hint]) -> None:
        names = self._messages.names
        for queue, express in ((names.express, True), (names.main, False)):
            mine = [hint for hint in hints if hint.express is express]
            if mine:
                await self._run(functools.partial(self._messages.send, queue, mine))

    async def wait(self, seconds: float) -> Hint | None:
        received = await self._run(lambda: self._receiver.take(seconds))
        if received is None:
            return None
        with self._lock:  # only here, where nobody can cancel us any more: else it would be kept for nobody
            self._held.append(received)
        return received.hint

    async def keep(self) -> None:
        """What is no longer ours is forgotten: somebody else was told."""
        with self._lock:
            held = list(self._held)
        if held:
            ours = await self._run(lambda: self._messages.hide(held))
            lost = [received for received in held if received not in ours]
            with self._lock:
                self._held = [received for received in self._held if received not in lost]

    async def settle(self, job_id: str) -> None:
        with self._lock:
            settled = [received for received in self._held if received.hint.job_id == job_id]
            self._held = [received for received in self._held if received.hint.job_id != job_id]
        if settled:
            await self._run(lambda: self._messages.delete(settled))

    async def waiting(self) -> int:
        return await self._run(self._messages.waiting)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        held, self._held = self._held, []
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._bridge.run(self._receiver.stop)
                if held:
                    await self._bridge.run(lambda: self._messages.show(held))

    async def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._closed:
            raise StoreUnavailable("the queue is closed", WaitingFor.QUEUE)
        return await self._bridge.run(make)
