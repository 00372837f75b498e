"""StoreJobs: the jobs of a store, asked directly. The commands do here what workers would do in time, if none is there.
What only some of them need is imported there, so that looking at a job is quick.

Before: opened.py chose it. remote/jobs.py does the same with a controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final

from swath.bootstrap.services import Services
from swath.domain.errors import BadInput, StoreUnavailable
from swath.domain.explain import listed
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.policy import ExecutionPolicy
from swath.domain.result import Artifact
from swath.domain.selection import Selection
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import Display
from swath.integrations.webhook.log import entry_of, resend
from swath.pipeline.accept.item_ids import look_like_rows
from swath.pipeline.dispatch.announce import announce
from swath.pipeline.finish.deletion import mark_for_deletion
from swath.pipeline.results.evidence import Evidence, evidence_of

__all__ = ["StoreJobs"]

LOOK_SECONDS: Final = 0.5


class StoreJobs:
    """See Jobs."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store

    async def create(self, order: Order, display: Display) -> JobStatus:
        """See Jobs."""
        from swath.bootstrap.scrapers import make_registry
        from swath.entrypoints.cli.intake import take_in

        registry = make_registry(self._services.settings)
        return await take_in(self._services, registry, order, display, asyncio.Event())

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
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreUnavailable):  # the next look will tell
                yield await self._services.status(job_id)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """See Jobs."""
        return await self._store.item(job_id, item_id)

    async def evidence(self, job_id: str, item_id: str) -> Evidence:
        """See Jobs."""
        return await evidence_of(self._store, self._services.storage, await self._store.status(job_id), item_id)

    async def pause(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._store.pause(job_id)

    async def resume(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._announced(await self._store.resume(job_id))

    async def cancel(self, job_id: str) -> JobStatus:
        """See Jobs."""
        from swath.entrypoints.cli.caretaker import bring_to_end

        status = await self._store.cancel(job_id)
        return status if status.state.terminal else await bring_to_end(self._services, job_id)

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """See Jobs."""
        return await self._store.change_policy(job_id, policy, expected)

    async def retry(self, job_id: str, selection: Selection) -> JobStatus:
        """See Jobs."""
        from swath.pipeline.results.versions import refuse_mixed_pages

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
            told = f"{listed(sorted(unknown))} ({len(unknown):,} of {len(asked):,} ids)"
            table = "; a file with several columns needs one called item_id" if look_like_rows(asked) else ""
            raise BadInput(f"job {job_id!r} has no item {told}; nothing is run again{table}")

    async def _announced(self, status: JobStatus) -> JobStatus:
        await announce(self._services.queue, self._services.clock, status)
        return status

    async def delete(self, job_id: str) -> None:
        """See Jobs."""
        await mark_for_deletion(self._store, job_id)

    async def removed(self, job_id: str, note: Callable[[str], None]) -> bool:
        """See Jobs."""
        from swath.entrypoints.cli.caretaker import remove

        return await remove(self._services, job_id, note)

    async def webhooks(self, job_id: str) -> list[dict[str, Any]]:
        """See Jobs."""
        configured_url = self._services.settings.webhook_url
        return [
            entry_of(webhook, configured_url, self._services.clock) for webhook in await self._store.webhooks(job_id)
        ]

    async def resend(self, job_id: str) -> Webhook:
        """See Jobs."""
        from swath.entrypoints.cli.first_try import try_once

        await resend(self._store, self._services.clock, job_id)
        return await try_once(self._services, job_id)

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
