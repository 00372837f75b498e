"""Results: what the commands for versions, checks and comparisons ask of a store that is here, or of a controller.

After: results_here.py, or remote/results.py. The commands know neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from swath.domain.job import JobStatus
from swath.settings import Settings

if TYPE_CHECKING:  # a check of a job need not wait for what knows of scrapers
    from swath.pipeline.finish.report import VerifyReport
    from swath.pipeline.results.compare_report import Difference, Question, Summary
    from swath.pipeline.results.diff import Diff
    from swath.pipeline.results.versions import Version

__all__ = ["Differences", "Results", "open_results"]


class Differences(Protocol):
    """What a comparison has found. Both methods block."""

    def summary(self) -> Summary:
        """How many of each kind."""
        ...

    def differences(self) -> Iterator[Difference]:
        """All of them, the same each time."""
        ...


class Results(Protocol):
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

    def compared(self, a: str, b: str, question: Question) -> AbstractAsyncContextManager[Differences]:
        """The records of job B with those of the earlier job A."""
        ...

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """Where that can be read."""
        ...

    def command(self, *words: str) -> str:
        """A command line that asks the same results."""
        ...


@asynccontextmanager
async def open_results(settings: Settings, *, only_looks: bool = False) -> AsyncIterator[Results]:
    """Those of the controller that the settings name, else those of the store."""
    if settings.server is not None:
        from swath.entrypoints.cli.remote.address import Address
        from swath.entrypoints.cli.remote.answers import Client
        from swath.entrypoints.cli.remote.results import ServerResults

        yield ServerResults(Client(Address.of(settings.server), settings.service_key))
        return
    from swath.bootstrap.services import open_services
    from swath.entrypoints.cli.jobs.results_here import StoreResults

    async with open_services(settings, only_looks=only_looks) as services:
        yield StoreResults(services)
