"""Whose turn it is: which of the jobs that have work for a worker gets the next lease (S3). Pure.

The most urgent goes first: higher priority, then fewer items, then age. But nobody starves: a job that was passed over
for long comes next whatever its rank, so with k such jobs each gets one of the next 4k leases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["Candidate", "next_in_turn"]

PATIENCE: Final = 2  # leases per candidate; those that lose patience together are served within another k


class Candidate(msgspec.Struct, frozen=True):
    """A job with work now. Of two numbers the lower is that of the older job.

    `served` is how many leases had been granted in all when it last got one, or when it became ready to run.
    """

    priority: int
    items: int
    number: int
    served: int


def next_in_turn(candidates: Sequence[Candidate], granted: int) -> Candidate | None:
    """`granted` is how many leases were granted in all so far."""
    patience = PATIENCE * len(candidates)
    impatient = [job for job in candidates if granted - job.served >= patience]
    if impatient:
        return min(impatient, key=lambda job: (job.served, job.number))
    return min(candidates, key=lambda job: (-job.priority, job.items, job.number), default=None)
