"""Builds that are broken on purpose: each lacks one rule, by which a kill at a named point, or a page, would do harm.

crash.py switches one on by its name; tests/api/test_serve_crash_teeth.py, tests/acceptance/test_export.py and
tests/chaos/test_chaos_browser.py show that each is found out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from swath.backends.embedded.results import FolderResults
from swath.domain.job import JobStatus, final_state
from swath.domain.lease import Lease
from swath.domain.manifest import Tally
from swath.domain.result import Artifact
from swath.domain.webhook import Delivery, Webhook, noted
from swath.integrations.webhook import courier
from swath.integrations.webhook.courier import Courier
from swath.integrations.webhook.sign import signature_headers
from swath.observe.crash_points import reach
from swath.pipeline.accept import stream_load
from swath.pipeline.finish.ending import Finisher
from swath.pipeline.finish.hold import Hold
from swath.pipeline.finish.manifests import LISTS, metadata_of
from swath.pipeline.finish.notice import webhook_of
from swath.pipeline.results import texts
from swath.pipeline.results.flatten import as_text
from swath.ports.job_store import JobStore, LoadStart
from swath.ports.result_storage import ResultStorage

__all__ = ["BROKEN", "BROKEN_BROWSERS", "BROKEN_EXPORT", "put_in_place_of"]


def put_in_place_of(owner: object, name: str, value: object) -> None:
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
    await self._outbox.note_webhook(noted(webhook, Delivery(at=now, seconds=0.0, status=200)))
    reach("before_webhook_send")
    await self._send(webhook, int(now), body)
    reach("after_webhook_send")


async def _end_then_write(self: Finisher, lease: Lease) -> JobStatus:
    """A job has ended before its manifests are there."""
    status = await self._store.status(lease.job.job_id)
    state = final_state(status.counts, lease.stopping)
    metadata = metadata_of(status, state, Tally(), dict.fromkeys(LISTS, ()))
    metadata = msgspec.structs.replace(metadata, counts=status.counts)
    webhook = webhook_of(status, metadata, self._webhook_url, self._clock.now())
    ended = await self._book.end(lease, state, msgspec.to_builtins(metadata), webhook)
    reach("before_manifest")
    await self._storage.open_lease(lease.job.job_id, lease.fence)
    await self._write_manifests(lease, status.generation, Hold(self._book, self._clock, lease))
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
    from swath.backends.aws.results.results import S3Results  # noqa: PLC0415 AWS needs an extra

    for storage in (FolderResults, S3Results):
        put_in_place_of(storage, "put_under", _put_anyway)


BROKEN: Final[dict[str, Callable[[], None]]] = {
    "webhook_id": lambda: put_in_place_of(courier, "signature_headers", _under_a_new_id),
    "webhook_note": lambda: put_in_place_of(Courier, "_deliver", _note_then_send),
    "manifest": lambda: put_in_place_of(Finisher, "_end", _end_then_write),
    "manifest_fence": _break_manifest_fence,
    "load": lambda: put_in_place_of(stream_load, "find_start", _always_behind),
}
# Beyond kills: what a site says does harm in what is exported.
BROKEN_EXPORT: Final[dict[str, Callable[[], None]]] = {
    "formulas": lambda: put_in_place_of(texts, "safe_cell", as_text),
}


def _break_replacement() -> None:
    """Nobody notices that a browser has died, or does not come back."""
    from swath.browser.pool.pool import BrowserPool  # noqa: PLC0415 the browser layer needs an extra

    put_in_place_of(BrowserPool, "lose", lambda *_: None)


def _break_reaper() -> None:
    """Nobody clears away what a killed worker has left."""
    from swath.browser.chromium import orphans  # noqa: PLC0415 the browser layer needs an extra

    put_in_place_of(orphans, "reap", lambda _: 0)


# Browsers that die, and workers that are killed with theirs.
BROKEN_BROWSERS: Final[dict[str, Callable[[], None]]] = {
    "replacement": _break_replacement,
    "reaper": _break_reaper,
}
