"""Broken builds: a rule of the dispatcher switched off, so that the checks can be shown to notice. Tests only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from unittest.mock import patch

__all__ = ["Broken", "broken_build"]


class Broken(StrEnum):
    """What is switched off."""

    JOB_LIMITS = "job-limits"
    SITE_LIMITS = "site-limits"
    PATIENCE = "patience"
    DOUBT = "doubt"


def _the_whole(limit: int, *_: int) -> int:
    """Everybody gets all slots there are, whatever the others have."""
    return limit


@contextmanager
def broken_build(what: Broken | None) -> Iterator[None]:
    """Until the block is left."""
    match what:
        case None:
            changes: dict[str, object] = {}
        case Broken.JOB_LIMITS:
            changes = {f"swath.backends.aws.jobs.shares.{name}": _the_whole for name in ("grant_slots", "target_slots")}
        case Broken.SITE_LIMITS:
            changes = {f"swath.domain.site_share.{name}": _the_whole for name in ("grant_slots", "target_slots")}
        case Broken.PATIENCE:
            changes = {"swath.domain.turns.PATIENCE": 1_000_000}
        case Broken.DOUBT:
            changes = {"swath.pipeline.execute.slots.JobSlots.in_doubt": False}
    with ExitStack() as stack:
        for name, instead in changes.items():
            stack.enter_context(patch(name, instead))
        yield
