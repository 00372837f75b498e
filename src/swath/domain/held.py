"""What people are told of an item that waits, and of a site that is left alone: why, until when, and what to do. Pure.

Used by `jobs item` and the API for an item, and by `recording try`.
"""

from __future__ import annotations

import datetime as dt
import shlex

from swath.domain.errors import SiteHeld
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.transitions import ItemState

__all__ = ["held_words", "waits_for"]


def held_words(held: SiteHeld, now: float) -> str:
    """Of a site that may not be visited now. `now` in Unix seconds."""
    return f"{held}, until {_moment(now + held.wait_seconds)}; try again then"


def waits_for(status: JobStatus, record: ItemRecord, now: float) -> str | None:
    """Why an item that has a time before which it does not run waits for it. None for any other item. `status` has its
    sites, as people are shown it; `now` in Unix seconds."""
    if record.state is not ItemState.PENDING or record.not_before is None or record.not_before <= now:
        return None
    held = [(site.name, site.why, site.waits_seconds) for site in status.sites if site.waits_seconds is not None]
    look = f"what failed there: {shlex.join(['swath', 'jobs', 'status', status.job.job_id])}"
    if held:
        sites = "; ".join(f"site {name} is left alone ({why}) until {_moment(now + wait)}" for name, why, wait in held)
        return f"{sites}. The item goes on by itself then, and nothing needs to be done; {look}"
    last = record.attempts[-1].failure if record.attempts else None
    after = "" if last is None else f" after {last.kind}"
    return f"it is tried again{after} at {_moment(record.not_before)}, and nothing needs to be done"


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
