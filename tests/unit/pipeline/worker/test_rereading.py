"""Stored pages are read again one after the other: whatever one does costs itself, and others have their turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from swath import NotFound, Pages, scraper
from swath.backends.clock import SystemClock
from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.lease import Lease, SlotGrant, SlotReport
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState, JobState
from swath.pipeline.extract import stored_pages
from swath.pipeline.formats.stored_files import RawFiles, WantedFiles, opened
from swath.pipeline.results.verify.verifier import verify
from swath.pipeline.worker.outcome_buffer import GROUP_ITEMS
from swath.pipeline.worker.reextract_runner import ITEMS_BEGUN_TOGETHER, YIELD_SECONDS, ReextractRunner
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.results.reextracting import V2, Parcels, make_version, scraped

pytestmark = pytest.mark.req("R6")


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore(SystemClock())
    yield made
    await made.close()


@scraper("parcels", version="2")
class Odd(Parcels):
    """Does what it likes on some pages."""

    def extract(self, pages: Pages) -> Any:
        number = int(pages.main.css("h1")[0].text().split()[1])
        raised: dict[int, BaseException] = {
            1: SystemExit(1),
            2: KeyboardInterrupt(),
            3: asyncio.CancelledError(),
            4: NotFound(),
            5: Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "as it is")),
        }
        if number in raised:
            raise raised[number]
        if number == 6 and (task := asyncio.current_task()) is not None:
            task.cancel()
        return {"n": number}


async def test_whatever_an_extract_does_costs_its_own_item_and_no_other(store: MemoryStore) -> None:
    storage = MemoryResults()
    numbers = [n for n in range(1, 131) if n % 8]
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in numbers])
    made = await make_version(store, storage, Odd())
    assert (made.state, made.failures) == (JobState.PARTIALLY_COMPLETED, {"internal": 3, "layout_changed": 1})
    assert (made.counts.success, made.counts.not_found) == (len(numbers) - 4, 1)
    failed = [one.item_id for one in await store.items("job.v2") if one.state is ItemState.FAILED]
    assert failed == ["p1", "p2", "p3", "p5"]
    assert (await verify(store, storage, "job.v2")).ok


@pytest.mark.req("S6")
async def test_pages_are_unpacked_when_their_item_is_noted_and_what_that_costs_is_its_own(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpacking may kill the process: then the item must be a suspect, and few others with it."""
    begun: set[str] = set()
    begin, leave = store.begin, store.leave

    def noted(lease: Lease, *seqs: int) -> bool:
        begun.update(item.item_id for item in lease.items if item.seq in seqs)
        assert len(begun) <= ITEMS_BEGUN_TOGETHER
        return begin(lease, *seqs)

    def left(lease: Lease, *seqs: int) -> None:
        begun.difference_update(item.item_id for item in lease.items if item.seq in seqs)
        leave(lease, *seqs)

    def unpacked(job_id: str, wanted: WantedFiles, raw: RawFiles) -> dict[str, bytes]:
        assert wanted[0] in begun
        if wanted[0] == "p3":
            raise MemoryError
        return opened(job_id, wanted, raw)

    storage = MemoryResults()
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 80) if n % 8])
    monkeypatch.setattr(store, "begin", noted)
    monkeypatch.setattr(store, "leave", left)
    monkeypatch.setattr(stored_pages, "opened", unpacked)
    made = await make_version(store, storage, V2())
    assert (made.state, made.failures, made.counts.success) == (JobState.PARTIALLY_COMPLETED, {"internal": 1}, 69)
    assert begun == set()


@scraper("parcels", version="2")
class Wrong(Parcels):
    """Understands no page."""

    def extract(self, pages: Pages) -> Any:
        raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "as it is"))


async def test_an_item_begins_when_its_pages_are_at_hand(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful never has items of which nothing was brought yet."""
    monkeypatch.setattr(stored_pages, "GROUP_ITEMS", 5)
    storage = MemoryResults()
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 80) if n % 8])
    made = await make_version(store, storage, V2())
    assert (made.state, made.counts.success) == (JobState.COMPLETED, 70)


@pytest.fixture
def groups(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ends each commit brought."""
    found: list[int] = []
    finish = store.finish

    async def counted(
        lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        found.append(len(ended))
        return await finish(lease, ended, handed_back, report)

    monkeypatch.setattr(store, "finish", counted)
    return found


async def test_a_large_lease_is_written_by_one_commit(
    store: MemoryStore, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryResults()
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 501) if n % 8])
    groups.clear()
    monkeypatch.setattr(ReextractRunner, "gather_seconds", 60.0)
    made = await make_version(store, storage, V2())
    assert made.counts.success == 438
    assert max(groups) == 219 > GROUP_ITEMS  # half of them


async def test_pages_that_fail_one_after_the_other_are_written_down_in_groups(
    store: MemoryStore, groups: list[int]
) -> None:
    storage = MemoryResults()
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 201) if n % 8])
    groups.clear()
    made = await make_version(store, storage, Wrong())
    assert (made.state, made.failures) == (JobState.FAILED, {"layout_changed": 175})
    assert len([size for size in groups if size]) <= 10, groups


@scraper("parcels", version="2")
class Slow(Parcels):
    """Takes longer for a page than one turn of the event loop may."""

    def __init__(self) -> None:
        self.turns: list[int] = []
        self.turn = 0

    async def keep_turning(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def extract(self, pages: Pages) -> Any:
        self.turns.append(self.turn)
        time.sleep(1.2 * YIELD_SECONDS)
        return {}


async def test_others_have_their_turn_between_pages_that_take_long(store: MemoryStore) -> None:
    storage, slow = MemoryResults(), Slow()
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 8)])
    turning = asyncio.create_task(slow.keep_turning())
    await make_version(store, storage, slow)
    turning.cancel()
    assert len(set(slow.turns)) == 7


@scraper("parcels", version="2")
class Pausing(Parcels):
    """Somebody stops the job while its pages are read."""

    def __init__(self, store: SqliteStore) -> None:
        self.seen = 0
        self._store = store
        self._stopping: asyncio.Task[object] | None = None

    def extract(self, pages: Pages) -> Any:
        self.seen += 1
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._store.cancel("job.v2"))
        time.sleep(0.002)
        return {}


async def test_a_job_that_is_cancelled_ends_in_the_middle_of_its_pages(tmp_path: Path) -> None:
    store, storage = SqliteStore.open(tmp_path, SystemClock()), FolderResults(tmp_path / "results")
    await scraped(store, storage, Layout.WARC, [{"n": n} for n in range(1, 500) if n % 8])
    pausing = Pausing(store)
    made = await make_version(store, storage, pausing)
    assert made.state is JobState.CANCELLED
    assert made.counts.success == pausing.seen < 200
    assert made.counts.success + made.counts.cancelled == made.counts.total
    assert (await verify(store, storage, "job.v2")).ok
    await store.close()
    await storage.close()
