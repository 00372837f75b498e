"""When a job that has ended is to be deleted by its `retention_days`. Pure."""

from __future__ import annotations

from typing import Final

from swath.domain.job import Job

__all__ = ["delete_at"]

_DAY_SECONDS: Final = 86_400


def delete_at(job: Job, started_at: float | None, ended_at: float | None) -> float | None:
    """In Unix seconds; None when it has not ended, or stays.

    A job that seems to have ended before it began ended while the wall clock was behind: the later time counts.
    """
    days = job.policy.retention_days
    if days is None or ended_at is None:
        return None
    return max(ended_at, started_at or 0.0, job.created_at) + days * _DAY_SECONDS
