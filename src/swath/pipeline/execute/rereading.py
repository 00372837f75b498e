"""Rereading: the items of a lease whose pages are stored, one after the other and without a task for each (R6).

Before: worker.py has claimed a lease of a job that `extracts` another. Beside: committer.py, as for any lease. After:
the same as for any lease. `extract` is a plain function: whoever else has a turn sees an item begun or ended, and never
in between.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from itertools import islice, takewhile
from typing import Final

from swath.domain.attempt import Attempt, Finding
from swath.domain.errors import LeaseLost
from swath.domain.lease import Lease
from swath.domain.page import Page
from swath.domain.result import Result
from swath.observe.context import serve_item
from swath.observe.spans import span
from swath.pipeline.execute.attempt import Bench, Came, Tried, came_of
from swath.pipeline.execute.floor import Floor
from swath.pipeline.execute.outbox import GROUP_ITEMS, Outbox
from swath.pipeline.execute.runner import LeaseRunner
from swath.pipeline.execute.slots import JobSlots
from swath.pipeline.execute.work import Work
from swath.pipeline.extract.extract import extract_record
from swath.pipeline.results.stored_pages import StoredPages

__all__ = ["Rereading"]

_log = logging.getLogger("swath.worker")

TURN_SECONDS: Final = 0.005  # for so long items run before the event loop does something else; one item may take longer
HANDFUL: Final = 16  # items that are begun together: what was done for one a moment ago is quick for the next
LAST_ITEMS: Final = 20  # of a lease: while they run the next one is claimed


class Rereading(LeaseRunner):
    """A runner that has one slot for as long as it goes through its items. Nobody waits for one of their ends."""

    gather_seconds = 0.25

    def __init__(
        self, lease: Lease, bench: Bench, deadline: float, slots: JobSlots, floor: Floor, stored: StoredPages
    ) -> None:
        super().__init__(lease, bench, deadline, slots, floor)
        # The circuit of a version never opens, and a large lease is done so soon that one commit is enough for it.
        self.outbox = Outbox(heeds_failures=False, group_items=max(GROUP_ITEMS, len(lease.items)))
        self._stored = stored
        self._going: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        """The last ones are as good as begun, once the others are."""
        ready = super().ready
        return ready if self._going is None else max(0, ready - LAST_ITEMS)

    def start_next(self) -> bool:
        """Begins to go through what is ready, unless that is under way; nothing more is to be started then."""
        if self._going is not None or not self._can_start():
            return False
        if self._committed if self.lease.alone else self.slots.free > 0:
            place = self._ready[0].item.seq
            self.slots.take(place)
            self.slots.begin(place)
            self._going = asyncio.create_task(self._go_through())
            self._going.add_done_callback(functools.partial(self._gone_through, place))
        return False

    async def _go_through(self) -> None:
        """Stops when nothing may start; whoever changes that calls `start_next`."""
        clock = asyncio.get_running_loop().time
        until = clock() + TURN_SECONDS
        while self._can_start():
            if not self._stored.has(self._ready[0].item):
                await self._stored.bring(self._ready[0].item)
                continue  # anything may have happened meanwhile
            ready, begun = len(self._ready), self._begin_some()
            if not begun:
                self.stop()  # the job is paused, stops or has another policy; the rest goes back
                return
            self._read_some(begun, until)
            if ready > LAST_ITEMS >= len(self._ready):
                self.floor.stir()
            if clock() > until:
                await asyncio.sleep(0)
                until = clock() + TURN_SECONDS

    def _begin_some(self) -> list[Work]:
        """A handful of items whose pages are at hand, off those that are ready; none when they may not start."""
        has = self._stored.has
        some = list(takewhile(lambda work: has(work.item), islice(self._ready, HANDFUL)))
        if not self.floor.book.begin(self.lease, *[work.item.seq for work in some]):
            return []
        for _ in some:
            self._ready.popleft()
        return some

    def _read_some(self, begun: list[Work], until: float) -> None:
        """One attempt at each. Those that the time does not allow go back to the others, as they are unpacked."""
        clock, tried = asyncio.get_running_loop().time, list[Tried]()
        for work in begun:
            self._stored.unpack(work.item)
        for work in begun:
            tried.append(_reread(self._bench, work, self._stored))
            if clock() > until:
                break
        self.floor.book.leave(self.lease, *[work.item.seq for work in begun])
        self._ready.extendleft(reversed(begun[len(tried) :]))
        for work, one in zip(begun, tried, strict=False):
            self._go_on(work, one)

    def _gone_through(self, place: int, task: asyncio.Task[None]) -> None:
        self._going = None
        self._announced = self._committed = False
        self.slots.give(place)
        if task.cancelled():  # by a scraper, which has taken it for its own
            self.start_next()
        elif (error := task.exception()) is not None:
            if not isinstance(error, LeaseLost):
                _log.error("a lease broke off; it will be rescued when its time is over", exc_info=error)
            self.abandon()
        self.floor.stir()


def _reread(bench: Bench, work: Work, stored: StoredPages) -> Tried:
    """One attempt, asked for nowhere else than in these pages."""
    job, number, started_at = bench.job, len(work.attempts) + 1, bench.clock.now()
    serve_item(job.request_id, job.job_id, work.item.item_id, number)
    pages: tuple[Page, ...] = ()
    try:
        pages = tuple(stored.take(work.item))
        told: dict[str, str | int] = {"job_id": job.job_id, "item_id": work.item.item_id, "attempt": number}
        with span("attempt", job.request_id, **told), span("extract"):
            came = Came(Finding.FOUND, extract_record(bench.scraper, pages))
    except BaseException as error:  # noqa: BLE001 whatever a scraper does, SystemExit too, costs its item
        came = came_of(job, error)
    ended = Attempt(started_at, bench.clock.now(), bench.worker_id, came.failure)
    # Nothing of the pages is stored again: the next one is read into memory that is at hand.
    result = Result(pages=tuple([page.without_body() for page in pages]), data=came.data)
    return Tried(attempt=ended, finding=came.finding, failure=came.failure, held=came.held, result=result)
