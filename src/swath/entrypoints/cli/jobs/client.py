"""The interfaces through which `swath jobs` works on jobs and on results, in a local store or in a controller.

`open_jobs` and `open_results` choose the implementation by the settings.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from swath.domain.errors import BadInput
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import ItemRecord, RetrySelection
from swath.domain.job import JobStatus
from swath.domain.result import Artifact
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.progress import ProgressDisplay
from swath.entrypoints.cli.run_args import RunArgs
from swath.pipeline.results.provenance import Evidence
from swath.settings import Settings

if TYPE_CHECKING:
    from swath.pipeline.results.compare.report import CompareRequest, CompareSummary, Difference
    from swath.pipeline.results.verify.report import VerifyReport
    from swath.pipeline.results.versions.diff import Diff
    from swath.pipeline.results.versions.lifecycle import Version

__all__ = ["Differences", "JobsClient", "ResultsClient", "open_jobs", "open_results", "require_local_store"]


class JobsClient(Protocol):
    """One method for each thing that a command does. Raises as the ports do, wherever the jobs are."""

    async def create(self, order: RunArgs, display: ProgressDisplay) -> JobStatus:
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

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
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
async def open_jobs(settings: Settings, *, only_looks: bool = False) -> AsyncIterator[JobsClient]:
    """Those of the controller that the settings name, else those of the store. Imports only what it needs."""
    if settings.server is not None:
        from swath.entrypoints.cli.remote.client import ControllerClient
        from swath.entrypoints.cli.remote.http import ControllerAddress
        from swath.entrypoints.cli.remote.jobs import RemoteJobs

        yield RemoteJobs(
            ControllerClient(ControllerAddress.of(settings.server), settings.service_key), settings.default_scraper
        )
        return
    from swath.bootstrap.services import open_services
    from swath.entrypoints.cli.jobs.local_client import LocalJobs

    async with open_services(settings, only_looks=only_looks) as services:
        yield LocalJobs(services)


def require_local_store(settings: Settings, what: str, remedy: str) -> None:
    """For what cannot go over the wire. Raises BadInput with what to do instead."""
    if settings.server is not None:
        raise BadInput(f"{what} works on a store, not on the controller {settings.server}; {remedy}")


class Differences(Protocol):
    """What a comparison has found. Both methods block."""

    def summary(self) -> CompareSummary:
        """How many of each kind."""
        ...

    def differences(self) -> Iterator[Difference]:
        """All of them, the same each time."""
        ...


class ResultsClient(Protocol):
    """One method for each question. Raises as the ports do, wherever the results are."""

    async def status(self, job_id: str) -> JobStatus:
        """Where a job stands."""
        ...

    async def versions(self, job_id: str) -> list[Version]:
        """All versions of its results, the first first."""
        ...

    async def diff(self, job_id: str, made_by: str) -> Diff | None:
        """What a version of the job says otherwise than the one before; `made_by` is the job that made it."""
        ...

    async def use(self, job_id: str, number: int) -> JobStatus:
        """Gives readers that version."""
        ...

    async def verify(self, job_id: str) -> VerifyReport:
        """Whether store, counters, manifests and files agree."""
        ...

    def compared(self, a: str, b: str, question: CompareRequest) -> AbstractAsyncContextManager[Differences]:
        """The records of job B with those of the earlier job A."""
        ...

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """Where that can be read."""
        ...

    def command(self, *words: str) -> str:
        """A command line that asks the same results."""
        ...


@asynccontextmanager
async def open_results(settings: Settings, *, only_looks: bool = False) -> AsyncIterator[ResultsClient]:
    """Those of the controller that the settings name, else those of the store."""
    if settings.server is not None:
        from swath.entrypoints.cli.remote.client import ControllerClient
        from swath.entrypoints.cli.remote.http import ControllerAddress
        from swath.entrypoints.cli.remote.results import RemoteResults

        yield RemoteResults(ControllerClient(ControllerAddress.of(settings.server), settings.service_key))
        return
    from swath.bootstrap.services import open_services
    from swath.entrypoints.cli.jobs.local_client import LocalResults

    async with open_services(settings, only_looks=only_looks) as services:
        yield LocalResults(services)
