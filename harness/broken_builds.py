"""Builds that lack one rule each, so that tests can show that the checks notice its absence."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.clock_watch import ClockWatch
from swath.domain.job import JobStatus, final_state
from swath.domain.lease import Lease
from swath.domain.manifest import ManifestTotals
from swath.domain.result import Artifact
from swath.domain.webhook import Delivery, Webhook, record_delivery, signature_headers
from swath.integrations.webhooks import courier
from swath.integrations.webhooks.courier import Courier
from swath.observability.crash_points import reach
from swath.pipeline.finish.ending_lease import EndingLease
from swath.pipeline.finish.finisher import Finisher, make_webhook
from swath.pipeline.formats.manifests import LISTS, make_job_metadata
from swath.pipeline.ingest import load
from swath.pipeline.results.export import formats
from swath.pipeline.results.flatten import cell_text
from swath.ports.job_store import JobStore, LoadStart
from swath.ports.result_storage import ResultStorage

__all__ = ["BROKEN", "BROKEN_BROWSERS", "BROKEN_EXPORT", "BROKEN_FENCE", "replace_function"]


def replace_function(owner: object, name: str, value: object) -> None:
    """Replaces what must be there; raises when it has another name by now."""
    getattr(owner, name)
    setattr(owner, name, value)


def _under_a_new_id(_: str, *rest: Any) -> dict[str, str]:
    """The id of a webhook is made when it is sent, not when the job ends."""
    return signature_headers(f"wh_{uuid.uuid4().hex}", *rest)


async def _note_then_send(self: Courier, webhook: Webhook) -> None:
    """A webhook counts as delivered before it is."""
    now = self._clock.now()
    body = await self._body(webhook, int(now))
    await self._outbox.note_webhook(
        record_delivery(webhook, Delivery(at=now, seconds=0.0, status=200), self._clock.boot())
    )
    reach("before_webhook_send")
    await self._send(webhook, int(now), body)
    reach("after_webhook_send")


async def _end_then_write(self: Finisher, lease: Lease) -> JobStatus:
    """A job has ended before its manifests are there."""
    status = await self._store.status(lease.job.job_id)
    state = final_state(status.counts, lease.stopping)
    metadata = make_job_metadata(status, state, ManifestTotals(), dict.fromkeys(LISTS, ()))
    metadata = msgspec.structs.replace(metadata, counts=status.counts)
    webhook = make_webhook(status, metadata, self._webhook_url, self._clock)
    ended = await self._book.end(lease, state, msgspec.to_builtins(metadata), webhook)
    reach("before_manifest")
    await self._storage.open_lease(lease.job.job_id, lease.fence)
    await self._write_manifests(lease, status, EndingLease(self._book, self._clock, lease))
    return ended


async def _always_behind(store: JobStore, job_id: str, key: str | None = None, offset: int | None = None) -> LoadStart:
    """Rows that come again are taken for new ones."""
    del key, offset
    status = await store.status(job_id)
    return LoadStart(number=status.loaded_batches, rows=status.loaded_rows)


async def _put_anyway(self: ResultStorage, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
    """Whoever ends a job writes manifests, whether the right is still theirs or not."""
    del fence
    return await self.put(job_id, documents)


def _break_manifest_fence() -> None:
    from swath.backends.aws.s3.results import S3Results  # noqa: PLC0415 AWS needs an extra

    for storage in (FolderResults, S3Results):
        replace_function(storage, "put_under", _put_anyway)


def _believe_the_wall_clock() -> None:
    """What is due by one look at the wall clock is due."""
    replace_function(ClockWatch, "confirmed_wall", property(lambda watch: watch.wall))


BROKEN: Final[dict[str, Callable[[], None]]] = {
    "webhook_id": lambda: replace_function(courier, "signature_headers", _under_a_new_id),
    "webhook_note": lambda: replace_function(Courier, "_deliver", _note_then_send),
    "manifest": lambda: replace_function(Finisher, "_end", _end_then_write),
    "retention": _believe_the_wall_clock,
    "load": lambda: replace_function(load, "find_start", _always_behind),
}
# Found by tests/unit/pipeline/finish/test_late_finisher.py, on AWS by tests/integration/aws/test_aws_late_finisher.py.
BROKEN_FENCE: Final[dict[str, Callable[[], None]]] = {
    "manifest_fence": _break_manifest_fence,
}
# Beyond kills: what a site says does harm in what is exported.
BROKEN_EXPORT: Final[dict[str, Callable[[], None]]] = {
    "formulas": lambda: replace_function(formats, "safe_cell", cell_text),
}


def _break_replacement() -> None:
    """Nobody notices that a browser has died, or does not come back."""
    from swath.fetch.browser.pool.pool import BrowserPool  # noqa: PLC0415 the browser layer needs an extra

    replace_function(BrowserPool, "lose", lambda *_: None)


def _break_reaper() -> None:
    """Nobody clears away what a killed worker has left."""
    from swath.fetch.browser.chromium import orphans  # noqa: PLC0415 the browser layer needs an extra

    replace_function(orphans, "reap", lambda _: 0)


# Browsers that die, and workers that are killed with theirs.
BROKEN_BROWSERS: Final[dict[str, Callable[[], None]]] = {
    "replacement": _break_replacement,
    "reaper": _break_reaper,
}
