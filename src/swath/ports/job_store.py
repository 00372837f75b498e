"""JobStore: loads, reads and watches jobs and items."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from swath.domain.item import Item, ItemFilter, ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState

__all__ = ["BatchResult", "ChangeFeed", "DuplicateItem", "ItemBatch", "ItemPage", "JobStore", "LoadStart"]


class ChangeFeed(Protocol):
    """One listener's end; it has missed nothing since it was made or last asked. Used from one event loop."""

    async def hear(self, seconds: float) -> Collection[str] | None:
        """Returns when a job may have changed, or after so many seconds. The ids of the changed jobs (none when the
        time is over), or None when any may have."""
        ...

    def close(self) -> None:
        """Listens no more."""
        ...


class ItemBatch(msgspec.Struct, frozen=True):
    """Consecutive rows of a source. `number` counts from 0 without gaps; `digest` names the content of all its rows.

    `rows` is how many rows of the source it covers; rows that were refused are missing from `items`.
    """

    number: int
    first_row: int
    rows: int
    digest: str
    items: tuple[Item, ...]


class DuplicateItem(msgspec.Struct, frozen=True):
    """An item id that an earlier row of the job already has."""

    seq: int
    item_id: str
    first_seq: int


class BatchResult(msgspec.Struct, frozen=True):
    """What became of a batch. `duplicates` were left out: the first row of an id stays."""

    added: int
    duplicates: tuple[DuplicateItem, ...] = ()


class LoadStart(msgspec.Struct, frozen=True):
    """Where a load begins: its first batch has this `number`, and its first row is the one after `rows`."""

    number: int
    rows: int


class ItemPage(msgspec.Struct, frozen=True):
    """Items that fit a filter, by `seq`. `next_after` is where to go on, None at the end of the job.

    A page may be short or empty though more follow: one reading looks at a bounded number of items.
    """

    items: list[ItemRecord]
    next_after: int | None


class JobStore(Protocol):
    """Durable: what a method has answered survives the death of every process."""

    async def submit(self, job: Job) -> JobStatus:
        """Creates the job in state `loading`, or returns it as it stands if the same order exists already.

        The order is compared as it was first given, whatever became of its policy since. Raises Conflict if the id is
        taken by another order, or by a job that is being deleted.
        """
        ...

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
        """Submits, loads and seals a job of one batch (number 0), so that nobody ever sees a part of its items.

        In one commit, unless that would keep other writers waiting: then the job is `loading` until it is whole, and
        the same order again goes on with it.

        The same order with the same batch is answered as it stands. Raises Conflict for another order or other rows
        under the id, for a duplicate item id (naming it; then there is no job), and for a job that is being deleted.
        """
        ...

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        """Where the load under this key begins: behind all that is loaded when it is first asked for, and there ever
        after, so that a load which comes again finds its own rows. Raises UnknownName, and Conflict for a new key when
        the job is no longer `loading`."""
        ...

    async def load(self, job_id: str, batch: ItemBatch) -> BatchResult:
        """Adds one batch of a job that is `loading`, whole or not at all.

        A batch whose number was loaded before with the same digest changes nothing and answers as it did then. With
        another digest it raises Conflict, naming the first row that differs. Numbers must come in order. A new batch
        for a job that is no longer `loading`, or is being deleted, is a Conflict too.
        """
        ...

    async def seal(self, job_id: str, batches: int) -> JobStatus:
        """Closes the load: `loading` → `pending`; a job sealed before is returned as it stands.

        Raises BadInput when it has no items, Conflict when it was loaded with another number of batches,
        naming how many rows it has, how many these batches have, and the first row that only one of them has.
        """
        ...

    async def abandon(self, job_id: str) -> None:
        """Removes a job that is still `loading`, with all its items, so that its id can be used again. Broken off, it
        is a deletion (ports/endings.py) that workers finish.

        Raises Conflict when it is no longer loading.
        """
        ...

    async def status(self, job_id: str) -> JobStatus:
        """The job with its counters, in one consistent reading; costs the same for any size. Raises UnknownName.

        `waiting_for` is what any living worker of the store says it waits for, while the job has not ended. `ending`
        is what the holder of the right to end it has last reported; without a holder, whether its ending is put off.
        """
        ...

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        """The newest first; `after` is the last id of the page before. None but those in `states`, if any are given;
        without `on_demand` scrapes on demand are left out. One short reading looks at a bounded number of jobs that do
        not fit."""
        ...

    async def held_by(self) -> str | None:
        """The stopped process that keeps all others from writing to the store, for people; None if there is none."""
        ...

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        """The next items by `seq` beyond `after`, as one short reading. Raises UnknownName for the job."""
        ...

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        """The next items beyond `after` that fit. Raises UnknownName for the job."""
        ...

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """One item, with its ends in earlier generations. Raises UnknownName for the job or the item."""
        ...

    def news(self) -> ChangeFeed:
        """A new listener: which jobs change from now on."""
        ...

    async def close(self) -> None:
        """Lets go of files and connections; further calls are errors."""
        ...
