"""Lets nothing else start in this worker while an item that may have killed a worker runs alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from swath.domain.lease import Lease
from swath.fetch.http.client.limits import Deadlines
from swath.pipeline.retrying import WaitingStatus
from swath.pipeline.worker.admission import JobHolds, StartOrder
from swath.ports.lease_store import LeaseStore

__all__ = ["SuspectIsolation"]


class SuspectIsolation:
    """`running` says how many items run in this worker; `on_change` tells the worker to look again.

    From the claim of a suspect on nothing else starts. After it the floor stays closed until the worker has asked
    whether there is another one, so that several of them need no more than one silence.
    """

    def __init__(
        self,
        book: LeaseStore,
        waits: WaitingStatus,
        holds: JobHolds,
        running: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        self.book = book
        self.waits = waits
        self.holds = holds
        self.line = StartOrder()
        self.deadlines = Deadlines()  # of their attempts
        self._running = running
        self._on_change = on_change
        self._suspects: list[int] = []
        self._lingers = False
        self._stirred = asyncio.Event()

    @property
    def has_suspects(self) -> bool:
        """Whether one waits or runs."""
        return bool(self._suspects)

    def is_closed_to(self, lease: Lease) -> bool:
        """Whether nothing of the lease may start now. A suspect's turn comes when nothing else runs."""
        if lease.alone:
            return self._suspects[:1] != [lease.fence] or self._running() > 0
        return self._lingers or bool(self._suspects)

    def admit(self, fence: int) -> None:
        """A suspect has come."""
        self._suspects.append(fence)

    def dismiss(self, fence: int) -> None:
        """It is done with."""
        self._suspects.remove(fence)
        self._lingers = True
        self.stir()

    def open_up(self) -> bool:
        """No further suspect is in sight. Whether that lets others start again."""
        opened = self._lingers and not self._suspects
        self._lingers = False
        if opened:
            self.stir()
        return opened

    def stir(self) -> None:
        """Something has changed: an item ended, a lease stops."""
        self._stirred.set()
        self._on_change()

    async def change(self) -> None:
        """Returns after the next `stir`. Items end in bounded time, so it comes."""
        self._stirred.clear()
        await self._stirred.wait()
