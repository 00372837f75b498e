"""From the API's views back to the domain's values, so that commands print both in the same way. Before: answers.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swath.domain.item import ItemRecord
from swath.domain.job import Counts, Job, JobStatus, SiteOutlook, Stopping, WaitingFor
from swath.domain.layout import Layout
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook

__all__ = ["item_of", "merge_patch", "status_of", "webhook_of"]


def status_of(view: Mapping[str, Any]) -> JobStatus:
    """A JobView. Raises KeyError, TypeError or ValueError for what is none."""
    counts = msgspec.convert(view["counts"], Counts)
    pace, closed_seconds = _pace(view["items_per_second"], view["eta_seconds"], counts.remaining)
    return JobStatus(
        job=_job_of(view),
        state=JobState(view["status"]),
        generation=view["generation"],
        counts=counts,
        failures=msgspec.convert(view["failures"], dict[str, int]),
        items_per_second=pace,
        started_at=view["started_at"],
        ended_at=view["ended_at"],
        loaded_rows=view["loaded_rows"],
        stopping=None if view["stopping"] is None else Stopping(view["stopping"]),
        circuit_opened=view["circuit"]["reason"],
        waiting_for=None if view["waiting_for"] is None else WaitingFor(view["waiting_for"]),
        deleting=view["deleting"],
        cost=view["cost"],
        manifest=None
        if view["cache_hits"] is None
        else {"cache_hits": view["cache_hits"], "missing_items": view.get("missing_items", 0)},  # all that a view has
        sites=msgspec.convert(view["sites"], tuple[SiteOutlook, ...]),
        closed_seconds=closed_seconds,
        versions=view["versions"],
        current_version=view["current_version"],
    )


def _job_of(view: Mapping[str, Any]) -> Job:
    return Job(
        job_id=view["job_id"],
        scraper_id=view["scraper_id"],
        name=view["name"],
        labels=msgspec.convert(view["labels"], dict[str, str]),
        callback_url=view["callback_url"],
        priority=view["priority"],
        layout=Layout(view["layout"]),
        extracts=view["extracts"],
        policy=ExecutionPolicy.model_validate(view["execution_policy"]),
        created_at=view["created_at"],
    )


def _pace(items_per_second: float, eta_seconds: float | None, remaining: int) -> tuple[float, float]:
    """Pace and closed time that give the ETA which was told: it is reckoned, and the pace came rounded."""
    if eta_seconds is None:
        return items_per_second, 0.0
    if items_per_second <= 0:  # less than a hundredth
        return (remaining / eta_seconds if eta_seconds > 0 else 0.0), 0.0
    return items_per_second, eta_seconds - remaining / items_per_second


def item_of(view: Mapping[str, Any]) -> ItemRecord:
    """A OneItemView. Raises KeyError or ValueError for what is none."""
    return msgspec.convert({**view, "finding": view["outcome"]}, ItemRecord)


def webhook_of(entry: Mapping[str, Any]) -> Webhook:
    """An entry of the delivery log, as far as that tells; its address may be masked."""
    return msgspec.convert({**entry, "summary": {"status": entry["status"]}}, Webhook)


def merge_patch(former: Mapping[str, Any], wanted: Mapping[str, Any], *, only_changes: bool = False) -> dict[str, Any]:
    """The part (RFC 7396) that makes the one of the other: a name that is to go is null.

    `only_changes` leaves out what is equal, which others may change meanwhile.
    """
    part: dict[str, Any] = {name: None for name in former if name not in wanted}
    for name, value in wanted.items():
        before = former.get(name)
        if only_changes and name in former and before == value:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            part[name] = merge_patch(before, value, only_changes=only_changes)
        else:
            part[name] = value
    return part
