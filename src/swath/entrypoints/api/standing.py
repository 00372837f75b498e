"""Standing: how the service stands, for health, readiness and metrics (I4, W5, Z9). One look at the store serves all
who ask within a second, and nobody waits for a store that does not answer for longer than two.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec
from fastapi import Depends, Request

from swath.domain.backlog import Backlog, workers_at
from swath.domain.errors import StoreUnavailable, SwathError
from swath.domain.job import WaitingFor
from swath.domain.transitions import JobState
from swath.entrypoints.api.controller import controller_of
from swath.observe.metrics import Gauge
from swath.ports.clock import Clock
from swath.ports.store import Store

__all__ = ["Look", "Standing", "StandingOf"]

FRESH_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 2.0
OPEN_STATES: Final = tuple(state for state in JobState if not state.terminal)
_PAGE: Final = 500
_MOST_PAGES: Final = 20

_log = logging.getLogger("swath.standing")


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at `at`, on the boot clock. `jobs` are those that have not ended, by state.

    `waiting_for` is what the store, or any worker of it, waits for, and `held_by` the process that keeps all others
    from writing to the store, if it is known; without an `answer` nothing else is known.
    """

    at: float
    answer: bool
    waiting_for: WaitingFor | None = None
    held_by: str | None = None
    backlog: tuple[Backlog, ...] = ()
    jobs: Mapping[str, int] = {}

    @property
    def pending(self) -> int:
        """Items that wait, over all jobs that may run."""
        return sum(job.pending for job in self.backlog)

    @property
    def claimable(self) -> int:
        """Those of them that a worker could have at once."""
        return sum(job.claimable for job in self.backlog)

    @property
    def workers(self) -> int:
        """Workers with items of a job."""
        return workers_at(self.backlog)

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest item that waits."""
        return max((job.oldest_seconds for job in self.backlog if job.oldest_seconds is not None), default=None)

    def gauges(self) -> Iterator[Gauge]:
        """For Prometheus. Figures that are not known are left out: no figure is better than a wrong one."""
        yield Gauge("swath_store_up", "Whether the store answers.", {"": float(self.answer)})
        waits = {what.value: float(what is self.waiting_for) for what in WaitingFor}
        yield Gauge("swath_waiting_for", "What workers or the store wait for.", waits, "what")
        if not self.answer:
            return
        jobs = {state.value: float(self.jobs.get(state.value, 0)) for state in OPEN_STATES}
        yield Gauge("swath_jobs", "Jobs that have not ended.", jobs, "state")
        yield Gauge("swath_queue_items", "Items that wait.", {"": self.pending})
        yield Gauge("swath_queue_claimable_items", "Items that a worker could have at once.", {"": self.claimable})
        yield Gauge("swath_active_workers", "Workers with items of a job.", {"": self.workers})
        wanted = sum(job.wanted for job in self.backlog)
        yield Gauge("swath_wanted_workers", "Further workers that would find something to do.", {"": wanted})
        each = self.pending / max(1, self.workers)
        yield Gauge("swath_backlog_per_worker", "Items that wait, for each worker.", {"": each})
        oldest = self.oldest_seconds or 0.0
        yield Gauge("swath_oldest_pending_seconds", "Age of the oldest item that waits.", {"": oldest})


class Standing:
    """One per app. Looks only when somebody asks."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._last: Look | None = None
        self._looking: asyncio.Task[Look] | None = None
        self._began_at = 0.0
        self._told = ""

    async def look(self) -> Look:
        """How it stands. The same look is waited for by all, so that a store which hangs is not asked again and
        again."""
        now = self._clock.boot()
        if self._last is not None and 0 <= now - self._last.at < self._fresh_seconds:
            return self._last
        if self._looking is None or self._looking.done():
            self._looking, self._began_at = asyncio.create_task(self._ask()), now
        left_seconds = max(0.0, self._began_at + self._patience_seconds - now)
        done, _ = await asyncio.wait({self._looking}, timeout=left_seconds)
        if not done:
            return Look(at=now, answer=False, waiting_for=WaitingFor.STORE)
        self._last = self._looking.result()
        return self._last

    async def _ask(self) -> Look:
        try:
            backlog = tuple(await self._store.backlog())
            jobs, waiting_for, held_by = await self._open_jobs()
            if held_by is None and (held_by := await self._store.held_by()) is not None:  # also without an open job
                waiting_for = waiting_for or WaitingFor.STORE
        except SwathError as error:  # a row that cannot be read, a table that is gone: a person has to see to it
            waiting_for = error.waiting_for if isinstance(error, StoreUnavailable) else WaitingFor.STORE
            self._tell(str(error))
            return Look(at=self._clock.boot(), answer=False, waiting_for=waiting_for)
        self._tell("")
        return Look(
            at=self._clock.boot(), answer=True, waiting_for=waiting_for, held_by=held_by, backlog=backlog, jobs=jobs
        )

    def _tell(self, trouble: str) -> None:
        """Once, until it changes or is over."""
        if trouble and trouble != self._told:
            _log.error("how the store stands cannot be told: %s", trouble)
        self._told = trouble

    async def _open_jobs(self) -> tuple[Mapping[str, int], WaitingFor | None, str | None]:
        found: Counter[str] = Counter()
        waiting_for: WaitingFor | None = None
        held_by: str | None = None
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._store.jobs(after, _PAGE, states=OPEN_STATES)
            found.update(status.state.value for status in page)
            waiting_for = next((status.waiting_for for status in page if status.waiting_for is not None), waiting_for)
            held_by = next((status.held_by for status in page if status.held_by is not None), held_by)
            if len(page) < _PAGE:
                break
            after = page[-1].job.job_id
        return found, waiting_for, held_by


def _standing(request: Request) -> Standing:
    state = request.app.state
    if not hasattr(state, "standing"):
        services = controller_of(request).services
        state.standing = Standing(services.store, services.clock)
    standing: Standing = state.standing
    return standing


StandingOf = Annotated[Standing, Depends(_standing)]
