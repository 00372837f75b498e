"""Describes to people why an item or a site waits, until when, and what to do. Pure."""

from __future__ import annotations

import datetime as dt
import shlex

from swath.domain.errors import SiteUnavailable
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.transitions import ItemState

__all__ = ["item_wait_message", "site_unavailable_message"]


def site_unavailable_message(held: SiteUnavailable, now: float) -> str:
    """Of a site that may not be visited now. `now` in Unix seconds."""
    return f"{held}, until {_local_time(now + held.wait_seconds)}; try again then"


def item_wait_message(status: JobStatus, record: ItemRecord, now: float) -> str | None:
    """Why an item that has a time before which it does not run waits for it. None for any other item. `status` has its
    sites, as people are shown it; `now` in Unix seconds."""
    if record.state is not ItemState.PENDING or record.not_before is None or record.not_before <= now:
        return None
    held = [(site.name, site.why, site.waits_seconds) for site in status.sites if site.waits_seconds is not None]
    look = f"what failed there: {shlex.join(['swath', 'jobs', 'status', status.job.job_id])}"
    if held:
        sites = "; ".join(
            f"site {name} is left alone ({why}) until {_local_time(now + wait)}" for name, why, wait in held
        )
        return f"{sites}. The item goes on by itself then, and nothing needs to be done; {look}"
    last = record.attempts[-1].failure if record.attempts else None
    after = "" if last is None else f" after {last.kind}"
    return f"it is tried again{after} at {_local_time(record.not_before)}, and nothing needs to be done"


def _local_time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
