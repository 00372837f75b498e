"""The webhook that is written with a job's end (N1). Pure. Before: the finisher knows how it ends. After: the courier.

The job's own URL wins over the configured one; without either there is none.
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from swath.domain.job import JobStatus
from swath.domain.manifest import JobMetadata
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock

__all__ = ["webhook_of"]

# The receiver has no use for them, and they have no bound.
_LEFT_OUT: Final = ("parts", "execution_policy")


def webhook_of(status: JobStatus, metadata: JobMetadata, configured_url: str | None, clock: Clock) -> Webhook | None:
    """What is to be told of this end, due at once. `metadata` is what was written of it."""
    now = clock.now()
    job, url = status.job, status.job.callback_url or configured_url
    if url is None:
        return None
    told = {name: value for name, value in msgspec.to_builtins(metadata).items() if name not in _LEFT_OUT}
    summary = told | {
        "name": job.name,
        "labels": job.labels,
        "on_demand": job.on_demand,
        "request_id": job.request_id,
        "started_at": status.started_at,
        "ended_at": now,
    }
    # By chance, and not from the job: one that is ordered anew under the id of a deleted one is another to receivers.
    webhook_id = f"wh_{uuid.uuid4().hex}"
    return Webhook(
        webhook_id=webhook_id,
        job_id=job.job_id,
        generation=status.generation,
        url=url,
        summary=summary,
        created_at=now,
        due_at=clock.boot(),
    )
