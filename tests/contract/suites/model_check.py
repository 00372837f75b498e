"""Checks that a store and its model agree about jobs and items (property 37)."""

from __future__ import annotations

from collections import Counter

from swath.domain.item import ItemFilter, ItemRecord, SuccessOutcome
from swath.domain.job import Counts, JobStatus
from swath.domain.transitions import ItemState
from tests.contract.suites.model import Model
from tests.contract.suites.model_records import ModelItem, ModelJob

__all__ = ["check", "check_earlier", "counts", "fits"]


def counts(job: ModelJob) -> Counts:
    """What the counters must say."""
    ends = Counter(item.end.state for item in job.items.values() if item.end is not None)
    queued = sum(len(share.queued) for share in job.shares.values())
    begun = sum(len(share.begun) for share in job.shares.values())
    findings = [item.end.finding for item in job.items.values() if item.end is not None]
    return Counts(
        pending=len(job.open_items) - queued - begun,
        queued=queued,
        in_progress=begun,
        success=ends[ItemState.SUCCESS],
        not_found=findings.count(SuccessOutcome.NOT_FOUND),
        failed=ends[ItemState.FAILED],
        skipped=ends[ItemState.SKIPPED],
        cancelled=ends[ItemState.CANCELLED],
        total=len(job.items),
    )


def check(model: Model, status: JobStatus, records: list[ItemRecord]) -> None:
    """Counters, listing and model agree, item by item."""
    job = model.jobs[status.job.job_id]
    assert (status.state, status.stopping, status.deleting) == (job.state, job.stopping, job.deleting)
    if job.purged:
        assert len(records) == len(job.items) - job.purged
        return  # what is half gone has no figures
    assert (status.loaded_rows, status.loaded_batches) == (job.rows, len(job.batches))
    assert status.generation == job.generation
    assert (status.circuit_opened is not None) == job.opened
    assert status.counts == counts(job)
    failures = [item.end.failure.kind.value for item in job.items.values() if item.end and item.end.failure]
    assert status.failures == dict(Counter(failures))
    assert [record.seq for record in records] == sorted(job.items)
    for record in records:
        item = job.items[record.seq]
        assert record.item_id == item.item_id
        assert record.suspect == item.suspect
        if item.end is None:
            _check_unfinished(model, job, item, record)
        else:
            _check_ended(item, record)


def _check_ended(item: ModelItem, record: ItemRecord) -> None:
    end = item.end
    assert end is not None
    assert (record.state, record.finding, record.reason) == (end.state, end.finding, end.reason)
    assert (record.tries, record.attempts) == (end.tries, end.attempts)
    assert (record.fence, record.generation, record.not_before) == (item.ended_under, item.generation, None)
    assert abs((record.ended_at or 0.0) - item.ended_at) < 0.001
    assert (record.failure and record.failure.kind) == (end.failure and end.failure.kind)


def _check_unfinished(model: Model, job: ModelJob, item: ModelItem, record: ItemRecord) -> None:
    assert (record.state, record.fence) == (_state(model, job, item), item.holder)
    assert (record.tries, record.attempts, record.ended_at) == (item.tries, item.attempts, None)
    waits = item.due + model.clock.now() - model.clock.boot() if item.due else None
    assert (record.not_before is None) == (waits is None)
    assert waits is None or abs((record.not_before or 0.0) - waits) < 0.001


def _state(model: Model, job: ModelJob, item: ModelItem) -> ItemState:
    if not item.holder:
        return ItemState.PENDING
    share = job.shares[model.leases[item.holder].owner]
    if item.seq in share.begun:
        return ItemState.IN_PROGRESS
    return ItemState.QUEUED if item.seq in share.queued else ItemState.PENDING


def fits(model: Model, job: ModelJob, item: ModelItem, wanted: ItemFilter) -> bool:
    """Whether a filter must find the item; its words, told once more."""
    end = item.end
    if end is None:
        return wanted.kind is None and wanted.state in (None, _state(model, job, item))
    kind = end.finding if end.failure is None else end.failure.kind
    return wanted.state in (None, end.state) and wanted.kind in (None, kind)


def check_earlier(item: ModelItem, record: ItemRecord) -> None:
    """A look at one item shows how it ended in every generation before."""
    seen = [(past.generation, past.end.state, past.end.finding, past.end.attempts) for past in record.earlier]
    assert seen == [(generation, end.state, end.finding, end.attempts) for generation, _, end in item.earlier]
    for past, (_, ended_at, _) in zip(record.earlier, item.earlier, strict=True):
        assert abs(past.ended_at - ended_at) < 0.001
