"""The manifest of a job: what it produced, part by part, and the sums that must balance. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from swath.domain.item import ItemRecord
from swath.domain.job import Counts, Job
from swath.domain.result import Artifact
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState

__all__ = [
    "MISSING_ITEMS_KEY",
    "PART_ITEMS",
    "JobMetadata",
    "ManifestPart",
    "ManifestTotals",
    "item_details",
    "manifest_entry",
]

PART_ITEMS = 1_000
MISSING_ITEMS_KEY = (
    "missing_items.csv"  # the items whose files were gone when the job ended; `jobs retry --items` takes it
)


class ManifestPart(msgspec.Struct, frozen=True, kw_only=True):
    """One stored part of a manifest list and what it holds."""

    artifact: Artifact
    items: int


class JobMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """`job_metadata.json`: the sums, and the parts with their checksums."""

    job_id: str
    scraper_id: str
    status: str
    generation: int
    counts: Counts
    failures: dict[str, int]
    parts: dict[str, tuple[ManifestPart, ...]]
    first_attempt_at: float | None
    last_attempt_at: float | None
    duration_seconds: float
    bytes: int
    requests: int
    cost: float
    created_at: float
    execution_policy: dict[str, Any]
    layout: str = Layout.FILES.value
    circuit_opened: str | None = None  # why, if it did
    cache_hits: int = 0
    missing_items: int | msgspec.UnsetType = msgspec.UNSET  # whose files were gone when the job ended, if there are any
    scraper_versions: dict[str, int] = {}  # how many items ended under each version of the scraper


class ManifestTotals:
    """Sums over item records as they stream by; what the counters of the store must equal."""

    def __init__(self) -> None:
        self.states: dict[ItemState, int] = dict.fromkeys(ItemState, 0)
        self.not_found = 0
        self.failures: dict[str, int] = {}
        self.first_attempt_at: float | None = None
        self.last_attempt_at: float | None = None
        self.bytes = 0
        self.requests = 0
        self.cache_hits = 0
        self.scraper_versions: dict[str, int] = {}

    def add(self, record: ItemRecord) -> None:
        """Counts one item."""
        self.states[record.state] += 1
        if record.finding == "not_found":
            self.not_found += 1
        if record.state is ItemState.FAILED and record.failure is not None:
            self.failures[record.failure.kind] = self.failures.get(record.failure.kind, 0) + 1
        if record.scraper_version:
            version = record.scraper_version
            self.scraper_versions[version] = self.scraper_versions.get(version, 0) + 1
        for attempt in record.attempts:
            self.bytes += attempt.bytes
            self.requests += attempt.requests
            self.cache_hits += attempt.cache_hits
        if record.attempts:
            first, last = record.attempts[0].started_at, record.attempts[-1].ended_at
            self.first_attempt_at = first if self.first_attempt_at is None else min(first, self.first_attempt_at)
            self.last_attempt_at = last if self.last_attempt_at is None else max(last, self.last_attempt_at)

    def counts(self) -> Counts:
        """The sums in the shape of the store's counters. Unfinished items all count as pending."""
        ended = {s: n for s, n in self.states.items() if s.terminal}
        open_items = sum(self.states.values()) - sum(ended.values())
        return Counts(
            pending=open_items,
            success=ended[ItemState.SUCCESS],
            not_found=self.not_found,
            failed=ended[ItemState.FAILED],
            skipped=ended[ItemState.SKIPPED],
            cancelled=ended[ItemState.CANCELLED],
            total=sum(self.states.values()),
        )


def manifest_entry(job: Job, record: ItemRecord) -> dict[str, Any]:
    """One item as manifests list it."""
    return {
        "job_id": job.job_id,
        "item_id": record.item_id,
        "seq": record.seq,
        "input": record.input,
        "state": record.state,
        "outcome": record.finding,
        "failure": None if record.failure is None else msgspec.to_builtins(record.failure),
        "reason": record.reason,
        "scraper_id": job.scraper_id,
        "scraper_version": record.scraper_version,
        "fence": record.fence,
        "tries": msgspec.to_builtins(record.tries),
        "attempts": msgspec.to_builtins(record.attempts),
        "artifacts": msgspec.to_builtins(record.artifacts),
    }


def item_details(job: Job, record: ItemRecord) -> dict[str, Any]:
    """The same with all else that is known of a single item, as `jobs item` and the API show it."""
    return manifest_entry(job, record) | {
        "generation": record.generation,
        "ended_at": record.ended_at,
        "not_before": record.not_before,
        "suspect": record.suspect,
        "earlier": msgspec.to_builtins(record.earlier),
    }
