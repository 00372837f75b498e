"""Jobs and results of a local store.

What only some commands need is imported inside their methods, so that showing a job is quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from swath.bootstrap.services import Services
from swath.domain.errors import BadInput, StoreUnavailable
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import ItemRecord, RetrySelection
from swath.domain.job import JobStatus
from swath.domain.result import Artifact
from swath.domain.result_versions import DIFF_KEY
from swath.domain.validation_messages import quoted_list
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import ProgressDisplay
from swath.entrypoints.cli.run_args import RunArgs
from swath.integrations.webhooks.delivery_log import delivery_log_entry, schedule_resend
from swath.pipeline.finish.deletion import mark_for_deletion
from swath.pipeline.ingest.sources.csv_rows import looks_like_table
from swath.pipeline.results.provenance import Evidence, find_evidence
from swath.pipeline.worker.sweeper import announce

if TYPE_CHECKING:
    from swath.pipeline.results.compare.comparison import JobComparison
    from swath.pipeline.results.compare.report import CompareRequest
    from swath.pipeline.results.verify.report import VerifyReport
    from swath.pipeline.results.versions.diff import Diff
    from swath.pipeline.results.versions.lifecycle import Version

__all__ = ["LocalJobs", "LocalResults"]

POLL_SECONDS: Final = 0.5


class LocalJobs:
    """See Jobs."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store

    async def create(self, order: RunArgs, display: ProgressDisplay) -> JobStatus:
        """See Jobs."""
        from swath.bootstrap.scrapers import make_registry
        from swath.entrypoints.cli.load_job import load_job

        registry = make_registry(self._services.settings)
        return await load_job(self._services, registry, order, display, asyncio.Event())

    async def jobs(self, limit: int) -> list[JobStatus]:
        """See Jobs."""
        return await self._store.jobs(limit=limit)

    async def status(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._services.status(job_id)

    async def follow(self, job_id: str, note: Callable[[str], None]) -> AsyncGenerator[JobStatus, None]:
        """See Jobs."""
        del note
        yield await self._services.status(job_id)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with suppress(StoreUnavailable):  # the next look will tell
                yield await self._services.status(job_id)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """See Jobs."""
        return await self._store.item(job_id, item_id)

    async def evidence(self, job_id: str, item_id: str) -> Evidence:
        """See Jobs."""
        return await find_evidence(self._store, self._services.storage, await self._store.status(job_id), item_id)

    async def pause(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._store.pause(job_id)

    async def resume(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._announced(await self._store.resume(job_id))

    async def cancel(self, job_id: str) -> JobStatus:
        """See Jobs."""
        from swath.entrypoints.cli.local_maintenance import finish_job

        status = await self._store.cancel(job_id)
        return status if status.state.terminal else await finish_job(self._services, job_id)

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """See Jobs."""
        return await self._store.change_policy(job_id, policy, expected)

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        """See Jobs."""
        from swath.pipeline.results.versions.lifecycle import refuse_mixed_pages

        if selection.item_ids:
            await self._check_ids(job_id, selection.item_ids)
        await refuse_mixed_pages(self._store, job_id)
        return await self._announced(await self._store.retry(job_id, selection))

    async def _check_ids(self, job_id: str, asked: frozenset[str]) -> None:
        """An id that the job does not have is a mistake, and the others may be wrong ones too. Raises BadInput."""
        unknown, after = set(asked), 0
        while unknown and (page := await self._store.items(job_id, after)):
            unknown.difference_update(record.item_id for record in page)
            after = page[-1].seq
        if unknown:
            told = f"{quoted_list(sorted(unknown))} ({len(unknown):,} of {len(asked):,} ids)"
            table = "; a file with several columns needs one called item_id" if looks_like_table(asked) else ""
            raise BadInput(f"job {job_id!r} has no item {told}; nothing is run again{table}")

    async def _announced(self, status: JobStatus) -> JobStatus:
        await announce(self._services.queue, self._services.clock, status)
        return status

    async def delete(self, job_id: str) -> None:
        """See Jobs."""
        await mark_for_deletion(self._store, job_id)

    async def removed(self, job_id: str, note: Callable[[str], None]) -> bool:
        """See Jobs."""
        from swath.entrypoints.cli.local_maintenance import remove_job

        return await remove_job(self._services, job_id, note)

    async def webhooks(self, job_id: str) -> list[dict[str, Any]]:
        """See Jobs."""
        configured_url = self._services.settings.webhook_url
        return [
            delivery_log_entry(webhook, configured_url, self._services.clock)
            for webhook in await self._store.webhooks(job_id)
        ]

    async def resend(self, job_id: str) -> Webhook:
        """See Jobs."""
        from swath.entrypoints.cli.local_maintenance import try_webhook_once

        await schedule_resend(self._store, self._services.clock, job_id)
        return await try_webhook_once(self._services, job_id)

    def location(self, job_id: str) -> str:
        """See Jobs."""
        return self._services.storage.location(job_id)

    def place_of(self, job_id: str, item_id: str, artifact: Artifact) -> str:
        """See Jobs."""
        del item_id
        return f"{self.location(job_id)}/{artifact.key}"

    def command(self, *words: str) -> str:
        """See Jobs."""
        return command(*words)

    def who_works(self, job_id: str) -> str | None:
        """See Jobs."""
        del job_id
        return None


class LocalResults:
    """See Results."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store

    async def status(self, job_id: str) -> JobStatus:
        """See Results."""
        return await self._store.status(job_id)

    async def versions(self, job_id: str) -> list[Version]:
        """See Results."""
        from swath.pipeline.results.versions.lifecycle import versions_of

        return await versions_of(self._store, await self._store.status(job_id))

    async def diff(self, job_id: str, made_by: str) -> Diff | None:
        """See Results."""
        from swath.pipeline.results.versions.diff import read_diff

        del job_id
        return await read_diff(self._services.storage, made_by)

    async def use(self, job_id: str, number: int) -> JobStatus:
        """See Results."""
        from swath.pipeline.results.versions.lifecycle import use_version

        return await use_version(self._store, job_id, number)

    async def verify(self, job_id: str) -> VerifyReport:
        """See Results."""
        from swath.pipeline.results.verify.verifier import verify

        return await verify(self._store, self._services.storage, job_id)

    @asynccontextmanager
    async def compared(self, a: str, b: str, question: CompareRequest) -> AsyncIterator[JobComparison]:
        """See Results."""
        from swath.entrypoints.cli.progress import show_steps
        from swath.pipeline.results.compare.comparison import JobComparison
        from swath.pipeline.results.compare.table import compare_table

        jobs = await self._store.status(a), await self._store.status(b)
        with compare_table() as table:
            comparison = JobComparison(self._store, self._services.storage, table, question)
            with show_steps(sum(job.counts.total for job in jobs), "comparing") as shown:
                await comparison.load(jobs, shown.add)
            yield comparison

    def place_of_diff(self, job_id: str, made_by: str) -> str:
        """See Results."""
        del job_id
        return f"{self._services.storage.location(made_by)}/{DIFF_KEY}"

    def command(self, *words: str) -> str:
        """See Results."""
        return command(*words)
