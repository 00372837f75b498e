"""One item as the current version of a job has it, by its id. rows.py does the same for all items, in order."""

from __future__ import annotations

from swath.domain.errors import UnknownName
from swath.domain.job import JobStatus
from swath.domain.versions import current_job_id
from swath.pipeline.results.rows import CurrentItem
from swath.ports.job_store import JobStore

__all__ = ["current_item"]


async def current_item(store: JobStore, status: JobStatus, item_id: str) -> CurrentItem:
    """Raises UnknownName when the job has no such item."""
    first = await store.item(status.job.job_id, item_id)
    alone = CurrentItem(status.job, 1, first, first)
    if status.current_version == 1:
        return alone
    newer_id = current_job_id(status)
    try:
        record = await store.item(newer_id, item_id)
    except UnknownName:  # there was no page to read again
        return alone
    return CurrentItem((await store.status(newer_id)).job, status.current_version, record, first)
