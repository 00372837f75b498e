"""MemoryHeads: the heads of jobs as plain objects. What a change does is decided by the store's own code as ever; only
the encoding, the network and the second try after somebody was faster are left out, which would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from swath.backends.aws.calls.rows import Delete, Put
from swath.backends.aws.jobs.head import Head, Share, Waiting
from swath.backends.aws.jobs.heads import Decide, Heads, Standing
from swath.domain.errors import UnknownName
from swath.testing.simulation.table import MemoryTable

__all__ = ["MemoryHeads", "Seen", "WorkerHeads"]

T = TypeVar("T")


class Seen(NamedTuple):
    """A job as it was when somebody looked. `workers` can use slots of it, and have `slots` together.

    Of the head there is what a claim looks at; it has no leases.
    """

    head: Head
    workers: int
    slots: int


class MemoryHeads(Heads):
    """Changes are made one after the other at one instant each, so nobody ever comes second.

    `on_open` is called with a job whose circuit has just opened.
    """

    def __init__(self, table: MemoryTable, on_open: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(table, lambda _: False, lambda _: None)
        self._rows = table
        self._on_open = on_open
        self._heads: dict[str, Head] = {}
        self._looks: dict[str, Seen] = {}
        self._known_standing: dict[str, Standing] = {}

    @property
    def rows(self) -> MemoryTable:
        """Where all else is written."""
        return self._rows

    def standing(self, job_id: str) -> Standing | None:
        head = self._heads.get(job_id)
        if head is None:
            return None
        known = self._known_standing.get(job_id)
        if known is None:
            fences = frozenset(lease.fence for lease in head.leases if lease.runs)
            known = self._known_standing[job_id] = Standing(head.may_start, head.revision, fences)
        return known

    async def find(self, job_id: str) -> Head | None:
        return self._heads.get(job_id)

    async def look(self, job_id: str) -> Head:
        if job_id not in self._heads:
            raise UnknownName.of("job", job_id, list(self._heads), "nobody ordered it")
        return self._heads[job_id]

    async def look_at(self, numbers: Collection[int]) -> list[Head]:
        wanted = set(numbers)
        return sorted((head for head in self._heads.values() if head.number in wanted), key=lambda head: head.number)

    async def change(self, job_id: str, decide: Decide[T], *, just_read: bool = False) -> T:  # noqa: ARG002
        """No change of the store touches its head before it is sure to write it, so no copy has to be made."""
        head = await self.look(job_id)
        closed = head.circuit.opened is None
        change = await decide(head)
        if closed and head.circuit.opened is not None:
            self._on_open(job_id)
        if change.writes:
            self._looks.pop(job_id, None)
            self._known_standing.pop(job_id, None)
            await self._rows.commit(*change.rows)
        return change.answer

    async def create(self, head: Head, rows: Sequence[Put | Delete], *, reserved: bool = False) -> bool:  # noqa: ARG002
        self._heads[head.job_id] = head
        return await self._rows.commit(*rows)

    def seen(self) -> list[Seen]:
        """All jobs that have not ended, as they are now: later changes do not show in it."""
        found = []
        for job_id, head in self._heads.items():
            if head.is_active:
                seen = self._looks.get(job_id)
                if seen is None:
                    seen = self._looks[job_id] = _seen(head)
                found.append(seen)
        return found


class WorkerHeads(Heads):
    """The same heads, as one worker knows them: how a job stands it hears with its own changes and looks only."""

    def __init__(self, heads: MemoryHeads) -> None:
        super().__init__(heads.rows, lambda _: False, lambda _: None)
        self._all = heads
        self._heard: dict[str, Standing | None] = {}

    def standing(self, job_id: str) -> Standing | None:
        return self._heard.get(job_id)

    def hear(self) -> None:
        """The worker has looked at all jobs."""
        for job_id in self._heard:
            self._heard[job_id] = self._all.standing(job_id)

    async def find(self, job_id: str) -> Head | None:
        return await self._all.find(job_id)

    async def look(self, job_id: str) -> Head:
        return await self._all.look(job_id)

    async def look_at(self, numbers: Collection[int]) -> list[Head]:
        return await self._all.look_at(numbers)

    async def change(self, job_id: str, decide: Decide[T], *, just_read: bool = False) -> T:  # noqa: ARG002
        answer = await self._all.change(job_id, decide)
        self._heard[job_id] = self._all.standing(job_id)
        return answer


def _seen(head: Head) -> Seen:
    shares = {worker: Share(share.slots, share.demand) for worker, share in head.shares.items()}
    waiting = {bucket: Waiting(each.suspects, each.begun, each.untried) for bucket, each in head.waiting.items()}
    still = msgspec.structs.replace(head, shares=shares, waiting=waiting, leases=[])
    workers = sum(share.demand > 0 for share in shares.values())
    return Seen(still, workers, sum(share.slots for share in shares.values()))
