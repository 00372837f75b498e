"""Shares a site's concurrency among workers, by the same rules as the slots of a job. Pure.

A share expires by itself. Where there are fewer slots than workers the slots rotate. Times: seconds on the boot
clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from swath.domain.lease import fair_share, grant_slots, target_slots

__all__ = ["REMOTE_ROTATION_SECONDS", "ROTATION_SECONDS", "SiteShare", "grant_site_slots"]

ROTATION_SECONDS: Final = 4.0  # then the slots that cannot be shared evenly go to others
REMOTE_ROTATION_SECONDS: Final = 20.0  # where a slot that changes hands is idle until both have heard of it


class SiteShare(msgspec.Struct, frozen=True):
    """It never has more than `slots` requests open, and has `demand` open or waiting."""

    slots: int
    demand: int
    asked_at: float


def grant_site_slots(
    shares: Mapping[str, SiteShare], worker_id: str, limit: int, now: float, turn_seconds: float = ROTATION_SECONDS
) -> tuple[int, int]:
    """The new slots and the target of a worker, whose ceiling and demand are in the shares already."""
    workers = sorted(shares)
    turn = int(now / turn_seconds) * limit % len(workers)  # all that had none come next, not one of them
    workers = workers[turn:] + workers[:turn]
    fair = fair_share(limit, [shares[worker].demand for worker in workers])[workers.index(worker_id)]
    ceiling = shares[worker_id].slots
    others = sum(share.slots for worker, share in shares.items() if worker != worker_id)
    target = target_slots(limit, ceiling, fair, others)
    return grant_slots(limit, ceiling, target, others), target
