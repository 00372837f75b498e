"""Receiver: waits at both queues at once, for as long as somebody wants a hint. Lives on the loop of bridge.py.

A request that waits at SQS cannot be asked back: it may have a message in its hands. So it goes on a moment after
nobody wants one any more, in case that somebody soon does again, and then hands back what may have come.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from swath.backends.aws.queue.messages import Messages, Received
from swath.domain.errors import StoreUnavailable

__all__ = ["Receiver"]

POLL_SECONDS: Final = 20  # as long as SQS allows: an idle worker costs six requests a minute
TRY_SECONDS: Final = 1  # the same for a queue that did not answer, so that it is soon known to be back
LINGER_SECONDS: Final = 1.0
EXPRESS_SECONDS: Final = 0.05  # that an ordinary hint waits for an express one which may be on its way
GIVE_BACK_SECONDS: Final = 2.0


class Receiver:
    """One for each end of the queue."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._come: list[Received] = []
        self._troubles: dict[str, StoreUnavailable] = {}  # by queue, until it answers again
        self._news = asyncio.Event()
        self._wanting = 0
        self._last_wanted = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, seconds: float) -> Received | None:
        """The next hint, an express one first. Raises StoreUnavailable when a queue does not answer."""
        self._wanting += 1
        try:
            async with asyncio.timeout(seconds):
                while not self._come:
                    self._poll()
                    self._news.clear()
                    await self._news.wait()
                    self._raise_trouble()
                await self._let_express_overtake()
        except TimeoutError:
            if not self._come and self._troubles:  # a queue that was gone has not answered yet
                raise next(iter(self._troubles.values())) from None
        finally:
            self._wanting -= 1
            self._last_wanted = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._leave)
        first = min(self._come, key=lambda received: not received.hint.express, default=None)
        if first is not None:
            self._come.remove(first)
        return first

    async def _let_express_overtake(self) -> None:
        express = self._polls.get(self._messages.names.express)
        if express is not None and not any(received.hint.express for received in self._come):
            await asyncio.wait({express}, timeout=EXPRESS_SECONDS)

    def _poll(self) -> None:
        names = self._messages.names
        for queue in (names.express, names.main):
            if queue not in self._polls:
                self._polls[queue] = asyncio.create_task(self._receive(queue))

    async def _receive(self, queue: str) -> None:
        """Ends with the first message, so that no more come than are wanted."""
        try:
            received = None
            while received is None:
                seconds = TRY_SECONDS if queue in self._troubles else POLL_SECONDS
                received = await self._messages.receive(queue, seconds)
                self._troubles.pop(queue, None)
            self._come.append(received)
        except StoreUnavailable as error:
            self._troubles[queue] = error
        finally:
            self._polls.pop(queue, None)
            self._news.set()

    def _raise_trouble(self) -> None:
        """What was met before, and is being tried again, is none yet."""
        for queue, trouble in self._troubles.items():
            if queue not in self._polls and not self._come:
                raise trouble

    def _leave(self) -> None:
        """Nobody has wanted a hint for a moment."""
        quiet_seconds = asyncio.get_running_loop().time() - self._last_wanted
        if not self._wanting and quiet_seconds >= 0.9 * LINGER_SECONDS:  # not a timer of an earlier time
            task = asyncio.create_task(self.stop())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Waits no longer, and lets others have what came too late. Bounded, and never fails."""
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        late, self._come = self._come, []
        if late:
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(GIVE_BACK_SECONDS):
                    await self._messages.show(late)
