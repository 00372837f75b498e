"""StoreResults: the results of a store, read directly. Before: results.py chose it.

What only some commands need is imported where it is used, so that the others start quickly.

remote/results.py does the same with a controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from swath.bootstrap.services import Services
from swath.domain.job import JobStatus
from swath.domain.versions import DIFF_KEY
from swath.entrypoints.cli.output import command

if TYPE_CHECKING:
    from swath.pipeline.finish.report import VerifyReport
    from swath.pipeline.results.compare import Comparison
    from swath.pipeline.results.compare_report import Question
    from swath.pipeline.results.diff import Diff
    from swath.pipeline.results.versions import Version

__all__ = ["StoreResults"]


class StoreResults:
    """See Results."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store

    async def status(self, job_id: str) -> JobStatus:
        """See Results."""
        return await self._store.status(job_id)

    async def versions(self, job_id: str) -> list[Version]:
        """See Results."""
        from swath.pipeline.results.versions import versions_of

        return await versions_of(self._store, await self._store.status(job_id))

    async def diff(self, job_id: str, made_by: str) -> Diff | None:
        """See Results."""
        from swath.pipeline.results.diff import read_diff

        del job_id
        return await read_diff(self._services.storage, made_by)

    async def use(self, job_id: str, number: int) -> JobStatus:
        """See Results."""
        from swath.pipeline.results.versions import use_version

        return await use_version(self._store, job_id, number)

    async def verify(self, job_id: str) -> VerifyReport:
        """See Results."""
        from swath.pipeline.finish.verify import verify

        return await verify(self._store, self._services.storage, job_id)

    @asynccontextmanager
    async def compared(self, a: str, b: str, question: Question) -> AsyncIterator[Comparison]:
        """See Results."""
        from swath.entrypoints.cli.export_progress import steps
        from swath.pipeline.results.compare import Comparison
        from swath.pipeline.results.compare_table import compare_table

        jobs = await self._store.status(a), await self._store.status(b)
        with compare_table() as table:
            comparison = Comparison(self._store, self._services.storage, table, question)
            with steps(sum(job.counts.total for job in jobs), "comparing") as shown:
                await comparison.load(jobs, shown.add)
            yield comparison

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """See Results."""
        del job_id
        return f"{self._services.storage.location(made_by)}/{DIFF_KEY}"

    def command(self, *words: str) -> str:
        """See Results."""
        return command(*words)
