"""What a webhook tells of a job's end (N1): the summary that was stored with it, and the results of a small job.

Before: pipeline/finish wrote the webhook, the courier took it. After: sign.py signs the very bytes that are made here.
Results are read when it is sent, so the outbox stays small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from swath.domain.item import ItemRecord
from swath.domain.result import Artifact
from swath.domain.webhook import Webhook
from swath.pipeline.finish.artifacts import DATA_FILE
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["FULL_ITEMS", "Payload"]

FULL_ITEMS: Final = 100
MOST_DATA_BYTES: Final = 8 << 20  # of all records in one body; a receiver fetches what is beyond


class Payload:
    """Makes bodies. `public_url` is where receivers find the controller, if that is known."""

    def __init__(self, store: JobStore, storage: ResultStorage, public_url: str | None = None) -> None:
        self._store = store
        self._storage = storage
        self._public_url = public_url or ""

    async def body(self, webhook: Webhook, sent_at: int) -> bytes:
        """The bytes to send at this time, in whole Unix seconds; it is in them, and so is signed with them.

        `results` is null beyond 100 items, and when the items have gone on into another generation since.
        """
        status = webhook.summary.get("status", "ended")
        return msgspec.json.encode(
            {
                "webhook_id": webhook.webhook_id,
                "event": f"job.{status}",
                "sent_at": sent_at,
                **webhook.summary,
                "manifest_url": f"{self._public_url}/jobs/{quote(webhook.job_id, safe='')}/results",
                "results": await self._results(webhook),
            }
        )

    async def _results(self, webhook: Webhook) -> list[dict[str, Any]] | None:
        if webhook.summary["counts"]["total"] > FULL_ITEMS:
            return None
        status = await self._store.status(webhook.job_id)
        if status.generation != webhook.generation or not status.state.terminal:
            return None
        records = await self._store.items(webhook.job_id, limit=FULL_ITEMS)
        found = await asyncio.gather(*(self._data(webhook.job_id, artifact) for artifact in _chosen(records)))
        return [
            _result(record, data, on_demand=status.job.on_demand) for record, data in zip(records, found, strict=True)
        ]

    async def _data(self, job_id: str, artifact: Artifact | None) -> bytes | None:
        """An item's record as it is stored."""
        try:
            return None if artifact is None else await self._storage.get(job_id, artifact.key)
        except KeyError:  # somebody removed it; the rest is worth telling
            return None


def _chosen(records: list[ItemRecord]) -> Iterator[Artifact | None]:
    """The record of each item; None when it has none, or one that has no room any more."""
    room_bytes = MOST_DATA_BYTES
    for record in records:
        found = next((one for one in record.artifacts if one.key.rpartition("/")[2] == DATA_FILE), None)
        if found is not None and found.size > room_bytes:
            found = None
        room_bytes -= 0 if found is None else found.size
        yield found


def _result(record: ItemRecord, data: bytes | None, *, on_demand: bool) -> dict[str, Any]:
    return {
        **({"task_id": record.item_id} if on_demand else {}),
        "item_id": record.item_id,
        "input": record.input,
        "state": record.state.value,
        "outcome": None if record.finding is None else record.finding.value,
        "failure": None if record.failure is None else msgspec.to_builtins(record.failure),
        "reason": record.reason,
        "scraper_version": record.scraper_version,
        "artifacts": msgspec.to_builtins(record.artifacts),
        "data": None if data is None else msgspec.Raw(data),
    }
