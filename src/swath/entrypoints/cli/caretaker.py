"""Does for one job what every worker does beside its items: rescues what the dead left behind, ends it, tells of that,
deletes it.

So that `jobs cancel` brings a job to its end, and `jobs delete` removes one, with no worker there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from swath.bootstrap.services import Services, new_worker_id
from swath.bootstrap.workers import make_finisher, make_remover
from swath.domain.errors import UnknownName
from swath.domain.job import JobStatus
from swath.entrypoints.cli.first_try import tell_of_end
from swath.pipeline.dispatch.rescue import Rescuer

__all__ = ["PATIENCE_SECONDS", "bring_to_end", "remove"]

PATIENCE_SECONDS = 10.0  # for workers that live and hold something of the job
LONGEST_SECONDS = 60.0  # also where a lease lasts longer
STEP_SECONDS = 0.1


async def bring_to_end(services: Services, job_id: str) -> JobStatus:
    """Answers with the job once it has ended, or as it stands when living workers still hold items of it then."""
    worker_id, clock = new_worker_id(), services.clock
    rescuer = Rescuer(services.store, services.storage, services.sites, clock, worker_id)
    finisher = make_finisher(services, worker_id, job_id)
    deadline = clock.boot() + PATIENCE_SECONDS
    while True:
        await rescuer.run_once()
        await finisher.run_once()
        status = await services.store.status(job_id)
        if status.state.terminal:
            await tell_of_end(services, job_id)
        if status.state.terminal or clock.boot() >= deadline:
            return status
        await clock.sleep(STEP_SECONDS)


async def remove(services: Services, job_id: str, note: Callable[[str], None]) -> bool:
    """Deletes a job that is marked for it; answers whether it is gone, or another process is still at it.

    A process that is proven dead is replaced at once, any other when its lease is over. `note` hears of that wait.
    """
    worker_id, clock = new_worker_id(), services.clock
    rescuer = Rescuer(services.store, services.storage, services.sites, clock, worker_id)
    remover = make_remover(services, worker_id, job_id)
    longest_seconds = max(PATIENCE_SECONDS, min(services.settings.lease_seconds + PATIENCE_SECONDS, LONGEST_SECONDS))
    deadline, waits = clock.boot() + longest_seconds, False
    while clock.boot() < deadline:
        taken = [lease for lease in await rescuer.run_once() if lease.job_id == job_id]
        if taken and waits:
            note(f"the lease of {taken[0].worker_id} is over; deleting job {job_id}")
        if await remover.run_once() is not None:
            return True
        try:
            await services.store.status(job_id)
        except UnknownName:
            return True
        if not waits:
            until = dt.datetime.fromtimestamp(clock.now() + longest_seconds, dt.UTC).strftime("%H:%M:%S UTC")
            told = f"waiting for another process that deletes job {job_id} or ends a version of it"
            note(f"{told}; if it is frozen or out of reach, its lease is over by {until}")
            waits = True
        await clock.sleep(STEP_SECONDS)
    return False
