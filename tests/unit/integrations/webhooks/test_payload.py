"""N1: what a receiver is told: full results of small jobs, the summary of large ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.item import RetrySelection
from swath.integrations.webhooks import courier
from swath.integrations.webhooks.courier import FULL_ITEMS, WebhookPayload
from swath.pipeline.finish.finisher import Finisher
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.finish.running import every_kind, run

pytestmark = pytest.mark.req("N1")


async def _told(folder: Path, ids: list[str], server: str | None = None, *, retried: bool = False) -> Any:
    clock = FakeClock()
    store, storage = MemoryStore(clock), FolderResults(folder / "results")
    try:
        await run(store, storage, ids, every_kind)
        ended = await Finisher(store, store, storage, clock, "w", webhook_url="https://x.example/").run_once()
        assert ended is not None
        if retried:
            await store.retry("job", RetrySelection(failed=True))
        (webhook,) = await store.webhooks("job")
        return json.loads(await WebhookPayload(store, storage, server).body(webhook, 1_700_000_000))
    finally:
        await storage.close()


@settings(max_examples=12, deadline=None)
@given(items=st.one_of(st.integers(1, 40), st.sampled_from([FULL_ITEMS - 1, FULL_ITEMS, FULL_ITEMS + 1, 150])))
async def test_results_are_full_up_to_100_items_and_left_out_beyond(items: int) -> None:
    """Property 41."""
    ids = [f"100-{n}" for n in range(items)]
    with tempfile.TemporaryDirectory() as folder:
        told = await _told(Path(folder), ids)
    assert (told["job_id"], told["generation"], told["counts"]["total"]) == ("job", 1, items)
    assert told["event"] == f"job.{told['status']}"
    if items > 100:
        assert told["results"] is None
    else:
        assert [result["item_id"] for result in told["results"]] == ids
        found = [result for result in told["results"] if result["state"] == "success"]
        assert all(result["data"]["seq"] == ids.index(result["item_id"]) + 1 for result in found)
        assert len(found) == told["counts"]["success"]
        assert sum(result["failure"] is not None for result in told["results"]) == items - len(found)


async def test_it_says_when_it_was_sent_and_where_the_manifest_is(tmp_path: Path) -> None:
    told = await _told(tmp_path, ["1"], "https://swath.example")
    assert (told["sent_at"], told["manifest_url"]) == (1_700_000_000, "https://swath.example/jobs/job/results")
    assert told["webhook_id"].startswith("wh_")
    assert {"counts", "failures", "created_at", "ended_at", "duration_seconds", "cost"} <= set(told)


async def test_records_that_are_too_large_together_are_left_for_the_receiver_to_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "MOST_DATA_BYTES", 20)
    told = await _told(tmp_path, ["1", "2", "7"])
    with_data = [result["item_id"] for result in told["results"] if result["data"] is not None]
    assert with_data == ["1", "2"]
    assert all(result["artifacts"] for result in told["results"])


async def test_of_items_that_have_gone_on_nothing_is_told_under_the_former_end(tmp_path: Path) -> None:
    """J5: they belong to the next generation, which has a webhook of its own."""
    told = await _told(tmp_path, [str(n) for n in range(1, 6)], retried=True)
    assert (told["generation"], told["results"]) == (1, None)
    assert told["counts"]["failed"] == 2
