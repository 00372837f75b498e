"""Logs and counts an attempt once its meaning for the item is known.

Ids, figures and addresses without their query; never an input or anything that was extracted.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlsplit

from swath.domain.transitions import ItemState
from swath.fetch.url import redacted
from swath.observability.counters import FIGURES
from swath.observability.task_context import ITEMS_LOGGER
from swath.pipeline.worker.attempt import AttemptResult, WorkerContext, WorkItem

__all__ = ["log_attempt"]

_log: Final = logging.getLogger(ITEMS_LOGGER)
_LEVELS: Final = {ItemState.SUCCESS: logging.INFO, ItemState.SKIPPED: logging.INFO, ItemState.FAILED: logging.ERROR}


def log_attempt(bench: WorkerContext, work: WorkItem, tried: AttemptResult, state: ItemState | None) -> None:
    """`state` is the item's now that it has ended; None when it will be tried again."""
    attempt = tried.attempt
    seconds = attempt.ended_at - attempt.started_at
    if tried.failure is None:
        FIGURES.attempt_over(seconds)
    else:
        FIGURES.attempt_over(seconds, tried.failure.kind)
    level = logging.INFO if state is None else _LEVELS[state]
    if _log.isEnabledFor(level):
        fields = {
            "request_id": bench.job.request_id,
            "job_id": bench.job.job_id,
            "item_id": work.item.item_id,
            "attempt": len(work.attempts),
            "duration_ms": round(1_000 * seconds, 1),
            "proxy_used": attempt.proxy_tier,
            "site": bench.network.directory.of(tried.url).name if tried.url else None,
            "target_domain": urlsplit(tried.url).hostname if tried.url else None,
        }
        told = _log_completed(tried) if tried.failure is None else _log_failed(work, tried)
        _log.log(level, "item %s", "tried in vain" if state is None else state.value, extra=fields | told)


def _log_completed(tried: AttemptResult) -> dict[str, Any]:
    filled, fields = _count_filled_fields(tried.result.data)
    return {
        "outcome": tried.finding,
        "fields_extracted": filled,
        "result_completeness": round(filled / fields, 3) if fields else None,
    }


def _log_failed(work: WorkItem, tried: AttemptResult) -> dict[str, Any]:
    """The kind alone: a message may quote what was asked for."""
    return {
        "target_url": redacted(tried.url) if tried.url else None,
        "error_reason": None if tried.failure is None else tried.failure.kind.value,
        "retry_attempts": len(work.attempts) - 1,
    }


def _count_filled_fields(data: Any) -> tuple[int, int]:
    """How many fields have a value, and how many there are, over all records."""
    records = data if isinstance(data, list) else [data]
    values = [value for record in records if isinstance(record, dict) for value in record.values()]
    return sum(value not in (None, "", [], {}) for value in values), len(values)
