"""Each of these stores breaks one promise to the service around the jobs; a contract or the machine finds it out."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import ItemFilter
from swath.domain.job import Job, JobStatus
from swath.domain.lease import Lease
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook
from swath.ports.job_store import ItemBatch, ItemPage, LoadStart
from tests.contract.suites import JobStoreContract, WebhookOutboxContract
from tests.contract.test_machine_has_teeth import find_out
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore


class WebhookInASecondCommit(MemoryStore):
    """A job has ended before its webhook is in the outbox."""

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        status = await super().end(lease, state, manifest)
        await asyncio.sleep(0)
        if webhook is not None:
            self._shelves.jobs[webhook.job_id].webhooks[webhook.generation] = webhook
        return status


class WebhookThoughRefused(MemoryStore):
    """The webhook goes into the outbox whether the job ends or not."""

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        if webhook is not None:
            self._shelves.jobs[webhook.job_id].webhooks[webhook.generation] = webhook
        return await super().end(lease, state, manifest)


class RevisionIgnored(MemoryStore):
    """The last note wins, whatever happened since."""

    async def note_webhook(self, webhook: Webhook) -> bool:
        job = self._shelves.jobs.get(webhook.job_id)
        known = None if job is None else job.webhooks.get(webhook.generation)
        if known is not None:
            webhook = msgspec.structs.replace(webhook, revision=known.revision)
        return await super().note_webhook(webhook)


class NeverHeld(MemoryStore):
    """Everybody who asks gets the same webhook."""

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        return await super().take_webhooks(-1e9, limit)


class HeldForEver(MemoryStore):
    """What somebody took and did not note is never due again."""

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        return await super().take_webhooks(1e9, limit)


class WebhooksOutlive(MemoryStore):
    """The webhooks of a job that is gone belong to the next of its name."""

    async def purge(self, lease: Lease, limit: int) -> int:
        before = self._shelves.jobs.get(lease.job.job_id)
        left = await super().purge(lease, limit)
        if not left and before is not None:
            self._kept = before.webhooks
        return left

    async def submit(self, job: Job) -> JobStatus:
        status = await super().submit(job)
        self._shelves.jobs[job.job_id].webhooks |= self.__dict__.pop("_kept", {})
        return status


class OrderInTwoCommits(MemoryStore):
    """A job is there before its items are."""

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
        await self.submit(job)
        await asyncio.sleep(0)
        await self.load(job.job_id, batch)
        return await self.seal(job.job_id, 1)


class OrderWithDuplicates(MemoryStore):
    """What comes twice is left out, and nobody is told."""

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
        with self._shelves.open(job.job_id):
            stored = self._submit(job)
            self._load(stored, batch)
            return self._seal(stored, 1)


class LoadsBeginAtTheEnd(MemoryStore):
    """A load that comes again is sent behind its own rows."""

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        job = self._shelves.jobs.get(job_id)
        if job is not None:
            job.load_starts.pop(key, None)
        return await super().begin_load(job_id, key)


class FoundByFormerEnds(MemoryStore):
    """A filter by kind finds what once failed so, too."""

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        job = self._shelves.jobs.get(job_id)
        if wanted.kind is None or wanted.state is not None or job is None:
            return await super().find_items(job_id, wanted, after, limit)
        once = {
            seq
            for seq, stored in job.items.items()
            for past in (*stored.earlier, *((stored.past,) if stored.past else ()))
            if past.end.failure is not None and past.end.failure.kind.value == wanted.kind
        }
        return ItemPage([record for record in await self.items(job_id, after) if record.seq in once], None)


class PagesOverlap(MemoryStore):
    """The last item of a page is the first of the next."""

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        page = await super().find_items(job_id, wanted, after, limit)
        next_after = None if page.next_after is None or limit == 1 else page.next_after - 1
        return ItemPage(page.items, next_after)


class EndedOverlooked(MemoryStore):
    """A listing of jobs by state knows nothing of those that are completed."""

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        listed = await super().jobs(after, limit, states=states, on_demand=on_demand)
        return [status for status in listed if not states or status.state is not JobState.COMPLETED]


def _clock_of(store: MemoryStore) -> FakeClock:
    clock = store._shelves.clock
    assert isinstance(clock, FakeClock)
    return clock


async def _webhook_in_a_second_commit(store: MemoryStore) -> None:
    await WebhookOutboxContract().test_nobody_ever_sees_a_job_ended_without_its_webhook(store)


async def _revision_ignored(store: MemoryStore) -> None:
    contract = WebhookOutboxContract()
    await contract.test_who_was_too_slow_does_not_overwrite_whoever_took_it_next(store, _clock_of(store))


class LastWordHolds(MemoryStore):
    """A policy is taken whatever it was made of."""

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        return await super().change_policy(job_id, policy)


async def _order_in_two_commits(store: MemoryStore) -> None:
    await JobStoreContract().test_nobody_ever_sees_a_part_of_an_order(store)


async def _loads_begin_at_the_end(store: MemoryStore) -> None:
    await JobStoreContract().test_a_load_begins_behind_all_that_is_loaded_and_there_ever_after(store)


async def _webhook_though_refused(store: MemoryStore) -> None:
    await WebhookOutboxContract().test_an_end_that_is_refused_leaves_no_webhook(store, store.kill)


async def _webhooks_outlive(store: MemoryStore) -> None:
    await WebhookOutboxContract().test_a_jobs_webhooks_go_with_it(store, _clock_of(store))


CONTRACTS = [
    (WebhookThoughRefused, _webhook_though_refused),
    (WebhooksOutlive, _webhooks_outlive),
    (WebhookInASecondCommit, _webhook_in_a_second_commit),
    (RevisionIgnored, _revision_ignored),
    (OrderInTwoCommits, _order_in_two_commits),
    (LoadsBeginAtTheEnd, _loads_begin_at_the_end),
]


@pytest.mark.req("Z1", "N1", "I2", "I3")
@pytest.mark.parametrize(("store_class", "contract"), CONTRACTS)
async def test_a_contract_fails_on_a_broken_store(store_class: type[MemoryStore], contract: Any) -> None:
    await contract(MemoryStore(FakeClock()))  # which is not broken
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await contract(store_class(FakeClock()))


BROKEN = [
    RevisionIgnored,
    NeverHeld,
    HeldForEver,
    OrderWithDuplicates,
    FoundByFormerEnds,
    PagesOverlap,
    EndedOverlooked,
    LastWordHolds,
]

BEGIN = {NeverHeld: 2, HeldForEver: 2, PagesOverlap: 4, EndedOverlooked: 2}


@pytest.mark.req("Z1", "N1", "I2", "I3")
@pytest.mark.parametrize("store_class", BROKEN)
def test_the_machine_fails_on_a_broken_store(store_class: type[MemoryStore]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        find_out(store_class, BEGIN.get(store_class, 0))
