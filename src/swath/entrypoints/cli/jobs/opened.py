"""Jobs: what the commands of `swath jobs` ask, of a store that is here or of a controller; and which of the two it is.

After: here.py, or remote/jobs.py. The commands know neither.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from swath.domain.errors import BadInput
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.policy import ExecutionPolicy
from swath.domain.result import Artifact
from swath.domain.selection import Selection
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.progress import Display
from swath.pipeline.results.evidence import Evidence
from swath.settings import Settings

__all__ = ["Jobs", "only_here", "open_jobs"]


class Jobs(Protocol):
    """One method for each thing that a command does. Raises as the ports do, wherever the jobs are."""

    async def create(self, order: Order, display: Display) -> JobStatus:
        """Loads a job and lets it run. Raises BadInput (RowsRefused, when the rows were told), and Conflict."""
        ...

    async def jobs(self, limit: int) -> list[JobStatus]:
        """The newest first."""
        ...

    async def status(self, job_id: str) -> JobStatus:
        """Where a job stands, with what its sites mean for it."""
        ...

    def follow(self, job_id: str, note: Callable[[str], None]) -> AsyncGenerator[JobStatus, None]:
        """The job now, and again and again as it goes on, without an end. `note` hears of trouble on the way."""
        ...

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """One item with all that is known of it."""
        ...

    async def evidence(self, job_id: str, item_id: str) -> Evidence:
        """Its values, and the pages that they were extracted from."""
        ...

    async def pause(self, job_id: str) -> JobStatus:
        """See JobControl."""
        ...

    async def resume(self, job_id: str) -> JobStatus:
        """See JobControl; workers are told."""
        ...

    async def cancel(self, job_id: str) -> JobStatus:
        """See JobControl; waits a little for the job's end."""
        ...

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """See JobControl."""
        ...

    async def retry(self, job_id: str, selection: Selection) -> JobStatus:
        """See JobControl; workers are told. Raises BadInput for ids that the job does not have."""
        ...

    async def delete(self, job_id: str) -> None:
        """Marks a job for deletion, see JobControl."""
        ...

    async def removed(self, job_id: str, note: Callable[[str], None]) -> bool:
        """Whether a job that is marked is gone with all its data, after waiting a little for others that do it. `note`
        hears what it waits for."""
        ...

    async def webhooks(self, job_id: str) -> list[dict[str, Any]]:
        """The delivery log, the oldest first, fit to be shown."""
        ...

    async def resend(self, job_id: str) -> Webhook:
        """Sends the newest webhook again; answers with it after the first try."""
        ...

    def location(self, job_id: str) -> str:
        """Where the results are."""
        ...

    def place_of(self, job_id: str, item_id: str, artifact: Artifact) -> str:
        """Where one file of an item is."""
        ...

    def command(self, *words: str) -> str:
        """A command line that asks the same jobs."""
        ...

    def who_works(self, job_id: str) -> str | None:
        """Who runs the job, where that is not for the caller to see to."""
        ...


@asynccontextmanager
async def open_jobs(settings: Settings, *, only_looks: bool = False) -> AsyncIterator[Jobs]:
    """Those of the controller that the settings name, else those of the store. Imports only what it needs."""
    if settings.server is not None:
        from swath.entrypoints.cli.remote.address import Address
        from swath.entrypoints.cli.remote.answers import Client
        from swath.entrypoints.cli.remote.jobs import ServerJobs

        yield ServerJobs(Client(Address.of(settings.server), settings.service_key), settings.default_scraper)
        return
    from swath.bootstrap.services import open_services
    from swath.entrypoints.cli.jobs.here import StoreJobs

    async with open_services(settings, only_looks=only_looks) as services:
        yield StoreJobs(services)


def only_here(settings: Settings, what: str, remedy: str) -> None:
    """For what cannot go over the wire. Raises BadInput with what to do instead."""
    if settings.server is not None:
        raise BadInput(f"{what} works on a store, not on the controller {settings.server}; {remedy}")
