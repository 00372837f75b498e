"""Waiters: who waits for an instant of one lane, in the order in which they came to the process."""

from __future__ import annotations

import asyncio
import heapq

__all__ = ["Waiters"]


class Waiters:
    """One that is cancelled stays in the count until it has noticed, and says so by `abandon`."""

    __slots__ = ("_count", "_heap", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()  # asked once: each time costs a call of the system
        self._heap: list[tuple[int, asyncio.Future[float]]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, order: int) -> asyncio.Future[float]:
        """`order` is unique; a request that waited elsewhere before keeps its place."""
        waiter: asyncio.Future[float] = self._loop.create_future()
        heapq.heappush(self._heap, (order, waiter))
        self._count += 1
        return waiter

    def abandon(self) -> None:
        """One of them has been cancelled."""
        self._count -= 1

    def first(self) -> asyncio.Future[float] | None:
        """The next one to be served, who stays in the queue."""
        while self._heap and self._heap[0][1].cancelled():
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def serve(self, instant: float) -> None:
        """The first one may go."""
        self._count -= 1
        heapq.heappop(self._heap)[1].set_result(instant)

    def refuse(self, error: Exception) -> None:
        """All of them are told that something has gone wrong."""
        while (waiter := self.first()) is not None:
            self._count -= 1
            heapq.heappop(self._heap)
            waiter.set_exception(error)
