"""N1: the webhook that is written with a job's end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, RetrySelection
from swath.domain.job import JobStatus
from swath.domain.lease import LeasedItem
from swath.domain.manifest import ManifestTotals
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import WebhookState
from swath.pipeline.finish.finisher import Finisher, make_webhook
from swath.pipeline.formats.manifests import make_job_metadata
from tests.contract.suites.builders import Store, new_job
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.finish.running import finish_lease, loaded, run, successes

pytestmark = pytest.mark.req("N1")

OURS = "https://ours.example/hook"
urls = st.sampled_from([None, "https://theirs.example/a", "http://theirs.example:8080/b?c=d"])


@given(own=urls, configured=urls)
def test_a_jobs_own_url_wins(own: str | None, configured: str | None) -> None:
    """Property 42."""
    status = JobStatus(job=new_job("job", callback_url=own), state=JobState.RUNNING)
    metadata = make_job_metadata(status, JobState.COMPLETED, ManifestTotals(), {})
    webhook = make_webhook(status, metadata, configured, FakeClock(now=7.0, boot=3.0))
    assert (None if webhook is None else webhook.url) == (own or configured)
    if webhook is not None:
        assert (webhook.state, webhook.created_at) == (WebhookState.PENDING, 7.0)
        assert (webhook.due_at, webhook.summary["status"]) == (3.0, "completed")


def _failing(item: LeasedItem) -> EndedItem:
    return EndedItem(seq=item.seq, state=ItemState.FAILED, failure=Failure.of(FailureKind.TIMEOUT, "no answer"))


def _some_failing(item: LeasedItem) -> EndedItem:
    return _failing(item) if item.seq % 2 else successes(item)


@pytest.mark.parametrize("end", [state for state in JobState if state.terminal])
async def test_every_terminal_state_has_its_webhook(
    store: Store, storage: FolderResults, clock: FakeClock, end: JobState
) -> None:
    """Property 43."""
    if end is JobState.CANCELLED:
        await loaded(store, ["1", "2"])
        await store.cancel("job")
    else:
        outcomes = {
            JobState.COMPLETED: successes,
            JobState.PARTIALLY_COMPLETED: _some_failing,
            JobState.FAILED: _failing,
        }
        await run(store, storage, ["1", "2"], outcomes[end])
    status = await Finisher(store, store, storage, clock, "finisher", webhook_url=OURS).run_once()
    assert status is not None
    assert status.state is end
    (webhook,) = await store.webhooks("job")
    assert (webhook.summary["status"], webhook.url, webhook.state) == (end.value, OURS, WebhookState.PENDING)
    assert [taken.webhook_id for taken in await store.take_webhooks(30.0)] == [webhook.webhook_id]


async def test_a_later_generation_has_a_webhook_of_its_own(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    """J5: the second one carries its generation, and another id."""
    await run(store, storage, ["1", "2"], _failing)
    finisher = Finisher(store, store, storage, clock, "finisher", webhook_url=OURS)
    assert await finisher.run_once() is not None
    await store.retry("job", RetrySelection(failed=True))
    while (lease := await store.claim("worker")) is not None:
        await finish_lease(store, storage, lease, successes)
    assert await finisher.run_once() is not None
    first, second = await store.webhooks("job")
    assert (first.generation, second.generation) == (1, 2)
    assert (first.summary["status"], second.summary["status"]) == ("failed", "completed")
    assert first.webhook_id != second.webhook_id


@settings(max_examples=20, deadline=None)
@given(ids=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
async def test_without_any_url_nothing_is_written(ids: list[str]) -> None:
    """Property 43: nobody asked to be told."""
    clock = FakeClock()
    store = MemoryStore(clock)
    await loaded(store, ids)
    await store.cancel("job")
    with tempfile.TemporaryDirectory() as folder:
        storage = FolderResults(Path(folder))
        assert await Finisher(store, store, storage, clock, "finisher").run_once() is not None
        await storage.close()
    assert await store.webhooks("job") == []
